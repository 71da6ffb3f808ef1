"""Shared memory: one arena, bytes used again, the target's limit; barriers that follow from it."""

from itertools import pairwise

import emulated
import numpy as np
import pytest

from whet.compiler import te, tir
from whet.compiler.driver import build, lower
from whet.compiler.driver.compile import compile_module
from whet.compiler.errors import LowerError, PrunedError
from whet.compiler.passes import run_build_passes
from whet.compiler.passes.gpu.plan_shared_memory import plan_shared_memory
from whet.compiler.passes.gpu.thread_sync import thread_sync
from whet.compiler.passes.gpu.verify_gpu_code import MOST_STATEMENTS
from whet.compiler.target import Target
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.ops import ops

T = tir.Var("threadIdx.x")
A, B = (tir.decl_buffer(4096, name=x) for x in "AB")
TARGET = Target("cuda -arch=sm_80")
RNG = np.random.default_rng(11)


def shared(name, size, dtype="float32"):
    return tir.decl_buffer(size, dtype, name=name, scope="shared")


def load(b, i):
    return tir.BufferLoad(b, (ops.convert(i),), b.dtype)


def store(b, value, i):
    return tir.BufferStore(b, ops.convert(value), (ops.convert(i),))


def kernel(body, *buffers, threads=256, params=(A, B)):
    for b in reversed(buffers):
        body = tir.Allocate(b, body)
    body = tir.AttrStmt(T, "thread_extent", ops.const(threads), body)
    extents = {"threadIdx.x": ops.const(threads)}
    named = {"global_symbol": "f", "calling_conv": "kernel_launch", "thread_extent": extents}
    return PrimFunc(params, body, attrs=named)


def offsets(func):
    found = {}

    def visit(n):
        if isinstance(n, tir.AttrStmt) and n.key == "shared_offset":
            found[n.node.name] = n.value.value if isinstance(n.value, tir.IntImm) else str(n.value)

    tir.stmt_functor.post_order_visit(func.body, visit)
    return found


def chain(*buffers):
    """Each buffer is made of the one before it, reversed."""
    steps = [store(buffers[0], load(A, T), T)]
    for x, y in pairwise(buffers):
        steps.append(store(y, load(x, 255 - T) + 1.0, T))
    steps.append(store(B, load(buffers[-1], 255 - T), T))
    return tir.SeqStmt(tuple(steps))


def test_buffers_that_are_not_needed_together_share_bytes(golden):
    buffers = [shared(x, 256) for x in "STUV"]
    planned = plan_shared_memory(kernel(chain(*buffers), *buffers))
    assert offsets(planned) == {"S": 0, "T": 1024, "U": 0, "V": 1024}
    assert planned.attrs["shared_bytes"].value == 2048
    synced = planned.with_body(thread_sync(planned.body))
    # one barrier before each read of another thread's element: sharing needs none beside those
    golden("shared_memory_chain", synced.script())
    assert synced.script().count("tvm_storage_sync") == 4


def test_what_shares_bytes_is_apart_by_a_barrier():
    s, t = shared("S", 256), shared("T", 256)
    body = tir.SeqStmt(
        (
            store(s, load(A, T), T), store(B, load(s, T), T),
            store(t, load(A, T), 255 - T), store(B, load(t, 255 - T), T + 256),
        )
    )  # fmt: skip
    planned = plan_shared_memory(kernel(body, s, t))
    assert offsets(planned) == {"S": 0, "T": 0}
    assert str(planned.with_body(thread_sync(planned.body))).count("tvm_storage_sync") == 1
    alone = kernel(body, s, t)  # each in bytes of its own: every thread reads what it wrote
    assert thread_sync(alone.body) is alone.body


def test_small_buffers_are_not_worth_a_barrier():
    s, t = shared("S", 64), shared("T", 64)
    planned = plan_shared_memory(kernel(chain(s, t), s, t, threads=64))
    assert offsets(planned) == {"S": 0, "T": 256}


