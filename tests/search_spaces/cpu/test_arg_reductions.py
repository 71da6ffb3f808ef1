"""Places of extremes by vectors of values and places: ties, infinities, odd sizes, every width."""

import numpy as np
import pytest

import whet
from whet import te
from whet.compiler import topi
from whet.compiler.target import Target

LEVELS = {"x86-64-v2": 16, "x86-64-v3": 32, "x86-64-v4": 64}
here = [n for n, size in LEVELS.items() if size <= Target("llvm").vector_bytes]
DRAWN = 3
SHAPES = [
    ((7, 1000), 1),
    ((37, 17), 1),
    ((5, 3), 1),
    ((70, 45), 0),
    ((3, 19, 40), 1),
    ((9, 301), 0),
]


def inputs(shape, dtype, worst, rng):
    """Few values, so that many are equal; rows that are all the worst; one of them at the end."""
    some = rng.integers(-2, 3, shape).astype(dtype)
    yield some
    yield np.full(shape, worst, dtype)
    ends = np.full(shape, worst, dtype)
    ends[..., -1] = 1
    yield ends
    yield rng.permutation(int(np.prod(shape))).reshape(shape).astype(dtype)


@pytest.mark.parametrize("level", here)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("shape, axis", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "int32", "float64"])
def test_drawn_configs_find_the_first_place(dtype, shape, axis, name, level):
    target = f"llvm -num-threads=2 -mcpu={level}"
    X = te.placeholder(shape, dtype, name="X")
    Y = getattr(topi, name)(X, axis)
    task = whet.create_task(outputs=[Y], args=[X, Y], target=target)
    rng = np.random.default_rng()
    configs = [task.config_space.default, *(task.config_space.sample(rng) for _ in range(DRAWN))]
    infinite = np.inf if "float" in dtype else np.iinfo(dtype).max
    least = -infinite if "float" in dtype else np.iinfo(dtype).min
    worst = least if name == "argmax" else infinite
    for config in {c.key: c for c in configs}.values():
        schedule, args = task.instantiate(config)
        kernel = whet.build(schedule, args, target=task.target)
        for x in inputs(shape, dtype, worst, rng):
            wanted = getattr(np, name)(x, axis)
            made = np.full(wanted.shape, -77, "int32")
            kernel(x, made)
            np.testing.assert_array_equal(made, wanted, err_msg=str(config))


@pytest.mark.parametrize("name, numpys", [("argmax", np.argmax), ("argmin", np.argmin)])
@pytest.mark.parametrize("shape, axis", [((37, 45), 1), ((45, 37), 0)])
def test_the_last_place(shape, axis, name, numpys):
    X = te.placeholder(shape, name="X")
    Y = getattr(topi, name)(X, axis, select_last_index=True)
    kernel = whet.build(whet.create_task(outputs=[Y], args=[X, Y], target="llvm"))
    worst = -np.inf if name == "argmax" else np.inf
    for x in inputs(shape, "float32", worst, np.random.default_rng()):
        made = np.full(shape[1 - axis], -77, "int32")
        kernel(x, made)
        np.testing.assert_array_equal(made, shape[axis] - 1 - numpys(np.flip(x, axis), axis))


def lowered(combine, identity, index=lambda k: k):
    A = te.placeholder((4, 30), name="A")
    k = te.reduce_axis((0, 30), name="k")
    best = te.comm_reducer(combine, lambda t0, t1: (te.const(identity, t0), te.const(-1e9, t1)))
    B = te.compute((4,), lambda i: best((index(k), A[i, k]), axis=k), name="B")
    s = te.create_schedule(B[0].op)
    return s, B, str(whet.lower(s, [A, *B], simple_mode=True))


def first(x, y):
    better = te.any(x[1] > y[1], te.all(x[1].equal(y[1]), x[0] <= y[0]))
    return te.select(better, x[0], y[0]), te.select(better, x[1], y[1])


def test_places_in_order_are_not_compared():
    _, _, text = lowered(first, 0)
    assert "x0 <=" not in text and ">=" in text


@pytest.mark.parametrize(
    "identity, index", [(0, lambda k: 29 - k), (5, lambda k: k), (0, lambda k: (k * 7) % 30)]
)
def test_places_that_may_come_later_are_compared(identity, index):
    _, _, text = lowered(first, identity, index)
    assert "x0 <=" in text


def test_loops_in_another_order_compare_places():
    s, B, _ = lowered(first, 0)
    k = s[B[0]].op.reduce_axis[0]
    outer, inner = s[B[0]].split(k, factor=5)
    s[B[0]].reorder(inner, outer)
    A = s[B[0]].op.input_tensors[0]
    assert "x0 <=" in str(whet.lower(s, [A, *B], simple_mode=True))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("target", ["llvm", "c"])
def test_places_of_numbers_whose_difference_overflows(dtype: str, target: str) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    X = te.placeholder((40, 7), dtype, name="X")
    Y = topi.argmax(X, 1)
    s = te.create_schedule(Y.op)
    f = whet.build(s, [X, Y], target)
    x = np.random.default_rng(0).choice(np.array([low, low + 1, -1, 5, high], dtype), (40, 7))
    out = np.full(40, 99, "int32")
    f(x, out)
    np.testing.assert_array_equal(out, x.argmax(1))
