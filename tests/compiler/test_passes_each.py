"""Each pass that has work only now and then: its golden text, where it must not act, numbers."""

import numpy as np
import pytest
from te_check import check

import whet
from whet import instrument, te, tir
from whet.compiler.errors import LowerError
from whet.compiler.passes import PassContext
from whet.compiler.target import Target

HOST = Target("llvm -mcpu=x86-64 -mattr=+avx2,+fma")


def verified(**options):
    return PassContext(instruments=[instrument.VerifyEach()], **options)


def around(name, function, **options):
    """A module's text before and after one pass of lowering."""
    seen = {}

    @instrument.pass_instrument
    class Watch:
        def run_before_pass(self, mod, info):
            if info.name == f"tir.{name}":
                seen["before"] = str(mod)

        def run_after_pass(self, mod, info):
            if info.name == f"tir.{name}":
                seen["after"] = str(mod)

    with HOST, PassContext(instruments=[Watch(), instrument.VerifyEach()], **options):
        whet.lower(*function())
    return f"# before {name}\n{seen['before']}\n\n# after {name}\n{seen['after']}"


def lowered(s, args=None, **options):
    with HOST, verified(**options):
        return str(whet.lower(s, args))


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


# RewriteUnsafeSelect


def selected(low):
    a = te.placeholder((9,), name="A")
    c = te.compute((9,), lambda i: te.select(i >= low, a[i - low], 7.0), name="C")
    return te.create_schedule(c.op), [a, c]


def test_unsafe_select_golden(golden):
    golden("pass_RewriteUnsafeSelect", around("RewriteUnsafeSelect", lambda: selected(2)))


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_choice_reads_nothing_out_of_range(vectorized):
    s, args = selected(2)
    if vectorized:
        s[args[1]].vectorize(args[1].op.axis[0])
    else:
        assert "if_then_else" in lowered(s, args)
    a = te.placeholder((9,), name="A")
    c = te.compute((9,), lambda i: te.select(i > 3, a[i], a[8 - i]), name="C")
    assert "select" in lowered(te.create_schedule(c.op), [a, c])
    with verified():
        check(s, args)


