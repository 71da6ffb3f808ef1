"""Sorting, scattering, and tensors made of indices, beside numpy."""

import numpy as np
import pytest
from topi_check import results

from whet.compiler import te, topi
from whet.compiler.errors import ArgumentError


def equal(made, wanted):
    wanted = np.asarray(wanted)
    assert made.shape == wanted.shape
    np.testing.assert_array_equal(made, wanted)


def drawn(rng, shape, dtype):
    """Numbers of which many are equal, and some of floats are NaN or infinite."""
    x = rng.integers(0, 12, shape).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x = np.where(rng.random(shape) < 0.1, np.nan, x - 6).astype(dtype)
        x = np.where(rng.random(shape) < 0.05, np.inf, x).astype(dtype)
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_sorting(dtype, seeds):
    for seed in seeds(4):
        rng = np.random.default_rng(seed)
        shape, axis = [((3, 37, 2), 1), ((5, 8), -1), ((131,), 0), ((2, 1), 1), ((3, 0), 1)][
            rng.integers(5)
        ]
        x = drawn(rng, shape, dtype)
        equal(results(lambda t, a=axis: topi.sort(t, a), x), np.sort(x, axis))
        made = results(lambda t, a=axis: topi.argsort(t, None, a, True, "int64"), x)
        equal(made, np.argsort(x, axis, kind="stable"))
        # descending: the order of the negated keys, NaN first, equals in their order
        keys = -np.where(np.isnan(x), np.inf, x.astype("float64"))
        keys = np.where(
            np.isnan(x), -np.inf, np.where(np.isposinf(x.astype("float64")), -1e300, keys)
        )
        places = np.argsort(keys, axis, kind="stable")
        k = max(1, min(3, shape[axis]))
        if shape[axis]:
            values, found = results(lambda t, a=axis, m=k: topi.topk(t, m, a), x)
            wanted = np.take(places, range(k), axis)
            equal(found, wanted)
            equal(values, np.take_along_axis(x, wanted, axis))


def test_a_long_row_is_sorted():
    x = np.random.default_rng().standard_normal(70_001).astype("float32")
    equal(results(lambda t: topi.argsort(t, dtype="int32"), x), np.argsort(x, kind="stable"))


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(right):
    rng = np.random.default_rng()
    side = "right" if right else "left"
    rows = np.sort(rng.integers(0, 9, (3, 11)), 1).astype("float32")
    values = rng.integers(-1, 11, (3, 7)).astype("float32")
    made = results(lambda s, v: topi.searchsorted(s, v, right), rows, values)
    equal(made, [np.searchsorted(s, v, side) for s, v in zip(rows, values)])
    made = results(lambda s, v: topi.searchsorted(s, v, right, "int32"), rows[0], values)
    equal(made, np.searchsorted(rows[0], values, side))


@pytest.mark.parametrize("reduction", ["update", "add", "mul", "max", "min"])
def test_scattering(reduction):
    rng = np.random.default_rng()
    combine = {
        "update": lambda a, b: b, "add": np.add, "mul": np.multiply, "max": np.maximum,
        "min": np.minimum,
    }[reduction]  # fmt: skip
    x = rng.integers(-9, 9, (4, 5, 3)).astype("float64")
    i = rng.integers(-5, 5, (2, 7, 3))
    u = rng.integers(-9, 9, i.shape).astype("float64")
    wanted = x.copy()
    for at in np.ndindex(i.shape):
        place = (at[0], i[at], at[2])
        wanted[place] = combine(wanted[place], u[at])
    made = results(lambda *t: topi.scatter_elements(*t, axis=1, reduction=reduction), x, i, u)
    equal(made, wanted)
    i = np.stack([rng.integers(0, 4, 6), rng.integers(0, 5, 6)])
    u = rng.integers(-9, 9, (6, 3)).astype("float64")
    wanted = x.copy()
    for k in range(6):
        wanted[tuple(i[:, k])] = combine(wanted[tuple(i[:, k])], u[k])
    equal(results(lambda *t: topi.scatter_nd(*t, reduction), x, i, u), wanted)
    made = results(lambda *t: topi.scatter_nd(*t, reduction, -1), x, i.T.copy(), u)
    equal(made, wanted)


