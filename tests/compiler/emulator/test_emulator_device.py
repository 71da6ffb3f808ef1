"""The emulator as a device: memory, what counts as written, launches, schedules with mistakes."""

import numpy as np
import pytest

import whet
from whet.compiler import te
from whet.compiler.codegen.cuda.prelude import NAMES
from whet.compiler.emulator import EmulatorError, emulator_options
from whet.compiler.emulator.driver import PROPERTIES, EmulatorDriver
from whet.compiler.emulator.memory import EmulatedMemory, _Piece
from whet.compiler.emulator.sanitizer.run import Unwritten, run_kernel
from whet.compiler.errors import (
    ArgumentError,
    ArtifactError,
    KernelError,
    OutOfMemoryError,
    TargetError,
)

ADD = """
extern "C" __global__ void add(WHET_GLOBAL(const float) A, WHET_GLOBAL(float) B) {
    B[threadIdx.x] = A[threadIdx.x] + 1.0f;
}
"""


def context():
    return EmulatorDriver().context(0)


def launch(c, *addresses, text=ADD, name="add", threads=16, shared=0):
    packed = np.array(addresses, "u8").tobytes()
    c.launch(c.load(text).kernel(name), (1, 1, 1), (threads, 1, 1), packed, shared)


def test_copies_and_fills():
    c = context()
    a, b = c.alloc(64), c.alloc(64)
    assert a % 256 == 0 and b % 256 == 0
    x, y = np.arange(16, dtype="f4"), np.zeros(16, "f4")
    c.copy_in(a, x)
    c.copy(b, a, 64)
    c.fill(b + 4, 0, 8)
    c.copy_out(y, b)
    assert y.tolist() == [0, 0, 0, *range(3, 16)]
    free, total = c.memory()
    assert total - free == 128
    c.free(a)
    assert c.memory() == (free + 64, total)
    with pytest.raises(ArgumentError, match="not within one allocation"):
        c.copy_in(b + 8, x)
    with pytest.raises(ArgumentError, match="no memory allocated there"):
        c.free(a)
    with pytest.raises(OutOfMemoryError, match="bytes are free"):
        c.alloc(PROPERTIES.memory_bytes)


def test_what_counts_as_written():
    c = context()
    a, b = c.alloc(64), c.alloc(64)
    with pytest.raises(EmulatorError, match=r"it reads global A\[0\], which nothing has written"):
        launch(c, a, b)
    c.copy(b, a, 64)  # carries no values over
    with pytest.raises(EmulatorError, match="nothing has written"):
        launch(c, b, a)
    c.discard(a, 64)
    c.copy_in(a, np.zeros(15, "f4"))
    with pytest.raises(EmulatorError, match=r"thread \(15, 0, 0\): it reads global A\[15\]"):
        launch(c, a, b)
    c.fill(a, 0, 64)
    launch(c, a, b)
    launch(c, b, a)  # what a kernel has written
    c.discard(b, 64)
    with pytest.raises(EmulatorError, match="nothing has written"):
        launch(c, b, a)


def test_a_kernel_without_checks_may_have_written_anything():
    c = context()
    a, b = c.alloc(64), c.alloc(64)
    c.fill(a, 0, 64)
    with emulator_options(checks=False):
        launch(c, a, b)
    launch(c, b, a)


def test_one_array_as_two_parameters():
    c = context()
    a = c.alloc(128)
    c.fill(a, 0, 128)
    launch(c, a, a)  # each thread its own element
    text = ADD.replace("A[threadIdx.x]", "A[threadIdx.x + 1]")
    with pytest.raises(EmulatorError, match=r"a race: it (reads global A|writes global B)"):
        launch(c, a, a, text=text)


def test_a_race_of_arguments_that_overlap_names_them():
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[63 - i], name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    f = whet.build(s, [A, B], target="cuda -arch=sm_80", name="transposed")
    device = whet.device("cuda-emulator")
    a = whet.nd.array(np.arange(64, dtype="f4"), device)
    for _ in range(2):  # the second call has its plan from the first
        with pytest.raises(
            EmulatorError, match=r"race(.|\n)*argument 1 \(B\).*overlaps argument 0"
        ):
            f(a, a)
    b = whet.nd.empty((64,), "float32", device)
    f(whet.nd.array(np.arange(64, dtype="f4"), device), b)
    np.testing.assert_array_equal(b.numpy(), np.arange(64)[::-1])


def test_without_a_gpu_errors_name_the_emulator():
    f = whet.build(whet.create_task("softmax", args=((2, 8),), target="cuda -arch=sm_80"))
    x = np.zeros((2, 8), "f4")
    with pytest.raises(ArgumentError, match=r'in the CPU.*whet\.device\("cuda-emulator"\)'):
        f(x, x)
    if whet.cuda(0).exist:
        pytest.skip("this machine has a GPU")
    with pytest.raises(
        ArgumentError, match=r'no such device(.|\n)*whet\.device\("cuda-emulator"\)'
    ):
        whet.nd.empty((2,), "float32", whet.cuda(0))
    with pytest.raises(ArgumentError, match=r'whet\.device\("cuda-emulator"\) runs code'):
        f.time_evaluator(f.entry_name, whet.cuda(0))
    with pytest.raises(TargetError, match=r'whet\.device\("cuda-emulator"\) runs code'):
        whet.cuda(0).sync()


