"""Functions of numpy and of Python's math on expressions: refused with the name in te."""

import math

import numpy as np
import pytest

from whet import te
from whet.compiler.errors import ArgumentError

A = te.placeholder((4,), name="A")


@pytest.mark.parametrize(
    "function, way_out",
    [
        (lambda x: np.exp(x), r"use te\.exp$"),
        (lambda x: np.maximum(x, 0), r"use te\.max$"),
        (lambda x: np.power(x, 2), r"use te\.power$"),
        (lambda x: np.logical_and(x, x), "te has the functions of an element"),
        (lambda x: np.add.reduce(x), "te has the functions of an element"),
        (lambda x: math.sqrt(x), r"te\.sqrt\(x\), te\.exp\(x\)"),
        (lambda x: math.floor(x), r"te\.floor\(x\)"),
        (lambda x: float(x), r"x\.astype\('float32'\)"),
    ],
)
def test_functions_of_numbers_name_those_of_te(function, way_out):
    for x in (A, A[te.var("i")] + 1.0):
        with pytest.raises(TypeError):  # as Python and numpy raise
            function(x)
    with pytest.raises(ArgumentError, match=f"not known before the kernel runs\n  .*{way_out}"):
        te.compute((4,), lambda i: function(A[i]))


def test_constants_are_numbers():
    assert float(te.const(3, "int32")) == 3.0 and math.sqrt(te.const(4.0, "float32")) == 2.0


@pytest.mark.parametrize("number", [np.float32(2), np.float64(2), np.int64(2), np.array(2.0)])
def test_operators_with_numbers_of_numpy_stay(number):
    x, plain = A[te.var("i")], number.item()
    for ours, python in [
        (number + x, plain + x),
        (number - x, plain - x),
        (number * x, plain * x),
        (number / x, plain / x),
        (x - number, x - plain),
        (number < x, x > plain),
        (number >= x, x <= plain),
    ]:
        assert type(ours) is type(python) and str(ours).count("A[") == str(python).count("A[") == 1


def test_operators_of_integers_stay():
    n = te.var("n")
    pairs = [(np.int64(7) % n, 7 % n), (np.int64(7) // n, 7 // n), (np.int64(1) << n, 1 << n)]
    assert all(type(ours) is type(python) for ours, python in pairs)
    assert str(np.int32(1) - n) == str(1 - n) and type(np.int32(1) == n) is type(n == 1)
    assert (np.ones(2) == n) is False
