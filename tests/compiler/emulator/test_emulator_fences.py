"""A block hands data to a later one by a fence and a counter without a race; else there is one."""

import numpy as np
import pytest

from whet.compiler.emulator import EmulatorError, emulator_options
from whet.compiler.emulator.sanitizer.run import Unwritten, run_kernel

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


@pytest.mark.parametrize(
    "fence, fine",
    [
        ("if (i == 0) __threadfence();", False),  # what the others did is not thread 0's
        ("if (i != 5) __threadfence();", False),
        ("__threadfence(); if (i == 5) part[b * 32 + i] = 0.0f;", False),
        ("__syncthreads(); if (i == 0) __threadfence();", True),
        ("__syncwarp(); if (i == 0) __threadfence();", True),
        ("if (i == 0) __threadfence(); __syncwarp();", False),
    ],
)
@pytest.mark.gpu_matrix(4)
def test_a_fence_covers_what_its_thread_knows_to_be_done(fence, fine):
    text = LAST.replace("FENCE", fence).replace("NEXT", "atomicAdd(count, 1u)")
    if not fine:
        with pytest.raises(
            EmulatorError, match=r"a race: it reads global part\[\d+\], which block"
        ):
            run(text)
        return
    x, y = run(text)
    np.testing.assert_array_equal(y, 2 * x.reshape(3, 32).sum(0))


# Each thread counts for itself; one of the last block reads what the others have written.
EACH = """
extern "C" __global__ void total(const float *x, float *part, unsigned *count, float *y) {
    const int k = blockIdx.x * 32 + threadIdx.x;
    part[k] = x[k];
    FENCE
    if (atomicAdd(count, 1u) == 64)
        for (int j = 0; j < 64; ++j) y[j / 2] = part[j];
}
"""


def test_each_thread_releases_what_it_has_done():
    x, y = run(EACH.replace("FENCE", "__threadfence();"))
    np.testing.assert_array_equal(y, x[1:64:2])
    with pytest.raises(EmulatorError, match="a race: it reads global part"):
        run(EACH.replace("FENCE", "if (k != 7) __threadfence();"))


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


LOCKED = """
extern "C" __global__ void total(const float *x, float *sum, unsigned *lock, float *y) {
    if (threadIdx.x != 0) return;
    while (atomicCAS(lock, 0u, 1u) != 0u) {}
    __threadfence();
    y[0] = y[0] + x[blockIdx.x];
    BEHIND
    atomicExch(lock, 0u);
}
"""


def locked(behind):
    x, y = np.arange(3, 6, dtype="f4"), np.zeros(1, "f4")
    args = [x, Unwritten((1,)), np.zeros(1, "u4"), y]
    return run_kernel(LOCKED.replace("BEHIND", behind), "total", 3, 64, args)[-1]


def test_one_thread_of_each_block_reads_and_writes_behind_a_lock():
    assert locked("__threadfence();") == 12
    with pytest.raises(EmulatorError, match="a race: it reads global y"):
        locked("")


# One lane of each warp counts; all lanes of the last block's warp take over.
LANES = """
extern "C" __global__ void total(const float *x, float *part, unsigned *count, float *y) {
    const int i = threadIdx.x;
    part[blockIdx.x * 32 + i] = x[blockIdx.x * 32 + i];
    __threadfence();
    __syncwarp();
    unsigned n = 0;
    if (i == 0) n = atomicAdd(count, 1u);
    n = __shfl_sync(0xffffffffu, n, 0);
    BEHIND
    if (n == 2) y[i] = part[i] + part[32 + i];
}
"""


def test_what_a_lane_has_taken_over_a_barrier_of_the_warp_gives_the_others():
    x, y = run(LANES.replace("BEHIND", "__syncwarp();"))
    np.testing.assert_array_equal(y, x[:32] + x[32:64])
    with pytest.raises(EmulatorError, match="a race: it reads global part"):
        run(LANES.replace("BEHIND", ""))


# Both warps of a block count; one of the last block's, behind the other, reads others' parts.
WARPS = """
extern "C" __global__ void total(const float *x, float *part, unsigned *count, float *y) {
    const int b = blockIdx.x;
    if (threadIdx.x % 32 != 0) return;
    if (threadIdx.x == 0) part[b] = x[b];
    __threadfence();
    if (atomicAdd(count, 1u) == 5) y[0] = part[0] + part[1];
}
"""


