"""Structural equality and hashes of whatever is given."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from whet.ir import assert_structural_equal, structural_equal, structural_hash

import whet
from whet import te, tir

A = te.placeholder((4,), name="A")
B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
X, Y = te.var("x"), te.var("y")


def doubled(name):
    T = te.placeholder((4,), name=name)
    U = te.compute((4,), lambda i: T[i] * 2.0, name=f"{name}2")
    return whet.lower(te.create_schedule(U.op), [T, U])


VALUES = {
    "none": lambda: None,
    "text": lambda: "a",
    "the text None": lambda: "None",
    "number": lambda: 3,
    "float": lambda: 3.0,
    "bool": lambda: True,
    "one": lambda: 1,
    "long": lambda: np.int64(3),
    "list": lambda: [1, "a", None],
    "nested": lambda: [1, ["a", None]],
    "dict": lambda: {"a": 1, "b": [X, 2]},
    "another dict": lambda: {"a": 1, "b": [X, 3]},
    "keys": lambda: {"a": 1, "c": [X, 2]},
    "target": lambda: whet.Target("llvm -mcpu=haswell"),
    "cuda": lambda: whet.Target("cuda -arch=sm_80"),
    "tensor": lambda: B.op.output(0),
    "input": lambda: A.op.output(0),
    "array": lambda: np.arange(6),
    "shaped": lambda: np.arange(6).reshape(2, 3),
    "function": lambda: doubled("T")["main"],
    "module": lambda: doubled("S"),
    "expression": lambda: X + 1,
    "range": lambda: tir.Range(0, 4) if hasattr(tir, "Range") else whet.ir.Range(0, 4),
    "buffer": lambda: tir.decl_buffer((4, 8), "int8", "b"),
    "wider buffer": lambda: tir.decl_buffer((4, 8), "int16", "b"),
    "axis": lambda: te.reduce_axis((0, 5), name="k"),
    "python": lambda: structural_equal,
}


def test_everything_equals_its_twin_and_nothing_else():
    whole = {name: make() for name, make in VALUES.items()}
    for one, make in VALUES.items():
        for other, value in whole.items():
            assert structural_equal(make(), value) is (one == other), (one, other)
            if one == other:
                assert_structural_equal(make(), value)
            else:
                with pytest.raises(ValueError, match="the two differ in structure"):
                    assert_structural_equal(make(), value)


def test_hashes_go_with_equality():
    hashes = {name: structural_hash(make()) for name, make in VALUES.items() if name != "python"}
    assert all(structural_hash(VALUES[name]()) == h for name, h in hashes.items())
    assert len(set(hashes.values())) == len(hashes)
    for value in (structural_equal, [1, print], {"f": print}):
        with pytest.raises(whet.ArgumentError, match="has no structure"):
            structural_hash(value)


def test_numbers_are_constants_and_arrays_of_any_kind_their_content():
    assert structural_equal(3, tir.const(3)) and structural_equal((1, 2), [1, tir.const(2)])
    assert structural_equal(whet.nd.array(np.arange(3)), np.arange(3))
    assert not structural_equal(np.arange(3), np.arange(3.0))
    assert structural_equal({"b": 1, "a": 2}, {"a": 2, "b": 1})
    assert not structural_equal({"a": X}, {"a": Y}) and structural_equal([X, X], [Y, Y], True)
    assert not structural_equal([X, Y], [X, X], True)
    assert structural_equal(B.op.output(0)[X], B[X]) and not structural_equal(B[X], A[X])


def test_a_hash_is_the_same_in_another_process():
    code = "import whet; print(whet.ir.structural_hash({'a': [1, 2.5, 'x', None]}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == structural_hash({"a": [1, 2.5, "x", None]})
