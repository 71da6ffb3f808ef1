"""Instructions called within te.compute: a computation made of tiles (TensorComputeOp)."""

from __future__ import annotations

import numpy as np
import pytest

import whet
from whet import te, tir

RNG = np.random.default_rng()
CPU = "llvm -num_threads=2"


def vadd(n, dtype="float32", scaled=False):
    x, y = (te.placeholder((n,), dtype, name=name) for name in "xy")
    a = te.var("a", dtype)
    z = te.compute((n,), lambda i: x[i] + y[i] * (a if scaled else 1), name="z")

    def run(ins, outs, scalars=()):
        ib = tir.ir_builder.create()
        u, v, w = (ib.buffer_ptr(b) for b in (*ins, *outs))
        with ib.for_range(0, n, name="lane") as lane:
            w[lane] = u[lane] + v[lane] * (scalars[0] if scaled else 1)
        return ib.get()

    options = {"scalar_params": [a]} if scaled else {}
    return te.decl_tensor_intrin(
        z.op, run, name="vadd", default_buffer_params={"offset_factor": 1}, **options
    )


def gemm(m, n, length, dtype="float32", parts=("body", "reset", "update")):
    """``z[i, j] = sum of x[i, k] * y[j, k]``."""
    x, y = (
        te.placeholder((m, length), dtype, name="x"),
        te.placeholder((n, length), dtype, name="y"),
    )
    k = te.reduce_axis((0, length), name="k")
    z = te.compute((m, n), lambda i, j: te.sum(x[i, k] * y[j, k], axis=k), name="z")

    def run(ins, outs):
        def statement(clear, add):
            ib = tir.ir_builder.create()
            u, v, w = (ib.buffer_ptr(b) for b in (*ins, *outs))
            with ib.for_range(0, m, name="p") as p, ib.for_range(0, n, name="q") as q:
                if clear:
                    w[p, q] = tir.const(0, dtype)
                if add:
                    with ib.for_range(0, length, name="r") as r:
                        w[p, q] = w[p, q] + u[p, r] * v[q, r]
            return ib.get()

        made = {"body": (True, True), "reset": (True, False), "update": (False, True)}
        return tuple(statement(*made[x]) if x in parts else None for x in made)

    binds = {
        t: tir.decl_buffer(
            t.shape, dtype, name=t.name, offset_factor=1, strides=[te.var(f"{t.name}s"), 1]
        )
        for t in (x, y, z)
    }
    return te.decl_tensor_intrin(z.op, run, name="gemm", binds=binds)


def ran(s, args, arrays, shape, dtype="float32", target=CPU):
    out = np.full(shape, np.nan, dtype)
    whet.build(s, args, target)(*arrays, out)
    return out


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [5, 8])
def test_a_tile_for_each_row(rows, dtype):
    A, B = (te.placeholder((rows, 12), dtype, name=name) for name in "AB")
    add = vadd(12, dtype)
    C = te.compute((rows, 12), lambda i: add(A[i, 0:12], B[i]), name="C")
    assert isinstance(C.op, te.TensorComputeOp) and C.op.schedulable_ndim == 1
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], 2)
    s[C].reorder(inner, outer)
    text = str(whet.lower(s, [A, B, C]))
    assert "for lane in range(12)" in text
    a, b = RNG.standard_normal((2, rows, 12)).astype(dtype)
    np.testing.assert_array_equal(ran(s, [A, B, C], (a, b), (rows, 12), dtype), a + b)
    assert str(whet.lower(s.trace.replay(s.outputs), [A, B, C])) == text


def test_offsets_scalars_and_stages_around():
    A = te.placeholder((3, 40), name="A")
    T = te.compute((3, 40), lambda i, j: A[i, j] * 2.0, name="T")
    add = vadd(8, scaled=True)
    C = te.compute(
        (3, 4, 8), lambda i, j: add(T[i, j * 8 : j * 8 + 8], T[2 - i, j * 8 + 8 : j * 8 + 16], 0.5)
    )
    D = te.compute((3, 32), lambda i, j: C[i, j // 8, j % 8] + 1.0, name="D")
    a = RNG.standard_normal((3, 40)).astype("float32")
    wanted = 2 * a[:, :32] + a[::-1, 8:] + 1
    for attached in (False, True):
        s = te.create_schedule(D.op)
        if attached:
            s[C].compute_at(s[D], D.op.axis[0])
        s[D].parallel(D.op.axis[0])
        assert "for lane in range(8)" in str(whet.lower(s, [A, D]))
        np.testing.assert_allclose(ran(s, [A, D], (a,), (3, 32)), wanted, rtol=1e-6)


@pytest.mark.parametrize("parts", [("body", "reset", "update"), ("reset", "update")])
@pytest.mark.parametrize("target", [CPU, "c"])
def test_tiles_that_are_summed_over_an_axis(parts, target):
    """TVM's example of a GEMM of blocks."""
    m, n, steps, fm, fn, fk = 3, 2, 5, 4, 6, 8
    A = te.placeholder((m, steps, fm, fk), name="A")
    B = te.placeholder((n, steps, fn, fk), name="B")
    k = te.reduce_axis((0, steps), name="k")
    tile = gemm(fm, fn, fk, parts=parts)
    C = te.compute(
        (m, n, fm, fn),
        lambda i, j: tile(A[i, k, 0:fm, 0:fk], B[j, k, 0:fn, 0:fk], reduce_axis=k),
        name="C",
    )
    s = te.create_schedule(C.op)
    ko, ki = s[C].split(C.op.reduce_axis[0], 2)
    s[C].reorder(ko, C.op.axis[1], ki)
    text = str(whet.lower(s, [A, B, C]))
    assert "for p in range(4)" in text
    a = RNG.standard_normal((m, steps, fm, fk)).astype("float32")
    b = RNG.standard_normal((n, steps, fn, fk)).astype("float32")
    wanted = np.einsum("ikpr,jkqr->ijpq", a.astype("float64"), b)
    got = ran(s, [A, B, C], (a, b), wanted.shape, target=target)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


A = te.placeholder((4, 16), name="A")
K = te.reduce_axis((0, 4), name="k")
WRONG = [
    (lambda i: vadd(8)(A[i, 0:8]), "it reads 2 tensors .* and 1 parts of tensors and 0 scalars"),
    (
        lambda i: vadd(8)(A[i, 0:8], A[i, 0:9]),
        r"its input y is \(8\), and the part of A is \(1, 9\)",
    ),
    (lambda i: vadd(8)(A[i, 0:8], A[i, i]), "1 parts of tensors and 1 scalars"),
    (lambda i: vadd(8)(A[i, 0:16:2], A[i, 0:8]), "a slice of A has the step 2"),
    (lambda i: vadd(8, "float64")(A[i, 0:8], A[i, 0:8]), "its input x is float64, A is float32"),
    (lambda i: vadd(8)(A[i, 0:8], A[i, 0:8], reduce_axis=K), "z is no reduction"),
    (lambda i: vadd(8)(A[i, 0:8], A[i, 0:8], reduce_axis=3), "3 is no te.reduce_axis"),
    (lambda i: vadd(16)(A[i, 0:16], A[i]), r"it computes \(16\), and the dimensions .* are \(8\)"),
    (lambda i: vadd(8)(A[i, 0:8], A[i, 0:8]) and A[i, 0:8], "an element has one index for each"),
]


@pytest.mark.parametrize(("function", "why"), WRONG, ids=range(len(WRONG)))
def test_what_does_not_fit(function, why):
    with pytest.raises(whet.ArgumentError, match=why):
        te.compute((4, 8), function)
