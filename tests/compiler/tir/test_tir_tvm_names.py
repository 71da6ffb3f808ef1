"""Names and manners of TVM's loop IR that ported code leans on."""

import numpy as np
import pytest

import whet
from whet import arith, ir, te, tir
from whet.compiler.errors import ArgumentError, LowerError
from whet.compiler.te.lang.relations import PragmaKey
from whet.compiler.tir.ops import intrinsics


def _run(inputs, out, target, *arrays):
    """``out`` computed from ``arrays`` for a kind of target."""
    s = te.create_schedule(out.op)
    kernel = whet.build(s, [*inputs, out], target)
    shape = [int(d) for d in out.shape]
    result = whet.nd.array(np.full(shape, 77).astype(out.dtype))
    kernel(*[whet.nd.array(a) for a in arrays], result)
    return result.numpy()


# ranges


def test_a_range_ends_before_its_second_number():
    r = ir.Range(2, 6)
    assert (int(r.min), int(r.extent)) == (2, 4) and str(r) == "range(min=2, ext=4)"
    assert (int(ir.Range(10).min), int(ir.Range(10).extent)) == (0, 10)
    r = ir.Range.from_min_extent(2, 6)
    assert (int(r.min), int(r.extent)) == (2, 6)
    n = te.size_var("n", "int64")
    assert ir.Range(1, n).min.dtype == "int64" and str(ir.Range(1, n).extent) == "n - 1"
    assert int(tir.IterVar((2, 6), "k").dom.extent) == 4
    with pytest.raises(ArgumentError, match="ends 4 before it begins"):
        ir.Range(6, 2)
    with pytest.raises(ArgumentError, match="a bound is a float32, not an integer"):
        ir.Range(0, 2.5)


def test_ranges_make_axes_and_bind_variables():
    k = te.reduce_axis(ir.Range(2, 6), "k")
    A = te.placeholder((3, 8), name="A")
    B = te.compute((3,), lambda i: te.sum(A[i, k], axis=k), name="B")
    a = np.random.default_rng(0).random((3, 8), np.float32)
    np.testing.assert_allclose(_run([A], B, "llvm", a), a[:, 2:6].sum(1), rtol=1e-6)
    axis = te.thread_axis(ir.Range(0, 4), "threadIdx.x")
    assert str(axis) == "iter_var(threadIdx.x, range(min=0, ext=4), threadIdx.x)"
    x = te.var("x")
    analyzer = arith.Analyzer()
    analyzer.bind(x, ir.Range(0, 4))
    assert analyzer.can_prove(x < 4) and not analyzer.can_prove(x < 3)


# text


def test_text_of_nodes_is_the_printers():
    n, i = te.var("n"), tir.Var("i")
    assert str(n + 1) == "n + 1" and f"{tir.exp(tir.Var('x', 'float32'))}" == "exp(x)"
    assert str(te.reduce_axis((0, 10), "i")) == "iter_var(i, range(min=0, ext=10))"
    A = tir.decl_buffer((n, 4), "float16", "A", scope="shared")
    assert str(A) == "A: float16[n, 4] in shared"
    loop = tir.For(i, 0, n, "serial", tir.BufferStore(A, 1.0, [i, 0]))
    assert str(loop) == "for i in range(n):\n    A[i, 0] = float16(1.0)"


def test_products_of_sizes_have_no_ones():
    m, n = te.size_var("m"), te.size_var("n")
    A = te.placeholder((1, m, 2, n, 3), name="A")
    B = te.compute(A.shape, lambda *i: A(*i) + 1.0, name="B")
    text = str(whet.lower(te.create_schedule(B.op), [A, B]))
    assert text.startswith("def main(A: float32[m * n * 6], B: float32[m * n * 6]):")


# loops


def test_kinds_of_for_range_by_their_primitives():
    for given, kind in (("vectorize", "vectorized"), ("unroll", "unrolled")):
        ib = tir.ir_builder.create()
        A = ib.allocate("float32", 8, "A")
        with ib.for_range(0, 8, "i", kind=given) as i:
            A[i] = 0.0
        assert f"for i in {kind}(8):" in str(ib.get())


def test_a_loop_has_tvms_fields():
    i, body = tir.Var("i"), tir.Evaluate(0)
    loop = tir.For(loop_var=i, min=0, extent=8, kind=tir.ForKind.PARALLEL, body=body)
    assert loop.loop_var is i and loop.thread_binding is None and loop.annotations == {}
    axis = te.thread_axis("threadIdx.x")
    loop = tir.For(i, 0, 8, "thread_binding", body, axis, {"note": 1})
    assert loop.thread == "threadIdx.x" and loop.annotations == {"note": 1}
    assert loop.thread_binding.thread_tag == "threadIdx.x"
    assert int(loop.thread_binding.dom.extent) == 8
    again = tir.For(i, 0, 8, "thread_binding", body, thread_binding=axis)
    assert again.thread == "threadIdx.x"
    with pytest.raises(ArgumentError, match="a loop needs a variable and a body"):
        tir.For(i, 0, 8)


