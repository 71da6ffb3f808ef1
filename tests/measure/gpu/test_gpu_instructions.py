"""Instructions that the static model counts: each value once, and as many as a compiler makes."""

import gpu_schedules as g
import numpy as np
import pytest

import whet
from whet import te
from whet.compiler import driver, tir
from whet.compiler.arith import Analyzer
from whet.compiler.codegen.cuda import nvrtc
from whet.compiler.passes import run_build_passes
from whet.compiler.passes.gpu.inject_double_buffer import UNROLL_FACTOR
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import decl_buffer
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import post_order_visit, variables
from whet.measure.device.specs import spec_of
from whet.measure.gpu.cost import counts
from whet.measure.gpu.cost.counts import work_of
from whet.measure.gpu.cost.cse import eliminate_common
from whet.measure.gpu.cost.integer_cost import (
    CONSTANT_DIVISION,
    SUM,
    address,
    division_cost,
    integer_ops,
)
from whet.measure.gpu.cost.operations import FMA32, OTHER, SPECIAL, operations
from whet.measure.gpu.cost.partial_unroll import unroll_partially, unrolled_loop

PADDING = 12
"""Instructions behind a kernel's end, at most."""
A = decl_buffer((100,), "float32", name="A")
t, u, k = (e.Var(name, "int32") for name in "tuk")


def load(index):
    return e.BufferLoad(A, (ops.convert(index),), "float32")


def counted(value, decided=lambda condition: None):
    found = eliminate_common(value, decided)
    return operations(found.nodes), found


def test_equal_parts_are_computed_once():
    def apart():  # made anew each time: other objects, equal values
        return load(t) - load(u)

    total, found = counted(apart() * apart() + load(k))
    assert total[FMA32] == 2 and sum(total) == 2  # a difference, and a fused multiply-add
    assert len(found.loads) == 3 and not found.integers


def test_products_that_sums_take_in():
    total, _ = counted(load(t) * load(u) + load(k) * load(t + 1))
    assert total[FMA32] == 2


def test_written_out_loops_decide_choices():
    steps = np.arange(3)

    def decided(condition):
        return steps == condition.b.value if condition.a is u else None

    chain = e.Call("float32", "if_then_else", (u.equal(1), load(t) + load(k), load(k)))
    value = e.Call("float32", "if_then_else", (u.equal(0), load(t), chain))
    total, found = counted(value, decided)
    assert total == pytest.approx([1 / 3, 0, 0, 0]) and not found.integers
    shares = {"t": 0.0, "k": 0.0}
    for n, share in found.loads:
        shares[str(n.indices[0])] += share
    assert shares == pytest.approx({"t": 2 / 3, "k": 2 / 3})
    total, found = counted(value)  # nothing is decided: both are computed, and one is taken
    assert (total[FMA32], total[OTHER]) == (1, 2) and len(found.integers) == 2


def test_choices_by_data_are_not_decided():
    """A rectifier of values that a written-out loop has kept in registers."""
    X = te.placeholder((64,), name="X")
    B = te.compute((64,), lambda i: X[i] * 3.0, name="B")
    C = te.compute((64,), lambda i: te.if_then_else(B[i] > 0.0, B[i], B[i] * 0.1), name="C")
    s = te.create_schedule(C.op)
    thread, u = s[C].split(C.op.axis[0], factor=4)
    s[C].bind(thread, te.thread_axis("threadIdx.x"))
    s[B].set_scope("local")
    s[B].compute_at(s[C], thread)
    s[C].unroll(u)
    target = whet.target.Target("cuda -arch=sm_90")
    made = run_build_passes(driver.lower(s, [X, C]), target).functions.values()
    (kernel,) = (f for f in made if f.attrs.get("calling_conv") == "kernel_launch")
    work = work_of(kernel, spec_of("sm_90"))
    assert work.fma32 == 32 * 4 * 2 and work.instructions > 3 * 4  # both are computed


