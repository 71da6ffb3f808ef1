"""Elements are their values where C++ would take the watched object: choices, auto, templates."""

import numpy as np
import pytest

from whet.compiler.emulator import emulator_options
from whet.compiler.emulator.handwritten.adapt import adapt
from whet.compiler.emulator.sanitizer.run import Unwritten, run_kernel

TEXT = """
#define PICK(c, v) \\
    c ? v[i] : 0
extern "C" __global__ void f(float *x, float *y) {
    __shared__ float s[32], half_of;
    float own[2] = {}, *p = x + threadIdx.x;
    int i = threadIdx.x;
    s[i] = x[i] + 0.5f;
    if (i == 0) half_of = 0.5f;
    own[i & 1] = 0.25f;
    __syncthreads();
    y[i] = (i < 16 ? s[i] : 0) + (i & 1 ? 0 : x[i]) + (i < 4 ? i < 2 ? s[i] : 1 : -1);
    y[32 + i] = (i > 3 ? half_of : 0) + (PICK(i > 1, s)) + (i > 2 ? *p : 0)
        + (i < 9 ? own[i & 1] : 0);
}
"""


@pytest.mark.parametrize("checks", [True, False])
def test_a_choice_beside_an_integer_is_no_integer(checks):
    x, i = np.arange(32, dtype="f4") + 0.125, np.arange(32)
    with emulator_options(checks=checks):
        y = run_kernel(TEXT, "f", 1, 32, [x, Unwritten((64,))])[1]
    s = x + 0.5
    inner = np.where(i < 4, np.where(i < 2, s, 1), -1)
    np.testing.assert_array_equal(y[:32], np.where(i < 16, s, 0) + np.where(i & 1, 0, x) + inner)
    wanted = np.where(i > 3, 0.5, 0) + np.where(i > 1, s, 0) + np.where(i > 2, x, 0)
    np.testing.assert_array_equal(y[32:], wanted + np.where(i < 9, 0.25, 0))


TYPES = """
template <typename T> __device__ T total(T v) {
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}
template <int N, typename T> __device__ void twice(const T &v, T &to) { T w = v; w *= N; to = w; }
extern "C" __global__ void f(float *x, float *y) {
    __shared__ float s[32], one;
    float own[2][2], rows[1][3] = {{1, 2, 3}};
    int i = threadIdx.x;
    auto v = x[i];
    float *p = &x[i];
    const auto w = *(x + i);
    x[i] = 100.0f;
    s[i] = v;
    if (i == 0) one = 1.0f;
    __syncthreads();
    const float sum = total(s[i]) + total(one);
    twice<2>(s[i], own[1][0]);
    auto row = rows[0];
    row[1] += own[1][0];
    y[i] = s[i] + w + sum + one;
    y[32 + i] = rows[0][1] + *p;
}
"""


def test_auto_and_types_of_templates_are_numbers():
    """They were the memory: what was written later was read, and sums went into their terms."""
    x = np.arange(32, dtype="f4")
    y = run_kernel(TYPES, "f", 1, 32, [x, Unwritten((64,))])[1]
    np.testing.assert_array_equal(y[:32], 2 * x + x.sum() + 33)
    np.testing.assert_array_equal(y[32:], 2 * x + 102)


VOLATILE = """
__device__ void warp_sum(volatile float *s, unsigned t) {
    for (int w = 16; w > 0; w /= 2) {
        float v = s[t] + s[t + w];
        __syncwarp();
        s[t] = v;
        __syncwarp();
    }
}
extern "C" __global__ void f(const float *x, volatile float *y) {
    __shared__ float s[64];
    __shared__ volatile int two;
    volatile float *p = s;
    s[threadIdx.x] = x[threadIdx.x];
    p[threadIdx.x + 32] = 0.0f;
    if (threadIdx.x == 0) two = 2;
    __syncthreads();
    warp_sum(s, threadIdx.x);
    if (threadIdx.x == 0) *y = s[0] * two;
}
"""


def test_volatile_memory_is_watched_as_other_memory_is():
    x = np.arange(32, dtype="f4")
    assert run_kernel(VOLATILE, "f", 1, 32, [x, Unwritten((1,))])[1] == 2 * x.sum()


READ = "whet_emulator::value_of(("
KERNEL = "__global__ void k() {{}}\n{}"


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("const int v = c ? a[f(i, 1)] : 0, w;", f"const int v = c ? {READ}a[f(i, 1)])) : 0, w;"),
        ("g(c ? 0u : a::b[i]);", f"g(c ? 0u : {READ}a::b[i])));"),
        ('printf("? : %d", c ? a[0] : b[0]); x ? 1 : 2;', None),
        ("#define A(c) c ? a[0] : 0\nint b();", f"#define A(c) c ? {READ}a[0])) : 0\nint b();"),
        ("#define A c ? 0 : a[0]\nint b();", f"#define A c ? 0 : {READ}a[0]))\nint b();"),
        (
            "for (auto v = *p; v; ++v) auto f = [&] { return a[0]; };",
            f"for (auto v = {READ}*p)); v; ++v) auto f = [&] {{ return a[0]; }};",
        ),
        (
            "template <class T> __device__ T f(T a, T *b); f(s[0], s[1]); f(s[0] + 1, 2);",
            "template <class T> __device__ T f(T a, WHET_POINTER(T) b); "
            f"f({READ}s[0])), s[1]); f(s[0] + 1, 2);",
        ),
        ("template <class T> T f(T &a); template <class T> T f(T a); f(s[0]);", None),
        ("c ? p : q; switch (c) { case '?': d; }", None),
    ],
)
def test_texts(text, made):
    assert adapt(KERNEL.format(text)).text == KERNEL.format(text if made is None else made)