# names


def test_functions_of_tir_compute():
    A = te.placeholder((7,), "int32", name="A")
    a = np.random.default_rng(1).integers(-99, 99, 7, "int32")

    def bits(i):
        x = tir.bitwise_xor(tir.bitwise_and(A[i], 12), tir.shift_left(A[i], 2))
        return tir.bitwise_or(tir.bitwise_not(x), tir.shift_right(A[i], 1))

    B = te.compute((7,), bits, name="B")
    for target in ("llvm", "c"):
        want = ~((a & 12) ^ (a << 2)) | (a >> 1)
        np.testing.assert_array_equal(_run([A], B, target, a), want)
    assert tir.max(1, 2).value == 2 and tir.min(1, 2).value == 1
    k = te.reduce_axis((0, 3), "k")
    assert tir.sum(A[k], k).combiner.identity_element[0].value == 0
    assert tir.comm_reducer is te.comm_reducer and tir.pow is tir.power
    assert te.infinity("float32").value == float("inf")
    assert str(tir.likely(te.var("n") < 3)) == "n < 3"
    with pytest.raises(ArgumentError, match="integers have no infinity"):
        tir.infinity("int32")


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize(("source", "dtype"), [("float32", "int32"), ("uint64", "float64")])
def test_reinterpret_keeps_the_bits(target, source, dtype):
    A = te.placeholder((13,), source, name="A")
    B = te.compute((13,), lambda i: tir.reinterpret(dtype, A[i]), name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[0], 8)[1])
    a = (np.random.default_rng(2).random(13) * 1e6).astype(source)
    b = whet.nd.array(np.full(13, 77).astype(dtype))
    whet.build(s, [A, B], target)(whet.nd.array(a), b)
    np.testing.assert_array_equal(b.numpy().view(source), a)


def test_reinterpret_needs_as_many_bits():
    with pytest.raises(ArgumentError, match="float32 has 32 bits, int64 has 64"):
        tir.reinterpret("int64", tir.Var("x", "float32"))
    with pytest.raises(ArgumentError, match="bool is no type of numbers"):
        tir.reinterpret("int8", te.var("x") < 1)


def test_logaddexp_is_numpys():
    A, B = (te.placeholder((6,), name=x) for x in "AB")
    C = te.compute((6,), lambda i: te.logaddexp(A[i], B[i]), name="C")
    a = np.array([1, -200, 300, -np.inf, np.inf, 0.5], "float32")
    b = np.array([2, -201, -300, -np.inf, np.inf, 0.5], "float32")
    np.testing.assert_allclose(_run([A, B], C, "llvm", a, b), np.logaddexp(a, b), rtol=1e-6)


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        (te, "reduceaxis", "te has no 'reduceaxis': did you mean reduce_axis?"),
        (te, "relu", "te has no 'relu': it is topi.nn.relu"),
        (tir, "placeholder", "it is te.placeholder"),
        (tir, "TensorIntrin", "te.decl_tensor_intrin makes one of te"),
        (tir, "StmtSRef", "are BlockRV and LoopRV"),
        (tir, "ret", "a kernel returns its status"),
        (tir, "ooze", "there is no such name; docs/checklist.toml lists"),
        (ir, "save_json", "a schedule is stored as its trace"),
        (ir, "Array", "lists and tuples of Python"),
        (ir, "PointerType", "an address is a variable"),
        (tir.transform, "MakePackedAPI", "writes a checked entry for each kernel"),
        (tir.transform, "LowerWarpMemory", "there is no warp memory"),
        (tir.transform, "Simplfy", "did you mean Simplify"),
    ],
)
def test_absent_names_say_what_to_use(module, name, message):
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    assert message in str(caught.value)
    assert not hasattr(module, name)


def test_ir_compares_functions():
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    one, two = (whet.lower(te.create_schedule(B.op), [A, B]) for _ in range(2))
    assert ir.structural_equal(one["main"], two["main"])
    assert ir.structural_hash(one["main"]) == ir.structural_hash(two["main"])
    ir.assert_structural_equal(one["main"], two["main"])


# fields


def test_kinds_of_axes_have_tvms_numbers():
    assert te.schedule.IterVar is tir.IterVar
    names = "DataPar ThreadIndex CommReduce Ordered DimInfo Unrolled Vectorized Parallelized"
    assert [getattr(tir.IterVar, x) for x in names.split()] == list(range(8))
    assert tir.IterVar.Tensorized == 8
    assert te.reduce_axis((0, 3)).iter_type == tir.IterVar.CommReduce


