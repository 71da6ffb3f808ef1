"""Sums over rows in steps that divide them: what is left over would be masked, and as much code."""

import numpy as np
import pytest

import whet
from whet import topi


def sum_of(rows, channels, target):
    x = whet.te.placeholder((1, rows, rows, channels), name="x")
    y = topi.sum(x, (1, 2))
    return whet.create_task(None, [x, y], target, outputs=[y])


@pytest.mark.parametrize(
    ("rows", "steps"), [(14, 7), (28, 7), (16, 8), (15, 5), (22, 2), (13, 1), (9, 3)]
)
def test_the_default_divides_the_rows(rows, steps):
    task = sum_of(rows, 640, "llvm -mcpu=x86-64-v3 -num_threads=1")
    config = task.config_space.default
    assert config["rows"].val and config["unroll"].val == steps
    text = str(whet.lower(*task.instantiate(config)))
    assert "where" not in text and "likely" not in text


def test_numbers_in_every_step(seeds):
    rng = np.random.default_rng(next(iter(seeds(1))))
    task = sum_of(14, 360, "llvm -num_threads=2")
    x = rng.standard_normal((1, 14, 14, 360)).astype("float32")
    steps = set()
    for config in task.config_space:
        if config["unroll"].val in steps:
            continue
        steps.add(config["unroll"].val)
        y = np.full((1, 360), np.nan, "float32")
        whet.build(*task.instantiate(config), task.target)(x, y)
        np.testing.assert_allclose(y, x.astype("float64").sum((1, 2)), rtol=1e-4, atol=1e-3)
    assert steps == {1, 2, 4, 7, 8}
