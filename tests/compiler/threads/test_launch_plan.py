"""Launch plans: several kernels, buffers between them, symbols, what the host does."""

import dataclasses
import pickle

import emulated
import numpy as np
import pytest

import whet
from whet.compiler import te, tir
from whet.compiler.abi.launch import Launch, LaunchPlan, Temporary
from whet.compiler.driver import build, lower
from whet.compiler.driver.compile import compile_module
from whet.compiler.errors import LowerError
from whet.compiler.target import Target
from whet.compiler.tir.function import IRModule

TARGET = Target("cuda -arch=sm_80")
RNG = np.random.default_rng(3)


def bound(s, stage, axis, threads=32):
    o, i = s[stage].split(axis, threads)
    s[stage].bind(o, te.thread_axis("blockIdx.x"))
    s[stage].bind(i, te.thread_axis("threadIdx.x"))


def two_stages(n):
    """T = 2 A at the root, U = sums of three of T's."""
    a = te.placeholder((n,), name="A")
    t = te.compute((n,), lambda i: a[i] * 2.0, name="T")
    u = te.compute((n - 2,), lambda i: t[i] + t[i + 1] + t[i + 2], name="U")
    s = te.create_schedule(u.op)
    for x in (t, u):
        bound(s, x, x.op.axis[0])
    return s, [a, u]


def artifact(s, args, name="f"):
    with TARGET:
        return compile_module(lower(s, args, name=name), TARGET)


def plan_of(s, args, name="f"):
    (plan,) = artifact(s, args, name).plans
    return plan


def test_inputs_of_one_name_are_handed_on_apart():
    a, b = te.placeholder((64,)), te.placeholder((64,))
    c = te.compute((64,), lambda i: a[i] - b[i], name="placeholder")
    s = te.create_schedule(c.op)
    bound(s, c, c.op.axis[0])
    names = ("placeholder", "placeholder_1", "placeholder_2")
    (launch,) = plan_of(s, [a, b, c]).launches
    assert sorted(launch.arguments) == list(names)
    x, y = (RNG.standard_normal(64).astype("f4") for _ in range(2))
    emulated.agree(s, [a, b, c], [x, y], [((64,), "float32")], [x - y])


def test_a_scalar_and_an_array_of_one_name_are_handed_on_apart():
    n = te.var("n")
    a = te.placeholder((64,), "int32", name="n")
    c = te.compute((64,), lambda i: a[i] * n, name="C")
    s = te.create_schedule(c.op)
    bound(s, c, c.op.axis[0])
    kernel = build(s, [n, a, c], TARGET)
    device = whet.device("cuda-emulator")
    held = [whet.nd.array(x, device) for x in (np.arange(64, dtype="i4"), np.zeros(64, "i4"))]
    kernel(3, *held)
    np.testing.assert_array_equal(held[1].numpy(), np.arange(64) * 3)


def test_two_kernels_and_what_is_between_them():
    made = artifact(*two_stages(100))
    assert made.plans == (
        LaunchPlan(
            "f",
            (Temporary("T", "float32", (100,)),),
            (
                Launch("f_kernel0", ("A", "T"), (4, 1, 1), (32, 1, 1), 0),
                Launch("f_kernel1", ("U", "T"), (4, 1, 1), (32, 1, 1), 0),
            ),
        ),
    )
    assert [x.name for x in made.signatures] == ["f"] and made.object == b""
    assert [p.name for p in made.signatures[0].params] == ["A", "U"]
    assert [k.name for k in made.kernels] == ["f_kernel0", "f_kernel1"]
    assert [[p.name for p in k.params] for k in made.kernels] == [["A", "T"], ["U", "T"]]


def test_extents_of_symbols_are_texts():
    plan = plan_of(*two_stages(te.size_var("n")))
    assert plan.temporaries == (Temporary("T", "float32", ("n",)),)
    first, second = plan.launches
    assert first == Launch("f_kernel0", ("A", "T", "n"), ("(n + 31) // 32", 1, 1), (32, 1, 1), 0)
    assert second.grid == ("(n + 29) // 32", 1, 1)


def test_a_plan_is_data():
    for n in (100, te.size_var("n")):
        plan = plan_of(*two_stages(n))
        assert LaunchPlan.from_json(plan.to_json()) == plan
        assert pickle.loads(pickle.dumps(plan)) == plan
        with pytest.raises(dataclasses.FrozenInstanceError):
            plan.function = "g"


@pytest.mark.parametrize("n", [3, 31, 34, 100])
def test_several_kernels_run_in_order(n):
    s, args = two_stages(te.size_var("n"))
    kernel = build(s, args, TARGET)
    x = RNG.standard_normal(n).astype("float32")
    _, got = emulated.on_device(kernel, [x, np.full(n - 2, np.nan, "float32")])
    np.testing.assert_allclose(got, 2 * (x[:-2] + x[1:-1] + x[2:]), rtol=1e-5, atol=1e-6)