def test_fields_that_visitors_read():
    x = tir.Var("x", "float32")
    call = tir.exp(x)
    assert call.op == "exp" and call.op.name == "tir.exp" and {"exp": 1}[call.op] == 1
    assert call.op.same_as(ir.Op.get("tir.exp")) and not call.op.same_as(ir.Op.get("tir.log"))
    assert x.same_as(x) and not x.same_as(tir.Var("x", "float32"))
    assert float(tir.FloatImm("float32", 2.5)) == 2.5 and int(tir.IntImm("int32", 3)) == 3
    A = tir.decl_buffer((4,), name="A")
    stores = [tir.BufferStore(A, 0.0, [i]) for i in range(3)]
    seq = tir.SeqStmt(stores)
    assert len(seq) == 3 and seq[1].same_as(stores[1]) and list(seq) == stores
    assert A.same_as(A) and not seq.same_as(stores[0])


def test_a_lowered_function_is_read_as_tvms():
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    f = whet.lower(te.create_schedule(B.op), [A, B])["main"]
    assert f.attrs["tir.noalias"] and f.attrs["from_legacy_te_schedule"]
    assert f.buffer_map[f.params[0]].name == "A" and f.params[0] in f.buffer_map
    assert f.buffer_map[f.params[0].data] is f.params[0]
    assert f.buffer_map.get(f.params[1]) is f.params[1] and f.buffer_map.get(A) is None
    with pytest.raises(KeyError):
        f.buffer_map[tir.decl_buffer((4,), name="other")]


def test_names_of_pragmas_have_values():
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].pragma(B.op.axis[0], "unroll_explicit", True)
    (key,) = s[B].iter_var_attrs[B.op.axis[0]].pragma_keys
    assert key == "unroll_explicit" and key.value == "unroll_explicit"
    assert isinstance(key, PragmaKey)


# intrinsics of a user's own


@pytest.fixture
def own_rules(monkeypatch):
    monkeypatch.setattr(intrinsics, "LOWERINGS", rules := dict(intrinsics.LOWERINGS))
    for module in ("passes.pipeline", "passes.lower_intrin"):
        monkeypatch.setattr(f"whet.compiler.{module}.LOWERINGS", rules)


def _my(name):
    A = te.placeholder((11,), name="A")
    B = te.compute((11,), lambda i: tir.call_intrin("float32", f"tir.{name}", A[i]), name="B")
    return A, B


def test_an_intrinsic_is_what_its_rule_says(own_rules):
    ir.register_intrin_lowering("tir.mycube", target="default", f=lambda op: op.args[0] * 9.0)

    @ir.register_intrin_lowering("tir.mycube", target="llvm", level=99)
    def cube(op):
        return op.args[0] * tir.call_intrin(op.dtype, "tir.mysquare", op.args[0])

    ir.register_intrin_lowering("tir.mysquare", target="llvm", f=lambda op: op.args[0] * op.args[0])
    ir.register_intrin_lowering("tir.mycube", target="llvm", f=lambda op: op.args[0], level=5)
    A, B = _my("mycube")
    a = np.random.default_rng(3).random(11, np.float32)
    np.testing.assert_allclose(_run([A], B, "llvm", a), a**3, rtol=1e-6)
    np.testing.assert_allclose(_run([A], B, "c", a), a * 9, rtol=1e-6)
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[0], 8)[1])
    b = whet.nd.array(np.zeros(11, "float32"))
    whet.build(s, [A, B], "llvm")(whet.nd.array(a), b)
    np.testing.assert_allclose(b.numpy(), a**3, rtol=1e-6)
    with (
        whet.transform.PassContext(disabled_pass=["tir.LowerIntrin"]),
        pytest.raises(whet.CodegenError, match="call mycube"),
    ):
        whet.build(s, [A, B], "llvm")


def test_rules_that_go_wrong(own_rules):
    A, B = _my("mywrong")
    s = te.create_schedule(B.op)
    with pytest.raises(whet.CodegenError, match="no such function"):
        whet.build(s, [A, B], "llvm")
    for rule, message in (
        (lambda op: op.args[0].astype("int32"), "it gave int32 for a float32"),
        (lambda op: op.args[7], "it raised IndexError"),
        (lambda op: tir.Call(op.dtype, op.op, op.args), "calls of itself, 32 times"),
    ):
        ir.register_intrin_lowering("tir.mywrong", target="llvm", f=rule)
        with pytest.raises(LowerError, match=message):
            whet.build(s, [A, B], "llvm")
    with pytest.raises(ArgumentError, match="it cannot be called"):
        ir.register_intrin_lowering("tir.mywrong", target="llvm", f=3)


def test_effects_of_an_intrinsic():
    x = tir.call_intrin("int32", "tir.mycount", 1)
    assert tir.analysis.is_pure(x)
    ir.register_op_attr("tir.mycount", "TCallEffectKind", tir.CallEffectKind.UpdateState)
    assert not tir.analysis.is_pure(x)
    ir.register_op_attr("tir.mycount", "TCallEffectKind", tir.CallEffectKind.Pure)
    assert tir.analysis.is_pure(x)
    with pytest.raises(ArgumentError, match="the one attribute is TCallEffectKind"):
        ir.register_op_attr("tir.mycount", "TVectorizable", True)
    with pytest.raises(ArgumentError, match="there is no such kind of effect"):
        ir.register_op_attr("tir.mycount", "TCallEffectKind", 9)