def test_what_loops_do_not_change_is_computed_before_them():
    """A reciprocal square root of one number, for each iteration of an unrolled loop."""
    X = te.placeholder((256,), name="X")
    V = te.placeholder((1,), name="V")
    C = te.compute((256,), lambda i: X[i] * te.rsqrt(V[0] + 1.0), name="C")
    D = te.compute((256,), lambda i: X[i] * te.rsqrt(X[i] + 1.0), name="D")
    once, always = (one_thread_in_steps(x, [X, V, x]) for x in (C, D))
    assert (once.special, always.special) == (32, 32 * 8)


def test_values_that_a_kernel_names_are_counted():
    """An argmax names its two new values before it stores either."""
    task = whet.create_task("argmax", args=((256, 1001), 1), target="cuda -arch=sm_90")
    with task.target:
        module = driver.lower(*task.instantiate())
    kernels = run_build_passes(module, task.target).functions.values()
    (kernel,) = (f for f in kernels if f.attrs.get("calling_conv") == "kernel_launch")
    work = work_of(kernel, spec_of("sm_90"))
    assert work.memory_bytes >= 256 * 1001 * 4
    assert work.instructions * 32 > 256 * 1001 * 5  # a load, comparisons, two choices


def test_what_is_named_changes_with_the_memory_that_it_was_read_from():
    """A running sum, named in each step, and a function of it."""
    X, C = (decl_buffer((32,), "float32", name) for name in "XC")
    total = decl_buffer((1,), "float32", name="total", scope="local")
    thread, step = te.thread_axis((0, 32), "threadIdx.x"), e.Var("step", "int32")
    named, x = e.Var("named", "float32"), thread.var
    now = e.BufferLoad(total, (ops.const(0),), "float32")
    add = s.BufferStore(total, now + e.BufferLoad(X, (x,), "float32"), (ops.const(0),))
    use = s.LetStmt(named, now, s.BufferStore(C, te.exp(named), (x,)))
    loop = s.For(step, ops.const(0), ops.const(64), s.SERIAL, s.seq(add, use))
    body = s.Allocate(total, s.seq(s.BufferStore(total, ops.const(0.0), (ops.const(0),)), loop))
    body = s.AttrStmt(thread, "thread_extent", ops.const(32), body)
    func = tir.PrimFunc([X, C], body, attrs={"thread_extent": {"threadIdx.x": ops.const(32)}})
    assert work_of(func, spec_of("sm_90")).special == 64 * 32


def one_thread_in_steps(tensor, args):
    """The instructions of one warp whose threads have eight elements each."""
    s = te.create_schedule(tensor.op)
    thread, u = s[tensor].split(tensor.op.axis[0], factor=8)
    s[tensor].bind(thread, te.thread_axis("threadIdx.x"))
    s[tensor].unroll(u)
    target = whet.target.Target("cuda -arch=sm_90")
    made = run_build_passes(driver.lower(s, args), target).functions.values()
    (kernel,) = (f for f in made if f.attrs.get("calling_conv") == "kernel_launch")
    return work_of(kernel, spec_of("sm_90"))


def test_a_loop_without_steps_costs_its_test():
    X, C = (decl_buffer((32,), "float32", name) for name in "XC")
    ib = tir.ir_builder.create()
    x, c = ib.buffer_ptr(X), ib.buffer_ptr(C)
    block, thread = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    ib.scope_attr(block, "thread_extent", 4)
    ib.scope_attr(thread, "thread_extent", 32)
    with ib.for_range(0, te.max(block.var - 100, 0), name="k"):
        c[thread.var] = x[thread.var]
    module = tir.IRModule({"f": tir.PrimFunc([X, C], ib.get(), attrs={"global_symbol": "f"})})
    made = run_build_passes(module, whet.Target("cuda -arch=sm_90")).functions.values()
    (kernel,) = (f for f in made if f.attrs.get("calling_conv") == "kernel_launch")
    with np.errstate(all="raise"):
        work = work_of(kernel, spec_of("sm_90"))
    assert 0 < work.instructions < 100 and work.l2_bytes == 0


def test_divisions_by_powers_of_two_are_products():
    one, other = (counted(load(t) / ops.const(x, "float32"))[0] for x in (1024.0, 3.0))
    assert sum(one) == one[FMA32] == 1 and sum(other) > 5 and other[SPECIAL] == 1


