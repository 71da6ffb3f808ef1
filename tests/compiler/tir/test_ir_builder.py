"""Loop IR written with the builder and by hand: text, numbers, and what is refused."""

import numpy as np
import pytest

from whet.compiler import te, tir
from whet.compiler.driver import build, lower
from whet.compiler.errors import ArgumentError
from whet.compiler.tir.printer import stmt_text

RNG = np.random.default_rng(5)


def function(body, *params, name="f"):
    return tir.PrimFunc(list(params), body, attrs={"global_symbol": name})


def test_every_scope_as_text():
    A, B = tir.decl_buffer((4, 6), name="A"), tir.decl_buffer((6,), "int32", name="B")
    ib = tir.ir_builder.create()
    a, b = ib.buffer_ptr(A), ib.buffer_ptr(B)
    with ib.for_range(0, 4, name="i") as i:
        with ib.for_range(1, 6, "j", kind="unrolled") as j:
            with ib.if_scope(ib.likely(i < j)):
                a[i, j] = a[i, j - 1] + 1
            with ib.else_scope():
                a[i, j] = 0.5
        with ib.while_loop(b[0] < 3):
            b[0] = b[0] + 1
        x = ib.let("x", b[i] * 2)
        with ib.new_scope():
            t = ib.allocate("int32", (2, 3), name="t", scope="local")
            t[0, 1] = x
            b[i] = t[1]
    ib.scope_attr(A, "pragma_unroll", 4)
    ib.emit(tir.call_extern("int32", "puts", "done"))
    assert stmt_text(ib.get()) == (
        "for i in range(4):\n"
        "    for j in unrolled(1, 6):\n"
        "        if likely(i < j):\n"
        "            A[i, j] = A[i, j - 1] + float32(1.0)\n"
        "        else:\n"
        "            A[i, j] = float32(0.5)\n"
        "    while B[0] < 3:\n"
        "        B[0] = B[0] + 1\n"
        "    x = B[i] * 2\n"
        '    t = allocate([2, 3], "int32", "local")\n'
        "    t[0, 1] = x\n"
        "    B[i] = t[0, 1]\n"
        "attr(A, 'pragma_unroll', 4)\n"
        "call_extern('puts', 'done')"
    )


def test_a_built_function_runs():
    n = tir.SizeVar("n")
    A, B = tir.decl_buffer((n, 3), name="A"), tir.decl_buffer((n,), name="B")
    ib = tir.ir_builder.create()
    a, b = ib.buffer_ptr(A), ib.buffer_ptr(B)
    with ib.for_range(0, n, "i", kind="parallel") as i:
        b[i] = 0.0
        with ib.for_range(0, 3, "j") as j, ib.if_scope(a[i, j] > 0.5):
            b[i] = b[i] + a[i * 3 + j]  # one index counts elements
    f = build(function(ib.get(), A, B))
    x, y = RNG.random((7, 3), "float32"), np.full(7, np.nan, "float32")
    f(x, y)
    np.testing.assert_allclose(y, np.where(x > 0.5, x, 0).sum(1), rtol=1e-6)


def test_vectors_and_loops_of_other_types():
    A, B = tir.decl_buffer((16,), name="A"), tir.decl_buffer((16,), name="B")
    ib = tir.ir_builder.create()
    a, b = ib.buffer_ptr(A), ib.buffer_ptr(B)
    with ib.for_range(0, 4, "i", dtype="int64") as i:
        assert i.dtype == "int64"
        at = tir.Ramp(i * 4, 1, 4)
        b[at] = a[at] * tir.Broadcast(2.0, 4)
    with ib.for_range(0, 2, kind=3) as i:
        b[tir.Ramp(i * 2, 1, 2)] = 7.0
    body = ib.get()
    assert isinstance(body.seq[1], tir.For) and body.seq[1].kind == tir.ForKind.UNROLLED
    x, y = RNG.random(16, "float32"), np.full(16, np.nan, "float32")
    build(function(body, A, B))(x, y)
    np.testing.assert_array_equal(y, np.r_[[7.0] * 4, 2 * x[4:]].astype("float32"))


