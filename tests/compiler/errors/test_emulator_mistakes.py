"""Mistakes planted into kernels: each is caught and named: kernel, block, thread, buffer."""

import numpy as np
import pytest

from whet.compiler.emulator import EmulatorError, emulator_options
from whet.compiler.emulator.sanitizer.run import Unwritten, run_kernel

# Turns rows of 64 around through shared memory, then sums pairs of them.
GOOD = """
extern "C" __global__ void __launch_bounds__(64) turn(
    WHET_GLOBAL(const float) A, WHET_GLOBAL(float) B, int n) {
    WHET_EXTENT(A, n * 64);
    WHET_SHARED_BUFFER(float, S, 0, 64);
    WHET_SHARED_BUFFER(float, U, 256, 16);
    WHET_LOCAL(float, C, 2);
    const int tx = threadIdx.x;
    for (int k = 0; k < n; ++k) {
        S[tx] = A[k * 64 + tx];
        if (tx < 16) U[tx] = A[k * 64 + tx];
        __syncthreads();
        C[0] = S[63 - tx];
        C[1] = U[tx / 4];
        B[blockIdx.x * n * 64 + k * 64 + tx] = C[0] + C[1];
        __syncthreads();
    }
}
"""
FIRST, SECOND = "        __syncthreads();\n        C[0]", "        __syncthreads();\n    }"


def run(text, order="forwards", checks=True, n=3, blocks=2):
    a = np.random.default_rng(1).standard_normal((n, 64)).astype("f4")
    with emulator_options(checks=checks, order=order):
        _, b = run_kernel(text, "turn", blocks, 64, [a, Unwritten((blocks, n, 64)), n], 320)
    wanted = a[:, ::-1] + np.repeat(a[:, :16], 4, axis=1)
    return b, np.broadcast_to(wanted, b.shape)


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("order", ["forwards", "backwards", 7])
def test_a_kernel_without_mistakes(order, checks):
    got, wanted = run(GOOD, order, checks)
    np.testing.assert_array_equal(got, wanted)


def planted(before, after):
    assert GOOD.count(before) == 1
    return GOOD.replace(before, after)


MISTAKES = {
    "first barrier missing": (FIRST, "        C[0]", "race", "SU"),
    "last barrier missing": (SECOND, "    }", "race", "S"),
    "two threads write one element": ("S[tx] = A", "S[tx / 2 * 2] = A", "race", "S"),
    "blocks write the same elements": ("B[blockIdx.x * n * 64 + ", "B[(int)blockIdx.x * 0 + ",
                                       "", ""),
    "blocks read what others write": ("+ C[1];", "+ C[1] + B[0];", "race", "B"),
    "index behind a shared buffer": ("U[tx / 4]", "U[tx / 4 + 1]", "out of bounds", "U"),
    "index before a shared buffer": ("S[63 - tx]", "S[62 - tx]", "out of bounds", "S"),
    "index behind an array": ("= A[k * 64 + tx];\n        if", "= A[k * 64 + tx + 1];\n        if",
                              "out of bounds", "A"),
    "index behind a written array": ("+ tx] = C[0]", "+ tx + 64] = C[0]", "out of bounds", "B"),
    "index behind a local array": ("C[1];", "C[tx / 63 + 1];", "out of bounds", "C"),
    "shared memory read unwritten": ("if (tx < 16) U", "if (tx < 15) U", "unwritten memory", "U"),
    "local memory read unwritten": ("        C[1] = U[tx / 4];\n", "", "unwritten memory", "C"),
    "output read unwritten": ("= C[0] + C[1]", "+= C[0] + C[1]", "unwritten memory", "B"),
    "barrier for some threads": (FIRST, "        if (tx < 63) __syncthreads();\n        C[0]",
                                 "divergent barrier", ""),
    "thread that left": ("    for (int k", "    if (tx == 5) return;\n    for (int k",
                         "missing threads at a barrier", ""),
    "threads at two barriers": (
        FIRST, "        if (tx < 9) { __syncthreads();\n } else __syncthreads();\n        C[0]",
        "divergent barrier", ""),
    "trap": ("C[1] = U[tx / 4];", 'C[1] = U[tx / 4]; if (k == 2) whet_trap(1, "k is not 2");',
             "trap", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in MISTAKES if MISTAKES[n][2]])
