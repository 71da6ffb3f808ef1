"""Host and device parts: golden text of the split, barriers, and kernels run in the emulator."""

import numpy as np
import pytest

from whet.compiler import te, tir
from whet.compiler.driver import build, lower
from whet.compiler.emulator import EmulatorError, emulator_options
from whet.compiler.errors import LowerError
from whet.compiler.passes import run_build_passes
from whet.compiler.passes.gpu.split_host_device import split_host_device, split_module
from whet.compiler.runtime.arrays import nd
from whet.compiler.target import Target
from whet.compiler.te.primitives.auto_bind import bound_schedule
from whet.compiler.tir.function import IRModule

RNG = np.random.default_rng(7)


def thread(tag, extent=None):
    return te.thread_axis(tag) if extent is None else te.thread_axis((0, extent), tag)


def lowered(s, args, name="main"):
    with Target("cuda"):
        return lower(s, args, name=name)[name]


def parts(func):
    """The host's part of a function and its finished kernels."""
    mod = run_build_passes(IRModule({func.name: func}), Target("cuda -arch=sm_80"))
    host, *kernels = mod.functions.values()
    return host, kernels


def text(func):
    host, kernels = parts(func)
    return "\n\n".join(f.script() for f in (host, *kernels))


def run(func, arrays, seed=0):
    """Run a function in the emulator, its threads in a drawn order; arrays change in place."""
    kernel = build(func, target="cuda -arch=sm_80")
    device = nd.device("cuda-emulator")
    held = {name: nd.array(x, device) for name, x in arrays.items()}
    with emulator_options(checks=True, order=seed + 2):
        kernel(*held.values())
    for name, x in arrays.items():
        x[...] = held[name].numpy()


def random(*shape):
    return RNG.random(shape, "f4")


def poisoned(*shape):
    return np.full(shape, np.nan, "f4")


def two_loops(**attrs):
    """A stage in shared memory, and a shorter loop over the same threads that reads it."""
    A = tir.decl_buffer((48,), name="A")
    B = tir.decl_buffer((30,), name="B")
    ib = tir.ir_builder.create()
    a, b = ib.buffer_ptr(A), ib.buffer_ptr(B)
    bx, t1, t2 = thread("blockIdx.x"), thread("threadIdx.x"), thread("threadIdx.x")
    ib.scope_attr(bx, "thread_extent", 6)
    S = ib.allocate("float32", 8, "S", scope="shared")
    with ib.new_scope():
        ib.scope_attr(t1, "thread_extent", 8)
        S[t1] = a[bx * 8 + t1] + 1.0
    with ib.new_scope():
        ib.scope_attr(t2, "thread_extent", 5)
        b[bx * 5 + t2] = S[t2 + 3]
    return tir.PrimFunc([A, B], ib.get(), attrs={"global_symbol": "f", **attrs})


def test_loops_of_one_tag_become_one_variable_with_a_barrier_between():
    assert text(two_loops(lowered=True)) == (
        "def f(A: float32[48], B: float32[30]):\n"
        "    launch_kernel('f_kernel0', A.data, B.data, 6, 1, 1, 8, 1, 1)\n\n"
        "def f_kernel0(A: float32[48], B: float32[30]):\n"
        "    attr(blockIdx_x, 'thread_extent', 6)\n"
        "    attr(threadIdx_x, 'thread_extent', 8)\n"
        "    attr(S, 'shared_offset', 0)\n"
        '    S = allocate([8], "float32", "shared")\n'
        "    S[threadIdx_x] = A[blockIdx_x * 8 + threadIdx_x] + float32(1.0)\n"
        "    tvm_storage_sync('shared')\n"
        "    if threadIdx_x < 5:\n"
        "        B[blockIdx_x * 5 + threadIdx_x] = S[threadIdx_x + 3]"
    )


def test_threads_run_in_any_order_give_what_the_loops_give():
    A, B = random(48), poisoned(30)
    run(two_loops(), {"A": A, "B": B})
    np.testing.assert_array_equal(B.reshape(6, 5), A.reshape(6, 8)[:, 3:] + 1)