def test_what_a_loop_uses_lives_through_all_of_it():
    s, t = shared("S", 256), shared("T", 256)
    k = tir.Var("k")
    # S is read in each step before T is written, and filled once, in front of the loop
    step = tir.SeqStmt(
        (store(B, load(s, 255 - T), T), store(t, load(A, T + k), T), store(B, load(t, 255 - T), T))
    )
    body = tir.SeqStmt((store(s, load(A, T), T), tir.For(k, 0, 4, "serial", step)))
    assert set(offsets(plan_shared_memory(kernel(body, s, t))).values()) == {0, 1024}
    inside = tir.SeqStmt((store(s, load(A, T), T), *step.seq))  # now S is filled in each step
    loop = tir.For(k, 0, 4, "serial", tir.Allocate(s, tir.Allocate(t, inside)))
    assert offsets(plan_shared_memory(kernel(loop))) == {"S": 0, "T": 0}


def test_one_loop_behind_the_other_has_the_same_bytes():
    def loop(x):
        step = tir.SeqStmt((store(x, 1.0, T), store(B, load(x, 255 - T), T)))
        return tir.For(tir.Var("k"), 0, 4, "serial", step)

    s, t = shared("S", 256), shared("T", 256)
    planned = plan_shared_memory(kernel(tir.SeqStmt((loop(s), loop(t))), s, t))
    assert offsets(planned) == {"S": 0, "T": 0}
    _, first, second = str(thread_sync(planned.body)).split("for k")
    assert first.count("tvm_storage_sync") == 2 == second.count("tvm_storage_sync")


def test_large_ones_first_and_gaps_filled():
    s, t, u = shared("S", 256), shared("T", 1024), shared("U", 512)
    body = tir.SeqStmt(
        (
            store(s, load(A, T), T), store(t, load(s, 255 - T), T),  # S with T
            store(u, load(t, 255 - T), T),                           # T with U: U has S's bytes
            store(B, load(u, 255 - T), T),
        )
    )  # fmt: skip
    planned = plan_shared_memory(kernel(body, s, t, u))
    assert offsets(planned) == {"T": 0, "U": 4096, "S": 4096}
    assert planned.attrs["shared_bytes"].value == 4096 + 2048


def test_other_types_begin_at_sixteen_bytes():
    s, t = shared("S", 3, "int8"), shared("T", 5, "float64")
    body = tir.SeqStmt((store(s, ops.const(1, "int8"), T), store(t, ops.const(1.0, "float64"), T)))
    planned = plan_shared_memory(kernel(body, s, t, threads=3))
    assert offsets(planned) == {"T": 0, "S": 48}
    assert planned.attrs["shared_bytes"].value == 51
    assert plan_shared_memory(planned) is planned


def test_a_buffer_whose_size_an_argument_gives():
    n = tir.SizeVar("n", "int32")
    s, t, u = shared("S", n), shared("T", 3), shared("U", n)
    body = tir.SeqStmt(
        (store(s, load(A, T), T), store(t, 1.0, T), store(u, load(s, n - 1 - T), T),
         store(B, load(u, n - 1 - T), T))
    )  # fmt: skip
    planned = plan_shared_memory(kernel(body, s, t, u, threads=3, params=(A, B, n)))
    assert offsets(planned) == {"T": 0, "S": 16, "U": "(16 + n * 4 + 15) // 16 * 16"}
    assert "n * 4" in str(planned.attrs["shared_bytes"])


# whole schedules


def tiled(n, m, scope="shared", dtype="float32"):
    """Rows of A in shared memory, all of one block's; the sum of each row's neighbours."""
    a = te.placeholder((n, m), dtype, name="A")
    b = te.compute((n, m - 1), lambda i, j: a[i, j] + a[i, j + 1], name="B")
    s = te.create_schedule(b.op)
    row = s.cache_read(a, scope, [b])
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    o, i = s[b].split(b.op.axis[1], 64)
    s[b].reorder(o, i)
    s[b].bind(i, te.thread_axis((0, 64), "threadIdx.x"))
    s[row].compute_at(s[b], b.op.axis[0])
    _, ri = s[row].split(row.op.axis[1], 64)
    s[row].bind(ri, te.thread_axis((0, 64), "threadIdx.x"))
    return s, [a, b]


