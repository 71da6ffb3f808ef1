"""The emulator computes what a GPU would: launches, types, warps, memory."""

import threading

import ml_dtypes
import numpy as np
import pytest

from whet.compiler import emulator
from whet.compiler.emulator import EmulatorError, compile_emulated, emulator_options
from whet.compiler.emulator.sanitizer.run import Unwritten, run_kernel
from whet.compiler.errors import ArgumentError, CodegenError, KernelError, TargetError
from whet.compiler.settings import cxx_compiler

BOTH = pytest.mark.parametrize("checks", [True, False], ids=("checked", "plain"))


def run(text, grid, block, *arguments, shared=0, checks=True, order="forwards", kernel=None):
    with emulator_options(checks=checks, order=order):
        return run_kernel(text, kernel, grid, block, arguments, shared)


def body(lines, parameters):
    return f'extern "C" __global__ void f({parameters}) {{\n{lines}\n}}\n'


# launches


@BOTH
def test_every_thread_of_every_block_runs_once(checks):
    text = body(
        """
        const int x = blockIdx.x * blockDim.x + threadIdx.x;
        const int y = blockIdx.y * blockDim.y + threadIdx.y;
        const int z = blockIdx.z * blockDim.z + threadIdx.z;
        const int at = (z * gridDim.y * blockDim.y + y) * gridDim.x * blockDim.x + x;
        B[at] = x + 100 * y + 10000 * z;
        """,
        "WHET_GLOBAL(int) B",
    )
    (b,) = run(text, (2, 3, 5), (7, 2, 3), Unwritten((15, 6, 14), "int32"), checks=checks)
    z, y, x = np.indices(b.shape)
    np.testing.assert_array_equal(b, x + 100 * y + 10000 * z)


def test_arguments_of_all_types_are_packed_as_cuda_does():
    text = body(
        "B[0] = a; B[1] = b; B[2] = c; B[3] = d; B[4] = e; B[5] = float(h); B[6] = g ? 1 : 0;",
        "char a, double b, short c, WHET_GLOBAL(double) B, bool g, long long d, unsigned char e, "
        "float16 h",
    )
    (b,) = run(text, 1, 1, -3, 0.1, -300, Unwritten((7,), "float64"), True, -(2**40), 250, 1.5)
    np.testing.assert_array_equal(b, [-3, 0.1, -300, -(2.0**40), 250, 1.5, 1])


TREE = body(
    """
    WHET_SHARED_BUFFER(float, S, 16, 96);
    const int tx = threadIdx.x;
    S[tx] = A[blockIdx.x * 96 + tx];
    __syncthreads();
    for (int n = 48; n >= 3; n /= 2) {
        if (tx < n) S[tx] += S[tx + n];
        __syncthreads();
    }
    if (tx == 0) B[blockIdx.x] = S[0] + S[1] + S[2];
    """,
    "WHET_GLOBAL(const float) A, WHET_GLOBAL(float) B",
)


def sums_by_trees(**options):
    a = np.random.default_rng(0).integers(-9, 9, (5, 96)).astype("f4")
    _, b = run(TREE, 5, 96, a, Unwritten((5,)), shared=16 + 96 * 4, **options)
    np.testing.assert_array_equal(b, a.sum(1))


@pytest.mark.parametrize("order", ["forwards", "backwards", 2, 99])
def test_a_tree_in_shared_memory_in_any_order(order):
    sums_by_trees(order=order)


@BOTH
def test_threads_switch_by_the_system_where_no_assembler_text_is_made_for(monkeypatch, checks):
    """Without ``__ELF__`` the fibers are the C library's contexts."""
    monkeypatch.setenv("CXX", f"{cxx_compiler()} -U__ELF__")
    sums_by_trees(checks=checks, order="backwards")
    with pytest.raises(EmulatorError, match="ended itself: stop"):
        run(body('if (threadIdx.x == 5) whet_trap(1, "stop"); __syncthreads();', "int n"), 2, 64, 1)