def test_threads_are_loops_until_a_gpu_is_asked_for():
    A = tir.decl_buffer((12,), name="A")
    ib = tir.ir_builder.create()
    a = ib.buffer_ptr(A)
    bx, tx = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    ib.scope_attr(bx, "thread_extent", 3)
    ib.scope_attr(tx, "thread_extent", 4)
    a[bx * 4 + tx] = a[bx * 4 + tx] + 1.0
    func = function(ib.get(), A)
    x = np.arange(12, dtype="float32")
    build(func)(x)
    np.testing.assert_array_equal(x, np.arange(1, 13))
    assert "A[bx * 4 + tx] += 1.0f;" in build(func, target="cuda").get_source("cuda")


def test_an_extern_stage_written_with_the_builder():
    A = te.placeholder((5, 4), name="A")

    def body(ins, outs):
        ib = tir.ir_builder.create()
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 5, "i") as i:
            b[i] = 0.0
            with ib.for_range(0, 4, "j") as j:
                b[i] += a[i, j]
        return ib.get()

    B = te.extern((5,), [A], body, name="B", dtype="float32")
    f = build(te.create_schedule(B.op), [A, B])
    x, y = RNG.random((5, 4), "float32"), np.full(5, np.nan, "float32")
    f(x, y)
    np.testing.assert_allclose(y, x.sum(1), rtol=1e-6)


def test_pointers():
    ib = tir.ir_builder.create()
    p = ib.pointer("int32", name="p")
    p[0] = p[3] + 1
    assert p.dtype == "int32" and p.asobject().dtype == "handle" and p.asobject().name == "p"
    assert stmt_text(ib.get()) == "p[0] = p[3] + 1"


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda ib, a: a.__setitem__((0, 0), tir.const(1, "int32")), "does not match content type"),
        (lambda ib, a: a[0, 0, 0], r"A\[3 indices\].*has 2 dimensions"),
        (lambda ib, a: a[tir.Ramp(0, 1, 4)], "give all indices, the last one as a ramp"),
        (lambda ib, a: ib.else_scope().__enter__(), "else_scope can only follow an if_scope"),
        (lambda ib, a: ib.for_range(0, 1, kind="twisted").__enter__(), "no such kind of loop"),
        (lambda ib, a: ib.emit("text"), "a str is neither a statement nor a value"),
        (lambda ib, a: ib.allocate("float32", 4, axis_separators=[1]), "there are none here"),
        (
            lambda ib, a: ib.scope_attr(te.reduce_axis((0, 3)), "thread_extent", 3),
            "not bound to threads",
        ),
        (
            lambda ib, a: [(c := ib.for_range(0, 1)).__enter__(), ib.get(), c],
            "a scope is still open",
        ),
    ],
)
def test_wrong_uses_of_the_builder(use, message):
    ib = tir.ir_builder.create()
    with pytest.raises(ArgumentError, match=message):
        use(ib, ib.buffer_ptr(tir.decl_buffer((2, 2), name="A")))


# by hand


def test_nodes_by_hand_find_their_types():
    i, x = tir.Var("i"), tir.Var("x", "float32")
    assert tir.Add(i, 1).dtype == "int32" and tir.Mul(x, 2).dtype == "float32"
    assert tir.LT(x, 1.0).dtype == "bool" and tir.And(i < 1, i > 2).dtype == "bool"
    assert tir.Select(i < 1, x, 0.0).dtype == "float32"
    assert tir.Ramp(i, 1, 4).dtype == "int32x4" and tir.Broadcast(x, 8).dtype == "float32x8"
    assert tir.Shuffle([tir.Ramp(i, 1, 4)], [0, 2]).dtype == "int32x2"
    assert tir.Let(i, 3, i + 1).dtype == "int32"
    A = tir.decl_buffer((8,), "float16", name="A")
    assert tir.BufferLoad(A, [i]).dtype == "float16"
    assert tir.BufferLoad(A, [tir.Ramp(i, 1, 4)]).dtype == "float16x4"
    assert tir.Call("float32", "exp", [x]).args == (x,)
    axis = tir.IterVar((0, 10), "k", 2)
    assert axis.var.name == "k" and int(axis.dom.extent) == 10
    with pytest.raises(ArgumentError, match="the stride is a number that is known now"):
        tir.Ramp(0, i, 4)


