"""Passes of buffers: flattening, sharing of memory, what a host may touch; golden text, numbers."""

import numpy as np
import pytest
from pass_checks import around, lowered, verified
from te_check import check

import whet
from whet import te, tir
from whet.compiler.errors import LowerError
from whet.compiler.target import Target

# FlattenBuffer


def test_flattening_strides_offsets_and_views_golden(golden):
    golden("pass_FlattenBuffer_views", around("FlattenBuffer", strided_views))


def strided_views():
    a = tir.decl_buffer((4, 6), "float32", "A")
    c = tir.decl_buffer((4, 6), "float32", "C")
    t = tir.decl_buffer((4, 6), "float32", "T", strides=(8, 1), scope="local")
    view = tir.decl_buffer((2, 3), "float32", "V", data=a.data, strides=(12, 2), elem_offset=7)
    i, j, p, q, x, y = (tir.Var(n, "int32") for n in ("i", "j", "p", "q", "x", "y"))

    def loops(u, v, m, n, body):
        inner = tir.For(v, tir.const(0), tir.const(n), "serial", body)
        return tir.For(u, tir.const(0), tir.const(m), "serial", inner)

    fill = loops(i, j, 4, 6, t.vstore([i, j], a.vload([i, j]) * 2.0))
    copy = loops(p, q, 4, 6, c.vstore([p, q], t.vload([p, q])))
    part = tir.DeclBuffer(view, loops(x, y, 2, 3, c.vstore([x, y], view.vload([x, y]))))
    body = tir.Allocate(t, tir.SeqStmt((fill, copy, part)))
    return (tir.PrimFunc((a, c), body),)


def test_strides_offsets_and_views_give_the_right_numbers():
    with verified():
        f = whet.build(*strided_views(), name="views")
    a = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")
    c = np.full((4, 6), np.nan, "float32")
    f(a, c)
    wanted = a * 2
    wanted[:2, :3] = a.reshape(-1)[7:][: 12 + 5].copy()[
        np.add.outer(np.arange(2) * 12, np.arange(3) * 2)
    ]
    np.testing.assert_array_equal(c, wanted)


def test_vectors_in_buffers_of_several_dimensions():
    a, c = (tir.decl_buffer((3, 8), "float32", n) for n in "AC")
    t = tir.decl_buffer((3, 8), "float32", "T", strides=(11, 1))
    i = tir.Var("i", "int32")
    step = tir.SeqStmt(
        (
            t.vstore([i, 4], a.vload([i, 0], "float32x4")),
            c.vstore([i, 4], t.vload([i, 4], "float32x4")),
            c.vstore([i, 0], a.vload([i, 4], "float32x4")),
        )
    )
    loop = tir.For(i, tir.const(0), tir.const(3), "serial", step)
    with verified():
        f = whet.build(tir.PrimFunc((a, c), tir.Allocate(t, loop)), name="swap")
    x = np.arange(24, dtype="float32").reshape(3, 8)
    out = np.full((3, 8), np.nan, "float32")
    f(x, out)
    np.testing.assert_array_equal(out, np.hstack([x[:, 4:], x[:, :4]]))


def test_constants_are_flattened():
    c = tir.decl_buffer((2, 3), "float32", "C")
    k = tir.decl_buffer((2, 3), "float32", "K")
    i, j = tir.Var("i", "int32"), tir.Var("j", "int32")
    inner = tir.For(j, tir.const(0), tir.const(3), "serial", c.vstore([i, j], k.vload([i, j])))
    loop = tir.For(i, tir.const(0), tir.const(2), "serial", inner)
    data = np.arange(6, dtype="float32").reshape(2, 3)
    with verified():
        f = whet.build(tir.PrimFunc((c,), tir.AllocateConst(k, data, loop)), name="constant")
    out = np.full((2, 3), np.nan, "float32")
    f(out)
    np.testing.assert_array_equal(out, data)


# StorageRewrite


def chain(n=30000, stages=4, dtype="float32"):
    def stage(x, k):
        return te.compute((n,), lambda i: x[i] * 2 + 1, name=f"T{k}")

    x = a = te.placeholder((n,), dtype, name="A")
    for k in range(stages):
        x = stage(x, k)
    c = te.compute((n,), lambda i: x[i] - 3, name="C")
    return te.create_schedule(c.op), [a, c]


def test_storage_rewrite_golden(golden):
    golden("pass_StorageRewrite", around("StorageRewrite", chain))


@pytest.mark.parametrize(("n", "stages", "left"), [(30000, 4, 2), (30000, 1, 1), (100, 4, 4)])
def test_large_buffers_share_memory(n, stages, left):
    assert lowered(*chain(n, stages)).count("allocate(") == left
    kept = lowered(*chain(n, stages), config={"tir.disable_storage_rewrite": True})
    assert kept.count("allocate(") == stages
    with verified():
        check(*chain(n, stages))


def test_buffers_that_are_needed_together_or_differ_in_type_share_nothing():
    a = te.placeholder((30000,), name="A")
    t0 = te.compute((30000,), lambda i: a[i] * 2, name="T0")
    t1 = te.compute((30000,), lambda i: te.cast("int64", t0[i]), name="T1")
    t2 = te.compute((30000,), lambda i: te.cast("float64", t1[i]), name="T2")
    c = te.compute((30000,), lambda i: t2[i] + t0[i], name="C")
    assert lowered(te.create_schedule(c.op), [a, c]).count("allocate(") == 3


def test_the_larger_size_is_allocated():
    a = te.placeholder((50000,), name="A")
    t0 = te.compute((20000,), lambda i: a[i] * 2, name="T0")
    t1 = te.compute((20000,), lambda i: t0[i] + 1, name="T1")
    t2 = te.compute((50000,), lambda i: t1[i % 20000] + a[i], name="T2")
    c = te.compute((50000,), lambda i: t2[i] * 3, name="C")
    s = te.create_schedule(c.op)
    text = lowered(s, [a, c])
    assert text.count("allocate(") == 2 and "allocate([50000]" in text
    with verified():
        check(s, [a, c])


# VerifyMemory


def test_host_code_that_touches_the_memory_of_a_gpu_is_refused():
    a = te.placeholder((8,), name="A")
    c = te.compute((8,), lambda i: a[i] + 1.0, name="C")
    s = te.create_schedule(c.op)
    with Target("cuda"):
        mod = whet.lower(s, [a, c])
        with pytest.raises(LowerError, match="C, A would be read or written by the host"):
            tir.transform.VerifyMemory()(mod)
        s[c].bind(c.op.axis[0], te.thread_axis("threadIdx.x"))
        bound = whet.lower(s, [a, c])
        assert tir.transform.VerifyMemory()(bound) is bound
    with Target("llvm"):
        assert tir.transform.VerifyMemory()(mod) is mod