def test_more_than_a_launch_has_without_asking():
    """20000 floats are 80000 bytes: beyond 48 KB, within what an sm_80 gives to who asks."""
    s, args = tiled(2, 20000)
    with TARGET:
        made = compile_module(lower(s, args, name="f"), TARGET)
    assert made.plans[0].launches[0].shared_bytes == 80000
    x = RNG.standard_normal((2, 20000)).astype("float32")
    emulated.agree(s, args, [x], [((2, 19999), "float32")], [x[:, :-1] + x[:, 1:]], orders=(5,))


@pytest.mark.parametrize("arch, limit", [("sm_75", 65536), ("sm_86", 101376), ("sm_80", 166912)])
def test_what_no_block_has_is_pruned(arch, limit):
    s, args = tiled(2, limit // 4 + 1)
    words = rf"a block would have {limit + 4} bytes of shared memory, and the target has {limit}"
    with pytest.raises(PrunedError, match=words):
        build(s, args, f"cuda -arch={arch}")
    s, args = tiled(2, limit // 4)
    assert build(s, args, f"cuda -arch={arch}")


def test_shared_memory_of_symbolic_size():
    n, m = te.size_var("n"), te.size_var("m")
    s, args = tiled(n, m)
    with TARGET:
        made = compile_module(lower(s, args, name="f"), TARGET)
    assert str(made.plans[0].launches[0].shared_bytes) == "m * 4"
    f = build(s, args, TARGET)
    for shape in ((1, 2), (3, 65), (2, 200)):
        x = RNG.standard_normal(shape).astype("float32")
        out = np.full((shape[0], shape[1] - 1), np.nan, "float32")
        _, got = emulated.on_device(f, [x, out], "backwards")
        np.testing.assert_allclose(got, x[:, :-1] + x[:, 1:], rtol=1e-6)


@pytest.mark.parametrize("n", [37, 64])
def test_padded_rows_are_right(n):
    """storage_align: a transpose through shared memory, its rows one bank apart."""
    a = te.placeholder((n, n), name="A")
    b = te.compute((n, n), lambda i, j: a[j, i], name="B")
    s = te.create_schedule(b.op)
    tile = s.cache_read(a, "shared", [b])
    io, jo, ii, ji = s[b].tile(*b.op.axis, 16, 16)
    tags = "blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"
    for x, tag in zip((io, jo, ii, ji), tags):
        s[b].bind(x, te.thread_axis(tag))
    s[tile].compute_at(s[b], jo)
    y, x = tile.op.axis
    s[tile].bind(y, te.thread_axis("threadIdx.y"))
    s[tile].bind(x, te.thread_axis("threadIdx.x"))
    s[tile].storage_align(y, 32, 1)
    with TARGET:
        made = compile_module(lower(s, [a, b], name="f"), TARGET)
    assert made.plans[0].launches[0].shared_bytes == 15 * 33 * 4 + 16 * 4
    value = RNG.standard_normal((n, n)).astype("float32")
    emulated.agree(s, [a, b], [value], [((n, n), "float32")], [value.T])


# what else a target refuses


def threads(x, y=1, z=1):
    a = te.placeholder((z, y, x), name="A")
    b = te.compute((z, y, x), lambda i, j, k: a[i, j, k] + 1.0, name="B")
    s = te.create_schedule(b.op)
    for axis, tag in zip(s[b].op.axis, "zyx"):
        s[b].bind(axis, te.thread_axis(f"threadIdx.{tag}"))
    return s, [a, b]


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ((2048,), "2048 threads along threadIdx.x, and at most 1024 go"),
        ((64, 32), "2048 threads, and the target has at most 1024"),
    ],
)
def test_too_many_threads_are_pruned(size, words):
    with pytest.raises(PrunedError, match=words) as caught:
        build(*threads(*size), TARGET)
    assert isinstance(caught.value, LowerError) and "sm_80" in str(caught.value)
    assert "smaller factors" in str(caught.value)