def test_a_thread_takes_over_behind_another_one_of_its_block():
    x, y = run(WARPS, 64)
    assert y[0] == x[0] + x[1]


# Each block adds the sums of those before it, which it looks back at by their flags.
LOOK_BACK = """
__global__ void scan(const float *x, float *y, FLAG *flag, float *own, DATA *all) {
    const int b = blockIdx.x;
    if (threadIdx.x != 0) return;
    float sum = x[b], before = 0;
    if (b > 0) {
        own[b] = sum; RELEASE flag[b] = 1;
        for (int j = b - 1; j >= 0; --j) {
            int state = 0;
            while (state == 0) state = flag[j];
            ACQUIRE
            if (state == 2) { before += all[j]; break; }
            before += own[j];
        }
    }
    all[b] = before + sum; RELEASE flag[b] = 2;
    y[b] = before + sum;
}
"""


def look_back(
    flag="volatile int", data="float", release="__threadfence();", acquire="", text=LOOK_BACK
):
    text = text.replace("FLAG", flag).replace("DATA", data).replace("RELEASE", release)
    x = np.random.default_rng().integers(0, 9, 7).astype("f4")
    args = [x, Unwritten((7,)), np.zeros(7, "i4"), Unwritten((7,)), Unwritten((7,))]
    y = run_kernel(text.replace("ACQUIRE", acquire), "scan", 7, 64, args)[1]
    np.testing.assert_array_equal(y, np.cumsum(x))


def test_looking_back_at_volatile_flags():
    look_back(acquire="__threadfence();")
    look_back(data="volatile float")
    cast = LOOK_BACK.replace("= flag[j]", "= ((volatile int *)flag)[j]")
    cast = cast.replace("flag[b] = 1", "*(volatile int *)&flag[b] = 1")
    look_back("int", text=cast.replace("flag[b] = 2", "atomicExch(&flag[b], 2)"))
    cached = LOOK_BACK.replace("= flag[j]", "= __ldcv(&flag[j])").replace(
        "flag[b] = 1", "__stwt(&flag[b], 1)"
    )
    look_back("int", text=cached.replace("flag[b] = 2", "__stwt(flag + b, 2)"))


@pytest.mark.parametrize("data", ["float", "volatile float"])
def test_looking_back_without_a_fence_or_a_flag_is_a_race(data):
    with pytest.raises(EmulatorError, match="a race: it reads global all"):
        look_back(data=data, release="")
    with pytest.raises(EmulatorError, match="a race: it reads global flag"):
        look_back("int", data)


# The guide's addition, by atomicCAS; ways of others to begin, and what is none.
LOOP = """
__device__ double add(double *address, double value) {
    unsigned long long *as_ull = (unsigned long long *)address;
    unsigned long long old = *as_ull, assumed;
    do {
        assumed = old;
        old = atomicCAS(as_ull, assumed,
                        __double_as_longlong(value + __longlong_as_double(assumed)));
    } while (assumed != old);
    return __longlong_as_double(old);
}
__device__ void raise(float *address, float value) {
    int *p = (int *)address;
    int old = *p;
    while (value > __int_as_float(old)) {
        const int assumed = old;
        old = atomicCAS(p, assumed, __float_as_int(value));
        if (old == assumed) break;
    }
}
__global__ void f(const double *x, double *y, float *most, int *first) {
    __shared__ float shared;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) shared = 0;
    __syncthreads();
    add(y, x[i]);
    raise(&shared, (float)x[i]);
    __syncthreads();
    if (threadIdx.x == 0) raise(most, shared);
    if (*first == 0) atomicCAS(first, 0, i + 1);
    LINE
}
"""


@pytest.mark.parametrize("order", ["forwards", "backwards", 3])
def test_a_loop_of_compare_and_swap_may_begin_with_a_plain_read(order):
    x = np.random.default_rng().integers(1, 99, 192).astype("f8")
    given = [x, np.zeros(1), np.zeros(1, "f4"), np.zeros(1, "i4")]
    with emulator_options(order=order):
        _, y, most, first = run_kernel(LOOP.replace("LINE", ""), "f", 3, 64, given)
        assert (y[0], most[0]) == (x.sum(), x.max()) and 1 <= first[0] <= 64
        for wrong in ("if (i == 70) y[0] = first[0];", "if (*most < i) atomicMax((int *)most, i);"):
            with pytest.raises(EmulatorError, match="a race"):
                run_kernel(LOOP.replace("LINE", wrong), "f", 3, 64, given)
