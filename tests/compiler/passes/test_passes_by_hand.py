"""Loop IR written by hand: variables that are defined twice, and what lowering refuses."""

import numpy as np
import pytest

from whet.compiler import te, tir
from whet.compiler.driver import build, lower
from whet.compiler.errors import ArgumentError, LowerError
from whet.compiler.passes import PassContext
from whet.compiler.tir.visit.renew import defined_once, renewed
from whet.tvm.tir_transform import Simplify, prim_func_pass

RNG = np.random.default_rng(11)


def buffer(*shape, name="A", dtype="float32"):
    return tir.decl_buffer(shape, dtype, name)


def function(body, *params):
    return tir.PrimFunc(list(params), body, attrs={"global_symbol": "f"})


def with_builder(write, *params):
    """A function of what ``write(ib, *accesses)`` emits."""
    ib = tir.ir_builder.create()
    write(ib, *(ib.buffer_ptr(p) for p in params))
    return function(ib.get(), *params)


def add(B, v, value):
    return tir.BufferStore(B, tir.BufferLoad(B, [v]) + value, [v])


def for_(v, extent, body):
    return tir.For(v, 0, extent, "serial", body)


# one variable, several definitions


def nested_loops(B):
    v = tir.Var("v")
    return for_(v, 4, tir.SeqStmt([for_(v, 3, add(B, v, 1.0)), add(B, v, 10.0)]))


def loops_side_by_side(B):
    v = tir.Var("v")
    first = for_(v, 1, add(B, v, 1.0))
    return tir.SeqStmt([first, for_(v, 4, add(B, v, 2.0)), first])


def nested_lets(B):
    i, v = tir.Var("i"), tir.Var("v")
    inner = tir.LetStmt(v, v + 1, add(B, i, tir.Cast("float32", v)))
    return for_(i, 4, tir.LetStmt(v, i, tir.SeqStmt([inner, add(B, v, tir.Cast("float32", v))])))


def a_loop_over_an_argument(B):
    """It is a loop variable inside the loop, and the argument behind it."""
    n = tir.Var("n")
    return tir.SeqStmt([for_(n, 4, add(B, n, 1.0)), add(B, n, 5.0)]), n


def nested_allocations(B):
    t, i = buffer(1, name="t"), tir.Var("i")
    inner = tir.Allocate(t, tir.SeqStmt([tir.BufferStore(t, 7.0, [0]), add(B, i, t.vload([0]))]))
    parts = [tir.BufferStore(t, 1.0, [0]), inner, add(B, i, t.vload([0]))]
    return for_(i, 4, tir.Allocate(t, tir.SeqStmt(parts)))


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (nested_loops, [14, 14, 14, 10]),
        (loops_side_by_side, [4, 2, 2, 2]),
        (nested_lets, [1, 3, 5, 7]),
        (nested_allocations, [8, 8, 8, 8]),
    ],
)
def test_variables_may_be_defined_twice(write, expected):
    B = buffer(4, name="B")
    x = np.zeros(4, "float32")
    build(function(write(B), B))(x)
    np.testing.assert_array_equal(x, expected)


def test_a_loop_over_the_variable_of_an_argument():
    B = buffer(4, name="B")
    body, n = a_loop_over_an_argument(B)
    x = np.zeros(4, "float32")
    build(function(body, B, n))(x, 2)
    np.testing.assert_array_equal(x, [1, 1, 6, 1])


def test_a_copy_keeps_what_a_name_means_behind_an_inner_definition():
    B = buffer(4, name="B")
    outer = renewed(nested_loops(B))
    assert isinstance(outer, tir.For)
    inner, after = outer.body.seq
    assert after.indices[0] is outer.var and inner.var is not outer.var
    assert inner.body.indices[0] is inner.var


def test_functions_with_single_definitions_stay_the_same_object():
    B, v = buffer(4, name="B"), tir.Var("v")
    func = function(for_(v, 4, add(B, v, 1.0)), B)
    assert defined_once(func) is func


def test_a_pass_of_ones_own_may_define_a_variable_twice():
    @prim_func_pass(opt_level=0)
    def twice(func, mod, ctx):
        return func.with_body(for_(func.body.var, 2, func.body))

    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    with PassContext(config={"tir.add_lower_pass": [(0, twice)]}):
        f = build(s, [A, B])
    x, y = RNG.random(4, "float32"), np.full(4, np.nan, "float32")
    f(x, y)
    np.testing.assert_array_equal(y, x + 1)
    func = function(nested_loops(buffer(4)))
    assert "for v in range(4)" in Simplify()(tir.IRModule({"f": func}))["f"].script()


# buffers that do not exist


def reads_unknown(B):
    return tir.BufferStore(B, tir.BufferLoad(buffer(8, name="zz"), [0]), [0])


def writes_unknown(B):
    return tir.BufferStore(buffer(8, name="zz"), tir.BufferLoad(B, [0]), [0])


def reads_behind_its_scope(B):
    t = buffer(8, name="zz")
    return tir.SeqStmt(
        [
            tir.Allocate(t, tir.BufferStore(t, 1.0, [0])),
            tir.BufferStore(B, tir.BufferLoad(t, [0]), [0]),
        ]
    )