def test_parts_that_are_set_and_read():
    rng = np.random.default_rng()
    x, v = rng.standard_normal((5, 7)), rng.standard_normal((2, 3))
    wanted = x.copy()
    wanted[1:5:2, 5:-8:-2] = v
    equal(results(lambda a, b: topi.strided_set(a, b, [1, 5], [5, -8], [2, -2]), x, v), wanted)
    begin, stride = np.array([1, -1], "int32"), np.array([2, -3], "int32")
    made = results(lambda a, b, s: topi.dynamic_strided_slice(a, b, b, s, (2, 3)), x, begin, stride)
    equal(made, x[1::2, -1::-3][:2, :3])
    i = rng.integers(-4, 4, (3, 2))
    y = rng.standard_normal((4, 4, 2))
    made = results(lambda a, b: topi.gather_nd(a, b, 0, -1, "count"), y, i)
    equal(made, y[i[:, 0], i[:, 1]])


def test_what_is_made_of_indices():
    rng = np.random.default_rng()
    equal(results(lambda: topi.arange(3, -4, -2, "int64")), np.arange(3, -4, -2))
    equal(results(lambda: topi.arange(5, dtype="float64")), np.arange(5.0))
    i = rng.integers(-4, 4, (3, 2))
    made = results(lambda t: topi.one_hot(t, 5, -1, 4, 1, "int8"), i)
    equal(made, np.moveaxis(np.where(np.eye(4)[i], 5, -1), -1, 1))
    a, b, c = (rng.standard_normal(n) for n in (3, 4, 2))
    for how in ("ij", "xy"):
        for one, want in zip(
            results(lambda *t, h=how: topi.meshgrid(t, h), a, b, c),
            np.meshgrid(a, b, c, indexing=how),
        ):
            equal(one, want)
    i = rng.integers(0, 60, (2, 3))
    equal(results(lambda t: topi.unravel_index(t, (3, 4, 5)), i), np.unravel_index(i, (3, 4, 5)))
    made = results(topi.unravel_index, i, np.array([3, 4, 5]))
    equal(made, np.unravel_index(i, (3, 4, 5)))
    x = rng.integers(1, 9, (2, 5, 3)).astype("int16")
    for k in (-2, 0, 1):
        equal(results(lambda t, d=k: topi.trilu(t, d, True), x), np.triu(x, k))
        equal(results(lambda t, d=k: topi.trilu(t, d, False), x), np.tril(x, k))


def test_sequences():
    rng = np.random.default_rng()
    x = rng.standard_normal((4, 3, 2)).astype("float32")
    n = np.array([4, 0, 2], "int32")
    wanted = np.where(np.arange(4)[:, None, None] < n[:, None], x, -1)
    equal(results(lambda a, b: topi.sequence_mask(a, b, -1), x, n), wanted)
    turned = x.transpose(1, 0, 2).copy()
    made = results(lambda a, b: topi.sequence_mask(a, b, -1, 1), turned, n)
    equal(made, wanted.transpose(1, 0, 2))
    wanted = x.copy()
    for b, length in enumerate(n):
        wanted[:length, b] = x[:length, b][::-1]
    equal(results(lambda a, b: topi.reverse_sequence(a, b, 0, 1), x, n), wanted)


def test_diagonals():
    rng = np.random.default_rng()
    x, d = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 3))
    wanted = x.copy()
    wanted[:, range(3), range(3)] = d
    equal(results(topi.matrix_set_diag, x, d), wanted)
    d = rng.standard_normal((2, 3, 3))  # diagonals 1, 0 and -1
    wanted = x.copy()
    for r in range(3):
        for c in range(4):
            k = c - r
            if -1 <= k <= 1:  # those above stand at the right, the others at the left
                length = {1: 3, 0: 3, -1: 2}[k]
                at = (r if k > 0 else c) + (3 - length if k > 0 else 0)
                wanted[:, r, c] = d[:, 1 - k, at]
    equal(results(lambda a, b: topi.matrix_set_diag(a, b, (-1, 1)), x, d), wanted)


def test_what_does_not_fit():
    x = te.placeholder((3, 4), name="x")
    i = te.placeholder((3, 4), "int32", name="i")
    for make, text in (
        (lambda: topi.topk(x, 5), "has 4 elements only"),
        (lambda: topi.sort(x, 2), "there is no axis 2"),
        (lambda: topi.topk(x, 1, ret_type="all"), "no such ret_type"),
        (lambda: topi.scatter_elements(x, x, x), "not integers"),
        (lambda: topi.scatter_elements(x, i, x, 0, "mean"), "no reduction 'mean'"),
        (lambda: topi.scatter_elements(x, i, i), "updates are int32"),
        (lambda: topi.searchsorted(x, i), "types of the two differ"),
        (lambda: topi.reverse_sequence(x, i, 0, 0), "two axes"),
        (lambda: topi.arange(3, 4, 0), "the step is 0"),
    ):
        with pytest.raises(ArgumentError, match=text):
            make()
