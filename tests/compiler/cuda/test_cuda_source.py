"""CUDA C: its text, what a module tells of it, and what is refused."""

import re
from dataclasses import replace

import numpy as np
import pytest
from cuda_programs import axis, cuda, elementwise, matmul, text
from emulated import on_device

import whet
from whet.compiler import te, tir
from whet.compiler.codegen.c.mathematics import LIBRARY
from whet.compiler.codegen.cuda import generate, source
from whet.compiler.codegen.cuda.nvrtc import available, compile_cubin
from whet.compiler.errors import CodegenError, LowerError, WhetError
from whet.compiler.passes import run_build_passes
from whet.compiler.runtime.library.source import _arena
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.function import IRModule
from whet.compiler.tir.ops import ops

# text


def test_text_of_elements(golden):
    golden("cuda_elementwise", text(*elementwise(45)))


def test_text_of_a_matmul_with_shared_memory(golden):
    golden("cuda_matmul_shared", text(*matmul()))


def test_half_has_arithmetic_of_its_own():
    lines = text(*elementwise(48, "float16"))
    assert "WHET_GLOBAL(const float16) A" in lines
    assert "= A[bx * 8 + tx] * A[bx * 8 + tx] + A[bx * 8 + tx];" in lines
    assert "WHET_GLOBAL(bfloat16) B" in text(*elementwise(48, "bfloat16"))


def kernel_by_hand(body, params, threads=64):
    attrs = {
        "global_symbol": "by_hand",
        "calling_conv": "kernel_launch",
        "thread_extent": {"threadIdx.x": ops.const(threads)},
    }
    return IRModule({"by_hand": tir.PrimFunc(params, body, attrs=attrs)})


def test_a_kernel_by_hand():
    A, B, n = tir.decl_buffer(64, name="A"), tir.decl_buffer(64, name="B"), tir.Var("n")
    t = tir.Var("threadIdx.x")
    value = tir.Call("float32", "exp", (tir.BufferLoad(A, (t,), "float32"),))
    store = tir.BufferStore(B, value, (t,))
    body = tir.AttrStmt(t, "thread_extent", ops.const(64), tir.IfThenElse(t < n, store))
    lines = source(kernel_by_hand(body, (A, B, n)))
    assert (
        'extern "C" __global__ void __launch_bounds__(64) by_hand(\n'
        "    WHET_GLOBAL(const float) A, WHET_GLOBAL(float) B, int n\n) {" in lines
    )
    assert "const int tx = threadIdx.x;" in lines
    assert "if (tx < n) {" in lines
    assert "B[tx] = expf(A[tx]);" in lines


def test_shuffles_addresses_and_assertions():
    A = tir.decl_buffer(32, name="A")
    t = tir.Var("threadIdx.x")
    load = tir.BufferLoad(A, (t,), "float32")
    moves = [
        tir.Call("float32", "warp_shuffle_xor", (load, ops.const(4))),
        tir.Call(
            "float32", "tvm_warp_shuffle_down", tuple(map(ops.convert, (-1, load, 2, 32, 32)))
        ),
        tir.Call(
            "float32",
            "call_extern",
            (tir.StringImm("mine"), tir.Call("handle", "address_of", (load,))),
        ),
    ]
    stores = tir.SeqStmt(tuple(tir.BufferStore(A, m, (t,)) for m in moves))
    body = tir.AssertStmt(t < 40, 't is "small"', stores)
    body = tir.AttrStmt(t, "thread_extent", ops.const(32), body)
    lines = source(kernel_by_hand(body, (A,), 32))
    assert "A[tx] = whet_warp_shuffle_xor(A[tx], 4);" in lines
    assert "A[tx] = whet_warp_shuffle_down(A[tx], 2, 32);" in lines
    assert "A[tx] = mine(A + (tx));" in lines
    assert 'if (tx >= 40) whet_trap(0, "t is \\"small\\"");' in lines.replace(
        "!(tx < 40)", "tx >= 40"
    )


def test_blocks_that_should_fit_together():
    s, args = elementwise(48)
    s[args[1]].pragma(s[args[1]].leaf_iter_vars[0], "min_blocks_per_sm", 4)
    assert "__launch_bounds__(8, 4) kernel_kernel0(" in text(s, args)


