"""Passes of loops: virtual threads, unrolling, partition, narrow indices; golden text, numbers."""

import numpy as np
import pytest
from pass_checks import around, lowered, verified
from te_check import check

import whet
from whet import te, tir

# InjectVirtualThread


def staged(threads=2, tag="vthread"):
    """A stage in a buffer of its own inside a loop over virtual threads."""
    n = 6 * threads
    a = te.placeholder((n,), name="A")
    w = te.placeholder((6,), name="W")
    v = te.compute((6,), lambda i: w[i] * 2.0, name="V")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((n,), lambda i: b[i] * v[i % 6], name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], factor=6)
    s[c].bind(outer, te.thread_axis(tag))
    s[b].compute_at(s[c], outer)
    s[v].compute_at(s[c], outer)
    return s, [a, w, c]


def test_virtual_threads_golden(golden):
    golden("pass_InjectVirtualThread", around("InjectVirtualThread", staged))


@pytest.mark.parametrize("threads", [1, 2, 3, 15, 16, 21])
@pytest.mark.parametrize("tag", ["vthread", "cthread"])
def test_virtual_threads_give_the_same_numbers(threads, tag):
    with verified():
        check(*staged(threads, tag))
    text = lowered(*staged(threads, tag))
    assert "thread_binding" not in text
    if threads > 1:
        assert (f"in unrolled({threads})" in text) == (threads < 16)


def test_nested_virtual_threads_of_a_matmul():
    n = 24
    a, b = (te.placeholder((n, n), name=x) for x in "AB")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    cl = s.cache_write(c, "local")
    i, j = s[c].op.axis
    (vy, ii), (vx, ji) = s[c].split(i, nparts=2), s[c].split(j, nparts=3)
    by, ii = s[c].split(ii, factor=4)
    bx, ji = s[c].split(ji, factor=4)
    s[c].reorder(by, bx, vy, vx, ii, ji)
    s[c].bind(by, te.thread_axis("blockIdx.y"))
    s[c].bind(bx, te.thread_axis("blockIdx.x"))
    s[c].bind(vy, te.thread_axis("vthread", name="vy"))
    s[c].bind(vx, te.thread_axis("vthread", name="vx"))
    s[cl].compute_at(s[c], vx)
    (kk,) = s[cl].op.reduce_axis
    ko, ki = s[cl].split(kk, factor=8)
    s[cl].reorder(ko, ki, *s[cl].op.axis)
    al = s.cache_read(a, "shared", [cl])
    s[al].compute_at(s[cl], ko)
    with verified():
        check(s, [a, b, c])


def test_a_loop_whose_length_depends_on_the_virtual_thread():
    v, i = tir.Var("v", "int32"), tir.Var("i", "int32")
    c = tir.decl_buffer((12,), "float32", "C")
    t = tir.decl_buffer((4,), "float32", "T")
    body = tir.SeqStmt(
        (
            tir.For(i, tir.const(0), v + 1, "serial", t.vstore([i], tir.cast("float32", i + v))),
            c.vstore([v * 3], t.vload([v])),
        )
    )
    loop = tir.For(
        v, tir.const(0), tir.const(4), "thread_binding", tir.Allocate(t, body), {}, "vthread"
    )
    func = tir.PrimFunc((c,), loop)
    with verified():
        f = whet.build(func, name="staircase")
    out = np.full(12, -1, "float32")
    f(out)
    np.testing.assert_array_equal(out[::3], [0, 2, 4, 6])
    assert (out[1::3] == -1).all()


# UnrollLoop


def nest():
    a = te.placeholder((5, 3, 4), name="A")
    c = te.compute((5, 3, 4), lambda i, j, k: a[i, j, k] + 1.0, name="C")
    return te.create_schedule(c.op), [a, c]


def unroll_config(**values):
    return {"tir.UnrollLoop": values}


def test_unrolling_golden(golden):
    config = unroll_config(auto_max_step=12, explicit_unroll=True)
    golden("pass_UnrollLoop", around("UnrollLoop", nest, config=config))


@pytest.mark.parametrize(
    ("values", "unrolled"),
    [
        ({}, 0),
        ({"auto_max_step": 3}, 0),
        ({"auto_max_step": 4}, 1),
        ({"auto_max_step": 12}, 2),
        ({"auto_max_step": 60}, 3),
        ({"auto_max_step": 60, "auto_max_depth": 2}, 2),
        ({"auto_max_extent": 3}, 1),
    ],
)
def test_which_loops_are_unrolled(values, unrolled):
    assert lowered(*nest(), config=unroll_config(**values)).count("unrolled(") == unrolled
    with verified(config=unroll_config(**values, explicit_unroll=True)):
        check(*nest())


def test_pragmas_unroll():
    s, args = nest()
    stage = s[args[1]]
    stage.pragma(stage.op.axis[0], "auto_unroll_max_step", 12)
    text = lowered(s, args)
    assert text.count("unrolled(") == 2 and "pragma" not in text
    stage.pragma(stage.op.axis[0], "unroll_explicit", True)
    text = lowered(s, args)
    assert text.count("for ") == 1 and text.count("C[") == 12
    with verified():
        check(s, args)


