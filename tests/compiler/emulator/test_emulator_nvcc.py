"""Sources that nvcc refuses the emulator refuses, too: with the line, and with the way out."""

import pytest

from whet.compiler.codegen.cuda import nvrtc
from whet.compiler.codegen.cuda.nvrtc import compile_cubin
from whet.compiler.emulator import compile_emulated
from whet.compiler.errors import CodegenError

INTEGERS = "int, unsigned, long long, unsigned long long"
REFUSED = {
    "a shuffle of a vector": (
        "float4 v = __shfl_sync(~0u, make_float4(1, 2, 3, 4), 0); x[0] = v.x;",
        "move one number of up to 8 bytes",
    ),
    "a shuffle of a pointer": ("x = __shfl_xor_sync(~0u, x, 1); x[0] = 1;", "no pointer"),
    "a sum of lanes' floats": (
        "x[0] = __reduce_add_sync(~0u, x[n]);", "CUDA has __reduce_.._sync of int, unsigned alone",
    ),
    "an atomic operation on a long": (
        "atomicAdd(l, 1);", "CUDA has atomicAdd of int, unsigned, unsigned long long, float",
    ),
    "a maximum of floats": ("atomicMax(x, 1.0f);", f"CUDA has atomicMax of {INTEGERS} alone"),
    "a circle of an int": ("atomicInc(&n, 3);", "CUDA has atomicInc of unsigned alone"),
    "a float to be compared": ("atomicCAS(x, 0.0f, 1.0f);", "CUDA has atomicCAS of int, unsigned"),
    "shared memory with a value": (
        "__shared__ int c = 0; x[0] = c;", "it has no initial value(?s:.*)__shared__ float t",
    ),
    "shared rows with values": ("__shared__ int c[2] = {0, 1}; x[0] = c[n];", "no initial value"),
    "shared memory of n": (
        "__shared__ float t[n]; x[0] = t[0];",
        "is not a constant expression(?s:.*)make it one: constexpr",
    ),
    "an array of n": ("float a[n]; a[0] = n; x[0] = a[0];", "is not a constant expression"),
    "an array of n vectors": (
        "float2 a[n]; a[0].x = n; x[0] = a[0].x;", "variable length array(?s:.*)make it one",
    ),
    "a function of the host": (
        "x[0] = twice(1.0f);", "twice is the host's(?s:.*)write __device__ before",
    ),
    "a variable of the host": ("x[0] = factor;", "factor is the host's: it has no __device__"),
    "an array of the host": ("x[0] = factors[n];", "factors is the host's: it has no __device__"),
    "a function of the C library": ("x[0] = rand();", "rand is a function of the host"),
    "the end of the process": ("if (n < 0) exit(1);", "exit is a function of the host"),
    "a function without a body": ("x[0] = nowhere(n);", "nowhere is declared in the text, and"),
    "an exception": ("if (n < 0) throw 1;", "nvcc refuses exceptions(?s:.*)__trap"),
    "another thread's number": ("threadIdx.x = 1;", "assignment of member(?s:.*)read-only"),
    "a block's extent": ("++blockDim.y;", "increment of member(?s:.*)read-only"),
    "a sum with a pointer to nothing": ("void *p = x; p = p + 4;", r"‘void \*’ used in arithmetic"),
}  # fmt: skip
TEXT = """
float factor = 2.0f;
float factors[2] = {1.0f, 2.0f};
float twice(float v) { return factor * v; }
__device__ float nowhere(int n);
extern "C" __global__ void f(float *x, long *l, int n) {
    LINE
}
"""


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.gpu_matrix(4)
def test_what_nvcc_refuses(name):
    line, said = REFUSED[name]
    text = TEXT.replace("LINE", line)
    with pytest.raises(CodegenError, match=f"for the emulator: line 7: .*{said}"):
        compile_emulated(text, checks=True, quick=True)
    if not nvrtc.available():
        return
    # to NVRTC, which compiles for the device alone, these are no functions at all
    if "host" not in said:
        text = "\n".join(text.splitlines()[4:])
    with pytest.raises(CodegenError):
        compile_cubin(text, "sm_90")