def test_a_planted_mistake_is_caught(name):
    before, after, fault, buffer = MISTAKES[name]
    text = planted(before, after)
    for order in ("forwards", "backwards", 5):
        with pytest.raises(EmulatorError) as caught:
            run(text, order)
        error = caught.value
        assert (error.fault, error.kernel) == (fault, "turn"), str(error)
        assert error.buffer in buffer and bool(error.buffer) == bool(buffer)
        assert len(error.block) == len(error.thread) == 3
        assert error.thread[0] < 64 and "emulating turn: block (" in str(error)


def test_blocks_that_write_the_same_values_are_no_race():
    """Tiles at an edge may be computed several times over."""
    before, after, *_ = MISTAKES["blocks write the same elements"]
    got, wanted = run(planted(before, after), blocks=2)
    np.testing.assert_array_equal(got[0], wanted[0])


def test_blocks_that_write_other_values_are_a_race():
    before, after, *_ = MISTAKES["blocks write the same elements"]
    text = planted(before, after).replace("C[0] + C[1]", "C[0] + (int)blockIdx.x")
    with pytest.raises(
        EmulatorError,
        match=r"block \(1, 0, 0\).*it writes global B\[\d+\], which block \(0, 0, 0\)",
    ):
        run(text)


def test_what_is_said_of_a_race():
    with pytest.raises(EmulatorError) as caught:
        run(planted(FIRST, "        C[0]"))
    error = caught.value
    assert (error.line, error.thread, error.other_thread) == (13, (1, 0, 0), (0, 0, 0))
    assert error.other_block == error.block == (0, 0, 0)
    assert "a race: it reads shared U[0], which thread (0, 0, 0) has written" in str(error)
    assert "line 13: C[1] = U[tx / 4];" in str(error)
    assert "set a barrier: __syncwarp() between the two accesses, which are of one" in str(error)


def test_what_is_said_of_an_index():
    with pytest.raises(EmulatorError) as caught:
        run(planted("U[tx / 4]", "U[tx / 4 + 1]"))
    error = caught.value
    assert (error.block, error.thread, error.index) == ((0, 0, 0), (63, 0, 0), 16)
    assert "reads shared U[16], out of bounds: there are 16 elements of 4 bytes" in str(error)


def test_what_is_said_of_a_barrier():
    with pytest.raises(EmulatorError) as caught:
        run(planted("    for (int k", "    if (tx == 5) return;\n    for (int k"))
    text = str(caught.value)
    assert "it waits at the barrier at line 13, and thread (5, 0, 0) has ended" in text


def test_a_missing_barrier_shows_in_the_numbers_without_checks():
    """Some order of threads gives wrong numbers; which one depends on the mistake."""
    text = planted(FIRST, "        C[0]")
    wrong = []
    for order in ("forwards", "backwards"):
        got, wanted = run(text, order, checks=False)
        wrong.append(not np.array_equal(got, wanted))
    assert any(wrong)


def test_an_error_crosses_processes():
    import pickle

    with pytest.raises(EmulatorError) as caught:
        run(planted("U[tx / 4]", "U[tx / 4 + 1]"))
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.buffer == "U" and again.thread == (63, 0, 0)


def test_what_earlier_launches_did_is_no_race(monkeypatch):
    """Also when the numbers by which accesses are dated begin anew."""
    from whet.compiler.emulator import library

    monkeypatch.setattr(library, "_LAST_INTERVAL", 40)
    before = library.INTERVALS.round
    kept = library.EmulatedLibrary(GOOD, checks=True, quick=True)  # its state stays, too
    for _ in range(12):
        got, wanted = run(GOOD)
        np.testing.assert_array_equal(got, wanted)
        with pytest.raises(EmulatorError, match="a race"):
            run(planted(SECOND, "    }"))
    assert library.INTERVALS.round > before + 2 and kept.path.exists()


