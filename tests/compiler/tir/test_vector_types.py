"""Tensors whose elements are vectors: an array's last dimension is the lanes."""

from __future__ import annotations

import emulated
import numpy as np
import pytest

import whet
from whet import te, tir

CPU = "llvm -num_threads=2"
RNG = np.random.default_rng()


def ran(outputs, args, arrays, schedule=lambda s: None, target=CPU):
    """The results of tensors, which stand last among the arguments."""
    s = te.create_schedule([t.op for t in outputs])
    schedule(s)
    f = whet.build(s, args, target)
    made = [
        np.full((*map(int, t.shape), int(t.dtype.partition("x")[2])), 77, t.dtype.partition("x")[0])
        for t in outputs
    ]
    f(*arrays, *made)
    return made[0] if len(made) == 1 else made


def primitives(B):
    def split(s):
        outer, inner = s[B].split(B.op.axis[0], 2)
        s[B].parallel(outer)
        s[B].unroll(inner)

    def vectors(s):
        s[B].vectorize(s[B].split(B.op.axis[0], 2)[1])

    def copied(s):
        for t in B.op.input_tensors:
            copy = s.cache_read(t, "local", [B])
            s[copy].compute_at(s[B], B.op.axis[0])

    return {"plain": lambda s: None, "split": split, "vectors": vectors, "copied": copied}


@pytest.mark.parametrize("how", ["plain", "split", "vectors", "copied"])
@pytest.mark.parametrize("dtype", ["float32x4", "float64x2", "int8x16", "int32x3", "float16x8"])
def test_elements_are_vectors(dtype, how):
    element, _, lanes = dtype.partition("x")
    A = te.placeholder((7,), dtype, name="A")
    B = te.compute((7,), lambda i: A[i] * 2 + A[6 - i], name="B")
    assert B.dtype == dtype
    a = RNG.integers(-20, 20, (7, int(lanes))).astype(element)
    got = ran([B], [A, B], [a], primitives(B)[how])
    np.testing.assert_array_equal(got, a * 2 + a[::-1])


@pytest.mark.parametrize("target", [CPU, "llvm -num_threads=2 -math=2ulp -opt_level=0"])
def test_sizes_that_are_symbols_functions_and_conditions(target):
    n = te.size_var("n")
    A = te.placeholder((n, 3), "float64x2", name="A")
    B = te.compute(
        (n, 3),
        lambda i, j: te.if_then_else(i < 2, te.exp(A[i, j]), te.max(A[i, j], A[i, 2 - j])),
        name="B",
    )
    C = te.compute((n, 3), lambda i, j: tir.Select(B[i, j] > 0.5, B[i, j], -A[i, j]), name="C")
    f = whet.build(te.create_schedule(C.op), [A, C], target)
    for size in (1, 5):
        a, out = RNG.standard_normal((size, 3, 2)), np.full((size, 3, 2), np.nan)
        f(a, out)
        b = np.where(np.arange(size)[:, None, None] < 2, np.exp(a), np.maximum(a, a[:, ::-1]))
        np.testing.assert_allclose(out, np.where(b > 0.5, b, -a), rtol=1e-14)


@pytest.mark.parametrize("reducer", ["sum", "max", "min"])
def test_reductions_of_vectors(reducer):
    A = te.placeholder((5, 6), "float32x4", name="A")
    k = te.reduce_axis((0, 6), name="k")
    S = te.compute((5,), lambda i: getattr(te, reducer)(A[i, k], axis=k), name="S")
    a = RNG.standard_normal((5, 6, 4)).astype("float32")
    wanted = getattr(np, reducer)(a.astype("float64"), axis=1)

    def parts(s):
        s.rfactor(S, s[S].split(k, 2)[1])

    def local(s):
        s[s.cache_write(S, "local")].compute_at(s[S], S.op.axis[0])

    for schedule in (lambda s: None, parts, local):
        np.testing.assert_allclose(ran([S], [A, S], [a], schedule), wanted, rtol=1e-5, atol=1e-5)


def test_on_a_gpu():
    A = te.placeholder((10,), "float32x4", name="A")
    B = te.compute((10,), lambda i: A[i] * 2.0 + A[9 - i], name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], 4)
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    a = RNG.standard_normal((10, 4)).astype("float32")
    wanted = a.astype("float64") * 2 + a[::-1]
    shapes = [((10, 4), "float32")]
    source = emulated.agree(s, [A, B], [a], shapes, [wanted], rtol=1e-5, atol=1e-6)
    assert "whet_load<float32x4>(A" in source and "whet_store<float32x4>(B" in source


def test_arrays_of_vectors_and_what_does_not_fit():
    A = te.placeholder((6,), "float32x4", name="A")
    B = te.compute((6,), lambda i: A[i] + 1.0, name="B")
    x, y = whet.nd.empty((6,), "float32x4"), whet.nd.empty((6,), "float32x4")
    assert x.shape == (6, 4) and x.dtype == "float32"
    a = RNG.standard_normal((6, 4)).astype("float32")
    x.copyfrom(a)
    f = whet.build(te.create_schedule(B.op), [A, B], CPU)
    f(x, y)
    np.testing.assert_array_equal(y.numpy(), a + 1)
    with pytest.raises(whet.ArgumentError, match=r"A.ndim is 1, expected 2"):
        f(a.reshape(-1), y)
    with pytest.raises(whet.ArgumentError, match=r"A.shape\[1\]"):
        f(np.zeros((6, 3), "float32"), y)
    with pytest.raises(whet.ArgumentError, match="the numbers of lanes differ"):
        te.compute((6,), lambda i: A[i] + te.placeholder((6,), "float32x2")[i])