def test_attributes_of_a_kernel():
    host, (kernel,) = parts(two_loops(lowered=True))
    assert kernel.attrs["global_symbol"] == "f_kernel0"
    assert kernel.attrs["calling_conv"] == "kernel_launch"
    assert {k: int(v) for k, v in kernel.attrs["thread_extent"].items()} == {
        "blockIdx.x": 6,
        "threadIdx.x": 8,
    }
    assert [p.name for p in kernel.params] == ["A", "B"]
    both = split_module(IRModule({"f": two_loops(lowered=True)}), Target("cuda"))
    assert list(both) == ["f", "f_kernel0"] and both["f"].script() == host.script()
    assert list(split_module(both, Target("cuda"))) == ["f", "f_kernel0"]


def matmul(n, m, k, tile, bk):
    """A matmul with tiles in shared memory, loaded by all threads of a block together."""
    A, B = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="r")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    s = te.create_schedule(C.op)
    AA, BB = s.cache_read(A, "shared", [C]), s.cache_read(B, "shared", [C])
    CL = s.cache_write(C, "local")
    i, j = s[C].op.axis
    bi, ti = s[C].split(i, tile)
    bj, tj = s[C].split(j, tile)
    s[C].reorder(bi, bj, ti, tj)
    for axis, tag in (
        (bi, "blockIdx.y"),
        (bj, "blockIdx.x"),
        (ti, "threadIdx.y"),
        (tj, "threadIdx.x"),
    ):
        s[C].bind(axis, thread(tag))
    s[CL].compute_at(s[C], tj)
    ko, ki = s[CL].split(s[CL].op.reduce_axis[0], bk)
    s[CL].reorder(ko, ki, *s[CL].op.axis)
    for X in (AA, BB):
        s[X].compute_at(s[CL], ko)
        y, x = s[X].op.axis
        yo, yi = s[X].split(y, nparts=tile)
        xo, xi = s[X].split(x, nparts=tile)
        s[X].reorder(yo, xo, yi, xi)
        s[X].bind(yo, thread("threadIdx.y"))
        s[X].bind(xo, thread("threadIdx.x"))
    return s, [A, B, C]


