"""Large rows that are computed in the memory of the result that is made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import whet
from whet import te
from whet.compiler.te.lower.in_place import IN_PLACE

ROWS, LONG = 5, 2 * IN_PLACE // 4 + 3
TARGET = "llvm -num_threads=2"


def scaled_rows(columns: int = LONG, dtype: str = "float32") -> tuple[Any, ...]:
    """Rows ``e``, whose sum each element of the result is divided by."""
    A = te.placeholder((ROWS, columns), dtype, name="A")
    e = te.compute(A.shape, lambda i, j: te.exp(A[i, j]), "e")
    k = te.reduce_axis((0, columns), "k")
    total = te.compute((ROWS,), lambda i: te.sum(e[i, k], k), "total")
    B = te.compute(A.shape, lambda i, j: e[i, j] / total[i], "B")
    s = te.create_schedule(B.op)
    row = B.op.axis[0]
    s[e].compute_at(s[B], row)
    s[total].compute_at(s[B], row)
    return s, A, e, total, B


def in_place(s: Any, args: list) -> bool:
    """True if the rows have no buffer of their own."""
    return "e = allocate" not in str(whet.lower(s, args))


@pytest.fixture
def rng(seeds: Any) -> np.random.Generator:
    """Fresh random numbers; the seed is printed."""
    return np.random.default_rng(next(iter(seeds(1))))


def check(rng: np.random.Generator, s: Any, A: Any, B: Any, target: str = TARGET) -> None:
    """The built kernel beside numpy; the result was full of NaN before."""
    a = rng.normal(size=tuple(map(int, A.shape))).astype(A.dtype)
    b = np.full_like(a, np.nan)
    whet.build(s, [A, B], target)(a, b)
    e = np.exp(a.astype("float64"))
    tolerance = 1e-5 if A.dtype == "float32" else 1e-12
    np.testing.assert_allclose(b, e / e.sum(1, keepdims=True), rtol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_large_rows_are_computed_in_the_result(dtype, backend, rng):
    s, A, e, _, B = scaled_rows(dtype=dtype)
    for t in (e, B):
        j = t.op.axis[-1]
        s[t].vectorize(s[t].split(j, factor=16)[1])
    s[B].parallel(B.op.axis[0])
    assert in_place(s, [A, B])
    check(rng, s, A, B, TARGET if backend == "llvm" else "c")


def test_rows_of_the_first_cache_have_a_buffer(rng):
    s, A, _, _, B = scaled_rows(IN_PLACE // 4)
    assert not in_place(s, [A, B])
    check(rng, s, A, B)


def test_rows_in_blocks_that_do_not_divide(rng):
    s, A, e, total, B = scaled_rows()
    outer, inner = s[B].split(B.op.axis[0], factor=2)
    for t in (e, total):
        s[t].compute_at(s[B], inner)
    s[B].parallel(outer)
    assert in_place(s, [A, B])
    check(rng, s, A, B)


def _blocks_of_two(s, e, total, B):
    outer, _ = s[B].split(B.op.axis[0], factor=2)
    for t in (e, total):
        s[t].compute_at(s[B], outer)


def _last_rows_twice(s, e, total, B):
    _, inner = s[B].split(B.op.axis[0], factor=2, tail="shift")
    for t in (e, total):
        s[t].compute_at(s[B], inner)


def _within_a_row(s, e, total, B):
    outer, _ = s[B].split(B.op.axis[1], factor=LONG // 2)
    s[e].compute_at(s[B], outer)
    s[total].compute_at(s[B], outer)


def _summed_late(s, e, total, B):
    outer, _ = s[B].split(B.op.axis[1], factor=LONG // 2)
    s[total].compute_at(s[B], outer)


def _past_the_caches(s, e, total, B):
    s[B].store_nontemporal()


def _in_registers(s, e, total, B):
    s[e].set_scope("local")


def _conditional(s, e, total, B):
    s[e].set_store_predicate(e.op.axis[1].var >= 0)


@pytest.mark.parametrize(
    "change",
    [
        _blocks_of_two,
        _last_rows_twice,
        _within_a_row,
        _summed_late,
        _past_the_caches,
        _in_registers,
        _conditional,
    ],
)
def test_rows_that_keep_a_buffer(change, rng):
    s, A, e, total, B = scaled_rows()
    change(s, e, total, B)
    assert not in_place(s, [A, B])
    check(rng, s, A, B)


def _neighbour(e, i, j):
    return e[i, LONG - 1 - j]


def _rounded(e, i, j):
    return e[i, j].astype("float64")


@pytest.mark.parametrize("element", [_neighbour, _rounded])
def test_elements_that_cannot_take_their_results_place(element, rng):
    A = te.placeholder((ROWS, LONG), name="A")
    e = te.compute(A.shape, lambda i, j: A[i, j] * 2, "e")
    B = te.compute(A.shape, lambda i, j: element(e, i, j) + 1, "B")
    s = te.create_schedule(B.op)
    s[e].compute_at(s[B], B.op.axis[0])
    assert not in_place(s, [A, B])
    a = rng.normal(size=(ROWS, LONG)).astype("float32")
    b = np.full(a.shape, np.nan, B.dtype)
    whet.build(s, [A, B], TARGET)(a, b)
    want = a[:, ::-1] if element is _neighbour else a
    np.testing.assert_allclose(b, 2 * want + 1, rtol=1e-6)


def test_one_of_two_rows_is_in_the_result(rng):
    A = te.placeholder((ROWS, LONG), name="A")
    e = te.compute(A.shape, lambda i, j: A[i, j] * 2, "e")
    f = te.compute(A.shape, lambda i, j: A[i, j] + 3, "f")
    B = te.compute(A.shape, lambda i, j: e[i, j] * f[i, j], "B")
    s = te.create_schedule(B.op)
    for t in (e, f):
        s[t].compute_at(s[B], B.op.axis[0])
    text = str(whet.lower(s, [A, B]))
    assert text.count("allocate") == 1
    a = rng.normal(size=(ROWS, LONG)).astype("float32")
    b = np.full(a.shape, np.nan, "float32")
    whet.build(s, [A, B], TARGET)(a, b)
    np.testing.assert_allclose(b, 2 * a * (a + 3), rtol=1e-5, atol=1e-5)


def test_a_row_that_is_an_output_itself_stays_one(rng):
    s, A, e, _, B = scaled_rows()
    a = rng.normal(size=(ROWS, LONG)).astype("float32")
    b, rows = np.full_like(a, np.nan), np.full_like(a, np.nan)
    whet.build(s, [A, e, B], TARGET)(a, rows, b)
    np.testing.assert_allclose(rows, np.exp(a), rtol=1e-5)
    np.testing.assert_allclose(b, rows / rows.sum(1, keepdims=True), rtol=1e-4)


def test_rows_that_are_laid_out_anew_have_a_buffer_of_their_own(rng):
    s, A, e, _, B = scaled_rows()
    s[e].transform_layout(lambda i, j: [j, i])
    assert not in_place(s, [A, B])
    check(rng, s, A, B)


def test_another_row_than_the_results_has_a_buffer_of_its_own(rng):
    A = te.placeholder((ROWS, LONG), name="A")
    e = te.compute(A.shape, lambda i, j: te.exp(A[i, j]), "e")
    k = te.reduce_axis((0, LONG), "k")
    last = te.compute((ROWS,), lambda i: te.sum(e[ROWS - 1 - i, k], k), "last")
    B = te.compute(A.shape, lambda i, j: A[i, j] / last[i], "B")
    s = te.create_schedule(B.op)
    for t in (e, last):
        s[t].compute_at(s[B], B.op.axis[0])
    assert not in_place(s, [A, B])
    a = rng.normal(size=(ROWS, LONG)).astype("float32")
    b = np.full_like(a, np.nan)
    whet.build(s, [A, B], TARGET)(a, b)
    exact = a.astype("float64")
    np.testing.assert_allclose(b, exact / np.exp(exact).sum(1)[::-1, None], rtol=1e-4)


@pytest.mark.parametrize("way", ["option", "attribute"])
def test_arguments_that_may_share_memory_are_read_before_they_are_stored(way, rng):
    s, A, e, total, _ = scaled_rows()
    B = te.compute(A.shape, lambda i, j: e[i, j] / total[i] + A[i, j], "B")
    s = te.create_schedule(B.op)
    for t in (e, total):
        s[t].compute_at(s[B], B.op.axis[0])
    assert in_place(s, [A, B])
    if way == "option":
        with whet.transform.PassContext(config={"tir.noalias": False}):
            f = whet.build(s, [A, B], TARGET)
    else:
        sch = te.create_prim_func([A, B]).with_attr("tir.noalias", False)
        f = whet.build(sch, target=TARGET)
    a = rng.normal(size=(ROWS, LONG)).astype("float32")
    exact = np.exp(a.astype("float64"))
    want = exact / exact.sum(1, keepdims=True) + a
    f(a, a)
    np.testing.assert_allclose(a, want, rtol=1e-5, atol=1e-5)