def test_several_threads_of_the_host_launch_at_once():
    text = body("B[threadIdx.x] = n; __syncthreads();", "WHET_GLOBAL(int) B, int n")
    wrong = []

    def work(n):
        for _ in range(20):
            (b,) = run(text, 1, 128, Unwritten((128,), "int32"), n, checks=False)
            wrong.extend(b[b != n])

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert wrong == []


# types


@BOTH
def test_all_halves_and_rounding_to_them(checks):
    text = body(
        """
        const int k = blockIdx.x * 256 + threadIdx.x;
        F[k] = float(H[k]);
        G[k] = float16(X[k]);
        D[k] = float16(Y[k]);
        """,
        "WHET_GLOBAL(const float16) H, WHET_GLOBAL(float) F, WHET_GLOBAL(const float) X, "
        "WHET_GLOBAL(float16) G, WHET_GLOBAL(const double) Y, WHET_GLOBAL(float16) D",
    )
    rng = np.random.default_rng(3)
    h = np.arange(65536, dtype="u2").view("f2")
    near = h.astype("f8") * (1 + rng.choice([0, 2.0**-12, -(2.0**-12), 2.0**-11], 65536))
    y = np.where(rng.random(65536) < 0.8, near, rng.standard_normal(65536) * 1e-6)
    x = y.astype("f4")
    empty = [Unwritten((65536,), t) for t in ("float32", "float16", "float16")]
    with np.errstate(all="ignore"):
        _, f, _, g, _, d = run(text, 256, 256, h, empty[0], x, empty[1], y, empty[2], checks=checks)
        for got, wanted in ((f, h.astype("f4")), (g, x.astype("f2")), (d, y.astype("f2"))):
            np.testing.assert_array_equal(got, wanted)