def test_indices_of_large_arrays_have_64_bits():
    n = 1 << 16
    A = te.placeholder((n, n), "int8", name="A")
    B = te.compute((n, n), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], axis("blockIdx.x"))
    s[B].bind(B.op.axis[1], axis("threadIdx.x"))
    with pytest.raises(WhetError, match="65536 threads"):
        text(s, [A, B])
    s = te.create_schedule(B.op)
    j, i = s[B].split(B.op.axis[1], 256)
    s[B].bind(B.op.axis[0], axis("blockIdx.x"))
    s[B].bind(j, axis("blockIdx.y"))
    s[B].bind(i, axis("threadIdx.x"))
    lines = text(s, [A, B])
    assert "const long long bx = blockIdx.x;" in lines
    assert "WHET_EXTENT(A, 4294967296LL);" in lines


@pytest.mark.parametrize(
    ("n", "split", "kind"),
    [
        (2**31 - 2**19, 256, "long long"),  # a last tile may go beyond
        (2**30, 256, "int"),
        (2**30 + 2**29, 5 * 2**28, "long long"),  # two tiles are more than 2**31
    ],
)
def test_indices_of_a_last_tile_that_goes_beyond_have_64_bits(n, split, kind):
    A = te.placeholder((n,), "int8", name="A")
    B = te.compute((n,), lambda i: A[i], name="B")
    s = te.create_schedule(B.op)
    o, i = s[B].split(B.op.axis[0], split)
    s[B].bind(o, axis("blockIdx.y"))
    o, i = s[B].split(i, 128)
    s[B].bind(o, axis("blockIdx.x"))
    s[B].bind(i, axis("threadIdx.x"))
    if split == 256:
        s = te.create_schedule(B.op)
        o, i = s[B].split(B.op.axis[0], split)
        s[B].bind(o, axis("blockIdx.x"))
        s[B].bind(i, axis("threadIdx.x"))
    assert f"const {kind} bx = blockIdx.x;" in text(s, [A, B])


def test_constant_arrays_are_aligned_for_vectors():
    K, B = tir.decl_buffer((8,), name="K"), tir.decl_buffer((8,), name="B")
    v = tir.Var("v")
    wide = tir.BufferStore(B, tir.BufferLoad(K, (v,), "float32"), (v,))
    loop = tir.For(v, ops.const(0), ops.const(8), "thread_binding", wide, {}, "threadIdx.x")
    func = tir.PrimFunc((B,), tir.AllocateConst(K, np.arange(8, dtype="float32"), loop))
    assert "const __align__(16) float " in whet.build(func, target="cuda").get_source("cuda")


def test_what_generate_hands_over():
    artifact = generate(cuda(*elementwise()), Target("cuda"))
    assert artifact.object == b""
    assert [s.name for s in artifact.signatures] == ["kernel_kernel0"]
    assert "__global__" in artifact.source
    split = run_build_passes(cuda(*elementwise()), Target("cuda"))
    assert generate(split, Target("cuda")).source == artifact.source


def test_the_module_gives_ptx_and_resources(tmp_path):
    if not available():
        pytest.skip("NVRTC is not installed: pip install 'whet-autotune[nvrtc]'")
    module = whet.build(*matmul(), target="cuda -arch=sm_90", name="kernel")
    assert module.get_source("cuda") == module.get_source("cu")
    assert re.search(r"\.target sm_90\b(.|\n)*\.entry kernel_kernel0", module.get_source("ptx"))
    (taken,) = module.resources().values()
    assert 16 < taken.registers < 128 and taken.spill_stores == 0
    (launch,) = module.imported_modules[0].artifact.plans[0].launches
    assert taken.dynamic_shared_bytes == launch.shared_bytes > 0 == taken.static_shared_bytes
    module.save(tmp_path / "kernel.cubin")
    assert (tmp_path / "kernel.cubin").read_bytes().startswith(b"\x7fELF")
    module.save(tmp_path / "kernel.ptx")
    assert (tmp_path / "kernel.ptx").read_text() == module.get_source("ptx")


def test_shared_memory_of_launches_that_symbols_decide_is_not_known():
    module = whet.build(*matmul(), target="cuda -arch=sm_90", name="kernel")
    (code,) = module.imported_modules
    plan = code.artifact.plans[0]
    (launch,) = plan.launches
    small, of_a_symbol = replace(launch, shared_bytes=16), replace(launch, shared_bytes="4 * n")
    for launches, known in (((launch, small), launch.shared_bytes), ((small, of_a_symbol), None)):
        one = replace(code.artifact, plans=(replace(plan, launches=launches),))
        assert _arena(one, launch.kernel) == known
    assert _arena(code.artifact, "another") is None


def test_a_result_without_elements_needs_no_kernel():
    A = te.placeholder((0, 5), name="A")
    B = te.compute((0, 5), lambda i, j: A[i, j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], axis("blockIdx.x"))
    module = whet.build(s, [A, B], target="cuda")
    on_device(module, [np.zeros((0, 5), "f4")] * 2)
    assert "__global__" not in module.get_source("cuda")
    if available():
        assert module.resources() == {}