def test_integers_are_computed_once_where_they_change():
    analyzer = Analyzer()
    row, column = t // 112, t % 112
    inside = e.And(row * 4 + u - 1 >= 0, column + u < 112, "bool")
    found = {p.key: p for p in integer_ops(inside, analyzer)}
    again = {p.key: p for p in integer_ops(row * 4 + u >= 1, analyzer)}
    assert len(found) == 3 and set(again) <= set(found)  # one division and two comparisons
    assert sum(p.cost for p in found.values()) == 2 + CONSTANT_DIVISION + SUM
    assert [division_cost(ops.const(x)) for x in (8, 7)] == [1.0, CONSTANT_DIVISION]
    nested = list(integer_ops(t // 3 // 5 * 7, analyzer))
    assert len(nested) == 1


def test_steps_of_written_out_loops_do_not_move_an_address():
    analyzer, out = Analyzer(), frozenset([u])
    bases = {address(t * 4 + u * 128 + shift, out, analyzer)[0] for shift in (0, 3)}
    assert len(bases) == 1
    key, parts = address(e.Ramp(t * 4 + k * 64, 1, 4, "int32x4"), out, analyzer)
    assert key not in bases and {str(x) for x in parts} == {"t", "k"}


def test_loops_that_are_written_out_some_steps_at_a_time():
    body = s.BufferStore(A, load(k % 2 * 50 + t), (k // 2 * 8 + t,))
    plain = s.For(k, ops.const(0), ops.const(8), s.SERIAL, body)
    pairs = s.For(k, ops.const(0), ops.const(8), s.SERIAL, body, {UNROLL_FACTOR: 2})
    odd = s.For(k, ops.const(0), ops.const(9), s.SERIAL, body, {UNROLL_FACTOR: 2})
    assert unrolled_loop(plain) is plain and unrolled_loop(odd) is odd
    outer = unrolled_loop(pairs)
    assert (outer.extent.value, outer.body.extent.value, outer.body.kind) == (4, 2, s.UNROLLED)
    stored = outer.body.body
    assert variables(stored.indices[0]) == {outer.var, t}
    assert variables(stored.value.indices[0]) == {outer.body.var, t}
    assert (
        unroll_partially(plain) is plain and unroll_partially(s.seq(plain, pairs)).seq[1].body.body
    )


def test_what_is_known_by_id_lives_as_long_as_it_is_counted():
    (kernel,) = g.kernels(lambda: g.tiled_product(256, doubled=True))
    walk, loops = counts._Walk(kernel, spec_of("sm_80"), {}), set()
    walk.work(None, 0)
    post_order_visit(walk.func.body, lambda n: loops.add(id(n) if isinstance(n, s.For) else 0))
    assert len(walk.total.waits) == 2 and walk.total.waits.keys() <= loops


@pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC")
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("add", ((512, 1024), (512, 1024))),
        ("bias_gelu", ((512, 1024),)),
        ("softmax", ((512, 1024),)),
        ("layer_norm", ((512, 1024), (-1,))),
        ("transpose", ((512, 1024),)),
        ("depthwise_conv2d_nchw", (2, 96, 56, 56, 3, 3, 1, 1)),
    ],
)
def test_as_many_as_the_compiler_makes(name, args):
    """Kernels without loops: what a warp executes is their code, but for its padding."""
    task = whet.create_task(name, args=args, target="cuda -arch=sm_90")
    with task.target:
        module = driver.lower(*task.instantiate())
    kernels = run_build_passes(module, task.target).functions
    text = driver.compile_module(module, task.target).source
    compiled = nvrtc.compile_cubin(text, "sm_90").resources
    assert len(compiled) == 1
    for kernel, made in compiled.items():
        work = work_of(kernels[kernel], spec_of("sm_90"), made.registers)
        executed = work.instructions / (work.blocks * work.threads / 32)
        code = made.code_bytes / 16
        assert 0.8 * (code - PADDING) < executed < 1.1 * code
