"""Kernels that a GPU or nvcc refuses, or that end the process: named, with thread and line."""

import numpy as np
import pytest

from whet.compiler.emulator import EmulatorError, emulator_options
from whet.compiler.emulator.sanitizer.run import Unwritten, run_kernel

TEXT = """#include <cassert>
#define MOST 64
template <int N> struct Twice { static const int value = 2 * N; };
__constant__ float c[4], e[2][2];
__constant__ float d[] = {1, 2, 3};
extern "C" __global__ BOUNDS void f(int *y, int n) {
    const int t = threadIdx.x;
    LINE
}
"""


def run(line, n=5, threads=32, checks=True, bounds="", order="forwards"):
    text = TEXT.replace("LINE", line).replace("BOUNDS", bounds)
    with emulator_options(checks=checks, order=order):
        return run_kernel(text, "f", 1, threads, [np.ones(threads, "i4"), n])[0]


BOTH = {
    "assert": ('assert(t < n && "few");', "trap", r'it ended itself: assert\(t < n && "few"\)'),
    "division": ("y[t] = 7 / (n - t);", "undefined arithmetic", "it divides 7 by 0, of type int"),
    "remainder": ("y[t] %= n - t;", "undefined arithmetic", "it divides 1 by 0, of type int"),
    "two barriers on a line": (
        "if (t < 5) __syncthreads(); else __syncthreads();",
        "divergent barrier", "at the barrier at line 8 while thread .* is at another one there",
    ),
}  # fmt: skip
CHECKED = {
    "lowest by -1": (
        "y[t] = (n - 5 + (-2147483647 - 1)) / (t - 6);", "undefined arithmetic", "lowest one by -1",
    ),
    "shift": ("y[t] = 1 << (n + t);", "undefined arithmetic", "shifts 1, of type int with 32 bits"),
    "shift to the right": (
        "y[t] = 4000000000u >> (27 + t);", "undefined arithmetic", "type unsigned int .* by 32",
    ),
    "shift of 64 bits": (
        "y[t] = int(1ull << (60 + t));", "undefined arithmetic", "with 64 bits, by 64: undefined",
    ),
    "negative shift": ("y[t] <<= t - 40;", "undefined arithmetic", "by -40: undefined behaviour"),
    "constant": ("y[t] = int(c[t]);", "out of bounds", r"constant c\[4\], out of bounds: there"),
    "constant with values": ("y[t] = int(d[t]);", "out of bounds", r"constant d\[3\]"),
    "constant rows": ("y[t] = int(e[1][t]);", "out of bounds", r"constant e\[2\].* 2 elements"),
    "constant before": (
        "const float *p = d; y[t] = int(p[t - 1]);", "out of bounds", r"constant d\[-1\]",
    ),
    "an address": ("int **p = nullptr; y[t] = p[t][0];", "crash", "address 0x.*where no memory is"),
}  # fmt: skip


@pytest.mark.parametrize("name", BOTH)
def test_what_ended_the_process_names_thread_and_line(name):
    line, fault, said = BOTH[name]
    for checks in (True, False):
        with pytest.raises(EmulatorError, match=said) as caught:
            run(line, checks=checks)
        assert (caught.value.fault, caught.value.line) == (fault, 8)
        assert caught.value.thread == (5, 0, 0)


@pytest.mark.parametrize("name", CHECKED)
def test_what_was_computed_otherwise_than_on_a_gpu(name):
    line, fault, said = CHECKED[name]
    with pytest.raises(EmulatorError, match=said) as caught:
        run(line)
    assert (caught.value.fault, caught.value.line) == (fault, 8)


def test_what_is_defined_is_computed():
    y = run("y[t] = (1 << t) + (7 / (n + t)) + int(d[t % 3] + c[t & 3]) + (0x80000000u >> t);")
    t = np.arange(32)
    wanted = 2.0**t + 7 // (5 + t) + 1 + t % 3 + 2.0 ** (31 - t)
    np.testing.assert_array_equal(y, wanted.astype("i8").astype("i4"))


