"""Checks the assembly in the prelude of CUDA C, which no emulator runs, on a device."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from check_device import launched

import whet
from whet.compiler.errors import KernelError
from whet.compiler.runtime.arrays.device import Device

THREADS = 64
"""Two warps: what moves between lanes must stay within one."""

ROUNDING = """
extern "C" __global__ void check(
    WHET_GLOBAL(const double) X, WHET_GLOBAL(float16) H, WHET_GLOBAL(bfloat16) B,
    WHET_GLOBAL(float) H1, WHET_GLOBAL(float) B1, int n
) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const double x = X[i];
        H[i] = float16(x);
        B[i] = bfloat16(x);
        H1[i] = float(float16(float(x)));
        B1[i] = float(bfloat16(float(x)));
    }
}
"""
ARITHMETIC = """
extern "C" __global__ void check(
    WHET_GLOBAL(const float16) X, WHET_GLOBAL(const float16) Y, WHET_GLOBAL(float16) Z, int n
) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const float16 x = X[i], y = Y[i];
        Z[4 * i] = x + y;
        Z[4 * i + 1] = x - y;
        Z[4 * i + 2] = x * y;
        Z[4 * i + 3] = x / y;
    }
}
"""
BYTES = """
extern "C" __global__ void check(
    WHET_GLOBAL(const TYPE) A, WHET_GLOBAL(const TYPE) B, WHET_GLOBAL(TYPE) C
) {
    const TYPE a = A[threadIdx.x], b = B[threadIdx.x], c = C[threadIdx.x];
    C[threadIdx.x] = whet_dp4a(a, b, c);
}
"""
TRANSPOSE = """
extern "C" __global__ void check(WHET_GLOBAL(const signed char) A, WHET_GLOBAL(int) B) {
    const int at = threadIdx.x * 16;
    const int8x4 a = whet_load<int8x4>(A, at), b = whet_load<int8x4>(A, at + 4);
    const int8x4 c = whet_load<int8x4>(A, at + 8), d = whet_load<int8x4>(A, at + 12);
    whet_store<int32x4>(B, threadIdx.x * 4, whet_transpose4x4<int32x4>(a, b, c, d));
}
"""
LANES = """
extern "C" __global__ void check(WHET_GLOBAL(const TYPE) X, WHET_GLOBAL(TYPE) Y) {
    const TYPE x = X[threadIdx.x];
    const int at = threadIdx.x * 8;
    Y[at] = whet_warp_shuffle(x, 5);
    Y[at + 1] = whet_warp_shuffle_down(x, 3);
    Y[at + 2] = whet_warp_shuffle_up(x, 7);
    Y[at + 3] = whet_warp_shuffle_xor(x, 9);
    Y[at + 4] = whet_warp_shuffle(x, 5, 8);
    Y[at + 5] = whet_warp_shuffle_down(x, 3, 8);
    Y[at + 6] = whet_warp_shuffle_up(x, 7, 8);
    Y[at + 7] = whet_warp_shuffle_xor(x, 6, 8);
}
"""
TRAP = """
extern "C" __global__ void check(WHET_GLOBAL(int) A, int n) {
    if (n < 0) whet_trap(3, "n is negative");
    A[threadIdx.x] = n;
}
"""


def prelude(device: Device) -> str:
    """Each function of the prelude that is written in assembly computes what it should.

    The trap comes last: nothing else can be done with the device in this process after it.
    """
    done = []
    for name, check in PARTS.items():
        check(device)
        done.append(name)
    return ", ".join(done)


def _there(device: Device, *arrays: np.ndarray) -> list[whet.nd.NDArray]:
    return [whet.nd.array(x, device) for x in arrays]


def _numbers() -> np.ndarray:
    """Numbers in float64: drawn ones, halfway ones, and those that rounding twice gets wrong."""
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal(400) * 2.0 ** rng.integers(-13, 15, 400)
    near = (0.0, 2.0**-40, -(2.0**-40))
    ties = [1 + k * 2.0**-p + d for p in (8, 9, 11, 12) for k in range(8) for d in near]
    edges = [0.0, 65504.0, 65519.99, 65520.0, 1e5, 2.0**-24, 1.5 * 2.0**-24, 2.0**-25, 1e-9, np.inf]
    one = np.array([*drawn, *ties, *edges])
    return np.concatenate([one, -one, [np.nan]])


def _bfloat16(x: np.ndarray) -> np.ndarray:
    """The nearest numbers with 8 binary digits, the even one of two; in float64."""
    finite = np.isfinite(x)
    part, exponent = np.frexp(np.where(finite, x, 0.0))
    return np.where(finite, np.ldexp(np.round(np.ldexp(part, 8)), exponent - 8), x)


def _check_rounding(device: Device) -> None:
    import ml_dtypes

    x = _numbers()
    n = len(x)
    empty = [np.zeros(n, t) for t in ("float16", ml_dtypes.bfloat16, "float32", "float32")]
    arrays = _there(device, x, *empty)
    launched(device, ROUNDING, THREADS, *arrays, n)
    half, short, half1, short1 = (a.numpy().astype("float64") for a in arrays[1:])
    once = x.astype("float32")
    with np.errstate(over="ignore"):
        rows = (
            ("float64 to float16", half, x.astype("float16")),
            ("float64 to bfloat16", short, _bfloat16(x)),
            ("float32 to float16", half1, once.astype("float16")),
            ("float32 to bfloat16", short1, _bfloat16(once.astype("float64"))),
        )
    for what, found, right in rows:
        np.testing.assert_array_equal(found, right, err_msg=what)


def _check_arithmetic(device: Device) -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal(200).astype("float16") for _ in range(2))
    arrays = _there(device, x, y, np.zeros((200, 4), "float16"))
    launched(device, ARITHMETIC, THREADS, *arrays, 200)
    right = np.stack([x + y, x - y, x * y, x / y], axis=1)
    np.testing.assert_array_equal(arrays[2].numpy(), right)


def _check_bytes(device: Device) -> None:
    rng = np.random.default_rng(2)
    for name, dtype, each in (("int", "int32", "int8"), ("unsigned int", "uint32", "uint8")):
        a, b = (rng.integers(0, 256, 4 * THREADS, "uint8").view(dtype) for _ in range(2))
        c = rng.integers(0, 1 << 20, THREADS).astype(dtype)
        left, right = (x.view(each).reshape(THREADS, 4).astype("int64") for x in (a, b))
        sums = (left * right).sum(1) + c
        arrays = _there(device, a, b, c)
        launched(device, BYTES.replace("TYPE", name), THREADS, *arrays)
        np.testing.assert_array_equal(arrays[2].numpy(), sums, err_msg=name)


def _check_transpose4x4(device: Device) -> None:
    a = np.random.default_rng(3).integers(-128, 128, (THREADS, 4, 4)).astype("int8")
    arrays = _there(device, a, np.zeros((THREADS, 4), "int32"))
    launched(device, TRANSPOSE, THREADS, *arrays)
    transposed = np.ascontiguousarray(a.swapaxes(1, 2)).view("int32")[..., 0]
    np.testing.assert_array_equal(arrays[1].numpy(), transposed)


def _sources() -> np.ndarray:
    """For each thread the threads whose values the eight shuffles of ``LANES`` give it."""
    own = np.arange(THREADS)
    found = []
    for width, (index, down, up, other) in ((32, (5, 3, 7, 9)), (8, (5, 3, 7, 6))):
        lane, first = own % width, own - own % width
        found += [
            first + index % width,
            np.where(lane + down < width, own + down, own),
            np.where(lane - up >= 0, own - up, own),
            own ^ other,
        ]
    return np.stack(found, axis=1)


def _check_lanes(device: Device) -> None:
    import ml_dtypes

    types = {"float": "float32", "double": "float64", "int": "int32", "float16": "float16",
             "bfloat16": ml_dtypes.bfloat16}  # fmt: skip
    for name, dtype in types.items():
        x = (np.arange(THREADS) + 100).astype(dtype)
        arrays = _there(device, x, np.zeros((THREADS, 8), dtype))
        launched(device, LANES.replace("TYPE", name), THREADS, *arrays)
        found = arrays[1].numpy().astype("float64")
        np.testing.assert_array_equal(found, x.astype("float64")[_sources()], err_msg=name)


def _check_trap(device: Device) -> None:
    (a,) = _there(device, np.zeros(THREADS, "int32"))
    launched(device, TRAP, THREADS, a, 8)
    assert (a.numpy() == 8).all(), "a trap whose condition does not hold stopped the kernel"
    try:
        launched(device, TRAP, THREADS, a, -1)
    except KernelError:
        return
    raise AssertionError("a trap did not end its kernel")


PARTS: dict[str, Callable[[Device], None]] = {
    "16-bit floats": _check_rounding,
    "their arithmetic": _check_arithmetic,
    "dp4a": _check_bytes,
    "transposed bytes": _check_transpose4x4,
    "shuffles": _check_lanes,
    "trap": _check_trap,
}
"""The checks by name; the trap is the last."""