def test_symbols_of_two_dimensions():
    n, m = te.size_var("n"), te.size_var("m")
    a = te.placeholder((n, m), name="A")
    b = te.compute((m, n), lambda i, j: a[j, i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    i, j = s[b].op.axis
    io, ii = s[b].split(i, 4)
    jo, ji = s[b].split(j, 8)
    s[b].reorder(io, jo, ii, ji)
    tags = "blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"
    for x, tag in zip((io, jo, ii, ji), tags):
        s[b].bind(x, te.thread_axis(tag))
    kernel = build(s, [a, b], TARGET)
    for shape in ((1, 1), (5, 9), (8, 4), (17, 3)):
        x = RNG.standard_normal(shape).astype("float32")
        _, got = emulated.on_device(kernel, [x, np.full(shape[::-1], np.nan, "float32")])
        np.testing.assert_array_equal(got, x.T + 1)


def test_a_scalar_argument_is_handed_on():
    n, scale = te.size_var("n"), te.var("scale", "float32")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * scale, name="B")
    s = te.create_schedule(b.op)
    bound(s, b, b.op.axis[0], 8)
    plan = plan_of(s, [a, scale, b])
    assert plan.launches[0].arguments == ("A", "B", "n", "scale")
    kernel = build(s, [a, scale, b], TARGET)
    x = np.arange(13, dtype="float32")
    device = whet.device("cuda-emulator")
    out = whet.nd.array(np.full(13, np.nan, "float32"), device)
    kernel(whet.nd.array(x, device), 2.5, out)
    np.testing.assert_array_equal(out.numpy(), x * 2.5)


def test_a_temporary_does_not_take_an_arguments_name():
    a = te.placeholder((8,), name="X")
    t = te.compute((8,), lambda i: a[i] + 1.0, name="X")
    u = te.compute((8,), lambda i: t[7 - i] * 2.0, name="U")
    s = te.create_schedule(u.op)
    for x in (t, u):
        s[x].bind(x.op.axis[0], te.thread_axis("threadIdx.x"))
    plan = plan_of(s, [a, u])
    assert [t.name for t in plan.temporaries] == ["X_1"]
    assert [x.arguments for x in plan.launches] == [("X", "X_1"), ("U", "X_1")]


# by hand: what stands around regions of threads


def region(name, body, extent=4):
    v = tir.Var(name)
    return tir.For(v, 0, extent, "thread_binding", body(v), {}, "threadIdx.x")


def function(body, *params):
    return tir.PrimFunc(params, body, attrs={"global_symbol": "f"})


def compiled(func):
    with TARGET:
        return compile_module(lower(IRModule({"f": func})), TARGET)


def add(b, i, value):
    return tir.BufferStore(b, tir.BufferLoad(b, (i,)) + value, (i,))


def test_a_loop_of_the_hosts_is_so_many_launches():
    b = tir.decl_buffer((4,), name="B")
    k = tir.Var("k")
    body = tir.For(k, 1, 3, "serial", region("i", lambda i: add(b, i, k.astype("float32"))))
    made = compiled(function(body, b))
    assert [x.arguments for x in made.plans[0].launches] == [("B", "1"), ("B", "2"), ("B", "3")]
    kernel = build(function(body, b), target=TARGET)
    (got,) = emulated.on_device(kernel, [np.zeros(4, "float32")])
    np.testing.assert_array_equal(got, [6, 6, 6, 6])


def test_a_symbolic_loop_of_the_hosts_is_refused():
    n = tir.SizeVar("n", "int32")
    b = tir.decl_buffer((n,), name="B")
    k = tir.Var("k")
    body = tir.For(k, 0, n, "serial", region("i", lambda i: add(b, i, k.astype("float32"))))
    with pytest.raises(LowerError, match=r"loop over k is outside all threads and has n steps"):
        compiled(function(body, b))


def test_very_many_launches_are_refused():
    b = tir.decl_buffer((4,), name="B")
    k = tir.Var("k")
    body = tir.For(k, 0, 5000, "serial", region("i", lambda i: add(b, i, 1.0)))
    with pytest.raises(LowerError, match=r"make more than 4096 launches(.|\n)*bind these loops"):
        compiled(function(body, b))


@pytest.mark.parametrize("n", [2, 4])
def test_conditions_and_values_of_the_host_go_into_the_kernels(n):
    size = tir.SizeVar("n", "int32")
    a, b = tir.decl_buffer((size,), name="A"), tir.decl_buffer((4,), name="B")
    v = tir.Var("v", "int32")
    then = region("i", lambda i: tir.BufferStore(b, v.astype("float32"), (i,)))
    other = region("j", lambda j: tir.BufferStore(b, 7.0, (j,)))
    body = tir.LetStmt(v, size * 3, tir.IfThenElse(size > 3, then, other))
    made = compiled(function(body, a, b))
    assert len(made.plans[0].launches) == 2
    kernel = build(function(body, a, b), target=TARGET)
    x = np.zeros(n, "float32")
    _, got = emulated.on_device(kernel, [x, np.full(4, np.nan, "float32")])
    np.testing.assert_array_equal(got, np.full(4, 12.0 if n > 3 else 7.0))


def test_work_of_the_host_is_refused():
    b = tir.decl_buffer((4,), name="B")
    call = tir.Evaluate(tir.call_packed("something"))
    body = tir.SeqStmt((region("i", lambda i: tir.BufferStore(b, 1.0, (i,))), call))
    with pytest.raises(LowerError, match="a call of call_packed is outside all threads"):
        compiled(function(body, b))
