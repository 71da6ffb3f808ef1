"""CUDA C: its text, what it computes on emulated threads, and that NVIDIA's compiler takes it."""

import numpy as np
import pytest
from c_kernels import lowered
from cuda_on_cpu import CudaOnCpu
from nvrtc import compile_cuda

from whet.compiler import te, tir
from whet.compiler.codegen.cuda import generate, source
from whet.compiler.errors import CodegenError, WhetError
from whet.compiler.passes.split_host_device import split_host_device
from whet.compiler.target import Target
from whet.compiler.tir import ops
from whet.compiler.tir.function import IRModule


def axis(tag):
    return te.thread_axis(tag)


def elementwise(n=48, dtype="float32", threads=8):
    A = te.placeholder((n,), dtype, name="A")
    B = te.compute((n,), lambda i: A[i] * A[i] + A[i], name="B")
    s = te.create_schedule(B.op)
    o, i = s[B].split(B.op.axis[0], threads)
    s[B].bind(o, axis("blockIdx.x"))
    s[B].bind(i, axis("threadIdx.x"))
    return s, [A, B]


def vectors(dtype="float32", lanes=4, f=lambda x, i: x * 2 + x):
    A = te.placeholder((64,), dtype, name="A")
    B = te.compute((64,), lambda i: f(A[i], i), name="B")
    s = te.create_schedule(B.op)
    o, v = s[B].split(B.op.axis[0], lanes)
    o, i = s[B].split(o, 4)
    s[B].bind(o, axis("blockIdx.x"))
    s[B].bind(i, axis("threadIdx.x"))
    s[B].vectorize(v)
    return s, [A, B]


def matmul(n=32, dtype="float32"):
    """Tiles of 16 x 16 in shared memory, 2 x 2 in registers."""
    A, B = (te.placeholder((n, n), dtype, name=x) for x in "AB")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    shared = [s.cache_read(x, "shared", [C]) for x in (A, B)]
    local = s.cache_write(C, "local")
    io, jo, ii, ji = s[C].tile(*C.op.axis, 16, 16)
    it, iv = s[C].split(ii, 2)
    jt, jv = s[C].split(ji, 2)
    s[C].reorder(io, jo, it, jt, iv, jv)
    for x, tag in (
        (io, "blockIdx.y"),
        (jo, "blockIdx.x"),
        (it, "threadIdx.y"),
        (jt, "threadIdx.x"),
    ):
        s[C].bind(x, axis(tag))
    s[C].vectorize(jv)
    s[local].compute_at(s[C], jt)
    ko, ki = s[local].split(s[local].op.reduce_axis[0], 8)
    s[local].reorder(ko, ki, *s[local].op.axis)
    for x in s[local].op.axis:
        s[local].unroll(x)
    for stage in shared:
        s[stage].compute_at(s[local], ko)
        y, x = s[stage].op.axis
        yo, _ = s[stage].split(y, nparts=8)
        xo, _ = s[stage].split(x, nparts=8)
        s[stage].reorder(yo, xo, *[a for a in s[stage].leaf_iter_vars if a not in (yo, xo)])
        s[stage].bind(yo, axis("threadIdx.y"))
        s[stage].bind(xo, axis("threadIdx.x"))
    return s, [A, B, C]


def cuda(s, args, name="kernel"):
    return lowered(s, args, name, "cuda")


def text(s, args, name="kernel"):
    return source(cuda(s, args, name))


# numbers


@pytest.mark.parametrize("backwards", (False, True), ids=("forwards", "backwards"))
def test_a_matmul_with_shared_memory(backwards, tmp_path):
    kernel = CudaOnCpu(cuda(*matmul()), tmp_path)
    assert kernel.source.count("__syncthreads();") == 2
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal((32, 32)).astype("f4") for _ in range(2))
    c = np.full((32, 32), np.nan, "f4")
    kernel({"A": a, "B": b, "C": c}, (2, 2), (8, 8), backwards)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


def test_a_missing_barrier_is_seen(tmp_path):
    """What the emulation is for: without its barriers the same text gives wrong numbers."""
    kernel = CudaOnCpu(cuda(*matmul()), tmp_path)
    broken = kernel.source.replace("__syncthreads();", "")
    (tmp_path / "broken").mkdir()
    kernel = _with_text(broken, tmp_path / "broken")
    a = np.random.default_rng(2).standard_normal((32, 32)).astype("f4")
    c = np.full((32, 32), np.nan, "f4")
    kernel({"A": a, "B": a, "C": c}, (2, 2), (8, 8))
    assert not np.allclose(c, a @ a, rtol=1e-3)