@pytest.mark.parametrize(("n", "m", "k"), [(8, 8, 8), (12, 8, 20), (13, 9, 11), (10, 1, 7)])
def test_a_matmul_with_tiles_in_shared_memory(n, m, k):
    s, args = matmul(n, m, k, 4, 4)
    func = lowered(s, args)
    kernel = parts(func)[1][0].script()
    assert kernel.count("tvm_storage_sync") == 2 and kernel.count('"shared"') == 2
    A, B, C = random(n, k), random(k, m), poisoned(n, m)
    run(func, {"A": A, "B": B, "C": C}, seed=n)
    np.testing.assert_allclose(C, A @ B, rtol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_matmuls_of_drawn_sizes_and_tiles(seed):
    rng = np.random.default_rng(seed)
    n, m, k = (int(x) for x in rng.integers(1, 15, 3))
    s, args = matmul(n, m, k, int(rng.integers(1, 6)), int(rng.integers(1, 6)))
    A, B, C = random(n, k), random(k, m), poisoned(n, m)
    run(lowered(s, args), {"A": A, "B": B, "C": C}, seed=seed)
    np.testing.assert_allclose(C, A @ B, rtol=1e-5)


def test_a_kernel_without_its_barriers_is_caught():
    s, args = matmul(8, 8, 8, 4, 4)
    func = lowered(s, args)
    arrays = {"A": random(8, 8), "B": random(8, 8), "C": poisoned(8, 8)}
    without = tir.transform.PassContext(disabled_pass=["ThreadSync"])
    with without, pytest.raises(EmulatorError, match=r"a race: it \w+ shared [AB]_shared\[\d+\]"):
        run(func, arrays)


def test_sizes_become_arguments_of_each_kernel():
    n = te.size_var("n")
    A = te.placeholder((n, 7), name="A")
    k = te.reduce_axis((0, 7), name="k")
    R = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="R")
    D = te.compute((n, 7), lambda i, j: A[i, j] / R[i], name="D")
    s = te.create_schedule(D.op)
    for stage in (R, D):
        o, i = s[stage].split(s[stage].op.axis[0], 4)
        s[stage].bind(o, thread("blockIdx.x"))
        s[stage].bind(i, thread("threadIdx.x"))
    func = lowered(s, [A, D])
    _, kernels = parts(func)
    assert [k.attrs["global_symbol"] for k in kernels] == ["main_kernel0", "main_kernel1"]
    assert all(any(p.name == "n" for p in k.params) for k in kernels)
    a, d = random(13, 7), poisoned(13, 7)
    run(func, {"A": a, "D": d})
    np.testing.assert_allclose(d, a / a.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.filterwarnings("ignore:no loop of the schedule:UserWarning")
def test_loops_that_were_bound_by_themselves():
    n = te.size_var("n")
    A = te.placeholder((n, 21), name="A")
    k = te.reduce_axis((0, 21), name="k")
    R = te.compute((n,), lambda i: te.max(A[i, k], axis=k), name="R")
    D = te.compute((n, 21), lambda i, j: te.exp(A[i, j] - R[i]), name="D")
    q, r = te.reduce_axis((0, n), name="q"), te.reduce_axis((0, 21), name="r")
    S = te.compute((1,), lambda _: te.sum(D[q, r], axis=[q, r]), name="S")
    s = te.create_schedule([D.op, S.op])
    bound = bound_schedule(s, Target("cuda -max_threads_per_block=32"))
    a, d, total = random(13, 21), poisoned(13, 21), poisoned(1)
    run(lowered(bound, [A, D, S]), {"A": a, "D": d, "S": total}, seed=5)
    wanted = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(d, wanted, rtol=1e-5)
    np.testing.assert_allclose(total, wanted.sum(), rtol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_shared_stages_at_any_loop_and_of_any_size(seed):
    """A stencil whose rows go through shared memory, under drawn sizes and factors."""
    rng = np.random.default_rng(seed)
    n, m, f, g = (int(rng.integers(low, high)) for low, high in ((2, 9), (3, 14), (1, 5), (1, 6)))
    A = te.placeholder((n, m + 2), name="A")
    B = te.compute((n, m + 2), lambda i, j: A[i, j] * 2.0 + 1.0, name="B")
    C = te.compute((n, m), lambda i, j: B[i, j] + B[i, j + 1] * 3.0 + B[i, j + 2], name="C")
    s = te.create_schedule(C.op)
    io, ii = s[C].split(C.op.axis[0], f)
    jo, ji = s[C].split(C.op.axis[1], g)
    s[C].reorder(io, jo, ii, ji)
    s[C].bind(jo, thread("blockIdx.x"))
    s[C].bind(io, thread("blockIdx.y"))
    s[C].bind(ji, thread("threadIdx.x"))
    s[B].compute_at(s[C], [jo, ii][seed % 2])
    s[B].set_scope("shared")
    _, x = s[B].split(s[B].op.axis[1], nparts=int(rng.integers(1, 4)))
    if seed % 3:
        s[B].bind(x, thread("threadIdx.x"))
    func = lowered(s, [A, C])
    a, c = random(n, m + 2), poisoned(n, m)
    run(func, {"A": a, "C": c}, seed=seed)
    b = a * 2 + 1
    np.testing.assert_allclose(c, b[:, :-2] + 3 * b[:, 1:-1] + b[:, 2:], rtol=1e-5)


def test_what_is_outside_the_thread_loops_is_done_once():
    A = tir.decl_buffer((6,), name="A")
    ib = tir.ir_builder.create()
    a = ib.buffer_ptr(A)
    bx, tx = thread("blockIdx.x"), thread("threadIdx.x")
    ib.scope_attr(bx, "thread_extent", 2)
    S = ib.allocate("float32", 1, "S", scope="shared")
    S[0] = a[bx * 3]
    with ib.new_scope():
        ib.scope_attr(tx, "thread_extent", 3)
        a[bx * 3 + tx] = S[0] + 1.0
    func = tir.PrimFunc([A], ib.get(), attrs={"global_symbol": "f"})
    assert "if threadIdx_x == 0:\n        S[0]" in text(func)
    values = np.arange(6, dtype="f4")
    run(func, {"A": values}, seed=3)
    np.testing.assert_array_equal(values, [1, 1, 1, 4, 4, 4])


def test_what_no_thread_computes_is_refused():
    A = te.placeholder((5,), name="A")
    B = te.compute((5,), lambda i: A[i] + 1.0, name="B")
    with pytest.raises(LowerError, match=r"B is computed outside all threads.*\n.*bind"):
        split_host_device(lowered(te.create_schedule(B.op), [A, B]))


def test_what_is_read_by_no_thread_is_refused():
    A = tir.decl_buffer((4,), "int32", name="A")
    ib = tir.ir_builder.create()
    a = ib.buffer_ptr(A)
    with ib.if_scope(a[0] > 1):
        ib.scope_attr(thread("threadIdx.x"), "thread_extent", 4)
        a[1] = 1
    func = tir.PrimFunc([A], ib.get(), attrs={"global_symbol": "f"})
    with pytest.raises(LowerError, match="A is read outside all threads"):
        split_host_device(func)


@pytest.mark.parametrize(
    ("tag", "extent", "what"), [("blockIdx.y", 70000, "blocks"), ("threadIdx.z", 65, "threads")]
)
def test_more_threads_than_a_gpu_has(tag, extent, what):
    A = te.placeholder((extent,), name="A")
    B = te.compute((extent,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], thread(tag))
    with pytest.raises(LowerError, match=rf"{extent} {what}.*\n.*split the loop"):
        split_host_device(lowered(s, [A, B]))


def test_memory_of_a_block_does_not_cross_kernels():
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    X = s.cache_read(A, "shared", [B])
    for stage in (X, B):
        s[stage].bind(s[stage].op.axis[0], thread("threadIdx.x"))
    with pytest.raises(LowerError, match=r"is shared, and a kernel uses it that does not make it"):
        split_host_device(lowered(s, [A, B]))


def test_extents_that_differ_must_be_known():
    n = tir.SizeVar("n")
    A = tir.decl_buffer((n,), name="A")
    ib = tir.ir_builder.create()
    a = ib.buffer_ptr(A)
    bx = thread("blockIdx.x")
    ib.scope_attr(bx, "thread_extent", 2)
    for extent in (n, 4):
        with ib.new_scope():
            tx = thread("threadIdx.x")
            ib.scope_attr(tx, "thread_extent", extent)
            a[tx] = 1.0
    func = tir.PrimFunc([A], ib.get(), attrs={"global_symbol": "f"})
    with pytest.raises(LowerError, match=r"their extents n, 4 differ"):
        split_host_device(func)


def test_a_barrier_that_only_some_threads_reach_is_refused():
    A = tir.decl_buffer((8,), name="A")
    ib = tir.ir_builder.create()
    a = ib.buffer_ptr(A)
    S = None
    bx, tx = thread("blockIdx.x"), thread("threadIdx.x")
    ib.scope_attr(bx, "thread_extent", 2)
    S = ib.allocate("float32", 8, "S", scope="shared")
    ib.scope_attr(tx, "thread_extent", 8)
    with ib.if_scope(tx.var < 5):
        S[tx] = 1.0
        a[tx] = S[7 - tx.var]
    func = tir.PrimFunc([A], ib.get(), attrs={"global_symbol": "f"})
    with pytest.raises(LowerError, match=r"a barrier is needed inside `if threadIdx_x < 5`"):
        parts(func)