def test_unrolled_bodies_have_variables_of_their_own():
    a = te.placeholder((4, 5), name="A")
    b = te.compute((4, 5), lambda i, j: a[i, j] * 2, name="B")
    c = te.compute((4, 5), lambda i, j: b[i, j] + 1, name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[c].unroll(c.op.axis[0])
    with verified(config=unroll_config(explicit_unroll=True)):
        assert str(whet.lower(s, [a, c])).count("allocate(") == 4
        check(s, [a, c])


# LoopPartition


def tailed(n=10):
    a = te.placeholder((n,), name="A")
    c = te.compute((n,), lambda i: a[i] + 1.0, name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=4)
    s[c].unroll(inner)
    return s, [a, c], outer


def test_constant_loops_stay_whole_where_asked():
    config = {"tir.LoopPartition": {"partition_const_loop": False}}
    s, args, _ = tailed()
    assert "likely" not in lowered(s, args)
    assert "likely" in lowered(s, args, config=config)
    n = te.var("n")
    s, args, _ = tailed(n)
    assert lowered(s, args, config=config) == lowered(s, args)
    with verified(config=config):
        check(s, args, {n: 13})


def shared(n, window=1):
    """Rows that threads share in blocks of 8: sums of a window that hangs over both ends."""
    a = te.placeholder((n, 16), name="A")
    k = te.reduce_axis((0, window), name="k")

    def at(i):
        return i + k - window // 2

    b = te.compute(
        (n, 16),
        lambda i, j: te.sum(a[at(i), j], axis=k, where=tir.all(at(i) >= 0, at(i) < n)),
        name="B",
    )
    s = te.create_schedule(b.op)
    io, ii = s[b].split(b.op.axis[0], factor=8)
    s[b].parallel(io)
    s[b].reorder(io, k, ii, b.op.axis[1])
    s[b].unroll(ii)
    s[b].unroll(k)
    return s, [a, b]


@pytest.mark.parametrize("n", [7, 9, 16, 23, 45, 80])
@pytest.mark.parametrize("window", [1, 3, 20])
def test_a_loop_that_threads_share_stays_one(n, window):
    """Its steps branch: parts would wait for each other, and the tail would be one thread's."""
    s, args = shared(n, window)
    text = lowered(s, args)
    blocks = -(-n // 8)
    if blocks > 1:
        loops = [line for line in text.splitlines() if " in parallel(" in line]
        assert len(loops) == 1 and f"in parallel({blocks})" in loops[0], text
    if window < 20:  # whose every step hangs over an end where rows are few
        assert ("if i_outer" in text) == (blocks > 1 and (n % 8 > 0 or window > 1)), text
    with verified():
        check(s, args)


def test_a_tail_of_one_step_knows_its_place():
    text = lowered(*shared(45))
    assert "if i_outer < 5:" in text and "in unrolled(8)" in text and "in unrolled(5)" in text


def test_a_hint_names_the_loop():
    config = {"tir.LoopPartition": {"partition_const_loop": False}}
    s, args, outer = tailed()
    s[args[1]].pragma(outer, "loop_partition_hint", True)
    text = lowered(s, args, config=config)
    assert "likely" not in text and "range(2)" in text
    with verified(config=config):
        check(s, args)


def test_a_hinted_loop_without_a_free_part_is_unrolled_where_asked():
    config = {"tir.LoopPartition": {"unroll_loop_with_partition_hint_no_interval": True}}
    a = te.placeholder((8,), name="A")
    c = te.compute((8,), lambda i: a[i] + 1.0, name="C")
    s = te.create_schedule(c.op)
    s[c].pragma(c.op.axis[0], "loop_partition_hint", True)
    assert "unrolled(8)" in lowered(s, [a, c], config=config)
    assert "unrolled" not in lowered(s, [a, c])


# NarrowDataType


def wide(n=16):
    a = te.placeholder((te.const(n, "int64"),), name="A")
    c = te.compute((te.const(n, "int64"),), lambda i: a[i] + te.cast("float32", i), name="C")
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], factor=5)
    return s, [a, c]


def loops_of(mod):
    found = []

    def visit(n):
        if isinstance(n, tir.For):
            found.append(n.var.dtype)

    tir.post_order_visit(mod["main"].body, visit)
    return found


def wide_function(extent, data=False):
    i = tir.Var("i", "int64")
    c = tir.decl_buffer((extent * 4,), "int64" if data else "float32", "C")
    value = i * 3 if data else tir.cast("float32", i)
    store = c.vstore([i * 4 + 1], value)
    loop = tir.For(i, tir.const(0, "int64"), tir.const(extent, "int64"), "serial", store)
    return tir.PrimFunc((c,), loop)


def test_narrowing_golden(golden):
    before = tir.IRModule({"main": wide_function(16)})
    with verified():
        after = tir.transform.NarrowDataType(32)(before)
    assert loops_of(before) == ["int64"] and loops_of(after) == ["int32"]
    golden("pass_NarrowDataType", f"# after NarrowDataType\n{after}")


@pytest.mark.parametrize(
    "function", [wide_function(2**30), wide_function(16, data=True)], ids=["index", "data"]
)
def test_what_needs_64_bits_keeps_them(function):
    with verified():
        mod = tir.transform.NarrowDataType(32)(tir.IRModule({"main": function}))
    assert loops_of(mod) == ["int64"]


def test_narrowed_loops_give_the_right_numbers():
    with verified():
        f = whet.build(wide_function(9), name="narrow")
        check(*wide())
    out = np.zeros(36, "float32")
    f(out)
    np.testing.assert_array_equal(out[1::4], np.arange(9))