def test_a_function_by_hand_runs():
    n = tir.SizeVar("n")
    handle = tir.Var("a", "handle")
    A = tir.decl_buffer((n,), name="A")
    i = tir.Var("i")
    body = tir.For(
        i,
        0,
        n,
        tir.ForKind.SERIAL,
        tir.SeqStmt([tir.BufferStore(A, tir.BufferLoad(A, [i]) * 2.0, [i]), tir.Evaluate(0)]),
    )
    func = tir.PrimFunc([handle], body, None, {handle: A})
    assert func.params == (A,) and func.buffer_map == {A.data: A} and func.ret_type is None
    x = RNG.random(6, "float32")
    wanted = x * 2
    build(func)(x)
    np.testing.assert_array_equal(x, wanted)


def test_a_thread_loop_by_hand():
    A, i = tir.decl_buffer((8,), name="A"), tir.Var("i")
    store = tir.BufferStore(A, 1.0, [i])
    bound = tir.For(i, 0, 8, tir.ForKind.THREAD_BINDING, store, te.thread_axis("threadIdx.x"))
    assert bound.thread == "threadIdx.x" and bound.annotations == {}
    assert tir.For(i, 0, 8, tir.ForKind.SERIAL, store, None).annotations == {}
    assert 'in thread_binding(8, "threadIdx.x"):' in stmt_text(bound)


def test_sequences():
    one, two = tir.Evaluate(tir.call_extern("int32", "f")), tir.call_extern("int32", "g")
    both = tir.stmt_seq(one, two)
    assert tir.stmt_list(both)[0] is one and len(tir.stmt_list(both)) == 2
    assert tir.stmt_list(one) == [one]


# functions and modules


def doubled(n=None):
    n = tir.SizeVar("n") if n is None else n
    x = tir.Var("x", "float32")
    A, B = tir.decl_buffer((n,), name="A"), tir.decl_buffer((n,), name="B")
    ib = tir.ir_builder.create()
    a, b = ib.buffer_ptr(A), ib.buffer_ptr(B)
    with ib.for_range(0, n, "i") as i:
        b[i] = a[i] * x
    return function(ib.get(), A, B, x), n, A, B, x


def test_attributes_of_a_function():
    func, *_ = doubled()
    marked = func.with_attr("mine", 3)
    assert marked.attrs["mine"] == 3 and "mine" not in func.attrs
    assert marked.without_attr("mine").attrs == func.attrs
    assert func.without_attr("mine") is func and func.with_body(func.body) is func
    assert func.name == "f"


def test_printing(capsys):
    func, *_ = doubled(4)
    func.show()
    whole = tir.IRModule({"f": func})
    whole.show()
    text = (
        "def f(A: float32[4], B: float32[4], x: float32):\n"
        "    for i in range(4):\n"
        "        B[i] = A[i] * x\n"
    )
    assert capsys.readouterr().out == 2 * text
    assert whole.astext() == whole.script(tir_prefix="T", show_meta=False) == str(func)


def test_specialized_functions():
    func, n, A, _, x = doubled()
    fixed = func.specialize({A: tir.decl_buffer((5,), name="given"), x: 3})
    assert fixed.script() == (
        "def f(A: float32[5], B: float32[5]):\n"
        "    for i in range(5):\n"
        "        B[i] = A[i] * float32(3.0)"
    )
    a, b = RNG.random(5, "float32"), np.full(5, np.nan, "float32")
    build(fixed)(a, b)
    np.testing.assert_allclose(b, 3 * a, rtol=1e-6)
    assert "float32[7]" in func.specialize({n: 7}).script()
    assert "float32[7]" in func.specialize({A.data: tir.decl_buffer((7,))}).script()
    for wrong, message in (
        ({tir.Var("y"): 1}, "neither a parameter nor a size"),
        ({A: 5}, "specialised by a buffer"),
        ({A: tir.decl_buffer((5, 5))}, "has 1 dimensions of float32, the buffer 2"),
    ):
        with pytest.raises(ArgumentError, match=message):
            func.specialize(wrong)
    with pytest.raises(ArgumentError, match="dimension 0 is 5, the buffer's is 6"):
        fixed.specialize({fixed.params[0]: tir.decl_buffer((6,))})


def test_modules_are_dicts_of_functions():
    func, *_ = doubled()
    mod = tir.IRModule.from_expr(func)
    other = tir.IRModule({"g": func.with_attr("global_symbol", "g")})
    mod.update(other)
    assert [v.name_hint for v in mod.get_global_vars()] == ["f", "g"]
    assert mod[mod.get_global_var("g")] is other["g"] and mod["f"] is func and "h" not in mod
    assert {v.name_hint for v, _ in mod.functions.items()} == {"f", "g"}
    mod["h"] = func
    assert len(mod) == 3
    assert mod.get_attr("x") is None and mod.with_attr("x", 1).get_attr("x") == 1
    with pytest.raises(ArgumentError, match=r"no such function\n  functions: f, g, h"):
        mod.get_global_var("q")
    with pytest.raises(ArgumentError, match="a module maps names to PrimFuncs"):
        mod["q"] = 3
    with pytest.raises(ArgumentError, match="there are no types"):
        tir.IRModule({}, {"T": 1})