def test_bfloat16_rounds_to_the_nearest():
    text = body(
        "const int k = blockIdx.x * 256 + threadIdx.x; G[k] = bfloat16(X[k]); "
        "D[k] = bfloat16(Y[k]); F[k] = float(G[k] * D[k] + bfloat16(1.0f));",
        "WHET_GLOBAL(const float) X, WHET_GLOBAL(bfloat16) G, WHET_GLOBAL(const double) Y, "
        "WHET_GLOBAL(bfloat16) D, WHET_GLOBAL(float) F",
    )
    rng = np.random.default_rng(4)
    bits = rng.integers(0, 1 << 16, 4096).astype("u4") << 16 | rng.choice(
        [0, 0x7FFF, 0x8000, 0x8001, 1], 4096
    ).astype("u4")
    x = bits.view("f4")
    x = np.where(np.isnan(x), np.float32(2.5), x)
    y = x.astype("f8") * (1 + rng.choice([0, 2.0**-40, -(2.0**-40)], 4096))
    empty = [Unwritten((4096,), t) for t in ("uint16", "uint16", "float32")]
    with np.errstate(all="ignore"):
        _, g, _, d, f = run(text, 16, 256, x, empty[0], y, *empty[1:])
        g, d = g.view(ml_dtypes.bfloat16), d.view(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(g, x.astype(ml_dtypes.bfloat16))
        wanted = np.where(np.abs(y) < 3e38, y, 0)
        got = np.where(np.abs(y) < 3e38, d, 0).astype("f8")
        np.testing.assert_allclose(got, wanted, rtol=2.0**-8, atol=1e-38)
        product = (g * d).astype(ml_dtypes.bfloat16) + ml_dtypes.bfloat16(1)
        np.testing.assert_array_equal(f, product.astype("f4"))


def test_a_double_halfway_but_for_its_last_bit_rounds_to_its_side():
    text = body(
        "D[0] = bfloat16(y); D[1] = bfloat16(float(y));", "double y, WHET_GLOBAL(bfloat16) D"
    )
    (d,) = run(text, 1, 1, 1 + 2.0**-8 + 2.0**-45, Unwritten((2,), "uint16"))
    assert d.view(ml_dtypes.bfloat16).tolist() == [1.0078125, 1.0]


@BOTH
@pytest.mark.parametrize(
    "kind, dtype", [("float32x4", "f4"), ("float16x8", "f2"), ("int8x16", "i1")]
)
def test_vectors(kind, dtype, checks):
    element = {"f4": "float", "f2": "float16", "i1": "signed char"}[dtype]
    lanes = int(kind.partition("x")[2])
    text = body(
        f"""
        WHET_SHARED_BUFFER({element}, S, 64, 512);
        WHET_LOCAL({element}, L, {lanes});
        const int at = threadIdx.x * {lanes};
        {kind} v = whet_load<{kind}>(A, at);
        v[1] = v[0];
        whet_store<{kind}>(S, at, v);
        __syncthreads();
        whet_store<{kind}>(L, 0, whet_load<{kind}>(S, (31 - threadIdx.x) * {lanes}));
        whet_store<{kind}>(B, at, whet_load<{kind}>(L, 0));
        """,
        f"WHET_GLOBAL(const {element}) A, WHET_GLOBAL({element}) B",
    )
    a = np.random.default_rng(5).integers(-100, 100, (32, lanes)).astype(dtype)
    _, b = run(text, 1, 32, a, Unwritten(a.shape, a.dtype.name), shared=1088, checks=checks)
    wanted = a.copy()
    wanted[:, 1] = wanted[:, 0]
    np.testing.assert_array_equal(b, wanted[::-1])


def test_products_of_bytes():
    text = body(
        "const int k = threadIdx.x; C[k] = whet_dp4a(A[k], B[k], k); "
        "D[k] = whet_dp4a((unsigned)A[k], (unsigned)B[k], 0u);",
        "WHET_GLOBAL(const int) A, WHET_GLOBAL(const int) B, WHET_GLOBAL(int) C, "
        "WHET_GLOBAL(unsigned) D",
    )
    a, b = np.random.default_rng(6).integers(-128, 128, (2, 32, 4)).astype("i1")
    empty = Unwritten((32,), "int32"), Unwritten((32,), "uint32")
    _, _, c, d = run(text, 1, 32, a.view("i4")[:, 0], b.view("i4")[:, 0], *empty)
    np.testing.assert_array_equal(c, (a.astype(int) * b).sum(1) + np.arange(32))
    np.testing.assert_array_equal(d, (a.view("u1").astype(int) * b.view("u1")).sum(1))


# warps


@BOTH
@pytest.mark.parametrize(
    "call, source",
    [
        ("whet_warp_shuffle(v, 5)", lambda n: n // 32 * 32 + 5),
        ("whet_warp_shuffle(v, n % 4, 8)", lambda n: n // 8 * 8 + n % 4),
        ("whet_warp_shuffle_down(v, 3)", lambda n: np.where(n % 32 < 29, n + 3, n)),
        ("whet_warp_shuffle_down(v, 2, 8)", lambda n: np.where(n % 8 < 6, n + 2, n)),
        ("whet_warp_shuffle_up(v, 3)", lambda n: np.where(n % 32 >= 3, n - 3, n)),
        ("whet_warp_shuffle_up(v, 9, 16)", lambda n: np.where(n % 16 >= 9, n - 9, n)),
        ("whet_warp_shuffle_xor(v, 21)", lambda n: n ^ 21),
        ("__shfl_xor_sync(0xffffffffu, v, 8)", lambda n: n ^ 8),
    ],
)
@pytest.mark.gpu_matrix(6)
def test_shuffles(call, source, checks):
    text = body(
        f"""
        WHET_LOCAL(double, L, 1);
        const int n = threadIdx.x;
        L[0] = n + 0.5;
        const double v = L[0];
        L[0] = {call};
        v == 0.5 ? L[0] = L[0] : L[0] += 0;
        B[n] = L[0];
        """,
        "WHET_GLOBAL(double) B",
    )
    for order in ("forwards", "backwards", 3):
        (b,) = run(text, 1, 96, Unwritten((96,), "float64"), checks=checks, order=order)
        np.testing.assert_array_equal(b, source(np.arange(96)) + 0.5)


def test_votes_of_a_warp():
    text = body(
        """
        const int n = threadIdx.x;
        B[n] = __ballot_sync(0xffffffffu, n % 3 == 0);
        A[n] = 2 * __any_sync(0xffffffffu, n == 40) + __all_sync(0xffffffffu, n < 32);
        """,
        "WHET_GLOBAL(unsigned) B, WHET_GLOBAL(int) A",
    )
    b, a = run(text, 1, 64, Unwritten((64,), "uint32"), Unwritten((64,), "int32"))
    bits = [sum(1 << k for k in range(32) if (w + k) % 3 == 0) for w in (0, 32)]
    np.testing.assert_array_equal(b, np.repeat(np.array(bits, "u4"), 32))
    np.testing.assert_array_equal(a, np.repeat([1, 2], 32))


# CUDA C by hand

BY_HAND = """
#include <cuda_runtime.h>
#include <cstdio>
/* a kernel { in a comment <<< */
template <typename T> __device__ inline T twice(const T *p, int k) { return p[k] + p[k]; }
__global__ void __launch_bounds__(64)
turn(const float *__restrict__ a, float4 *out, int rows)
{
    __shared__ float tile[8][9];
    extern __shared__ float more[];
    __shared__ int count;
    const int x = threadIdx.x % 8, y = threadIdx.x / 8;
    if (threadIdx.x == 0) count = 0;
    tile[y][x] = a[blockIdx.x * 64 + threadIdx.x];
    more[threadIdx.x] = twice(a, blockIdx.x * 64 + threadIdx.x);
    __syncthreads();
    if (tile[x][y] > 0) atomicAdd(&count, 1);
    float *line = &more[(threadIdx.x / 4) * 4];
    const float4 v = *(const float4 *)line;
    __syncthreads();
    if (threadIdx.x < 16)
        out[blockIdx.x * 16 + threadIdx.x] = make_float4(tile[x][y], v.x, *(more + 1), count);
}
void launch(float *a, float4 *b) { turn<<<2, 64, 256>>>(a, b, 2); printf("{"); }
"""


@BOTH
def test_a_kernel_by_hand(checks):
    a = np.random.default_rng(7).standard_normal((2, 64)).astype("f4")
    _, b = run(BY_HAND, 2, 64, a, Unwritten((2, 16, 4)), 2, shared=256, checks=checks)
    t = np.arange(16)
    for k in range(2):
        wanted = [a[k].reshape(8, 8)[t % 8, t // 8], 2 * a[k][t // 4 * 4], np.full(16, 2 * a[k][1])]
        for lane, w in enumerate([*wanted, np.full(16, (a[k] > 0).sum())]):
            np.testing.assert_array_equal(b[k, :, lane], w)


@pytest.mark.parametrize(
    "before, after, said",
    [
        ("tile[y][x] =", "tile[y][x + 2] =", r"shared tile\[9\], out of bounds: there are 9"),
        ("tile[y][x] =", "tile[y + 1][x] =", r"shared tile\[8\], out of bounds: there are 8"),
        ("more[threadIdx.x] =", "more[threadIdx.x + 1] =", r"shared more\[64\], out of bounds"),
        ("*(more + 1)", "*(more + 64)", r"reads shared more\[64\], out of bounds"),
        ("atomicAdd(&count, 1)", "count += 1", r"a race: it \w+ shared count"),
        ("a[blockIdx.x * 64 + threadIdx.x];\n    more",
         "a[(int)blockIdx.x * 64 - 1 + (int)threadIdx.x];\n    more",
         r"reads global a\[-1\], out of bounds: there are 128"),
    ],
)  # fmt: skip
def test_mistakes_in_a_kernel_by_hand(before, after, said):
    assert before in BY_HAND
    a = np.ones((2, 64), "f4")
    with pytest.raises(EmulatorError, match=said):
        run(BY_HAND.replace(before, after), 2, 64, a, Unwritten((2, 16, 4)), 2, shared=256)


def test_atomic_operations():
    text = body(
        """
        const int n = threadIdx.x;
        atomicAdd(&B[0], 1.0f); atomicMax(&I[0], n); atomicMin(&I[1], n);
        atomicOr(&I[2], 1 << n % 8); atomicCAS(&I[3], 0, n + 7); atomicExch(&I[4], n);
        """,
        "float *B, int *I",
    )
    b, i = run(text, 3, 64, np.zeros(1, "f4"), np.zeros(5, "i4"), order="backwards")
    assert b[0] == 192 and i.tolist() == [63, 0, 255, 70, 0]


def test_an_atomic_operation_and_a_plain_one_are_a_race():
    text = body("if (threadIdx.x) atomicAdd(&B[0], 1.0f); else B[0] = 2.0f;", "float *B")
    with pytest.raises(EmulatorError, match=r"a race: it writes global B\[0\]"):
        run(text, 1, 64, np.zeros(1, "f4"))


# what is refused


@pytest.mark.parametrize(
    "text, error, said",
    [
        ("int x;", CodegenError, "no __global__ function"),
        ("template <int N> __global__ void f(float *a) { a[N] = 0; }", CodegenError, "a template"),
        (body("B[0] = nothing;", "float *B"), CodegenError, r"kernel\.cu:2:\d+: error:.*nothing"),
        (body("B[0] = 0;", "float *B, int n"), ArgumentError, "it takes 2: float \\* B, int n"),
        (body("", "float n"), ArgumentError, "it is a number, float"),
    ],
)
def test_texts_that_are_refused(text, error, said):
    with pytest.raises(error, match=said):
        run(text, 1, 1, np.zeros(4, "f4"))


def test_a_launch_that_no_device_takes():
    text = body("B[0] = 0;", "float *B")
    with pytest.raises(KernelError, match="2048 threads in a block, at most 1024"):
        run(text, 1, (64, 32), np.zeros(4, "f4"))
    with pytest.raises(KernelError, match="250000 bytes of shared memory"):
        run(text, 1, 1, np.zeros(4, "f4"), shared=250000)


def test_a_block_has_the_shared_memory_of_the_largest_architecture():
    text = body("WHET_SHARED_BUFFER(float, S, 232444, 1); S[0] = 3; B[0] = S[0];", "float *B")
    assert run(text, 1, 1, np.zeros(1, "f4"), shared=227 * 1024)[0][0] == 3


def test_an_order_that_is_none():
    with pytest.raises(ArgumentError, match="'forwards', 'backwards', or an integer of"):
        emulator.EmulatorOptions(order="sideways")


def test_without_a_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(TargetError, match=r"no 'no-such-compiler' on the PATH(.|\n)*CXX"):
        compile_emulated(body("", "int n"))


def test_code_is_kept_by_content(monkeypatch, tmp_path):
    monkeypatch.setenv("WHET_CACHE_DIR", str(tmp_path))
    text = body("B[0] = 41;", "int *B")
    first = compile_emulated(text)
    made = first.stat().st_ino
    assert first.is_relative_to(tmp_path) and compile_emulated(text) == first
    assert first.stat().st_ino == made
    assert compile_emulated(text.replace("41", "42")) != first
    assert compile_emulated(text, checks=True) != first
    monkeypatch.setenv("WHET_CACHE_DIR", "")
    elsewhere = compile_emulated(text)
    assert elsewhere.exists() and not elsewhere.is_relative_to(tmp_path)
