"""Analyses of loop IR: what they find, what they count, what they call equal."""

import numpy as np
import pytest

import whet
from whet import te, tir
from whet.compiler.errors import ArgumentError, LowerError
from whet.compiler.target import Target
from whet.compiler.tir import analysis


def matmul(n=6, m=7, depth=5):
    a, b = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_schedule(c.op), c, [a, b, c]


def lowered(*given):
    s, _, args = given or matmul()
    return whet.lower(s, args)["main"]


def loop(var, extent, body, kind="serial", thread=""):
    return tir.For(var, tir.const(0), tir.const(extent), kind, body, {}, thread)


def copies(bound=""):
    a, c = (tir.decl_buffer((8,), "float32", n) for n in "AC")
    i = tir.Var("i", "int32")
    body = c.vstore([i], a.vload([i]) + 1.0)
    kind = "thread_binding" if bound else "serial"
    return tir.PrimFunc((a, c), loop(i, 8, body, kind, bound)), i, a, c


def test_ssa():
    func, i, _, _ = copies()
    assert analysis.verify_ssa(func)
    assert not analysis.verify_ssa(func.with_body(tir.SeqStmt((func.body, func.body))))
    assert not analysis.verify_ssa(func.with_body(loop(i, 3, func.body)))
    let = tir.LetStmt(i, tir.const(1), func.body)
    assert not analysis.verify_ssa(func.with_body(let))
    t = tir.decl_buffer((4,), "float32", "T")
    twice = tir.Allocate(t, tir.Allocate(t, func.body))
    assert not analysis.verify_ssa(func.with_body(twice))


def test_well_formed():
    func, i, a, c = copies()
    assert analysis.verify_well_formed(func)
    assert analysis.verify_well_formed(tir.IRModule({"main": func}))
    outside = func.with_body(tir.SeqStmt((func.body, c.vstore([i], 1.0))))
    assert not analysis.verify_well_formed(outside, assert_mode=False)
    with pytest.raises(LowerError, match="i is used where it is not defined"):
        analysis.verify_well_formed(outside)
    lost = tir.PrimFunc((c,), func.body)
    with pytest.raises(LowerError, match="the buffer A is used where it is not defined"):
        analysis.verify_well_formed(lost)
    view = tir.decl_buffer((2, 4), "float32", "V", data=tir.Var("elsewhere", "handle"))
    with pytest.raises(LowerError, match="V is a view of elsewhere, which is not defined there"):
        analysis.verify_well_formed(func.with_body(tir.DeclBuffer(view, func.body)))
    assert analysis.verify_well_formed(
        func.with_body(
            tir.DeclBuffer(tir.decl_buffer((2, 4), "float32", "V", data=a.data), func.body)
        )
    )


def test_symbols_of_shapes_are_defined():
    n = te.var("n")
    a = te.placeholder((n, 3), name="A")
    c = te.compute((n, 3), lambda i, j: a[i, j] * n, name="C")
    assert analysis.verify_well_formed(whet.lower(te.create_schedule(c.op), [a, c]))


def test_undefined_variables():
    func, i, a, c = copies()
    assert analysis.undefined_vars(func) == []
    assert set(analysis.undefined_vars(func.body)) == {a.data, c.data}
    assert analysis.undefined_vars(func.body, [a]) == [c.data]
    n = tir.Var("n", "int32")
    assert analysis.undefined_vars(n * i + n, [i]) == [n]
    assert analysis.undefined_vars(tir.Let(n, i, n + 1, "int32"), [i]) == []


def test_compact_buffers():
    func, _, _, c = copies()
    assert analysis.verify_compact_buffer(func)
    for more in ({"strides": (2,)}, {"elem_offset": 4}):
        other = tir.decl_buffer((8,), "float32", "A", **more)
        assert not analysis.verify_compact_buffer(tir.PrimFunc((other, c), func.body))


def test_memory_of_a_gpu():
    plain, bound = copies()[0], copies("threadIdx.x")[0]
    gpu, cpu = Target("cuda"), Target("llvm")
    assert analysis.verify_memory(plain) and analysis.verify_memory(plain, cpu)
    assert not analysis.verify_memory(plain, gpu) and analysis.verify_memory(bound, gpu)
    with gpu:
        assert not analysis.verify_memory(plain)
    assert not analysis.verify_memory(plain.with_attr("target", gpu))
    assert not analysis.verify_memory(tir.IRModule({"a": bound, "b": plain}), gpu)
    part = bound.with_body(tir.SeqStmt((bound.body, plain.body)))
    assert not analysis.verify_memory(part, gpu)


