"""Rows in one pass over memory: statistics, exponentials; groups of channels as rows."""

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


@pytest.mark.parametrize("first, second", [(2, 3), (3, 1), (6, 2)])
def test_groups_of_two_sizes(first, second, rng):
    """A row cannot be both: what is left of them are rows of images."""
    X = te.placeholder((2, 6, 5, 9), name="X")
    one, two = (topi.nn.group_norm(X, None, None, 6 // size, 1, [2, 3]) for size in (first, second))
    Y = topi.add(one, two)
    x = rng.standard_normal((2, 6, 5, 9)).astype("float32")
    ones, zeros = np.ones(6), np.zeros(6)
    wanted = sum(normalised(x, 6 // size, ones, zeros) for size in (first, second))
    for made in results([X], Y, (x,)).values():
        np.testing.assert_allclose(made, wanted, rtol=0, atol=1e-4)


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


def test_squares_that_overflow_give_zeros(rng):
    """An infinite variance divides to 0, in one pass as in two, and as in PyTorch; not to NaN."""
    X = te.placeholder((4, 8195), name="X")
    Y = topi.nn.layer_norm(X, None, None, 1)
    x = rng.standard_normal((4, 8195)) * [[1e4], [1e19], [1e25], [3e30]]
    x[1, 0] = 1e21
    made = results([X], Y, (x.astype("float32"),))
    assert set(made) == {False, True}
    for y in made.values():
        assert (y[1:] == 0).all() and np.isfinite(y[0]).all() and np.abs(y[0]).max() > 2


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
    k, r = (te.reduce_axis((0, 9000), name=n) for n in "kr")
    m = te.compute((4,), lambda i: te.sum(X[i, k], axis=k), name="m")
    squares = (
        lambda i: te.sum((X[i, r] - m[i] * r) * (X[i, r] - m[i] * r), axis=r),
        lambda i: te.sum((Z[i, r] - m[i]) * (Z[i, r] - m[i]), axis=r),
        lambda i: te.sum((X[i, r] - m[i]) * (X[i, r] + m[i]), axis=r),
        lambda i: te.sum(te.exp(X[i, r] - m[i]), axis=r),
    )
    for square in squares:
        q = te.compute((4,), square, name="q")
        Y = topi.multiply(topi.multiply(X, Z), topi.expand_dims(topi.add(q, m), 1))
        task = whet.create_task(outputs=[Y], args=[X, Z, Y], target=TARGET)
        assert "place" in task.config_space.default.as_dict(), "a chain of rows"
        assert not [n for n in task.config_space.default.as_dict() if "one_pass" in n]


def softmax(x):
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)


def rows_with_extremes(rng, shape, dtype):
    """Rows whose largest elements lie anywhere, of huge numbers, with blocks of -inf, and of it."""
    x = rng.standard_normal(shape) * 5
    x[1] = np.sort(x[1])
    x[2] *= 1e30
    x[3, : shape[1] // 2] = -np.inf
    x[4, rng.integers(0, shape[1], shape[1] // 2)] = -np.inf
    x[5, 1:] = -np.inf
    return x.astype(dtype)


@pytest.mark.parametrize("dtype, width", [("float32", 8192), ("float32", 9973), ("float64", 8195)])
def test_exponentials_in_one_pass(dtype, width, rng):
    X = te.placeholder((7, width), dtype, name="X")
    x = rows_with_extremes(rng, (7, width), dtype)
    wanted = softmax(x.astype(np.float64))
    for one, made in results([X], topi.nn.softmax(X), (x,)).items():
        assert one is not None
        exact = 3e-6 if dtype == "float32" else 1e-13
        np.testing.assert_allclose(made, wanted, rtol=exact, atol=1e-37, err_msg=f"{one}")


def test_nothing_but_infinities(rng):
    """As in two passes, they have no softmax; the rows beside them have."""
    X = te.placeholder((3, 8200), name="X")
    x = rng.standard_normal((3, 8200)).astype("float32")
    x[0], x[2, 8199] = -np.inf, np.inf
    for made in results([X], topi.nn.softmax(X), (x,)).values():
        assert np.isnan(made[0]).all() and np.isnan(made[2, 8199])
        np.testing.assert_allclose(made[1], softmax(x.astype(np.float64))[1], rtol=3e-6)


def test_the_maximum_of_a_masked_row_is_minus_infinity(rng):
    """A guard for rows of which nothing is left sees what two passes give."""
    width = 9973
    X = te.placeholder((4, width), name="X")
    k, j = (te.reduce_axis((0, width), name=n) for n in "kj")
    M = te.compute((4,), lambda i: te.max(X[i, k], axis=k), name="M")
    S = te.compute((4,), lambda i: te.sum(te.exp(X[i, j] - M[i]), axis=j), name="S")
    Y = te.compute(
        (4, width),
        lambda i, c: te.if_then_else(
            M[i] < te.min_value("float32"), 0.0, te.exp(X[i, c] - M[i]) / S[i]
        ),
        name="Y",
    )
    x = rng.standard_normal((4, width)).astype("float32")
    x[1] = -np.inf
    x[2, 1:] = -np.inf
    x[3] = np.finfo("float32").min
    wanted = softmax(np.where(np.isinf(x).all(1)[:, None], 0, x).astype(np.float64))
    wanted[1] = 0
    made = results([X], Y, (x,))
    assert set(made) == {False, True}
    for y in made.values():
        np.testing.assert_allclose(y, wanted, rtol=3e-6, atol=1e-37)


@pytest.mark.parametrize("stored", ["float32", "float16"])
def test_logarithms_of_scaled_and_masked_rows(stored, rng):
    X = te.placeholder((2, 4, 8500), stored, name="X")
    M = te.placeholder((2, 8500), "float32", name="M")

    def element(b, i, j):
        return te.if_then_else(M[b, j] > 0, X[b, i, j].astype("float32") * 0.125, -1e30)

    Y = topi.nn.log_softmax(te.compute((2, 4, 8500), element, name="S"), 2)
    x = (rng.standard_normal((2, 4, 8500)) * 40).astype(stored)
    m = rng.integers(0, 2, (2, 8500)).astype("float32")
    s = np.where(m[:, None] > 0, x.astype(np.float64) / 8, -1e30)
    wanted = s - s.max(2, keepdims=True)
    wanted -= np.log(np.exp(wanted).sum(2, keepdims=True))
    made = results([X, M], Y, (x, m))
    assert set(made) == {False, True}
    for y in made.values():
        np.testing.assert_allclose(y, wanted, rtol=2e-6, atol=2e-5)


@pytest.mark.parametrize("make", [topi.nn.softmax, topi.nn.log_softmax])
def test_any_config(make, rng):
    X = te.placeholder((5, 8300), name="X")
    Y = make(X)
    task = whet.create_task(outputs=[Y], args=[X, Y], target=TARGET)
    x = (rng.standard_normal((5, 8300)) * 9).astype("float32")
    wanted = softmax(x.astype(np.float64))
    for config in [task.config_space.sample(rng) for _ in range(5)]:
        schedule, args = task.instantiate(config)
        made = np.full((5, 8300), np.nan, np.float32)
        whet.build(schedule, args, target=task.target)(x, made)
        made = made if make is topi.nn.softmax else np.exp(made.astype(np.float64))
        np.testing.assert_allclose(made, wanted, rtol=2e-5, atol=1e-30, err_msg=str(config))


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
