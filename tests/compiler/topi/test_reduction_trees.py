"""Unrolled reductions of what is read as it is: trees, in which no step waits for all before."""

import pytest
from te_check import check

from whet.compiler import driver, te


@pytest.mark.parametrize("n", [2, 3, 7, 8, 16])
def test_an_unrolled_sum_of_reads_is_a_tree(n):
    a = te.placeholder((6, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].unroll(k)
    text = str(driver.lower(s, [a, b]))
    assert "float32(0.0)" not in text and "for k" not in text
    check(s, [a, b])


def test_unrolled_sums_of_products_and_of_first_values_stay_chains():
    a = te.placeholder((6, 4), name="A")
    k = te.reduce_axis((0, 4), name="k")
    for body in (
        lambda i: te.sum(a[i, k] * a[i, k], axis=k),
        lambda i: te.sum(a[i, k], axis=k, init=te.const(2.0)),
        lambda i: te.sum(a[i, k], axis=k, where=k > 1),
    ):
        b = te.compute((6,), body, name="B")
        s = te.create_schedule(b.op)
        s[b].unroll(k)
        assert "in unrolled(4)" in str(driver.lower(s, [a, b]))
        check(s, [a, b])


def test_an_unrolled_argmax_of_reads_is_a_tree():
    places, a = te.placeholder((5, 8), "int32", name="P"), te.placeholder((5, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    best = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    found = te.compute((5,), lambda i: best((places[i, k], a[i, k]), axis=k), name="found")
    s = te.create_schedule(found[0].op)
    s[found[0]].unroll(k)
    assert "in unrolled" not in str(driver.lower(s, [places, a, *found]))
    check(s, [places, a, *found])