def staged_on_a_gpu():
    a = te.placeholder((64, 32), name="A")
    b = te.compute((64, 32), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((64, 32), lambda i, j: b[i, j] * 2.0, name="C")
    s = te.create_schedule(c.op)
    i, j = s[c].op.axis
    s[c].bind(i, te.thread_axis("blockIdx.x"))
    s[c].bind(j, te.thread_axis("threadIdx.y"))
    s[b].compute_at(s[c], i)
    s[b].set_scope("shared")
    with Target("cuda"):
        return whet.lower(s, [a, c])


@pytest.mark.parametrize(
    ("key", "enough"),
    [
        ("max_threads_per_block", 32),
        ("max_thread_y", 32),
        ("max_thread_x", 1),
        ("max_shared_memory_per_block", 128),
        ("max_local_memory_per_block", 0),
        ("max_vthread", 1),
        ("max_vector_bytes", 4),
        ("max_kernels", 1),
    ],
)
def test_limits_of_a_gpu(key, enough):
    for mod in (staged_on_a_gpu(), tir.transform.SplitHostDevice()(staged_on_a_gpu())):
        assert analysis.verify_gpu_code(mod, {key: enough})
        if enough:
            assert not analysis.verify_gpu_code(mod, {key: enough - 1})
    with pytest.raises(ArgumentError, match="unknown constraint"):
        analysis.verify_gpu_code(mod, {"max_threads": 3})


def test_operations_are_counted():
    assert analysis.estimate_flops(lowered()) == 2 * 6 * 7 * 5
    s, c, args = matmul(8, 16, 4)
    s[c].vectorize(s[c].op.axis[1])
    s[c].unroll(s[c].op.axis[0])
    assert analysis.estimate_flops(whet.lower(s, args)) == 2 * 8 * 16 * 4
    assert analysis.estimate_tir_flops is analysis.estimate_flops


@pytest.mark.parametrize(
    ("value", "flops"),
    [
        (lambda x, i: x + 1.0, 8),
        (lambda x, i: te.exp(x) * x, 16),
        (lambda x, i: x, 0),
        (lambda x, i: te.if_then_else(i > 3, x * x + x, x), 16),
        (lambda x, i: te.cast("int32", x) + i // 3, 16),
    ],
)
def test_what_counts_as_an_operation(value, flops):
    a = te.placeholder((8,), name="A")
    c = te.compute((8,), lambda i: value(a[i], i), name="C")
    assert analysis.estimate_flops(whet.lower(te.create_schedule(c.op), [a, c])) == flops


def test_a_loop_of_unknown_length_cannot_be_counted():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    c = te.compute((n,), lambda i: a[i] + 1.0, name="C")
    with pytest.raises(LowerError, match="the loop over i: its length, n, is not a constant"):
        analysis.estimate_flops(whet.lower(te.create_schedule(c.op), [a, c]))


def test_allocated_bytes():
    t = [tir.decl_buffer((8,), "float32", f"T{k}", scope="local") for k in range(3)]
    d = tir.decl_buffer((4, 5), "float64", "D")
    padded = tir.decl_buffer((4, 5), "int8", "P", strides=(8, 1), scope="shared")
    c = tir.decl_buffer((1,), "float32", "C")

    def used(b):
        return tir.Allocate(b, c.vstore([0], 1.0))

    after = tir.SeqStmt((used(t[1]), used(t[2])))
    body = tir.Allocate(d, tir.Allocate(t[0], tir.SeqStmt((after, used(padded)))))
    func = tir.PrimFunc((c,), body)
    # t[1] and t[2] are never there at the same time
    assert analysis.calculate_allocated_bytes(func) == {"global": 160, "local": 64, "shared": 32}
    n = tir.Var("n", "int32")
    some = tir.PrimFunc((c, n), used(tir.decl_buffer((n,), "float32", "N")))
    with pytest.raises(LowerError, match="N: its extent n is not a constant"):
        analysis.calculate_allocated_bytes(some)


def test_where_a_buffer_is_used():
    func, _, a, c = copies()
    k = tir.Var("k", "int32")
    outer = loop(k, 2, tir.SeqStmt((func.body, c.vstore([0], 1.0))))
    found = analysis.detect_buffer_access_lca(func.with_body(outer))
    assert found[a] is func.body and found[c] is outer
    assert analysis.detect_buffer_access_lca(func.with_body(c.vstore([0], 1.0))) == {c: None}


# equality


def test_equal_whatever_the_names():
    one, two = lowered(), lowered()
    assert analysis.structural_equal(one, two)
    assert analysis.structural_hash(one) == analysis.structural_hash(two)
    analysis.assert_structural_equal(tir.IRModule({"f": one}), tir.IRModule({"f": two}))
    renamed = tir.renewed(one.body)
    assert analysis.structural_equal(one.body, renamed)


def test_what_makes_a_difference():
    func, i, a, c = copies()
    changes = [
        func.with_body(loop(i, 9, func.body.body)),
        func.with_body(loop(i, 8, func.body.body, "parallel")),
        func.with_body(loop(i, 8, c.vstore([i], a.vload([i]) + 2.0))),
        func.with_body(loop(i, 8, c.vstore([i], a.vload([i]) - 1.0))),
        func.with_body(loop(i, 8, a.vstore([i], c.vload([i]) + 1.0))),
        func.with_body(loop(i, 8, tir.AttrStmt(None, "x", tir.const(1), func.body.body))),
    ]
    hashes = {analysis.structural_hash(f) for f in (func, *changes)}
    assert len(hashes) == len(changes) + 1
    for f in changes:
        assert not analysis.structural_equal(func, f)
    with pytest.raises(ArgumentError, match="differ in structure") as caught:
        analysis.assert_structural_equal(func, changes[0])
    assert "+    for i in range(9):" in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_constants_are_compared_by_value():
    k = tir.decl_buffer((2,), "float32", "K")
    c = tir.decl_buffer((2,), "float32", "C")
    made = [
        tir.PrimFunc((c,), tir.AllocateConst(k, np.array(x, "float32"), c.vstore([0], 1.0)))
        for x in ([1, 2], [1, 2], [1, 3])
    ]
    assert analysis.structural_equal(made[0], made[1])
    assert not analysis.structural_equal(made[0], made[2])


def test_free_variables():
    x, y = tir.Var("x", "int32"), tir.Var("y", "int32")
    assert analysis.expr_deep_equal(x * 2 + y, x * 2 + y)
    assert not analysis.expr_deep_equal(x * 2 + y, y * 2 + x)
    assert analysis.structural_equal(x * 2 + y, y * 2 + x, map_free_vars=True)
    assert not analysis.structural_equal(x * 2 + y, x * 2 + x, map_free_vars=True)
    assert not analysis.structural_equal(x, tir.Var("x", "int64"), map_free_vars=True)


def test_hashes_are_the_same_in_every_process():
    import subprocess
    import sys

    code = (
        "import whet\nfrom whet import te\n"
        "a = te.placeholder((8,), name='A')\n"
        "c = te.compute((8,), lambda i: a[i] + 1.0, name='C')\n"
        "m = whet.lower(te.create_schedule(c.op), [a, c])\n"
        "print(whet.tir.analysis.structural_hash(m))"
    )
    out = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
        for _ in range(2)
    }
    assert len(out) == 1 and int(out.pop()) != 0


# arith.Analyzer


def test_the_analyzer_by_tvms_names():
    analyzer = whet.arith.Analyzer()
    x, y = tir.Var("x", "int32"), tir.Var("y", "int32")
    assert analysis.expr_deep_equal(analyzer.simplify(x * 2 + x - x), x * 2)
    analyzer.bind(x, tir.Range(tir.const(0), tir.const(8)))
    assert analyzer.can_prove(x < 8) and not analyzer.can_prove(x < 7)
    assert int(analyzer.simplify(x // 8)) == 0
    bound = analyzer.const_int_bound(x * 3 + 1)
    assert (bound.min_value, bound.max_value) == (1, 22)
    assert analyzer.const_int_bound(y).min_value is None
    analyzer.bind(y, x + 2)
    assert analyzer.can_prove_equal(y - x, 2)
    with analyzer.constraint_scope(x < 4):
        assert analyzer.can_prove(x + 1 < 5)
    assert not analyzer.can_prove(x + 1 < 5)
