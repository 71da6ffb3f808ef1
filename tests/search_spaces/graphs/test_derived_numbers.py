"""Configs of spaces derived from memory-bound graphs: each computes what numpy does."""

import numpy as np
import pytest
from derived_rows import GRAPHS

import whet

CONFIGS = 3
TARGET = "llvm -num-threads=2"


def drawn(tensor, rng):
    """Values of a tensor, and the same for numpy to compute with."""
    shape = [int(d) for d in tensor.shape]
    if tensor.dtype.startswith("int"):
        values = rng.integers(-9, 10, shape).astype(tensor.dtype)
        return values, values
    values = rng.standard_normal(shape).astype(tensor.dtype)
    return values, values.astype("float64")


def check(graph, task, config, rng):
    """Build one config and compare all of its outputs with the reference."""
    schedule, args = task.instantiate(config)
    kernel = whet.build(schedule, args, target=task.target)
    values = {t: drawn(t, rng) for t in graph.inputs}
    made = {
        t: np.full([int(d) for d in t.shape], 77).astype(t.dtype) for t in args if t not in values
    }
    kernel(*[values[t][0] if t in values else made[t] for t in args])
    wanted = graph.reference(*[values[t][1] for t in graph.inputs])
    results = list(made.values())
    assert len(results) == len(wanted)
    for got, want in zip(results, wanted):
        got = got.astype("float64")
        np.testing.assert_allclose(
            got, want, rtol=graph.tolerance, atol=graph.tolerance, err_msg=str(config)
        )


@pytest.mark.parametrize("name", GRAPHS)
def test_random_configs_are_right(name):
    rng = np.random.default_rng(sum(map(ord, name)))
    graph = GRAPHS[name]()
    task = whet.create_task(outputs=graph.outputs, target=TARGET)
    space = task.config_space
    assert len(space.knobs) <= 13
    configs = {c.key: c for c in [space.default, *(space.sample(rng) for _ in range(CONFIGS))]}
    for config in configs.values():
        check(graph, task, config, rng)


@pytest.mark.parametrize("name", ["softmax", "transpose", "sum over rows", "sum over columns"])
def test_a_quick_space_has_fewer_configs_of_the_same_space(name):
    graph = GRAPHS[name]()
    full = whet.create_task(outputs=graph.outputs, target=TARGET)
    quick = whet.create_task(outputs=graph.outputs, target=TARGET, space="quick")
    assert 1 < quick.config_space.size < full.config_space.size
    assert quick.config_space.fingerprint == full.config_space.fingerprint
    rng = np.random.default_rng(3)
    check(graph, full, quick.config_space.sample(rng), rng)
