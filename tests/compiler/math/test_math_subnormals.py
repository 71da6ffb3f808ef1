"""Subnormal results: kept by kernels of one function, zero in sums of what decays to nothing."""

import numpy as np
import pytest

import whet
from whet import te, topi
from whet.compiler import tir

X86 = "llvm -mcpu=x86-64-v2 -mtriple=x86_64-unknown-linux-gnu"
TINY = np.finfo(np.float32).tiny
FAR = np.linspace(-103, -88, 64, dtype=np.float32)  # exp of these is subnormal


def _weighted(n, threads):
    """exp(x) and its sum with weights, row by row."""
    x, w = te.placeholder((n, 64), name="x"), te.placeholder((64,), name="w")
    e = te.compute((n, 64), lambda i, j: te.exp(x[i, j]), name="e")
    k = te.reduce_axis((0, 64), name="k")
    y = te.compute((n,), lambda i: te.sum(e[i, k] * w[k], axis=k), name="y")
    s = te.create_schedule(y.op)
    s[e].compute_at(s[y], s[y].op.axis[0])
    s[e].vectorize(e.op.axis[1])
    if threads > 1:
        s[y].parallel(y.op.axis[0])
    return whet.build(s, [x, w, y], f"{X86} -num_threads={threads}")


def _is_subnormal(a):
    return (a != 0) & (np.abs(a) < TINY)


def _half(x):
    """Half of a number, computed by the processor now."""
    return np.multiply(x, np.float32(0.5))


@pytest.mark.parametrize("threads", [1, 2])
def test_sums_of_what_decays_are_flushed_and_the_mode_is_restored(threads):
    n, rng = 9, np.random.default_rng()
    f = _weighted(n, threads)
    x, w = np.tile(FAR, (n, 1)), rng.uniform(0.5, 1, 64).astype(np.float32)
    x[0] = rng.uniform(-3, 3, 64)
    y = np.full(n, 7, np.float32)
    f(x, w, y)
    exact = (np.exp(x.astype(np.float64)) * w).sum(1)
    np.testing.assert_allclose(y, exact, rtol=1e-5, atol=64 * TINY)
    assert (y[1:] == 0).all() and _is_subnormal(np.exp(FAR)).all()
    assert _is_subnormal(_half(np.array([TINY])))  # outside the kernel nothing has changed


def test_a_kernel_of_one_function_keeps_them():
    x = te.placeholder((64,), name="x")
    y = te.compute((64,), lambda i: te.exp(x[i]), name="y")
    s = te.create_schedule(y.op)
    s[y].vectorize(y.op.axis[0])
    out = np.empty(64, np.float32)
    whet.build(s, [x, y], X86)(FAR, out)
    assert _is_subnormal(out).all()
    np.testing.assert_allclose(out, np.exp(FAR.astype(np.float64)), atol=2.0**-149)


def test_the_mode_is_set_only_where_both_are_there():
    x = te.placeholder((8, 64), name="x")
    k = te.reduce_axis((0, 64), name="k")
    total = te.compute((8,), lambda i: te.sum(x[i, k], axis=k), name="total")
    e = te.compute((8, 64), lambda i, j: te.exp(x[i, j]), name="e")
    m = te.reduce_axis((0, 64), name="m")
    largest = te.compute((8,), lambda i: te.max(e[i, m], axis=m), name="largest")
    whole = te.compute((8, 64), lambda i, j: (e[i, j] * 8.0).astype("int32"), name="whole")
    n = te.reduce_axis((0, 64), name="n")
    counted = te.compute((8,), lambda i: te.sum(whole[i, n], axis=n), name="counted")
    for output, target, there in (
        (topi.nn.softmax(x), X86, True),
        (topi.exp(x), X86, False),
        (total, X86, False),
        (largest, X86, False),
        (counted, X86, False),
        (topi.nn.softmax(x), "llvm -mtriple=aarch64-linux-gnu", False),
    ):
        s = te.create_schedule(output.op)
        text = whet.build(s, [x, output], target).get_source("ll")
        assert ("ldmxcsr" in text) is there, (output, target)


def test_a_failing_kernel_restores_the_mode():
    """The checks of an assertion leave by the other way out."""
    ib = tir.ir_builder.create()
    x = tir.decl_buffer((64,), "float32", name="x")
    total = tir.decl_buffer((1,), "float32", name="total")
    a, b = ib.buffer_ptr(x), ib.buffer_ptr(total)
    ib.emit(lambda body: tir.AssertStmt(a[0] < 0.0, "x[0] is to be below zero", body))
    b[0] = 0.0
    with ib.for_range(0, 64, name="i") as i:
        b[0] = b[0] + tir.exp(a[i])
    f = whet.build(tir.PrimFunc([x, total], ib.get()), target=X86)
    out = np.empty(1, np.float32)
    with pytest.raises(whet.WhetError, match="below zero"):
        f(np.ones(64, np.float32), out)
    assert _is_subnormal(_half(np.array([TINY])))


def test_a_kernel_that_calls_out_never_begins_the_mode():
    seen = []

    @whet.register_func("test.subnormals.look", override=True)
    def look(_):
        seen.append(_is_subnormal(_half(np.array([TINY])))[0])

    x, k = te.placeholder((8, 64), name="x"), te.reduce_axis((0, 64), name="k")
    y = te.compute((8,), lambda i: te.sum(te.exp(x[i, k]), axis=k), name="y")

    def body(ins, outs):
        return tir.call_packed("test.subnormals.look", outs[0])

    z = te.extern((8,), [y], body, name="z", dtype="float32")
    f = whet.build(te.create_schedule(z.op), [x, z], X86)
    f(np.zeros((8, 64), np.float32), np.empty(8, np.float32))
    assert seen == [True]