def test_a_module_without_kernels_has_no_resources():
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i], name="B")
    module = whet.build(te.create_schedule(B.op), [A, B], target="llvm")
    with pytest.raises(WhetError, match=r"kind 'llvm' holds no kernels(.|\n)*target=\"cuda"):
        module.resources()


def calls(dtype):
    """Every function that an expression may call, of one type, each in an element of its own."""
    n = len(LIBRARY) + 12
    A, B = tir.decl_buffer(n, dtype, name="A"), tir.decl_buffer(n, dtype, name="B")
    t = tir.Var("threadIdx.x")
    x = tir.BufferLoad(A, (t,), dtype)
    two = {"atan2", "pow", "fmod", "hypot", "copysign", "nextafter", "fmin", "fmax"}

    def call(op, *args, kind=dtype):
        return tir.Call(kind, op, args)

    values = [
        call(op, *{1: (x,), 2: (x, x), 3: (x, x, x)}[1 + (op in two) + 2 * (op == "fma")])
        for op in LIBRARY
    ]
    values += [call(op, x) for op in ("sigmoid", "rsqrt", "exp10", "fabs")]
    values += [call("ldexp", x, ops.const(3))]
    tests = [call(op, x, kind="bool") for op in ("isnan", "isinf", "isfinite")]
    values += [tir.Select(c, x, tir.Max(x, tir.Min(x, x))) for c in tests]
    bits = f"uint{dt.bits(dtype)}"
    as_bits = call("reinterpret", x, kind=bits)
    values += [call("reinterpret", call("shift_right", as_bits, ops.const(1, bits), kind=bits))]
    values += [tir.FloorDiv(x, x, dtype), tir.FloorMod(x, x, dtype)]
    stores = [tir.BufferStore(B, v, (ops.const(k),)) for k, v in enumerate(values)]
    body = tir.AttrStmt(t, "thread_extent", ops.const(n), tir.SeqStmt(tuple(stores)))
    return kernel_by_hand(body, (A, B), n)


@pytest.mark.parametrize("dtype", ("float32", "float64", "float16", "bfloat16"))
def test_functions_that_can_be_called(dtype):
    lines = source(calls(dtype))
    assert lines.count("B[") == len(LIBRARY) + 11
    if available():
        assert "warning" not in compile_cubin(lines, "sm_80").log


# what is refused


def test_too_many_threads():
    with pytest.raises(WhetError, match=r"2048 threads.*1024"):
        text(*elementwise(4096, threads=2048))


def test_too_much_shared_memory():
    A = te.placeholder((4, 65536), name="A")
    B = te.compute((4, 65536), lambda i, j: A[i, 65535 - j], name="B")
    s = te.create_schedule(B.op)
    cached = s.cache_read(A, "shared", [B])
    s[B].bind(B.op.axis[0], axis("blockIdx.x"))
    s[cached].compute_at(s[B], B.op.axis[0])
    _, t = s[B].split(B.op.axis[1], 32)
    s[B].bind(t, axis("threadIdx.x"))
    _, t = s[cached].split(s[cached].op.axis[1], 32)
    s[cached].bind(t, axis("threadIdx.x"))
    with pytest.raises(WhetError, match=r"262144(.|\n)*(166912|163840)"):
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


WHY = {
    "warp": r"default_function_kernel0\): a warp has no memory of its own(.|\n)*"
    r's\[S\]\.set_scope\("shared"\) lets the block',
    "wmma.accumulator": r"no code for tensor cores is written(.|\n)*scopes: \"local\"",
    "texture": r"kernels have no such memory(.|\n)*\"shared\" \(of a block's threads\)",
    "global.vtcm": "kernels have no such memory",
}


@pytest.mark.parametrize("scope", WHY)
def test_a_stage_in_a_scope_that_cuda_does_not_have(scope):
    A = te.placeholder((4, 34), name="A")
    S = te.compute((4, 34), lambda i, j: A[i, j] * 2.0, name="S")
    B = te.compute((4, 32), lambda i, j: S[i, j] + S[i, j + 2], name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], axis("blockIdx.x"))
    s[B].bind(B.op.axis[1], axis("threadIdx.x"))
    s[S].compute_at(s[B], B.op.axis[0])
    s[S].set_scope(scope)
    with pytest.raises(LowerError, match=rf"S in the scope '{scope}'(.|\n)*{WHY[scope]}"):
        whet.build(s, [A, B], "cuda -arch=sm_80")
