"""Normalised rows: groups of channels as rows, mean and variance in one pass over memory."""

from __future__ import annotations

import numpy as np
import pytest

import whet
from whet import te
from whet.compiler import topi
from whet.search_spaces.graph.compute_graph import ComputeGraph

TARGET = "llvm -num_threads=2"


@pytest.fixture
def rng(seeds):
    return np.random.default_rng(seeds(1)[0])


def group_norm(shape, groups, dtype="float32"):
    X = te.placeholder(shape, dtype, name="X")
    g, b = (te.placeholder((shape[1],), dtype, name=n) for n in "gb")
    axes = list(range(2, len(shape)))
    return [X, g, b], topi.nn.group_norm(X, g, b, groups, 1, axes)


def normalised(x, groups, g, b):
    n, c = x.shape[:2]
    parts = x.astype(np.float64).reshape(n, groups, -1)
    away = parts - parts.mean(2, keepdims=True)
    made = (away / np.sqrt((away**2).mean(2, keepdims=True) + 1e-5)).reshape(x.shape)
    per_channel = (1, c) + (1,) * (x.ndim - 2)
    return made * g.reshape(per_channel).astype(np.float64) + b.reshape(per_channel)


def results(inputs, output, arrays, target=TARGET):
    """The result of each choice of the knob for statistics, by that choice; None: there is none."""
    task = whet.create_task(outputs=[output], args=[*inputs, output], target=target)
    space, out = task.config_space, {}
    names = [name for name in space.default.as_dict() if name.startswith("one_pass")]
    for one in (False, True) if names else (None,):
        chosen = {**space.default.as_dict(), **dict.fromkeys(names, one)}
        schedule, args = task.instantiate(space.from_choices(chosen))
        made = np.full([int(d) for d in output.shape], np.nan, output.dtype)
        whet.build(schedule, args, target=task.target)(*arrays, made)
        out[one] = made
    return out


@pytest.mark.parametrize("groups", [1, 3, 6])
def test_a_group_of_channels_is_a_row(groups):
    _, Y = group_norm((2, 6, 5, 7), groups)
    graph = ComputeGraph([Y], [Y])
    (group,) = graph.groups_in_blocks
    blocks = {1: 6 // groups} if 1 < groups < 6 else {}
    assert group.is_chain and dict(group.blocks) == blocks
    assert group.rows == ((0,) if groups == 1 else (0, 1))
    assert len(graph.groups) > 1, "the rules for GPUs know no such rows"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "groups"),
    [((2, 6, 5, 7), 3), ((1, 8, 13, 11), 8), ((3, 4, 9), 1), ((1, 8, 64, 65), 2)],
)
def test_groups_against_numpy(shape, groups, dtype, rng):
    inputs, Y = group_norm(shape, groups, dtype)
    x, g, b = (rng.standard_normal([int(d) for d in t.shape]).astype(dtype) for t in inputs)
    wanted = normalised(x, groups, g, b)
    exact = 2e-5 if dtype == "float32" else 1e-12
    for one, made in results(inputs, Y, (x, g, b)).items():
        np.testing.assert_allclose(made, wanted, rtol=0, atol=exact * 8, err_msg=f"{one}")


@pytest.mark.parametrize("shape", [(2, 4, 2309), (1, 2, 97, 101)])
def test_channels_last_stay_right(shape, rng):
    """Their groups are neighbours in the innermost axis: no rows of several of its steps."""
    X = te.placeholder((shape[0], *shape[2:], shape[1]), name="X")
    axis = len(shape) - 1
    Y = topi.nn.group_norm(X, None, None, 2, axis, list(range(1, axis)))
    x = rng.standard_normal([int(d) for d in X.shape]).astype("float32")
    one = np.ones(shape[1], "float32")
    wanted = np.moveaxis(normalised(np.moveaxis(x, axis, 1), 2, one, 0 * one), 1, axis)
    for made in results([X], Y, (x,)).values():
        np.testing.assert_allclose(made, wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("width", [8192, 8195])
@pytest.mark.parametrize("mean, spread", [(0.0, 1.0), (3e4, 1.0), (-1e15, 1e12)])
def test_one_pass_is_as_good_as_two(width, mean, spread, rng):
    X = te.placeholder((3, width), name="X")
    Y = topi.nn.layer_norm(X, None, None, 1, 0.0)
    x = (rng.standard_normal((3, width)) * spread + mean).astype("float32")
    x[1, : width // 3] = mean  # the first blocks are unlike the others
    x[2, 0] = mean + 300 * spread  # and so is the first element of all
    wanted = normalised(x[:, None], 1, np.ones(1), np.zeros(1))[:, 0]
    made = results([X], Y, (x,), TARGET + " -mcpu=x86-64-v2")
    error = {one: np.abs(y - wanted).max(1) for one, y in made.items()}
    assert set(error) == {False, True}
    # a mean is not better than its own last bit, of which a row is some part away
    least = 1e-6 * np.abs(wanted).max(1) + 2**-22 * abs(mean) / x.std(1, dtype=np.float64)
    assert (error[True] <= 3 * error[False] + least).all(), error


@pytest.mark.parametrize("stored", ["float16", "float64"])
def test_one_pass_in_other_types(stored, rng):
    shape = (2, 17_003)
    X, R = (te.placeholder(shape, stored, name=n) for n in "XR")
    Y = topi.nn.layer_norm(topi.add(X, R), None, None, 1)
    x, r = (rng.standard_normal(shape).astype(stored) for _ in range(2))
    made = results([X, R], Y, (x, r))
    assert set(made) == {False, True}
    total = (x + r).astype(np.float64)
    wanted = normalised(total[:, None], 1, np.ones(1), np.zeros(1))[:, 0]
    exact = {"float16": 4e-3, "float64": 1e-11}[stored]
    for y in made.values():
        np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=0, atol=exact)


def test_other_squares_are_left_alone():
    """A centre that moves along the row, and other elements than those of the sum."""
    X, Z = (te.placeholder((4, 9000), name=n) for n in "XZ")
    for distance in (lambda i, r, m: X[i, r] - m[i] * r, lambda i, r, m: Z[i, r] - m[i]):
        k, r = (te.reduce_axis((0, 9000), name=n) for n in "kr")
        m = te.compute((4,), lambda i: te.sum(X[i, k], axis=k), name="m")
        q = te.compute(
            (4,), lambda i: te.sum(distance(i, r, m) * distance(i, r, m), axis=r), name="q"
        )
        Y = te.compute((4, 9000), lambda i, j: (X[i, j] - m[i]) * q[i], name="Y")
        task = whet.create_task(outputs=[Y], args=[X, Z, Y], target=TARGET)
        assert not [n for n in task.config_space.default.as_dict() if "one_pass" in n]


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_one_read_of_memory(level):
    task = whet.create_task(
        "layer_norm", args=((64, 40_000),), target=f"llvm -mcpu={level} -num_threads=1"
    )
    schedule, args = task.instantiate(task.config_space.default)
    with task.target:
        text = str(whet.lower(schedule, args, simple_mode=True))
    blocks = [line for line in text.splitlines() if line.lstrip().startswith("for b ")]
    assert len(blocks) == 1 and "X_red_far" in text, text
