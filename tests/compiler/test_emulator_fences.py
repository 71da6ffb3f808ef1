"""What a block hands to a later one by a fence and a counter is no race; without them it is."""

import numpy as np
import pytest

from whet.compiler.emulator import EmulatorError
from whet.compiler.emulator.run import Unwritten, run_kernel

# The last block to come by the counter adds up what all have left.
LAST = """
extern "C" __global__ void total(const float *x, float *part, unsigned *count, float *y) {
    __shared__ bool last;
    const int i = threadIdx.x, b = blockIdx.x;
    part[b * 32 + i] = x[b * 32 + i] * 2.0f;
    FENCE
    __syncthreads();
    if (i == 0) last = NEXT == gridDim.x - 1;
    __syncthreads();
    if (last) y[i] = part[i] + part[32 + i] + part[64 + i];
}
"""
# One thread writes, fences and counts; what it writes behind the fence is not handed over.
ONE = """
extern "C" __global__ void total(const float *x, float *part, unsigned *count, float *y) {
    const int b = blockIdx.x;
    FIRST
    __threadfence();
    SECOND
    if (atomicAdd(count, 1u) == 2)
        for (int k = 0; k < 3; ++k) y[k] = part[k];
}
"""


def run(text, threads=32):
    x = np.arange(96, dtype="f4")
    count = np.zeros(1, "u4")
    *_, y = run_kernel(text, "total", 3, threads, [x, Unwritten((96,)), count, Unwritten((32,))])
    return x, y


@pytest.mark.parametrize("next_one", ["atomicAdd(count, 1u)", "atomicInc(count, 2u)"])
def test_the_last_block_may_read_what_all_have_released(next_one):
    x, y = run(LAST.replace("FENCE", "__threadfence();").replace("NEXT", next_one))
    np.testing.assert_array_equal(y, 2 * x.reshape(3, 32).sum(0))


def test_without_a_fence_or_a_counter_it_is_a_race():
    counted = LAST.replace("NEXT", "atomicAdd(count, 1u)")
    with pytest.raises(
        EmulatorError, match=r"reads global part(?s:.)*hand it over by __threadfence\(\)"
    ):
        run(counted.replace("FENCE", ""))
    with pytest.raises(EmulatorError, match="a race: it reads global part"):
        run(LAST.replace("FENCE", "__threadfence();").replace("NEXT", "b"))
    with pytest.raises(EmulatorError, match="a race: it reads global part"):
        run(counted.replace("FENCE", "__threadfence_block();"))


def test_of_one_thread_what_comes_before_the_fence():
    x, y = run(ONE.replace("FIRST", "part[b] = x[b];").replace("SECOND", ""), 1)
    np.testing.assert_array_equal(y[:3], x[:3])
    with pytest.raises(EmulatorError, match="a race: it reads global part"):
        run(ONE.replace("FIRST", "").replace("SECOND", "part[b] = x[b];"), 1)


@pytest.mark.parametrize("grid, block", [(1, 2), (2, 1)])
def test_a_plain_read_beside_an_atomic_operation(grid, block):
    text = 'extern "C" __global__ void f(int *x, int *y) { OLD atomicMax(x, 3); }'
    given = [np.zeros(1, "i4"), np.zeros(1, "i4")]
    with pytest.raises(EmulatorError, match=r"global x\[0\], which (?s:.)*: atomicAdd\(p, 0\)"):
        run_kernel(text.replace("OLD", "if (*x < 3)"), "f", grid, block, given)
    run_kernel(text.replace("OLD", "if (atomicAdd(x, 0) < 3)"), "f", grid, block, given)