TAKEN = """
#define EACH(name, type) __device__ void name##_##type(type *p) { name(p, p[1]); }
typedef unsigned long long ull;
typedef long long ll;
EACH(atomicAdd, int) EACH(atomicAdd, unsigned) EACH(atomicAdd, ull) EACH(atomicAdd, float)
EACH(atomicAdd, double) EACH(atomicSub, int) EACH(atomicSub, unsigned) EACH(atomicMax, ll)
EACH(atomicMin, ull) EACH(atomicExch, float) EACH(atomicExch, ull) EACH(atomicAnd, int)
EACH(atomicOr, ll) EACH(atomicXor, ull) EACH(atomicInc, unsigned) EACH(atomicDec, unsigned)
enum kind { first, last };
namespace other { const float table[2] = {1.0f, 2.0f}; }
namespace kept = other;
class unknown;
#define INLINE __device__ \\
    __forceinline__
#define FAST INLINE
#define TABLE __constant__
#define FIXED static const
TABLE float scale = 2.0f;
FIXED float shift = 2.0f;
FAST float scaled(float v) { return v * scale + shift; }
static __constant__ int sizes[2] = {1, 2};
__constant__ const float ratios[2] = {1.0f, 2.0f};
#define KERNEL extern "C" \\
    __global__ void
extern "C" __global__ void f(float *x, unsigned short *s, int n, const void *any) {
    extern __shared__ float t[8];
    const short small = __shfl_sync(~0u, short(n), 0);
    const bool yes = __shfl_xor_sync(~0u, n > 1, 1);
    const kind which = (kind)__shfl_up_sync(~0u, last, 1);
    t[threadIdx.x % 8] = __shfl_down_sync(~0u, 1ull, 1) + __reduce_add_sync(~0u, n > 2);
    atomicCAS(s, 1, 2);
    x[0] = small + yes + which + kept::table[n] + clock() + scaled(1.0f) + sizes[n] + ratios[n]
        + ((const float *)any)[n] + __reduce_or_sync(~0u, x[1]);
}
"""


def test_what_nvcc_takes():
    compile_emulated(TAKEN, checks=True, quick=True)
    if nvrtc.available():
        compile_cubin(TAKEN, "sm_90")


@pytest.mark.parametrize(
    "line",
    [
        'asm("mov.u32 %0, %%laneid;" : "=r"(n));',
        'float v; asm("ex2.approx.f32 %0, %1;" : "=f"(v) : "f"(1.0f)); x[0] = v;',
    ],
)
@pytest.mark.gpu_matrix(1)
def test_assembly_is_refused_with_its_line(line):
    text = TEXT.replace("LINE", line)
    with pytest.raises(CodegenError, match=r"line 7: assembly: (?s:.*)__CUDA_ARCH__"):
        compile_emulated(text, checks=True, quick=True)
    plain = text.replace(line, f"#ifdef __CUDA_ARCH__\n{line}\n#else\nx[0] = 1;\n#endif")
    compile_emulated(plain, checks=True, quick=True)


def test_a_kernel_that_returns_a_number():
    text = "__global__ int f(float *x) { return 1; }"
    with pytest.raises(CodegenError, match="a kernel returns void"):
        compile_emulated(text, checks=True, quick=True)


@pytest.mark.gpu_matrix(
    0
)  # it is compiled twice: what takes much without optimisation may not with
def test_more_than_a_thread_of_the_emulator_holds():
    text = "__global__ void f(float *x, int n) { float a[60000]; a[n] = x[0]; x[1] = *(a + 1); }"
    with pytest.raises(CodegenError, match=r"frame size(?s:.*)a thread has 256 KiB of stack"):
        compile_emulated(text, checks=True, quick=True)