WARPS = """
extern "C" __global__ void warps(WHET_GLOBAL(float) B) {
    WHET_SHARED_BUFFER(float, S, 0, 64);
    const int tx = threadIdx.x;
    S[tx] = tx;
    BARRIER
    B[tx] = S[tx ^ LANE];
}
"""


@pytest.mark.parametrize(
    "barrier, lane, fine",
    [("__syncwarp();", 5, True), ("__syncwarp();", 33, False), ("", 5, False), ("", 0, True)],
)
def test_a_barrier_of_a_warp_orders_its_lanes_alone(barrier, lane, fine):
    text = WARPS.replace("BARRIER", barrier).replace("LANE", str(lane))
    if fine:
        (b,) = run_kernel(text, None, 1, 64, [Unwritten((64,))], 256)
        np.testing.assert_array_equal(b, np.arange(64) ^ lane)
        return
    with pytest.raises(EmulatorError, match=r"a race: it (reads|writes) shared S"):
        run_kernel(text, None, 1, 64, [Unwritten((64,))], 256)


def test_a_misaligned_vector():
    text = """
    extern "C" __global__ void f(WHET_GLOBAL(const float) A, WHET_GLOBAL(float) B) {
        whet_store<float32x2>(B, 2 * threadIdx.x, whet_load<float32x2>(A, 2 * threadIdx.x + 1));
    }
    """
    with pytest.raises(EmulatorError, match="reads 8 bytes of global A at byte 4") as caught:
        run_kernel(text, None, 1, 4, [np.zeros(16, "f4"), Unwritten((8,))])
    assert caught.value.fault == "misaligned"


def test_threads_that_wait_for_lanes_that_never_come():
    text = """
    extern "C" __global__ void f(WHET_GLOBAL(float) B) {
        if (threadIdx.x < 8) B[threadIdx.x] = whet_warp_shuffle_xor(1.0f, 1);
        __syncthreads();
    }
    """
    with pytest.raises(EmulatorError, match="waits at the warp's barrier at line 3") as caught:
        run_kernel(text, None, 1, 32, [Unwritten((32,))])
    assert caught.value.fault == "missing threads at a barrier"


RETURNED = """
extern "C" __global__ void f(WHET_GLOBAL(float) B) {
    WHET_SHARED_BUFFER(float, S, 0, 72);
    const int tx = threadIdx.x;
    BEFORE
    if (tx >= LEFT) return;
    S[tx] = tx;
    __syncthreads();
    B[tx] = S[tx ^ 1];
    __syncthreads();
    AFTER
}
"""


def returned(left, before="", after="", threads=72, order="forwards"):
    text = RETURNED.replace("LEFT", str(left)).replace("BEFORE", before).replace("AFTER", after)
    with emulator_options(order=order):
        return run_kernel(text, None, 1, threads, [Unwritten((left,))], 72 * 4)[0]


@pytest.mark.parametrize("order", ["forwards", "backwards", 3])
def test_warps_that_have_returned_are_not_waited_for(order):
    """By PTX's `barrier` and `exit`; what is left of a warp waits for ever before Volta."""
    for left in (64, 32):
        np.testing.assert_array_equal(returned(left, order=order), np.arange(left) ^ 1)
    with pytest.raises(
        EmulatorError, match=r"barrier at line 8, and thread \(40, 0, 0\) has ended"
    ):
        returned(40, order=order)


@pytest.mark.parametrize("order", ["forwards", "backwards", 3])
def test_what_a_warp_did_before_it_returned_no_barrier_orders(order):
    with pytest.raises(EmulatorError, match=r"it reads shared S\[65\], which thread \(65, 0, 0\)"):
        returned(64, "if (tx >= 64) S[tx] = 1.0f;", "B[tx] = S[65];", order=order)
    with pytest.raises(
        EmulatorError, match=r"writes shared S\[70\], which thread \(70, 0, 0\) has r"
    ):
        returned(64, "S[tx] = 0.0f; __syncthreads(); if (S[tx] > 0.0f) B[0] = 1.0f;",
                 "if (tx == 3) S[70] = 1.0f;", order=order)  # fmt: skip
    before = "if (tx >= 64) S[tx] = 1.0f; __syncthreads();"
    assert (returned(64, before, "B[tx] = S[65];", order=order) == 1).all()