# visitors


def test_visitors_go_parents_first_or_children_first():
    func, *_ = doubled(4)
    before, after = [], []
    tir.stmt_functor.pre_order_visit(func.body, lambda n: before.append(type(n).__name__))
    tir.stmt_functor.post_order_visit(func.body, lambda n: after.append(type(n).__name__))
    assert before[0] == "For" and after[-1] == "For" and sorted(before) == sorted(after)
    shallow = []

    def stop(n):
        shallow.append(type(n).__name__)
        return not isinstance(n, tir.BufferStore)

    tir.stmt_functor.pre_order_visit(func.body, stop)
    assert "BufferStore" in shallow and "Mul" not in shallow


def test_transforming_nodes():
    func, *_, x = doubled(4)

    def add_one(n):
        return tir.BufferStore(n.buffer, n.value + 1.0, n.indices)

    transform = tir.stmt_functor.ir_transform
    body = transform(func.body, None, add_one, ["tir.BufferStore"])
    assert stmt_text(body).endswith("= A[i] * x + float32(1.0)")
    gone = transform(func.body, lambda n: tir.Evaluate(0), None, ["tir.For"])
    assert stmt_text(gone) == "pass"
    assert transform(func.body, lambda n: None, lambda n: None) is func.body
    with pytest.raises(ArgumentError, match="there is no such class of nodes"):
        transform(func.body, None, add_one, ["tir.Fro"])
    swapped = tir.stmt_functor.substitute(func.body, {x: tir.const(2.0)})
    assert "A[i] * float32(2.0)" in stmt_text(swapped)


def test_renewed_definitions_share_nothing():
    func, n, A, B, _ = doubled()
    new = tir.stmt_functor.renew_defs(func)
    assert new.script() == func.script()
    old_vars = tir.variables(func.body) | {n, A.data, B.data}
    assert not old_vars & (tir.variables(new.body) | {p.data for p in new.params[:2]})
    assert not {A, B} & set(new.params)
    a, b = RNG.random(5, "float32"), np.full(5, np.nan, "float32")
    build(new)(a, b, 2.0)
    np.testing.assert_array_equal(b, 2 * a)
    low = lower(func, name="f")["f"]
    build(tir.stmt_functor.renew_defs(low))(a, b, 3.0)
    np.testing.assert_allclose(b, 3 * a, rtol=1e-6)


@pytest.mark.parametrize("as_handle", [lambda p: p, lambda p: p.asobject()])
def test_pointers_are_arrays_as_parameters(as_handle):
    n = te.var("n")
    ib = tir.ir_builder.create()
    p, q = ib.pointer("int32", name="p"), ib.pointer("int32", name="q")
    with ib.for_range(0, n, name="i") as i:
        q[i] = p[n - 1 - i] * 3
    f = build(tir.PrimFunc([as_handle(p), n, as_handle(q)], ib.get()))
    for size in (1, 7):
        x, y = RNG.integers(-9, 9, size, "int32"), np.full(size, 77, "int32")
        f(x, size, y)
        np.testing.assert_array_equal(y, x[::-1] * 3)


def test_handles_stand_for_the_buffers_that_are_there():
    A = tir.decl_buffer((4, 3), "float32", "A")
    ib = tir.ir_builder.create()
    a, flat = ib.buffer_ptr(A), ib.buffer_ptr(tir.decl_buffer((12,), "float32", data=A.data))
    with ib.for_range(0, 4, name="i") as i:
        a[i, 1] = a[i, 0] + flat[11]
    f = build(tir.PrimFunc([A.data], ib.get()))
    x = RNG.random((4, 3), "float32")
    wanted = x.copy()
    wanted[:, 1] = x[:, 0] + x[3, 2]
    f(x)
    np.testing.assert_array_equal(x, wanted)
    with pytest.raises(ArgumentError, match=r"A\.ndim is 1, expected 2"):
        f(x.reshape(-1))