def test_a_choice_divides_by_nothing():
    a, b = (te.placeholder((9,), "int32", name=n) for n in "AB")
    c = te.compute((9,), lambda i: te.select(b[i] != 0, te.floordiv(a[i], b[i]), -1), name="C")
    s = te.create_schedule(c.op)
    assert "if_then_else" in lowered(s, [a, b, c])
    f = whet.build(s, [a, b, c])
    x = np.arange(9, dtype="int32")
    y = np.array([1, 0, 2, 0, -3, 4, 0, 1, 5], "int32")
    out = np.empty(9, "int32")
    f(x, y, out)
    np.testing.assert_array_equal(out, np.where(y == 0, -1, x // np.where(y == 0, 1, y)))


# HoistIfThenElse


def conditional(kind="serial", otherwise=False, reads_output=False):
    a, c = (tir.decl_buffer((8,), "float32", n) for n in "AC")
    m = tir.Var("m", "int32")
    i = tir.Var("i", "int32")
    test = c.vload([0]) > 0.0 if reads_output else m > 4
    other = c.vstore([i], 0.0) if otherwise else None
    branch = tir.IfThenElse(test, c.vstore([i], a.vload([i])), other)
    loop = tir.For(i, tir.const(0), tir.const(8), kind, branch)
    return (tir.PrimFunc((a, c, m), loop),)


def test_hoisting_golden(golden):
    function = conditional(otherwise=True)
    golden("pass_HoistIfThenElse", around("HoistIfThenElse", lambda: function))


def test_a_condition_stays_where_it_may_change_or_the_loop_would_be_doubled():
    def first_line(function):
        return lowered(*function).splitlines()[1].strip()

    assert first_line(conditional()) == "if m > 4:"
    assert first_line(conditional("parallel")) == "if m > 4:"
    assert first_line(conditional("parallel", otherwise=True)).startswith("for i in parallel")
    assert first_line(conditional(reads_output=True)).startswith("for i in range")


def test_a_condition_leaves_a_loop_over_threads_where_asked():
    asked = {"tir.HoistIfThenElse": {"support_block_scope_hosting": True}}
    (func,) = conditional("thread_binding")
    body = tir.For(func.body.var, 0, 8, "thread_binding", func.body.body, {}, "threadIdx.x")
    bound = tir.PrimFunc(func.params, body)
    assert "if m > 4:" not in lowered(bound).splitlines()[1]
    assert "if m > 4:" in lowered(bound, config=asked).splitlines()[1]


@pytest.mark.parametrize("m", [3, 5])
def test_hoisted_conditions_give_the_right_numbers(m):
    with verified():
        f = whet.build(*conditional(otherwise=True), name="conditional")
    a, c = np.arange(1, 9, dtype="float32"), np.full(8, np.nan, "float32")
    f(a, c, m)
    np.testing.assert_array_equal(c, a if m > 4 else 0)


def in_a_row(kind="serial", reads_output=False, divides=False):
    """Three stores, the first and the last under a condition more than the middle one."""
    a, c = (tir.decl_buffer((24,), "float32", n) for n in "AC")
    m, n, i = (tir.Var(x, "int32") for x in "mni")
    shared = c.vload([0]) > 0.0 if reads_output else (m // n if divides else m) > 4
    tests = (tir.And(shared, n > 0, "bool"), shared, tir.And(shared, n > 1, "bool"))
    stores = [
        tir.IfThenElse(test, c.vstore([i * 3 + k], a.vload([i * 3 + k])))
        for k, test in enumerate(tests)
    ]
    thread = "threadIdx.x" if kind == "thread_binding" else None
    loop = tir.For(i, tir.const(0), tir.const(8), kind, tir.SeqStmt(tuple(stores)), {}, thread)
    return tir.PrimFunc((a, c, m, n), loop)


def test_statements_in_a_row_share_a_test():
    text = lowered(in_a_row())
    assert text.count("m > 4") == 1
    assert text.splitlines()[1].strip() == "if m > 4:"  # and then it leaves the loop
    assert text.count("n > 0") == text.count("n > 1") == 1


def test_a_test_is_not_shared_where_it_may_change_or_threads_may_meet():
    assert lowered(in_a_row(reads_output=True)).count("C[0] > ") == 3
    assert lowered(in_a_row("thread_binding")).count("m > 4") == 3
    # what stands beside a division may be what guards it
    assert lowered(in_a_row(divides=True)).count("m // n > 4") == 3


@pytest.mark.parametrize("m, n", [(3, 2), (5, 0), (5, 1), (5, 2)])
def test_shared_tests_give_the_right_numbers(m, n):
    with verified():
        f = whet.build(in_a_row(), name="in_a_row")
    a, c = np.arange(1, 25, dtype="float32"), np.zeros(24, "float32")
    f(a, c, m, n)
    right = np.zeros((8, 3), "float32")
    if m > 4:
        right[:, 1] = a.reshape(8, 3)[:, 1]
        for column, least in ((0, 1), (2, 2)):
            if n >= least:
                right[:, column] = a.reshape(8, 3)[:, column]
    np.testing.assert_array_equal(c, right.reshape(-1))


# CommonSubexprElimTIR


def repeated():
    a = te.placeholder((6, 7), name="A")
    c = te.compute(
        (6, 7),
        lambda i, j: te.exp(a[i, j] * 2) / (te.exp(a[i, j] * 2) + te.sqrt(a[i, j] * 2)),
        name="C",
    )
    return te.create_schedule(c.op), [a, c]


CSE = {"tir.disable_cse_tir": False}


def test_common_subexpressions_golden(golden):
    golden("pass_CommonSubexprElimTIR", around("CommonSubexprElimTIR", repeated, config=CSE))


def test_common_subexpressions_give_the_same_numbers():
    with verified(config=CSE):
        s, args = repeated()
        f = whet.build(s, args)
    x = np.random.default_rng(0).random((6, 7)).astype("float32")
    y = np.full((6, 7), np.nan, "float32")
    f(x, y)
    e = np.exp(x.astype("float64") * 2)
    np.testing.assert_allclose(y, e / (e + np.sqrt(x * 2)), rtol=1e-5)


def test_what_a_condition_guards_is_not_computed_before_it():
    a = te.placeholder((6,), name="A")
    c = te.compute(
        (6,), lambda i: te.if_then_else(i > 0, a[i - 1] * a[i - 1] + a[i - 1], 0.0), name="C"
    )
    s = te.create_schedule(c.op)
    assert "cse_" not in lowered(s, [a, c], config=CSE)


def test_equal_terms_written_otherwise_count_where_asked():
    c = tir.decl_buffer((40,), "int32", "C")
    i, n = tir.Var("i", "int32"), tir.Var("n", "int32")
    value = tir.Mul((i + n) * 3, 3 * n + i * 3, "int32")
    loop = tir.For(i, tir.const(0), tir.const(8), "serial", c.vstore([i], value))
    mod = tir.IRModule({"main": tir.PrimFunc((c, n), loop)})
    assert "cse_v" not in str(tir.transform.CommonSubexprElimTIR()(mod))
    with verified():
        text = str(tir.transform.CommonSubexprElimTIR(True, identify_equiv_terms=True)(mod))
    assert "C[i] = cse_v1 * cse_v1" in text


def test_common_subexpressions_are_named_where_the_options_ask_for_it():
    assert "cse_v" not in lowered(*repeated())
    assert "cse_v" in lowered(*repeated(), config=CSE)
    x, t, c = (tir.decl_buffer((40,), "int32", n) for n in "XTC")
    i, n = tir.Var("i", "int32"), tir.Var("n", "int32")
    table = x.vload([t.vload([i]) + n * 3]) * x.vload([3 * n + t.vload([i])])
    loop = tir.For(i, tir.const(0), tir.const(8), "serial", c.vstore([i], table))
    func = tir.PrimFunc((x, t, c, n), loop)
    counts = [
        lowered(func, config={**CSE, "tir.enable_equiv_terms_in_cse_tir": asked}).count("X[")
        for asked in (False, True)
    ]
    assert counts == [2, 1]
    with verified(config={**CSE, "tir.enable_equiv_terms_in_cse_tir": True}):
        f = whet.build(func, name="table")
    got, places = np.full(40, 77, "int32"), np.arange(40, dtype="int32") % 5
    f(np.arange(40, dtype="int32"), places, got, 2)
    np.testing.assert_array_equal(got[:8], (places[:8] + 6) ** 2)


# RemoveNoOp, SkipAssert, Simplify


def test_removing_what_has_no_effect_golden(golden):
    golden("pass_RemoveNoOp_all", around("RemoveNoOp", no_effects))


def no_effects():
    c = tir.decl_buffer((8,), "float32", "C")
    t, k = tir.decl_buffer((8,), "float32", "T"), tir.decl_buffer((2,), "float32", "K")
    view = tir.decl_buffer((4, 2), "float32", "V", data=c.data)
    i, x, y = (tir.Var(n, "int32") for n in "ixy")
    store = tir.LetStmt(x, i * 2, tir.LetStmt(y, i * 3, c.vstore([y - i * 2], 1.0)))
    body = tir.SeqStmt(
        (
            tir.For(i, tir.const(0), tir.const(8), "serial", store),
            tir.Evaluate(tir.exp(tir.const(1.0))),
            tir.AttrStmt(None, "pragma_x", tir.const(1), tir.Evaluate(tir.const(0))),
        )
    )
    for b in (t, view):
        body = tir.DeclBuffer(b, body) if b is view else tir.Allocate(b, body)
    return (tir.PrimFunc((c,), tir.AllocateConst(k, np.zeros(2, "float32"), body)),)


def test_dropping_assertions_golden(golden):
    c = tir.decl_buffer((8,), "float32", "C")
    n = tir.Var("n", "int32")
    body = tir.AssertStmt(n > 3, "n is {0}", c.vstore([0], 1.0), (n,))
    mod = tir.IRModule({"main": tir.PrimFunc((c, n), body)})
    after = tir.transform.SkipAssert()(mod)
    golden("pass_SkipAssert", f"# before SkipAssert\n{mod}\n\n# after SkipAssert\n{after}")


def simplified(condition, extra, **options):
    c = tir.decl_buffer((8,), "float32", "C")
    inner = tir.IfThenElse(extra, c.vstore([0], 1.0))
    body = tir.IfThenElse(condition, inner) if condition is not None else inner
    params = [c, *sorted(tir.variables(body), key=lambda v: v.name)]
    mod = tir.IRModule({"main": tir.PrimFunc(tuple(params), body)})
    with verified(config={"tir.Simplify": options}):
        return str(tir.transform.Simplify()(mod)).split("\n", 1)[1].strip()


def test_two_conditions_prove_a_third_where_asked():
    i, j, k = (tir.Var(n, "int32") for n in "ijk")
    known = tir.all(i < j, j < k)
    assert "if i < k" in simplified(known, i < k)
    assert "if i < k" not in simplified(known, i < k, transitively_prove_inequalities=True)


def test_conditions_become_a_conjunction_where_asked():
    i, j, k = (tir.Var(n, "int32") for n in "ijk")
    test = tir.any(tir.all(i > 0, j > 0), k > 0)
    assert simplified(None, test).startswith("if i > 0 and j > 0 or k > 0:")
    said = simplified(None, test, convert_boolean_to_and_of_ors=True)
    assert said.startswith("if (i > 0 or k > 0) and (j > 0 or k > 0):")


def test_the_second_of_an_or_knows_that_the_first_is_false():
    i = tir.Var("i", "int32")
    test = tir.any(i < 5, tir.all(i >= 5, i < 9))
    assert "i >= 5" in simplified(None, test)
    said = simplified(None, test, apply_constraints_to_boolean_branches=True)
    assert said.startswith("if i < 5 or i < 9:")


def test_trivial_loops_stay_where_asked():
    a = te.placeholder((4,), name="A")
    c = te.compute((4, 1), lambda i, j: a[i], name="C")
    s = te.create_schedule(c.op)
    assert "for j in range(1)" not in lowered(s, [a, c])
    with verified(config={"tir.debug_keep_trivial_loop": True}):
        assert "for j in range(1)" in str(whet.lower(s, [a, c]))
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
