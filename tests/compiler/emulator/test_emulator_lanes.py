"""Lanes of a warp: which are active, and what is wrong with reading one that gives nothing."""

import numpy as np
import pytest

from whet.compiler.emulator import EmulatorError, emulator_options
from whet.compiler.emulator.sanitizer.run import Unwritten, run_kernel

ORDERS = ["forwards", "backwards", 3]

# The guide's warp-aggregated counters, one in each branch.
AGGREGATED = """
__device__ int next(int *counter) {
    const unsigned active = __activemask();
    const int leader = __ffs(active) - 1, lane = threadIdx.x & 31;
    int first;
    if (lane == leader) first = atomicAdd(counter, __popc(active));
    first = __shfl_sync(active, first, leader);
    return first + __popc(active & ((1u << lane) - 1));
}
__global__ void f(const int *x, int *counters, int *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (x[i] > 2) out[next(counters)] = i;
    else if (x[i] == 1) next(counters + 1);
    else next(counters + 2);
    for (int k = 0; k < x[i]; ++k) next(counters + 3);
}
"""


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("order", ORDERS)
def test_the_active_lanes_are_those_of_the_same_branch(checks, order):
    """All lanes that lived counted as active: the sums of a correct kernel were wrong."""
    n = 181
    x = np.random.default_rng().integers(0, 8, n).astype("i4")
    with emulator_options(checks=checks, order=order):
        _, counters, out = run_kernel(
            AGGREGATED, "f", 3, 64, [x, np.zeros(4, "i4"), np.full(n, -1, "i4"), n]
        )
    large = np.flatnonzero(x > 2)
    assert list(counters) == [len(large), (x == 1).sum(), ((x == 0) | (x == 2)).sum(), x.sum()]
    np.testing.assert_array_equal(np.sort(out[: len(large)]), large)


def test_lanes_that_wait_are_not_active():
    text = """
    __global__ void f(unsigned *y) {
        const int t = threadIdx.x;
        unsigned m = 0;
        if (t < 7) __syncwarp(0x7f);
        if (t >= 20) __syncthreads();
        else { m = __activemask(); __syncthreads(); }
        y[t] = m;
    }
    """
    text = text.replace("if (t >= 20) __syncthreads();\n        else { m = __activemask(); ",
                        "if (t < 20) m = __activemask();\n        { ")  # fmt: skip
    (y,) = run_kernel(text, "f", 1, 32, [Unwritten((32,), "uint32")])
    assert set(y[:20]) == {(1 << 20) - 1} and not y[20:].any()