@pytest.mark.parametrize(
    ("tag", "words", "reason"),
    [
        ("threadIdx.z", "65 threads for .*threadIdx.z: a GPU has at most 64 there", "threads"),
        ("blockIdx.y", "65536 blocks for .*blockIdx.y: a GPU has at most 65535 there", "blocks"),
    ],
)
def test_more_than_any_gpu_has_is_pruned(tag, words, reason):
    """It counted as a candidate that does not build."""
    n = int(words.split()[0])
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(s[b].op.axis[0], te.thread_axis(tag))
    with pytest.raises(PrunedError, match=words) as caught:
        build(s, [a, b], TARGET)
    assert caught.value.reason == reason


def test_a_targets_own_limits_count():
    assert build(*threads(512), "cuda -max_threads_per_block=512")
    with pytest.raises(PrunedError, match="512 threads, and the target has at most 256"):
        build(*threads(512), "cuda -max_threads_per_block=256")
    with pytest.raises(PrunedError, match=r"16 threads along threadIdx\.y, and at most 8 go"):
        build(*threads(2, 16), "cuda -max_block_size_y=8")


def test_endless_code_is_pruned_before_a_compiler_sees_it():
    a = te.placeholder((MOST_STATEMENTS + 1, 4), name="A")
    b = te.compute(a.shape, lambda i, j: a[i, j] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].reorder(b.op.axis[1], b.op.axis[0])
    s[b].bind(b.op.axis[1], te.thread_axis("threadIdx.x"))
    s[b].unroll(b.op.axis[0])
    with pytest.raises(PrunedError, match=f"would make {MOST_STATEMENTS + 1} stores"):
        build(s, [a, b], TARGET)


def test_too_much_local_memory_is_pruned():
    a = te.placeholder((4, 200000), name="A")
    t = te.compute(a.shape, lambda i, j: a[i, j] + 1.0, name="T")
    b = te.compute(a.shape, lambda i, j: t[i, 199999 - j] * 2.0, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    s[t].compute_at(s[b], b.op.axis[0])
    s[t].set_scope("local")
    with pytest.raises(PrunedError, match="a thread would have 800000 bytes of local memory"):
        build(s, [a, b], TARGET)


def test_the_passes_of_a_build_are_the_list():
    from whet.compiler.passes import BUILD_PASSES

    with TARGET:
        mod = lower(*tiled(2, 128), name="f")
    done = run_build_passes(IRModule(dict(mod.functions)), TARGET)
    assert list(done.functions) == ["f", "f_kernel0"]
    names = [name for name, *_ in BUILD_PASSES["cuda"]]
    order = ["SplitHostDevice", "InjectDoubleBuffer", "LowerThreadAllreduce",
             "MergeDynamicSharedMemoryAllocations", "ThreadSync", "VerifyGPUCode"]  # fmt: skip
    assert [n for n in names if n in order] == order


@pytest.mark.parametrize("shared, own", [("shared.x", "local.acc"), ("shared.dyn", "local.y-1")])
def test_scopes_with_tags_are_the_memory_without(shared, own):
    A = te.placeholder((6, 32), name="A")
    k = te.reduce_axis((0, 32), name="k")
    B = te.compute((6, 32), lambda i, j: te.sum(A[i, k] * A[i, j], axis=k), name="B")
    s = te.create_schedule(B.op)
    S, C = s.cache_read(A, shared, [B]), s.cache_write(B, own)
    i, j = s[B].op.axis
    s[B].bind(i, te.thread_axis("blockIdx.x"))
    s[B].bind(j, te.thread_axis("threadIdx.x"))
    s[C].compute_at(s[B], j)
    s[S].compute_at(s[B], i)
    s[S].bind(s[S].op.axis[1], te.thread_axis("threadIdx.x"))
    a = RNG.standard_normal((6, 32)).astype("float32")
    wanted = a.astype("float64").sum(1, keepdims=True) * a
    close = {"rtol": 1e-4, "atol": 1e-5}
    source = emulated.agree(s, [A, B], [a], [((6, 32), "float32")], [wanted], **close)
    assert "WHET_SHARED_BUFFER" in source and "WHET_LOCAL" in source