@pytest.mark.parametrize(
    ("write", "does"),
    [(reads_unknown, "reads"), (writes_unknown, "writes"), (reads_behind_its_scope, "reads")],
)
@pytest.mark.parametrize("target", ["llvm", "c"])
def test_buffers_that_nothing_declares(write, does, target):
    B = buffer(8, name="B")
    message = f"the body {does} zz: it is neither an argument nor allocated there"
    with pytest.raises(LowerError, match=message):
        build(function(write(B), B), target=target)


def test_an_extern_stage_is_looked_at_as_well():
    A = te.placeholder((4,), name="A")
    for write, message in ((reads_unknown, "reads zz"), (lambda b: store(b, 4), r"B\[4\]")):
        B = te.extern((4,), [A], lambda ins, outs, w=write: w(outs[0]), name="B", dtype="float32")
        with pytest.raises(LowerError, match=message):
            lower(te.create_schedule(B.op), [A, B])
    B = te.extern((4,), [A], lambda ins, outs: nested_loops(outs[0]), name="B", dtype="float32")
    y = np.zeros(4, "float32")
    build(te.create_schedule(B.op), [A, B])(RNG.random(4, "float32"), y)
    np.testing.assert_array_equal(y, [14, 14, 14, 10])


# indices


def store(B, *at):
    return tir.BufferStore(B, 1.0, list(at))


def test_an_index_is_an_integer():
    A = buffer(8)
    half = tir.const(1.5)
    for make in (
        lambda: tir.BufferLoad(A, [half]),
        lambda: tir.BufferStore(A, 1.0, [1.5]),
        lambda: with_builder(lambda ib, a: a.__setitem__(half, 1.0), A),
        lambda: with_builder(lambda ib, a: a[half], A),
    ):
        with pytest.raises(ArgumentError, match=r"the index is a float32\n.*astype"):
            make()
    # the constructor that the compiler itself uses looks at nothing: lowering does
    by_hand = function(tir.BufferStore(A, tir.const(1.0), (half,)), A)
    with pytest.raises(
        LowerError, match=r"main writes A\[float32\(1.5\)\]: the index .* a float32"
    ):
        lower(by_hand)


def in_a_loop(ib, a):
    with ib.for_range(0, 3, "i") as i, ib.for_range(0, 3, "j") as j:
        a[i * 3 + j] = 1.0


def backwards(ib, a):
    with ib.for_range(0, 9, "i") as i:
        a[7 - i] = 1.0


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (
            lambda ib, a: a.__setitem__(-1, 0.0),
            r"main writes A\[-1\]: it goes to element -1, and A",
        ),
        (lambda ib, a: a.__setitem__(99, 0.0), r"A\[99\]: it goes to element 99, and A has 8"),
        (lambda ib, a: a.__setitem__(0, a[8]), r"main reads A\[8\]: it goes to element 8"),
        (in_a_loop, r"A\[i \* 3 \+ j\]: it goes to element 8, and A has 8, counted from 0"),
        (backwards, r"it goes to element -1, and A has 8"),
        (lambda ib, a: a.__setitem__(tir.Ramp(6, 1, 4), 1.0), r"ramp\(6, 1, 4\)\].* element 9"),
        (lambda ib, a: a.__setitem__(tir.Ramp(2, -1, 4), 1.0), r"element -1"),
    ],
)
def test_accesses_that_surely_leave_a_buffer(write, message):
    with pytest.raises(LowerError, match=message):
        lower(with_builder(write, buffer(8)))


def test_accesses_of_unknown_or_several_dimensions():
    n = tir.SizeVar("n")
    N, M = buffer(n, name="N"), buffer(3, 4, name="M")
    with pytest.raises(LowerError, match=r"N\[n \+ 2\]: it goes to element n \+ 2, and N has n,"):
        lower(function(store(N, n + 2), N))
    with pytest.raises(LowerError, match=r"M\[2, 4\]: it goes to element 12, and M has 12"):
        lower(function(store(M, 2, 4), M))
    lower(function(tir.SeqStmt([store(N, n - 1), store(M, 2, 3)]), N, M))


def guarded(ib, a):
    with ib.for_range(0, 30, "i") as i, ib.if_scope(i < 8):
        a[i] = a[i] + tir.if_then_else(i > 0, a[i - 1], 0.0)


def never(ib, a):
    with ib.for_range(0, 0, "i") as i:
        a[i + 50] = 1.0


@pytest.mark.parametrize("write", [guarded, never])
def test_what_may_not_happen_is_not_refused(write):
    x = np.ones(8, "float32")
    build(with_builder(write, buffer(8)))(x)
    np.testing.assert_array_equal(x, np.arange(1, 9) + 0 if write is guarded else np.ones(8))


@pytest.mark.parametrize(("shape", "bad"), [(-3, 0), ((2, 0), 1)])
def test_an_allocation_has_elements(shape, bad):
    ib = tir.ir_builder.create()
    with pytest.raises(ArgumentError, match="there would be no elements"):
        ib.allocate("float32", shape)
    t = buffer(*(shape if isinstance(shape, tuple) else (shape,)), name="t")
    with pytest.raises(LowerError, match=f"main allocates t: dimension {bad} is "):
        lower(function(tir.Allocate(t, store(buffer(8), 0)), buffer(8)))
