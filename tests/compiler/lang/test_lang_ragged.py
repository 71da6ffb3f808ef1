"""Reductions whose domain depends on data axes, under every primitive."""

import numpy as np
import pytest

import whet
from whet import te
from whet.compiler.errors import ArgumentError, ScheduleError

N = 9


def triangle(A, n):
    def element(i):
        k = te.reduce_axis((0, i + 1), name="k")
        return te.sum(A[i, k], axis=k)

    return te.compute((n,), element, name="B")


def rest(A, n):
    def element(i):
        k = te.reduce_axis((i, n), name="k")
        return te.max(A[i, k], axis=k)

    return te.compute((n,), element, name="B")


def corner(A, n):
    def element(i, j):
        k = te.reduce_axis((0, te.min(i, j) + 1), name="k")
        return te.sum(A[i, k] * A[j, k], axis=k)

    return te.compute((n, n), element, name="B")


def steps(a, kind):
    n = len(a)
    if kind is corner:
        rows = [[(a[i, : min(i, j) + 1] * a[j, : min(i, j) + 1]).sum() for j in range(n)]
                for i in range(n)]  # fmt: skip
        return np.array(rows)
    return np.array([a[i, : i + 1].sum() if kind is triangle else a[i, i:].max() for i in range(n)])


def root(s, A, B, C):
    pass


def cached(s, A, B, C):
    s.cache_write(B, "local")


def cached_at(s, A, B, C):
    inner = s.cache_write(B, "local")
    s[inner].compute_at(s[B], s[B].op.axis[-1])


def cached_in_tiles(s, A, B, C):
    inner = s.cache_write(B, "local")
    outer, _ = s[B].split(s[B].op.axis[0], factor=4)
    s[inner].compute_at(s[B], outer)


def cached_then_split(s, A, B, C):
    inner = s.cache_write(B, "local")
    s[inner].split(s[inner].op.axis[0], factor=4)


def split_then_cached(s, A, B, C):
    s[B].split(s[B].op.axis[0], factor=4)
    s.cache_write(B, "local")


def split(s, A, B, C):
    s[B].split(s[B].op.axis[0], factor=4)


def split_steps(s, A, B, C):
    s[B].split(s[B].op.reduce_axis[0], factor=4)


def split_both(s, A, B, C):
    s[B].split(s[B].op.axis[0], nparts=2)
    s[B].split(s[B].op.reduce_axis[0], factor=2)


def steps_outside(s, A, B, C):
    s[B].reorder(s[B].op.reduce_axis[0], s[B].op.axis[0])


def fused(s, A, B, C):
    s[B].fuse(*s[B].op.axis)


def attached(s, A, B, C):
    s[B].compute_at(s[C], s[C].op.axis[-1])


def attached_to_a_tile(s, A, B, C):
    outer, _ = s[C].split(s[C].op.axis[0], factor=4)
    s[B].compute_at(s[C], outer)


def vectors(s, A, B, C):
    _, inner = s[B].split(s[B].op.axis[-1], factor=4)
    s[B].vectorize(inner)


def unrolled(s, A, B, C):
    _, inner = s[B].split(s[B].op.axis[0], factor=3)
    s[B].unroll(inner)


def parallel(s, A, B, C):
    s[B].parallel(s[B].op.axis[0])


def read_ahead(s, A, B, C):
    s[s.cache_read(A, "local", [B])].compute_at(s[B], s[B].op.axis[0])


HOW = [root, cached, cached_at, cached_in_tiles, cached_then_split, split_then_cached, split,
       split_steps, split_both, steps_outside, fused, attached, attached_to_a_tile, vectors,
       unrolled, parallel, read_ahead]  # fmt: skip


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", [triangle, rest, corner])
@pytest.mark.parametrize("symbolic", [False, True])
def test_a_ragged_reduction(kind, how, symbolic):
    n = te.size_var("n") if symbolic else N
    A = te.placeholder((n, n), "float64", name="A")
    B = kind(A, n)
    C = te.compute(B.shape, lambda *i: B(*i) * 2.0, name="C")
    s = te.create_schedule(C.op)
    try:
        how(s, A, B, C)
        f = whet.build(s, [A, C], "llvm")
    except ScheduleError as error:
        assert symbolic and "the domain of k depends on the data axes of B" in str(error)
        return
    a = np.random.default_rng().standard_normal((N, N))
    out = np.full(B.ndim * (N,), 77.0)
    f(a, out)
    np.testing.assert_allclose(out, 2 * steps(a, kind), rtol=1e-12, atol=1e-12)


def test_rfactor_is_refused():
    A = te.placeholder((N, N), name="A")
    B = triangle(A, N)
    s = te.create_schedule(B.op)
    outer, _ = s[B].split(s[B].op.reduce_axis[0], factor=4)
    with pytest.raises(ScheduleError, match="the domain of k depends on the data axes of B"):
        s.rfactor(B, outer)


def test_a_domain_that_is_read_from_a_tensor_is_refused():
    A = te.placeholder((N, N), name="A")
    L = te.placeholder((N,), "int32", name="L")

    def element(i):
        k = te.reduce_axis((0, L[i]), name="k")
        return te.sum(A[i, k], axis=k)

    with pytest.raises(ArgumentError, match="the domain of k is read from a tensor"):
        te.compute((N,), element)
    k = te.reduce_axis((0, N), name="k")
    B = te.compute((N,), lambda i: te.sum(A[i, k], axis=k, where=k < L[i]), name="B")
    rng = np.random.default_rng()
    a, lengths = rng.random((N, N), "float32"), rng.integers(0, N + 1, N).astype("int32")
    out = np.full(N, 77, "float32")
    whet.build(te.create_schedule(B.op), [A, L, B], "llvm")(a, lengths, out)
    np.testing.assert_allclose(out, [a[i, :n].sum() for i, n in enumerate(lengths)], rtol=1e-5)