SHUFFLE = """
extern "C" __global__ void f(WHET_GLOBAL(float) B) {
    WHET_SHARED_BUFFER(float, S, 0, 32);
    const int tx = threadIdx.x;
    S[tx] = tx;
    BARRIER
    B[tx] = S[tx ^ 1];
}
"""


@pytest.mark.parametrize(
    "barrier, fine",
    [
        ("float y = __shfl_xor_sync(~0u, S[tx], 1);", False),
        ("int y = __ballot_sync(~0u, tx < 5);", False),
        ("float y = __shfl_xor_sync(~0u, S[tx], 1); __syncwarp();", True),
        ("__syncwarp(3u << (tx & ~1));", True),  # each pair by itself
        ("__syncwarp(0x55555555u << (tx & 1));", False),  # the even lanes, and the odd ones
        ("__syncwarp(1u << tx | 1u << (tx ^ 3));", False),
        # by way of a third lane
        ("__syncwarp(1u << tx | 1u << (tx ^ 2)); __syncwarp(1u << tx | 1u << (tx ^ 3));", True),
    ],
)
@pytest.mark.parametrize("order", ["forwards", "backwards", 3])
def test_what_orders_the_lanes_of_a_warp(barrier, fine, order):
    text = SHUFFLE.replace("BARRIER", barrier)
    with emulator_options(order=order):
        if fine:
            (b,) = run_kernel(text, None, 1, 32, [Unwritten((32,))], 128)
            np.testing.assert_array_equal(b, np.arange(32) ^ 1)
            return
        with pytest.raises(EmulatorError, match=r"a race: it (reads|writes) shared S"):
            run_kernel(text, None, 1, 32, [Unwritten((32,))], 128)


def test_what_another_buffer_left_in_the_arena_counts_as_unwritten():
    text = """
    extern "C" __global__ void f(WHET_GLOBAL(float) B) {
        WHET_SHARED_BUFFER(float, S, 0, 32);
        WHET_SHARED_BUFFER(float, U, 0, 32);
        S[threadIdx.x] = 1.0f;
        __syncthreads();
        if (threadIdx.x < FIRST) U[threadIdx.x] = 2.0f;
        __syncthreads();
        B[threadIdx.x] = U[31 - threadIdx.x];
    }
    """
    (b,) = run_kernel(text.replace("FIRST", "32"), None, 1, 32, [Unwritten((32,))], 128)
    assert (b == 2).all()
    with pytest.raises(EmulatorError, match=r"reads shared U\[31\], which nothing has written"):
        run_kernel(text.replace("FIRST", "31"), None, 1, 32, [Unwritten((32,))], 128)


def test_one_arena_by_two_names_is_one_buffer():
    text = """
    __device__ float last(int n) {
        extern __shared__ float t[];
        return t[n - 1];
    }
    __global__ void f(float *B) {
        extern __shared__ float s[];
        s[threadIdx.x] = threadIdx.x;
        __syncthreads();
        B[threadIdx.x] = last(32);
    }
    """
    (b,) = run_kernel(text, None, 1, 32, [Unwritten((32,))], 128)
    assert (b == 31).all()


@pytest.mark.parametrize(
    "line, does",
    [
        ("float4 v = *(const float4 *)(A + 1); B[0] = v.x;", "reads 16 bytes of global A"),
        ("*reinterpret_cast<float2 *>(B + 1) = make_float2(1, 2);", "writes 8 bytes of global B"),
        ("atomicAdd((unsigned long long *)(B + 1), 1ull);", "writes 8 bytes of global B"),
    ],
)
def test_a_misaligned_vector_by_a_cast(line, does):
    text = f"__global__ void f(const float *A, float *B) {{ {line} }}"
    given = [np.zeros(16, "f4"), np.zeros(16, "f4")]
    with pytest.raises(EmulatorError, match=does + " at byte 4, whose address is no") as caught:
        run_kernel(text, None, 1, 1, given)
    assert caught.value.fault == "misaligned"
    run_kernel(text.replace(" + 1)", " + 4)"), None, 1, 1, given)
