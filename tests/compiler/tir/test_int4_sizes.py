"""Arrays of int4 whose sizes are symbols: kernels take what nd.pack and nd.empty make."""

from __future__ import annotations

import numpy as np
import pytest

import whet
from whet import te, tir
from whet.compiler.abi.extent import evaluate, packed_shape, parse

RNG = np.random.default_rng()


def next_number(shape_of):
    """``C = A + 1`` of a shape that a symbol gives, and an argument that tells it."""
    n = te.size_var("n")
    A, B = te.placeholder(shape_of(n), "int4", name="A"), te.placeholder((n,), "int32", name="B")
    C = te.compute(A.shape, lambda *i: A(*i) + tir.const(1, "int4"), name="C")
    return whet.build(te.create_schedule(C.op), [B, A, C], "llvm -num_threads=1")


def checked(f, a, size, flat=False):
    packed, shape = (a.reshape(-1), (a.size,)) if flat else (a, a.shape)
    out = whet.nd.empty(shape, "int4")
    f(np.zeros(size, "int32"), whet.nd.pack(packed, "int4"), out)
    got = whet.nd.unpack(out, a.shape).astype(int)
    np.testing.assert_array_equal(got, (a + 9) % 16 - 8)


EVEN = {
    "(n, 4)": lambda n: (n, 4),
    "(2*n,)": lambda n: (2 * n,),
    "(n, 2*n)": lambda n: (n, 2 * n),
    "(3, n*4)": lambda n: (3, n * 4),
    "(3, n*2 + 6)": lambda n: (3, n * 2 + 6),
    "(n,)": lambda n: (n,),
    "(n, 3)": lambda n: (n, 3),
}


@pytest.mark.parametrize("name", EVEN)
def test_what_pack_makes_is_taken(name):
    f = next_number(EVEN[name])
    for size in (1, 2, 3, 7):
        checked(f, RNG.integers(-8, 8, EVEN[name](size)), size)


def test_rows_that_may_be_odd_have_one_dimension():
    f = next_number(lambda n: (3, n))
    for size in (1, 2, 3, 6):
        a = RNG.integers(-8, 8, (3, size))
        checked(f, a, size, flat=True)
    with pytest.raises(
        whet.ArgumentError, match=r"(?s)A.ndim is 2, expected 1: rows.*nd.pack\(a.reshape\(-1\)"
    ):
        checked(f, a, size)


@pytest.mark.parametrize(
    "last", ["n", "n * 3", "n * 2", "4 * n", "n * 2 + 4", "n * 2 + 3", "n * n * 2", "min(2 * n, 8)"]
    + ["(n + 1) // 2 * 2", "n * 2 - 2", "n // 2"],
)  # fmt: skip
def test_halves_of_extents(last):
    shape = (5, parse(last))
    for n in (1, 2, 5, 6):
        length = evaluate(shape[1], {"n": n})
        halved = packed_shape(shape)
        got = [evaluate(d, {"n": n}) for d in halved]
        assert got == ([5, length // 2] if len(halved) == 2 else [(5 * length + 1) // 2])
        assert (len(halved) == 2) == (last not in ("n", "n * 3", "n * 2 + 3", "n // 2"))
        assert length % 2 == 0 or len(halved) == 1


def test_values_that_are_checked_before_they_are_bytes():
    for wrong in (
        np.array([2**64 - 1], "uint64"),
        np.array([-(2**63)]),
        np.array([2**32]),
        np.array([9, -9], "int8"),
    ):
        with pytest.raises(whet.ArgumentError, match="int4 holds the integers from -8 to 7"):
            whet.nd.pack(wrong, "int4")
    np.testing.assert_array_equal(whet.nd.pack(np.array([7, 1], "uint64"), "int4"), [0x17])
    np.testing.assert_array_equal(whet.nd.pack([True, False, True], "uint4"), [1, 1])


def test_arrays_of_no_elements():
    assert whet.nd.pack([], "int4").shape == (0,)
    assert whet.nd.pack(np.zeros((0, 4)), "uint4").shape == (0, 2)
    assert whet.nd.pack(np.zeros((3, 0), "int8"), "int4").shape == (3, 0)
    pytest.importorskip("ml_dtypes")
    assert whet.nd.unpack(np.zeros(0, "uint8"), (0, 4)).shape == (0, 4)


def test_shapes_to_unpack():
    pytest.importorskip("ml_dtypes")
    packed = whet.nd.pack([1, -2], "int4")
    assert whet.nd.unpack(packed, 2).astype(int).tolist() == [1, -2]
    for wrong in ((2.0,), (-1, -1), "2", None):
        with pytest.raises(whet.ArgumentError, match=r"(?s)nd.unpack\(.*integers of 0 or more"):
            whet.nd.unpack(packed, wrong)
