"""Names for parts of an expression that occur often: fewer nodes, the same numbers, guards kept."""

import numpy as np

from whet.compiler import driver, te, tir
from whet.compiler.tir.visit.sharing import bind_shared, tree_size


def grown(x, times=14):
    for _ in range(times):
        x = x * 0.5 + x
    return x


def test_a_large_tree_becomes_a_small_one_and_a_small_one_stays():
    x = te.var("x", "float32")
    large, small = grown(x), grown(x, 3)
    assert tree_size(large)[0] > 30_000 and tree_size(large)[1] < 40
    assert tree_size(bind_shared(large))[0] < 200
    assert bind_shared(small) is small


def test_what_a_condition_guards_is_not_computed_before_it():
    guarded = tir.if_then_else(te.var("c", "bool"), grown(te.var("y", "float32")), te.const(0.0))
    bound = bind_shared(guarded)
    assert isinstance(bound, tir.Call) and isinstance(bound.args[1], tir.Let)
    # in a kernel: reading where the table points would end the process
    n = 5
    A = te.placeholder((n,), "float64", name="A")
    T = te.placeholder((n,), "int64", name="T")

    def body(i):
        inside = grown(A[T[i]])
        return te.if_then_else(T[i] < n, inside * inside, grown(A[i]))

    B = te.compute((n,), body, name="B")
    data, out = np.arange(5.0), np.full(n, np.nan)
    table = np.array([4, 1 << 40, 3, 1 << 40, 0])
    driver.build(te.create_schedule(B.op), [A, T, B])(data, table, out)
    g = data * 1.5**14
    np.testing.assert_allclose(out, [g[4] ** 2, g[1], g[3] ** 2, g[3], g[0] ** 2], rtol=1e-12)


def test_names_are_vectors_in_a_vectorised_loop():
    A = te.placeholder((37,), "float64", name="A")
    B = te.compute((37,), lambda i: grown(A[i]), name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[0], factor=8)[1])
    func = driver.lower(s, [A, B])["main"]
    names = []
    tir.post_order_visit(
        func.body, lambda x: names.append(x.var.dtype) if isinstance(x, tir.Let) else None
    )
    assert "float64x4" in names or "float64x8" in names or "float64x2" in names
    data, out = np.random.default_rng(0).standard_normal(37), np.full(37, np.nan)
    driver.build(s, [A, B])(data, out)
    np.testing.assert_allclose(out, data * 1.5**14, rtol=1e-12)