@pytest.mark.parametrize(
    "bounds, most",
    [("__launch_bounds__(64)", 64), ("__launch_bounds__(Twice<MOST>::value, 2)", 128)],
)
def test_launch_bounds(bounds, most):
    """A GPU refuses the launch; the emulator ran it."""
    assert (run("y[t] = 2;", threads=most, bounds=bounds) == 2).all()
    for checks in (True, False):
        with pytest.raises(
            EmulatorError, match=rf"launching f: its block has {most + 1} threads, and __launch_bou"
        ) as caught:
            run("y[t] = 2;", threads=most + 1, bounds=bounds, checks=checks)
        assert caught.value.fault == "bad launch"


@pytest.mark.parametrize("checks", [True, False])
def test_static_shared_memory(checks):
    line = (
        "__shared__ float a[6144]; __shared__ double b[MORE]; a[t] = b[t] = t; y[t] = a[t] + b[t];"
    )
    y = run(line.replace("MORE", "3072"), checks=checks)
    np.testing.assert_array_equal(y, 2 * np.arange(32))
    with pytest.raises(
        EmulatorError, match=r"take 49160 bytes by here, and 49152 is the m"
    ) as caught:
        run(line.replace("MORE", "3073"), checks=checks)
    assert caught.value.line == 8 and "extern __shared__" in str(caught.value)


def test_a_scalar_has_its_own_name_and_lanes_of_a_warp_another_way_out():
    said = r"shared held, which thread (?s:.*)__syncwarp\(\) between the two accesses, which are of"
    with pytest.raises(EmulatorError, match=said) as caught:
        run("__shared__ int held; if (t == 0) held = n; y[t] = held;")
    assert caught.value.buffer == "held"
    with pytest.raises(EmulatorError, match=r"set a barrier: __syncthreads\(\) between"):
        run("__shared__ int s[64]; s[t] = n; __syncwarp(); y[t] = s[t ^ 32];", threads=64)


def test_the_process_goes_on_with_its_own_signals():
    import signal

    before = signal.getsignal(signal.SIGSEGV), signal.getsignal(signal.SIGFPE)
    with pytest.raises(EmulatorError):
        run(CHECKED["an address"][0])
    assert (signal.getsignal(signal.SIGSEGV), signal.getsignal(signal.SIGFPE)) == before
    assert (run("y[t] = t;") == np.arange(32)).all()


COMPILED = """
struct P { int x, y; float w[2]; struct { short a; } in; };
template <class T> struct Sum {
    struct Storage { T v[32]; int n; };
    Storage &s;
    __device__ Sum(Storage &s) : s(s) {}
    __device__ T of(T v) { s.v[threadIdx.x] = v; __syncthreads(); return s.v[0] + s.v[31]; }
};
struct Own { struct Storage { float v[32]; int n; }; };
template <class T> __device__ float total(float v) {
    __shared__ typename T::Storage held;
    return T(held).of(v);
}
template <class T> __device__ float turned(float v) {
    __shared__ typename T::Storage held;
    held.v[threadIdx.x] = v;
    if (threadIdx.x == 0) held.n = 3;
    BARRIER
    return held.v[31 - threadIdx.x] + held.n;
}
__device__ float diagonal(float (*t)[33], int k) { return t[k][31 - k]; }
__device__ float corner(const float t[][33], float (&u)[32][33]) { return t[31][31] + u[0][0]; }
__device__ void add(float &to, float by) { to += by; }
__global__ void f(P *p, float4 *v, const float (*a)[8], float *y) {
    __shared__ float tile[32][33];
    __shared__ P s[32];
    const int t = threadIdx.x;
    for (int k = 0; k < 32; ++k) tile[k][t] = 32 * k + t;
    float &own = tile[t][32];
    float plain = 1;
    own = t;
    own += 1;
    s[t].x = t; s[t].y = 2 * t; s[t].w[1] = 3; s[t].in.a = 4;
    __syncthreads();
    P *q = p + t;
    const P &r = s[31 - t];
    p[t].x = r.x + r.in.a - 4;
    q->y = s[t].in.a;
    p[t].y <<= 1;
    (p + t)->w[0] = s[t].w[1];
    atomicAdd(&q->x, 100);
    v[t].w = tile[31 - t][32];
    auto &z = v[t].w;
    z *= 2;
    add(y[t], diagonal(tile, t));
    add(plain, 1);
    y[t] = plain < 9 ? y[t] : plain;
    y[t] += corner(tile, tile) + plain + a[t / 8][t % 8] + total<Sum<float>>(t) + turned<Own>(t);
}
"""


