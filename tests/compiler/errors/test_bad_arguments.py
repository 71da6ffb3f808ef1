"""Public names that take loop IR refuse anything else: only our errors come back."""

import pytest

from whet import te, tir
from whet.compiler.errors import ArgumentError
from whet.compiler.tir import analysis
from whet.compiler.tir.visit import stmt_functor

A = tir.decl_buffer((4,), "float32", name="A")
V = te.var("v")
AXIS = te.reduce_axis((0, 4), name="k")
BODY = tir.BufferStore(A, tir.const(1.0), [0])
FUNC = tir.PrimFunc([A], BODY)


def stage():
    """A stage of a schedule."""
    out = te.compute((4,), lambda i: 1.0, name="C")
    return te.create_schedule(out.op)[out]


ONE = tir.FloatImm("float32", 1.0)
WRONG = [
    (lambda: analysis.verify_ssa(stage()), r"verify_ssa\(func\): it is a Stage"),
    (lambda: analysis.verify_well_formed(ONE), r"verify_well_formed\(func\): it is a FloatImm"),
    (lambda: analysis.verify_memory(0), r"verify_memory\(func\): it is a int"),
    (lambda: analysis.verify_compact_buffer(A), r"verify_compact_buffer\(func\): it is a Buffer"),
    (lambda: analysis.estimate_tir_flops(stage().op), "estimate_flops.*it is a ComputeOp"),
    (lambda: analysis.estimate_flops(BODY), "tir.PrimFunc.parameters, statement. makes"),
    (lambda: analysis.calculate_allocated_bytes(True), "calculate_allocated_bytes.*it is a bool"),
    (lambda: analysis.detect_buffer_access_lca(BODY), "detect_buffer_access_lca.*a BufferStore"),
    (lambda: analysis.verify_gpu_code({1: 2}, 1), r"verify_gpu_code\(func\): it is a dict"),
    (lambda: analysis.verify_gpu_code(FUNC, 1), r"verify_gpu_code\(constraints\): it is a int"),
    (
        lambda: analysis.verify_gpu_code(FUNC, {"max_kernels": "2"}),
        r"verify_gpu_code\(max_kernels=...\): it is a str",
    ),
    (
        lambda: analysis.structural_hash(print),
        r"a builtin_function.* has no str",
    ),
    (lambda: analysis.assert_structural_equal(FUNC, 3), r"the two differ in structure"),
    (lambda: analysis.expr_deep_equal(FUNC, V), r"expr_deep_equal\(lhs\): it is a PrimFunc"),
    (lambda: analysis.expr_deep_equal(V, BODY), r"expr_deep_equal\(rhs\): it is a BufferStore"),
    (lambda: analysis.is_pure(BODY), r"is_pure\(node\): it is a BufferStore"),
    (lambda: analysis.is_pure("x"), r"is_pure\(node\): it is a str"),
    (lambda: analysis.undefined_vars(AXIS), "axis.var is the variable of an axis"),
    (lambda: analysis.undefined_vars(V, 3), r"undefined_vars\(defs\): it is a int"),
    (lambda: analysis.undefined_vars(V, [3]), "it has to be Buffer or Var or IterVar"),
    (lambda: list(analysis.type_errors(3)), r"type_errors\(func\): it is a int"),
    (lambda: stmt_functor.post_order_visit(V, 0), "post_order_visit.*a int cannot be called"),
    (lambda: stmt_functor.post_order_visit(FUNC, print), "func.body is one"),
    (lambda: stmt_functor.pre_order_visit(V, AXIS), "pre_order_visit.*a IterVar cannot be called"),
    (lambda: stmt_functor.pre_order_visit(None, print), r"pre_order_visit\(node\): it is a None"),
    (lambda: stmt_functor.ir_transform(V, None, None), "it has to be a statement of the loop IR"),
    (lambda: stmt_functor.ir_transform(BODY, 3, None), r"ir_transform\(preorder\): a int"),
    (lambda: stmt_functor.ir_transform(BODY, None, "f"), r"ir_transform\(postorder\): a str"),
    (lambda: stmt_functor.ir_transform(BODY, None, None, 3), r"ir_transform\(only_enable\): it"),
    (lambda: stmt_functor.ir_transform(BODY, None, None, [3]), "there is no such class of nodes"),
    (lambda: stmt_functor.substitute(object(), "x"), r"substitute\(node\): it is a object"),
    (lambda: stmt_functor.substitute(V, "x"), r"substitute\(vmap\): it is a str"),
    (lambda: stmt_functor.substitute(V, {1: V}), r"substitute\(vmap\), a key: it is a int"),
    (lambda: stmt_functor.substitute(V, {V: object()}), "object"),
    (lambda: stmt_functor.renew_defs(3), r"renew_defs\(func\): it is a int"),
    (lambda: tir.substitute(FUNC, {}), "func.body is one"),
    (lambda: tir.post_order_visit(FUNC, print), "func.body is one"),
    (lambda: tir.ProducerLoad("", V), r"ProducerLoad\(str, ...\): it is no tensor"),
    (lambda: tir.BufferLoad(3, [V]), r"BufferLoad\(int, ...\): it is no buffer"),
    (lambda: tir.PrimFunc(A, BODY), r"PrimFunc\(Buffer, BufferStore\): the parameters are no list"),
    (lambda: tir.PrimFunc([A], V), r"PrimFunc\(list, Var\): the body is no statement"),
    (lambda: tir.PrimFunc([3], BODY), "a int is no parameter"),
    (lambda: tir.Shuffle(V, True), "the vectors are a list"),
    (lambda: tir.Shuffle([V], True), "the lanes are a list of numbers"),
    (lambda: tir.Shuffle([V], [None]), "a lane is a number that is known now"),
    (lambda: te.count_flop(None), r"count_flop\(schedule\): it is a NoneType"),
    (lambda: te.graph_text(BODY), r"graph_text\(outputs\): it is a BufferStore"),
    (lambda: te.graph_text([V]), "it has to be Tensor"),
]


@pytest.mark.parametrize(("call", "words"), WRONG, ids=range(len(WRONG)))
def test_what_is_no_loop_ir_is_refused(call, words):
    with pytest.raises(ArgumentError, match=words) as caught:
        call()
    assert "\n" in str(caught.value)  # the way out


def test_right_arguments_pass():
    seen = []
    stmt_functor.pre_order_visit(BODY, seen.append)
    tir.post_order_visit(BODY, seen.append)
    assert seen[0] is BODY is seen[-1]
    assert analysis.verify_ssa(FUNC) and analysis.is_pure(V + 1)
    assert analysis.undefined_vars(AXIS.var + V, [AXIS]) == [V]
    assert analysis.structural_equal(FUNC, stmt_functor.renew_defs(FUNC))


def test_substitute_takes_axes_and_numbers():
    got = tir.substitute(AXIS.var + V, {AXIS: 3, V: V + 1})
    want = tir.Add(tir.const(3), V + 1)
    assert analysis.expr_deep_equal(got, want)
    assert tir.substitute(V, {}) is V


def test_the_names_of_stmt_functor_are_its_own():
    assert dir(stmt_functor) == stmt_functor.__all__


def test_a_name_of_tvms_says_what_stands_for_it():
    with pytest.raises(AttributeError, match=r"te has no .trace.: tir\.call_packed"):
        te.trace([V], "f")
    with pytest.raises(AttributeError, match="te has no 'SpecializedCondition': it will not come"):
        te.SpecializedCondition  # noqa: B018
