"""The checked entry in C: LLVM's code for everything that can be wrong; exported, too."""

import ctypes

import numpy as np
import pytest
from c_kernels import build_c
from test_entry import Tensor, call

import whet
from whet.compiler import driver, te
from whet.compiler.errors import ArgumentError


def program():
    """A matrix of symbolic size, a number, a vector of twice the length."""
    n, a = te.size_var("n"), te.var("a", "float64")
    A = te.placeholder((3, n), name="A")
    B = te.compute((n * 2,), lambda i: A[i % 3, i // 2] * a.astype("float32"), name="B")
    return te.create_schedule(B.op), [A, a, B]


@pytest.fixture(scope="module")
def both():
    s, args = program()
    return build_c(s, args), driver.build(s, args, target="llvm", name="kernel")


def matrix():
    return np.arange(12, dtype="f4").reshape(3, 4)


def number():
    return ctypes.c_double(2.0)


def out():
    return np.zeros(8, "f4")


SETS = {
    "right": lambda: (Tensor(matrix()), number(), Tensor(out())),
    "no strides": lambda: (Tensor(matrix(), strides=False), number(), Tensor(out())),
    "too few": lambda: (Tensor(matrix()), number()),
    "null array": lambda: (None, number(), Tensor(out())),
    "null number": lambda: (Tensor(matrix()), None, Tensor(out())),
    "device": lambda: (Tensor(matrix()), number(), Tensor(out(), device_type=2)),
    "rank": lambda: (Tensor(matrix().reshape(-1)), number(), Tensor(out())),
    "dtype": lambda: (Tensor(matrix().astype("i4")), number(), Tensor(out())),
    "lanes": lambda: (Tensor(matrix(), lanes=2), number(), Tensor(out())),
    "no shape": lambda: (Tensor(matrix(), shape=None), number(), Tensor(out())),
    "first extent": lambda: (Tensor(np.zeros((4, 4), "f4")), number(), Tensor(out())),
    "computed extent": lambda: (Tensor(matrix()), number(), Tensor(np.zeros(9, "f4"))),
    "strides": lambda: (Tensor(np.zeros((4, 3), "f4").T), number(), Tensor(out())),
    "no data": lambda: (Tensor(matrix(), data=None), number(), Tensor(out())),
    "unaligned": lambda: (Tensor(matrix(), byte_offset=2), number(), Tensor(out())),
    "empty": lambda: (
        Tensor(np.zeros((3, 0), "f4"), data=None),
        number(),
        Tensor(np.zeros(0, "f4")),
    ),
}


@pytest.mark.parametrize("case", SETS)
def test_the_code_is_that_of_llvms_entry(both, case):
    args = SETS[case]()
    codes = [call(m, "kernel", *args) for m in both]
    assert codes[0] == codes[1]
    assert (codes[0] == 0) == (case in ("right", "no strides", "empty"))


def test_the_entry_runs_the_kernel(both):
    a, b = matrix(), out()
    assert call(both[0], "kernel", Tensor(a), number(), Tensor(b)) == 0
    i = np.arange(8)
    np.testing.assert_array_equal(b, a[i % 3, i // 2] * 2)


def test_an_exported_library_has_it(tmp_path):
    s, args = program()
    path = str(tmp_path / "kernel.so")
    driver.build(s, args, target="c", name="kernel").export_library(path)
    f = whet.runtime.load_module(path)["kernel"]
    b = out()
    f(matrix(), 3.0, b)
    np.testing.assert_array_equal(b, matrix()[np.arange(8) % 3, np.arange(8) // 2] * 3)
    with pytest.raises(ArgumentError, match=r"argument 2 \(B\)"):
        f(matrix(), 3.0, np.zeros(7, "f4"))