def test_what_cannot_be_loaded_or_launched():
    c = context()
    with pytest.raises(ArtifactError, match="none of that name; it has add"):
        c.load(ADD).kernel("subtract")
    with pytest.raises(ArtifactError, match="it takes CUDA C text"):
        c.load(b"\x7fELF\x02\xff\xfe")
    with pytest.raises(KernelError, match="2000 threads in a block"):
        launch(c, c.alloc(4), c.alloc(4), threads=2000)
    with pytest.raises(KernelError, match="its arguments have 16 bytes, and 8 are given"):
        launch(c, c.alloc(4))
    with pytest.raises(TargetError, match="there is one"):
        EmulatorDriver().context(1)


def test_events_and_streams():
    c = context()
    a, b = c.event(), c.event()
    s = c.stream()
    a.record(s)
    c.fill(c.alloc(1 << 20), 1, 1 << 20, s)
    b.record(s)
    s.wait(b)
    b.synchronize()
    c.synchronize()
    assert 0 < b.seconds_since(a) < 60


def test_the_emulator_has_all_names_of_the_prelude():
    text = """
    extern "C" __global__ void f(WHET_GLOBAL(const float16) A, WHET_GLOBAL(float) B, int n) {
        WHET_EXTENT(A, n);
        WHET_SHARED_BUFFER(bfloat16, S, 0, 32);
        WHET_LOCAL(float, C, 2);
        whet_vector<float16, 4> v = whet_load<float16x4>(A, threadIdx.x / 4 * 4);
        S[threadIdx.x] = bfloat16(float(v[1]));
        C[0] = whet_warp_shuffle(1.0f, 0) + whet_warp_shuffle_up(1.0f, 1);
        C[1] = whet_warp_shuffle_down(1.0f, 1) + whet_warp_shuffle_xor(1.0f, 1, 32);
        float32x2 w = {};
        w[0] = C[0] + C[1] + float(S[threadIdx.x]);
        const int8x4 row = {};
        const int32x4 transposed = whet_transpose4x4<int32x4>(row, row, row, row);
        w[1] = whet_dp4a(whet_pack(1, 0, 0, 0), 1u, 0u) + transposed[0];
        if (n < 0) whet_trap(3, "n is negative");
        whet_store<float32x2>(B, threadIdx.x * 2, w);
    }
    """
    for name in NAMES:
        assert name in text, f"{name} is not tried here"
    for checks in (True, False):
        with emulator_options(checks=checks):
            given = [np.ones(32, "f2"), Unwritten((32, 2)), 32]
            _, b = run_kernel(text, "f", 1, 32, given, 64)
        np.testing.assert_array_equal(b, np.repeat([[5, 1]], 32, axis=0))


def test_memory_that_is_freed_while_a_launch_is_described(monkeypatch):
    """As the garbage collector does, whenever something is allocated."""
    memory = EmulatedMemory(1 << 20)
    held = [memory.alloc(64) for _ in range(3)]
    described = _Piece.described

    def described_and_freed(piece, checks):
        if held[0] in memory._pieces:
            memory.free(held[0])
        return described(piece, checks)

    monkeypatch.setattr(_Piece, "described", described_and_freed)
    assert {a.address for a in memory.described(True)} >= set(held[1:])


# schedules


def tiled(n=24, m=20, k=17):
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    s = te.create_schedule(c.op)
    shared = [s.cache_read(x, "shared", [c]) for x in (a, b)]
    local = s.cache_write(c, "local")
    i, j = s[c].op.axis
    bi, ti = s[c].split(i, 8)
    bj, tj = s[c].split(j, 8)
    s[c].reorder(bi, bj, ti, tj)
    threads = {"blockIdx.y": bi, "blockIdx.x": bj, "threadIdx.y": ti, "threadIdx.x": tj}
    for tag, axis in threads.items():
        s[c].bind(axis, te.thread_axis(tag))
    s[local].compute_at(s[c], tj)
    ko, ki = s[local].split(s[local].op.reduce_axis[0], 8)
    s[local].reorder(ko, ki, *s[local].op.axis)
    for x in shared:
        s[x].compute_at(s[local], ko)
        y, z = s[x].op.axis
        s[x].bind(s[x].split(y, nparts=8)[0], te.thread_axis("threadIdx.y"))
        s[x].bind(s[x].split(z, nparts=8)[0], te.thread_axis("threadIdx.x"))
    return s, [a, b, c]


def kernel_text():
    return whet.build(*tiled(), "cuda -arch=sm_80", name="mm").get_source("cuda")


def run_text(text):
    x, y = (np.random.default_rng(2).random(shape, "f4") for shape in ((24, 17), (17, 20)))
    *_, z = run_kernel(text, None, (3, 3), (8, 8), [x, y, Unwritten((24, 20))], 512)
    return z, x @ y


def test_a_schedule_without_mistakes():
    np.testing.assert_allclose(*run_text(kernel_text()), rtol=1e-4)


SCHEDULES = {
    "missing barrier": ("__syncthreads();", "", "race"),
    "divergent barrier": ("__syncthreads();", "if (ty < 3) __syncthreads();", "barrier"),
    "bad index": ("A_shared[ty * 8", "A_shared[1 + ty * 8", "out of bounds"),
    "race": ("B_shared[ty * 8 + tx] =", "B_shared[ty / 2 * 8 + tx] =", "race"),
    "unwritten read": ("C_local[0] = 0.0f;", "", "unwritten memory"),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_with_a_planted_mistake(name):
    before, after, fault = SCHEDULES[name]
    text = kernel_text()
    assert before in text, text
    with pytest.raises(EmulatorError) as caught:
        run_text(text.replace(before, after, 1))
    assert fault in caught.value.fault, str(caught.value)
    assert caught.value.kernel == "mm_kernel0"
