"""Lowering ends in time: many splits of unknown sizes, and loops too long to be unrolled."""

import time
import warnings

import numpy as np
import pytest

from whet.compiler import te
from whet.compiler.arith import Analyzer, knowledge
from whet.compiler.driver import build, lower
from whet.compiler.passes import PassContext
from whet.compiler.passes.loops.unroll_loop import MOST_EXPANDED
from whet.compiler.tir.expr import Range

RNG = np.random.default_rng(12)


def split_often(rows, columns, vectorized=True):
    """A sum of two dimensions of an unknown size, each split over and over."""
    n = te.size_var("n")
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[i, j] + 1, name="B")
    s = te.create_schedule(B.op)
    axis = B.op.axis[0]
    for k in range(rows):
        _, axis = s[B].split(axis, factor=rows + 1 - k)
    axis = B.op.axis[1]
    for k in range(columns):
        axis, inner = s[B].split(axis, factor=2 + k)
    if vectorized:
        s[B].vectorize(inner)
    return s, [A, B]


def seconds_of(make):
    schedule, args = make()
    begin = time.process_time()
    lower(schedule, args)
    return time.process_time() - begin


def test_many_splits_of_unknown_sizes_lower_quickly():
    assert seconds_of(lambda: split_often(6, 6)) < 5  # 0.2 s; it doubles several times otherwise


def nparts():
    n = te.size_var("n")
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[i, j] + 1, name="B")
    s = te.create_schedule(B.op)
    for axis in B.op.axis:
        for k in range(4):
            _, axis = s[B].split(axis, nparts=7 + k)
    return s, [A, B]


def test_many_splits_into_parts_lower_quickly():
    assert seconds_of(nparts) < 5


@pytest.mark.parametrize("n", [1, 13, 211])
def test_many_splits_compute_what_they_should(n):
    x = RNG.random((n, n), "float32")
    for make in (lambda: split_often(4, 4), nparts):
        y = np.full((n, n), np.nan, "float32")
        build(*make())(x, y)
        np.testing.assert_array_equal(y, x + 1)


def test_a_bound_that_takes_too_long_is_unknown(monkeypatch):
    n, x, y = te.size_var("n"), te.var("x"), te.var("y")
    analyzer = Analyzer()
    for v in (x, y):
        analyzer.bind(v, Range(0, 8))
    nested = te.min(te.min(x, n) + te.min(y, n), 9)
    assert analyzer.const_int_bound(nested).max_value == 9
    monkeypatch.setattr(knowledge, "STEPS", 0)
    assert analyzer.const_int_bound(te.min(x + n, y + n) - n).max_value is None
    monkeypatch.undo()
    # what was too much for one question is not for the next
    assert analyzer.const_int_bound(te.min(x + n, y + n) - n).max_value == 7


def test_without_bounds_the_numbers_are_the_same(monkeypatch):
    monkeypatch.setattr(knowledge, "STEPS", 0)
    f = build(*split_often(3, 3))
    x, y = RNG.random((29, 29), "float32"), np.full((29, 29), np.nan, "float32")
    f(x, y)
    np.testing.assert_array_equal(y, x + 1)


# unrolling


def unrolled(extent):
    A = te.placeholder((extent,), name="A")
    B = te.compute((extent,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    s[B].unroll(B.op.axis[0])
    return s, [A, B]


EXPLICIT = {"tir.UnrollLoop": {"explicit_unroll": True}}


def test_a_loop_that_is_too_long_stays_one():
    n = 100_000
    with PassContext(config=EXPLICIT):
        with pytest.warns(UserWarning, match="over i would be unrolled into 100000 statements"):
            f = build(*unrolled(n))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            text = str(lower(*unrolled(100)))
    assert "for" not in text and text.count("B[") == 100
    x, y = RNG.random(n, "float32"), np.full(n, np.nan, "float32")
    f(x, y)
    np.testing.assert_array_equal(y, x + 1)


def test_loops_in_each_other_count_together():
    A = te.placeholder((200, 200), name="A")
    B = te.compute((200, 200), lambda i, j: A[i, j] + 1, name="B")
    s = te.create_schedule(B.op)
    for axis in B.op.axis:
        s[B].unroll(axis)
    with PassContext(config=EXPLICIT), pytest.warns(UserWarning, match=f"{MOST_EXPANDED} are"):
        text = str(lower(s, [A, B]))
    assert text.count("for ") == 1 and text.count("B[") == 200  # the inner one is short enough