BODY = """
__global__ void f(int *y, int n) {
    const int t = threadIdx.x;
    int v = t, p = 0;
    LINE
    y[t] = v + p;
}
"""
BAD = {
    "under a condition": (
        "if (t < 16) v += __shfl_down_sync(~0u, v, 8);",
        r"thread \((8|15), 0, 0\): its __shfl_down_sync reads lane (16|23), thread \(.*has ended",
    ),
    "a lane outside of the mask": (
        "if (t < 16) v = __shfl_sync(0xffff, v, 20);",
        "reads lane 20, which the mask 0x0000ffff does not name",
    ),
    "its own lane outside of the mask": (
        "v = __shfl_up_sync(0xffff, v, 1);",
        r"it is lane \d+, and comes by __shfl_up_sync with the mask 0x0000ffff, which does not",
    ),
    "another lane's half": (
        "if (t < 16) v = __shfl_xor_sync(0xffff, v, 16);", "reads lane [0-9]+, which the mask",
    ),
    "more or fewer times": (
        "for (int k = 0; k <= t % 3; ++k) v = __ballot_sync(~0u, t & 1);",
        "__ballot_sync has the mask 0xffffffff, and lane .* has come by this call before, and has",
    ),
    "two calls of a function": (
        "for (int k = 0; k <= t % 3; ++k) v = __ballot_sync(~0u, t & 1);\n"
        "    v += __ballot_sync(~0u, t & 1);",
        "which that names, is at __ballot_sync at line [56]",
    ),
    "another function": (
        "if (t < 9) v = __any_sync(~0u, t);\n    else __syncwarp();",
        "is at (__any_sync at line 5|__syncwarp at line 6)",
    ),
    "both branches": (
        "if (t < 9) v = __shfl_sync(~0u, v, 0); else v = __shfl_sync(~0u, v, 1);",
        "is at __shfl_sync at line 5",
    ),
    "all of a mask": (
        "for (int k = 0; k <= t % 3; ++k) v = __all_sync(~0u, t & 1);", "__all_sync has the mask",
    ),
    "a sum": (
        "for (int k = 0; k <= t % 3; ++k) v = __reduce_add_sync(~0u, t);",
        "its __reduce_add_sync has the mask 0xffffffff, and lane",
    ),
    "a match": (
        "if (t < 9) v = __match_any_sync(0x0f, t);",
        r"it is lane [48], and comes by __match_any_sync with the mask 0x0000000f",
    ),
    "a match of all": (
        "for (int k = 0; k <= t % 3; ++k) v = __match_all_sync(~0u, t, &p);", "__match_all_sync",
    ),
    "a barrier without the own lane": (
        "__syncwarp(0xfffffffe);", r"\(0, 0, 0\): it is lane 0, and comes by __syncwarp with",
    ),
    "a width": ("v = __shfl_sync(~0u, v, 0, 20);", "__shfl_sync with the width 20"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_lanes_that_give_nothing(name):
    """They gave NaN, or the bits of the lanes that had come, and no error."""
    line, said = BAD[name]
    for order in ORDERS:
        with pytest.raises(EmulatorError, match=said) as caught, emulator_options(order=order):
            run_kernel(BODY.replace("LINE", line), "f", 1, 32, [Unwritten((32,), "int32"), 1])
        assert caught.value.fault == "missing lane" and caught.value.line in (5, 6)


@pytest.mark.parametrize("checks", [True, False])
def test_lanes_that_wait_elsewhere(checks):
    text = BODY.replace("LINE", "if (t < 16) v += __shfl_down_sync(~0u, v, 8);\n __syncthreads();")
    said = (
        r"the warp's barrier at line 5 \(__shfl_down_sync\), and thread \(16, 0, 0\) at the one at "
        "line 6\n(?s:.*)let all lanes of its mask, 0xffffffff, come by"
    )
    with pytest.raises(EmulatorError, match=said), emulator_options(checks=checks):
        run_kernel(text, "f", 1, 32, [Unwritten((32,), "int32"), 1])
    text = BODY.replace("LINE", "v = __shfl_sync(t < 9 ? 0x1ffu : ~0u, v, 1);").replace("&p", "p")
    text = text.replace(
        "int v = t, p = 0;", "int v = t, p = 0; if (t < 9) p = __any_sync(0x3ff, 1);"
    )
    with pytest.raises(EmulatorError, match=r"thread .*, whose mask is 0xffffffff,"):
        run_kernel(text, "f", 1, 32, [Unwritten((32,), "int32"), 1])


def test_a_lane_that_the_block_has_not():
    text = BODY.replace("LINE", "v += __shfl_down_sync(~0u, v, 8);")
    with pytest.raises(EmulatorError, match=r"reads lane 2\d, which is not there: the block ends"):
        run_kernel(text, "f", 1, 20, [Unwritten((32,), "int32"), 1])


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("order", ORDERS)
def test_lanes_that_have_left_at_once_are_not_awaited(checks, order):
    """By CUDA's guide: all non-exited threads that the mask names."""
    text = """
    __global__ void f(int *y, int n) {
        const int t = threadIdx.x;
        if (t >= n) return;
        int all, none;
        int v = __popc(__ballot_sync(~0u, t & 1)) + 100 * __reduce_add_sync(~0u, t)
            + 100000 * __all_sync(~0u, t < n) + 1000000 * __popc(__match_any_sync(~0u, t / 7));
        v += 10 * (__shfl_up_sync(~0u, t, 3) + __shfl_xor_sync(0xf << (t & ~3), t, 2, 4));
        y[t] = v + 10000000 * (__match_all_sync(~0u, n, &all) == ~0u);
        y[t] += __match_all_sync(~0u, t, &none);
        y[t] += 100000000 * (all - none);
    }
    """
    n, t = 20, np.arange(20)
    with emulator_options(checks=checks, order=order):
        (y,) = run_kernel(text, "f", 1, 32, [Unwritten((n,), "int32"), n])
    same = (t[:, None] // 7 == t // 7).sum(1)
    wanted = 10 + 100 * t.sum() + 100_000 + 1_000_000 * same + 110_000_000
    np.testing.assert_array_equal(y, wanted + 10 * (np.where(t < 3, t, t - 3) + (t ^ 2)))