def _with_text(changed, folder):
    import cuda_on_cpu

    made = cuda_on_cpu.generate
    try:
        cuda_on_cpu.generate = lambda mod, target: _replaced(made(mod, target), changed)
        return CudaOnCpu(cuda(*matmul()), folder)
    finally:
        cuda_on_cpu.generate = made


def _replaced(artifact, changed):
    from dataclasses import replace

    return replace(artifact, source=changed)


@pytest.mark.parametrize("n", (48, 45, 3))
def test_elements_and_a_tail(n, tmp_path):
    kernel = CudaOnCpu(cuda(*elementwise(n)), tmp_path)
    a, b = np.random.rand(n).astype("f4"), np.full(n, np.nan, "f4")
    kernel({"A": a, "B": b}, (-(-n // 8),), (min(n, 8),))
    np.testing.assert_allclose(b, a * a + a, rtol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "lanes"), [("float32", 4), ("float32", 2), ("int32", 4), ("float64", 2), ("int8", 4)]
)
def test_vectors(dtype, lanes, tmp_path):
    kernel = CudaOnCpu(cuda(*vectors(dtype, lanes)), tmp_path)
    a = np.arange(-32, 32).astype(dtype)
    b = np.zeros(64, dtype)
    kernel({"A": a, "B": b}, (64 // lanes // 4,), (4,))
    np.testing.assert_array_equal(b, (a * np.array(3, dtype)))


def test_a_symbolic_length(tmp_path):
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    o, i = s[B].split(B.op.axis[0], 16)
    s[B].bind(o, axis("blockIdx.x"))
    s[B].bind(i, axis("threadIdx.x"))
    kernel = CudaOnCpu(cuda(s, [A, B]), tmp_path)
    a, b = np.random.rand(37).astype("f4"), np.full(37, np.nan, "f4")
    kernel({"A": a, "B": b, "n": np.int32(37)}, (3,), (16,))
    np.testing.assert_allclose(b, a + 1)


# text


def test_text_of_elements(golden):
    golden("cuda_elementwise", text(*elementwise(45)))


def test_text_of_a_matmul_with_shared_memory(golden):
    golden("cuda_matmul_shared", text(*matmul()))


def test_a_copy_moves_whole_vectors():
    lines = text(*vectors("float32", 4, lambda x, i: x))
    assert "*(float4 *)(&B[" in lines
    assert "= *(const float4 *)(&A[" in lines
    assert "*(uint4 *)(&B[" in text(*vectors("float16", 8, lambda x, i: x))
    assert "*(unsigned int *)(&B[" in text(*vectors("int8", 4, lambda x, i: x))


def test_an_index_that_may_be_unaligned_goes_lane_by_lane():
    A = te.placeholder((65,), name="A")
    B = te.compute((64,), lambda i: A[i + 1] + 1.0, name="B")
    s = te.create_schedule(B.op)
    o, v = s[B].split(B.op.axis[0], 4)
    s[B].bind(o, axis("threadIdx.x"))
    s[B].vectorize(v)
    lines = text(s, [A, B])
    assert "*(float4 *)(&B[" in lines
    assert "(&A[" not in lines


def test_half_has_arithmetic_of_its_own():
    lines = text(*elementwise(48, "float16"))
    assert "#include <cuda_fp16.h>" in lines
    assert "const half* __restrict__ A" in lines
    lines = text(*elementwise(48, "bfloat16"))
    assert "#include <cuda_bf16.h>" in lines
    assert "__nv_bfloat16* __restrict__ B" in lines


def test_a_kernel_by_hand():
    A, B, n = tir.decl_buffer(64, name="A"), tir.decl_buffer(64, name="B"), tir.Var("n")
    t = tir.Var("threadIdx.x")
    value = tir.Call("float32", "exp", (tir.BufferLoad(A, (t,), "float32"),))
    store = tir.BufferStore(B, value, (t,))
    body = tir.AttrStmt(t, "thread_extent", ops.const(64), tir.IfThenElse(t < n, store))
    attrs = {
        "global_symbol": "by_hand",
        "calling_conv": "kernel_launch",
        "thread_extent": {"threadIdx.x": ops.const(64)},
    }
    func = tir.PrimFunc((A, B, n), body, attrs=attrs)
    lines = source(IRModule({"by_hand": func}))
    assert (
        'extern "C" __global__ void __launch_bounds__(64) '
        "by_hand(const float* __restrict__ A, float* __restrict__ B, int n) {" in lines
    )
    assert "if (((int)threadIdx.x) < n) {" in lines
    assert "B[((int)threadIdx.x)] = expf(A[((int)threadIdx.x)]);" in lines


def test_what_generate_hands_over():
    artifact = generate(cuda(*elementwise()), Target("cuda"))
    assert artifact.object == b""
    assert [s.name for s in artifact.signatures] == ["kernel_kernel0"]
    assert "__global__" in artifact.source
    func = cuda(*elementwise())["kernel"]
    host, kernels = split_host_device(func)
    split = IRModule({"kernel": host, **{k.attrs["global_symbol"]: k for k in kernels}})
    assert generate(split, Target("cuda")).source == artifact.source


# what is refused


def test_too_many_threads():
    with pytest.raises(WhetError, match=r"2048 threads.*1024"):
        text(*elementwise(4096, threads=2048))


def test_too_much_shared_memory():
    A = te.placeholder((4, 16384), name="A")
    B = te.compute((4, 16384), lambda i, j: A[i, 16383 - j], name="B")
    s = te.create_schedule(B.op)
    cached = s.cache_read(A, "shared", [B])
    s[B].bind(B.op.axis[0], axis("blockIdx.x"))
    s[cached].compute_at(s[B], B.op.axis[0])
    _, t = s[B].split(B.op.axis[1], 32)
    s[B].bind(t, axis("threadIdx.x"))
    _, t = s[cached].split(s[cached].op.axis[1], 32)
    s[cached].bind(t, axis("threadIdx.x"))
    with pytest.raises(WhetError, match=r"65536 bytes of shared memory(.|\n)*49152"):
        text(s, [A, B])


def test_no_thread_at_all():
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i], name="B")
    with pytest.raises(WhetError, match=r"(no kernel|outside all threads)(.|\n)*bind"):
        text(te.create_schedule(B.op), [A, B])


def test_a_scope_that_cuda_does_not_have():
    A, W = tir.decl_buffer(8, name="A"), tir.decl_buffer(8, name="W", scope="wmma.matrix_a")
    t = tir.Var("threadIdx.x")
    body = tir.SeqStmt(
        (tir.BufferStore(W, ops.const(1.0), (t,)), tir.BufferStore(A, ops.const(1.0), (t,)))
    )
    body = tir.AttrStmt(t, "thread_extent", ops.const(8), tir.Allocate(W, body))
    attrs = {"calling_conv": "kernel_launch", "global_symbol": "k", "thread_extent": {}}
    with pytest.raises(CodegenError, match=r"no memory of the scope 'wmma\.matrix_a'"):
        source(IRModule({"k": tir.PrimFunc((A,), body, attrs=attrs)}))


# NVIDIA's compiler


@pytest.mark.parametrize("arch", ("sm_80", "sm_90"))
@pytest.mark.parametrize(
    "program",
    [
        elementwise(45),
        elementwise(48, "float16"),
        elementwise(48, "bfloat16"),
        matmul(),
        matmul(32, "float16"),
        vectors("float16", 8),
        vectors("bfloat16", 2),
        vectors("int64", 2),
        vectors(
            "float32", 4, lambda x, i: te.sigmoid(x) + te.select(x > 0, te.exp(x), te.max(x, i))
        ),
        vectors("float16", 4, lambda x, i: te.tanh(x) + x.astype("float32").astype("float16")),
        vectors("int32", 4, lambda x, i: te.if_then_else(i < 60, te.floordiv(x, i - 7), x % 5)),
        vectors("float64", 2, lambda x, i: te.sqrt(x) * te.const(float("inf"), "float64")),
    ],
    ids=lambda p: f"{p[1][-1].dtype}_{len(p[0].stages)}",
)
def test_nvidias_compiler_takes_it(program, arch):
    assert compile_cuda(text(*program), arch) == ""