@pytest.mark.parametrize("checks", [True, False])
def test_references_members_and_rows(checks):
    rng = np.random.default_rng()
    a, y0, t = (
        rng.integers(0, 9, 32).astype("f4"),
        rng.integers(0, 9, 32).astype("f4"),
        np.arange(32),
    )
    given = [np.zeros((32, 5), "i4"), np.zeros((32, 4), "f4"), a, y0]
    with emulator_options(checks=checks, order="backwards"):
        p, v, _, y = run_kernel(COMPILED.replace("BARRIER", "__syncthreads();"), "f", 1, 32, given)
    np.testing.assert_array_equal(p[:, 0], 131 - t)
    np.testing.assert_array_equal(p[:, 1], 8)
    np.testing.assert_array_equal(p[:, 2].copy().view("f4"), 3)
    np.testing.assert_array_equal(v[:, 3], 2 * (32 - t))
    np.testing.assert_array_equal(y, y0 + 32 * t + 31 - t + 1023 + 2 + a + 31 + 31 - t + 3)


WATCHED = {
    "a member": ("held.n = 3;\n    BARRIER", "held.n = 3;", r"shared held\["),
    "a reference": (
        "float &own = tile[t][32]",
        "float &own = tile[t][33]",
        r"tile\[33\], out of",
    ),
    "a member of what is const": ("const P &r = s[31 - t]", "const P &r = s[32]", r"shared s\["),
    "a row": (
        "t[k][31 - k]; }",
        "t[k][33 + k]; }",
        r"shared tile\[\d+\], out of bounds: there are 33",
    ),
    "a member of the device": ("q->y = s[t]", "q[32].y = s[t]", r"global p\["),
}


@pytest.mark.parametrize("name", WATCHED)
def test_references_members_and_rows_are_looked_at(name):
    before, after, said = WATCHED[name]
    assert COMPILED.count(before) == 1
    text = COMPILED.replace(before, after).replace("BARRIER", "__syncthreads();")
    given = [np.zeros((32, 5), "i4"), np.zeros((32, 4), "f4"), np.ones(32, "f4"), np.ones(32, "f4")]
    with pytest.raises(EmulatorError, match=said):
        run_kernel(text, "f", 1, 32, given)


def test_functions_of_pi():
    text = """
    __global__ void f(const float *x, float *y) {
        const int t = threadIdx.x;
        float s, c, out[2];
        double d, e;
        sincospif(x[t], &s, &c);
        sincospi(x[t], &d, &e);
        sincospif(x[t], &y[128 + t], &y[160 + t]);
        y[t] = s; y[32 + t] = c; y[64 + t] = d; y[96 + t] = e;
    }
    """
    x = np.random.default_rng().uniform(-9, 9, 32).astype("f4")
    _, y = run_kernel(text, "f", 1, 32, [x, Unwritten((192,))])
    s, c = np.sin(np.pi * x.astype("f8")), np.cos(np.pi * x.astype("f8"))
    np.testing.assert_allclose(y, np.concatenate([s, c, s, c, s, c]), atol=1e-6)
