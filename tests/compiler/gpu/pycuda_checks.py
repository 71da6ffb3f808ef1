"""Checks in a process whose libcuda is the stand-in: see test_cuda_pycuda.py."""

import gc
import threading

import numpy as np
import pytest
from device_programs import added, doubled_twice, scaled
from pycuda_stand_in import (
    GPU,
    OTHER,
    emulated,
    nothing_is_current,  # noqa: F401, a fixture of every check
    numbers,
    poisoned,
)

import whet
from whet import te
from whet.compiler.errors import (
    ArgumentError,
    ArtifactError,
    KernelError,
    OutOfMemoryError,
    TargetError,
)
from whet.compiler.runtime.arrays.device import context_of
from whet.compiler.runtime.gpu.driver.interface import driver_of


def test_what_the_devices_tell():
    assert GPU.exist and OTHER.exist and not whet.cuda(2).exist
    assert driver_of("cuda").name.startswith("pycuda 20") and driver_of("cuda").device_count() == 2
    assert driver_of("cuda").properties(0) != driver_of("cuda").properties(1)
    told = driver_of("cuda").properties(0)
    assert told.arch == f"sm_{GPU.compute_version.replace('.', '')}" and told.warp_size == 32
    assert told.pci_bus_id == "0000:01:00.0" and told.max_block == (1024, 1024, 64)
    assert told.shared_bytes_optin > told.shared_bytes == GPU.max_shared_memory_per_block
    assert GPU.max_threads_per_block == 1024 and GPU.max_thread_dimensions == [1024, 1024, 64]
    assert GPU.device_name == told.name and GPU.multi_processor_count == told.multiprocessors
    assert GPU.driver_version == told.driver_version and GPU.api_version % 10 == 0
    with pytest.raises(TargetError, match=r"cuda\(2\): this process may use 2 GPUs"):
        context_of(whet.cuda(2))
    with pytest.raises(TargetError, match=r"cuda\(5\)\.sync\(\): this machine has no such device"):
        whet.cuda(5).sync()


@pytest.mark.parametrize("device", [GPU, OTHER])
def test_one_module_runs_on_each_device(device):
    f, a, b = added(100), numbers(1, 100), numbers(2, 100)
    for where in (device, GPU):
        c = poisoned(100, where)
        f(whet.nd.array(a, where), whet.nd.array(b, where), c)
        np.testing.assert_array_equal(c.numpy(), a + b)
    mixed = whet.nd.array(a, OTHER), whet.nd.array(b, GPU), poisoned(100, OTHER)
    with pytest.raises(ArgumentError, match=r"\(B\): it is on cuda\(0\), and A is on cuda\(1\)"):
        f(*mixed)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float64"])
@pytest.mark.parametrize("shape", [(), (1,), (3, 0), (5, 7, 3)])
def test_arrays_are_copied_there_and_back(dtype, shape):
    a = numbers(3, shape, dtype)
    there = whet.nd.array(a, GPU)
    assert (there.dtype, there.shape, there.ndim) == (dtype, shape, len(shape))
    assert there.device == GPU and there.nbytes == a.nbytes
    back = there.numpy()
    np.testing.assert_array_equal(back, a)
    assert back.dtype == a.dtype
    np.testing.assert_array_equal(there.copyto(OTHER).numpy(), a)
    np.testing.assert_array_equal(there.copyto(whet.cpu()).numpy(), a)
    np.testing.assert_array_equal(np.asarray(there), a)


def test_arrays_are_written_and_viewed():
    there = whet.nd.empty((2, 6), "float32", GPU)
    there[:] = 2
    assert (there.numpy() == 2).all() and len(there) == 2
    there.copyfrom([[1, 2, 3, 4, 5, 6]] * 2)
    view = there._create_view((12,))
    assert view.address == there.address
    np.testing.assert_array_equal(view.numpy(), [1, 2, 3, 4, 5, 6] * 2)
    there.copyfrom(whet.nd.array(np.ones((2, 6), "float64"), GPU))  # by way of the CPU
    assert (view.numpy() == 1).all()
    with pytest.raises(
        ArgumentError, match=r"the source has shape \(2,\), this array has \(2, 6\)"
    ):
        there.copyfrom(np.ones(2))
    with pytest.raises(ArgumentError, match=r"this array of shape \(2, 6\) has 12 elements"):
        there._create_view((5,))
    with pytest.raises(ArgumentError, match="neither true nor false"):
        bool(there)
    assert "on cuda(0)" in repr(there) and bool(whet.nd.array(np.ones(1, "int8"), GPU))


def test_memory_that_is_dropped_is_free_again():
    context = context_of(GPU)
    gc.collect()
    before = context.memory()[0]
    held = whet.nd.empty(1 << 20, "int8", GPU)
    assert context.memory()[0] <= before - (1 << 20)
    view = held._create_view((1 << 10, 1 << 10))
    del held
    assert context.memory()[0] <= before - (1 << 20)
    thread = threading.Thread(target=view.__init__, args=_remade(view))
    del view
    thread.start()
    thread.join()
    del thread
    gc.collect()
    assert context.memory()[0] == before
    with pytest.raises(OutOfMemoryError, match=r"on cuda\(0\): \d+ of its \d+ bytes are free"):
        whet.nd.empty(context.memory()[1] + 1, "int8", GPU)


def _remade(view):
    return view.device, view.context, view.address, view.described, view._owner


def test_an_array_that_another_thread_made_is_freed_by_this_one():
    made = []
    thread = threading.Thread(target=lambda: made.append(whet.nd.empty(1 << 16, "int8", OTHER)))
    before = context_of(OTHER).memory()[0]
    thread.start()
    thread.join()
    assert context_of(OTHER).memory()[0] < before
    made.clear()
    assert context_of(OTHER).memory()[0] == before


def test_threads_call_at_the_same_time():
    f, outcomes = doubled_twice(64), {}

    def work(k):
        a, c = numbers(k, 64), poisoned(64, whet.cuda(k % 2))
        for _ in range(10):
            f(whet.nd.array(a, c.device), c)
        doubled = 2 * a[::-1]
        outcomes[k] = np.array_equal(c.numpy(), doubled[::-1] + doubled)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert outcomes == dict.fromkeys(range(4), True)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "int64"])
def test_numbers_are_packed_as_the_kernel_reads_them(dtype):
    a = np.arange(33).astype(dtype)
    c = whet.nd.array(np.full(33, 77, dtype), GPU)
    f = scaled(dtype)
    for k in (3, 2):
        f(whet.nd.array(a, GPU), k, 1, c)
        np.testing.assert_array_equal(c.numpy(), a * k + 1)


def test_streams_and_events():
    f, a, b = added(1000), numbers(1, 1000), numbers(2, 1000)
    stream, second = GPU.create_raw_stream(), GPU.create_raw_stream()
    assert stream.handle != second.handle and stream.handle > 2
    page_locked = [whet.nd.array(x, whet.device("cuda_host")) for x in (a, b)]
    result = whet.nd.empty(1000, "float32", whet.device("cuda_host"))
    there = [whet.nd.empty(1000, "float32", GPU) for _ in range(3)]
    GPU.set_raw_stream(stream)
    try:
        for x, y in zip(there, page_locked):
            x.copyfrom(y)
        f(*there)
        event = there[0].context.event()
        event.record(stream)
        second.wait(event)
        GPU.set_raw_stream(second)
        there[2].copyto(result)
        GPU.sync(second)
        np.testing.assert_array_equal(result.numpy(), a + b)
        later = there[0].context.event()
        later.record(second)
        later.synchronize()
        assert 0 <= later.seconds_since(event) < 60
    finally:
        GPU.set_raw_stream(None)
    with pytest.raises(ArgumentError, match="it is no stream of this device"):
        OTHER.set_raw_stream(stream)
    GPU.set_raw_stream(second)
    GPU.free_raw_stream(second)  # and the default stream is the current one again
    there[2][:] = np.nan
    f(*there)
    np.testing.assert_array_equal(there[2].numpy(), a + b)


def test_a_stream_is_this_threads_only():
    f, a = added(10), whet.nd.array(numbers(1, 10), GPU)
    stream, seen = GPU.create_raw_stream(), []
    GPU.set_raw_stream(stream)
    interface = a.__cuda_array_interface__["stream"]
    other = threading.Thread(target=lambda: seen.append(a.__cuda_array_interface__["stream"]))
    other.start()
    other.join()
    GPU.set_raw_stream(None)
    assert (interface, seen) == (stream.handle, [1])
    f(a, a, poisoned(10))


def test_time_is_the_devices():
    args = [whet.nd.array(numbers(k, 1000), GPU) for k in range(3)]
    result = added(1000).time_evaluator("add", GPU, number=3, repeat=2)(*args)
    assert len(result.results) == 2 and 0 < result.mean < 10
    np.testing.assert_array_equal(args[2].numpy(), args[0].numpy() + args[1].numpy())


def test_code_that_does_not_fit_is_refused():
    context = context_of(GPU)
    with pytest.raises(ArtifactError, match=r"loading 7 bytes of code on cuda\(0\) \(sm_"):
        context.load(b"garbage")
    with pytest.raises(ArtifactError, match=r"-arch=sm_80, by an NVRTC no newer .* CUDA 13\.0"):
        context.load(b".version 99.9\0")
    image = context.load(emulated(added(4).get_source("cuda"), "sm_80"))
    with pytest.raises(ArtifactError, match=r"kernel 'sub' on cuda\(0\): its code has none"):
        image.kernel("sub")
    kernel = image.kernel("add_kernel0")
    with pytest.raises(KernelError, match=r"launching add_kernel0 on cuda\(0\), grid \(1, 1, 1\)"):
        context.launch(kernel, (1, 1, 1), (2048, 1, 1), bytes(24))


def test_more_shared_memory_than_any_kernel_may_have_is_asked_for():
    n = 64 * 256  # floats: 64 KiB
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: A[n - 1 - i] * 2, name="C")
    s = te.create_schedule(C.op)
    shared = s.cache_read(A, "shared", [C])
    o, i = s[C].split(C.op.axis[0], nparts=1)
    _, ii = s[C].split(i, 256)
    s[C].bind(o, te.thread_axis("blockIdx.x"))
    s[C].bind(ii, te.thread_axis("threadIdx.x"))
    s[shared].compute_at(s[C], o)
    _, si = s[shared].split(shared.op.axis[0], 256)
    s[shared].bind(si, te.thread_axis("threadIdx.x"))
    f = whet.build(s, [A, C], "cuda -arch=sm_80", name="big")
    (launch,) = f.imported_modules[0].artifact.plans[0].launches
    assert launch.shared_bytes == 65536
    a, c = numbers(1, n), poisoned(n)
    f(whet.nd.array(a, GPU), c)
    np.testing.assert_array_equal(c.numpy(), 2 * a[::-1])


def test_images_and_kernels_go_in_other_threads():
    f, a = added(8), whet.nd.array(numbers(1, 8), GPU)
    kept = [f]
    f(a, a, poisoned(8))
    del f
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    gc.collect()
    GPU.sync()


def test_pinned_memory_outlives_its_maker():
    held = whet.nd.array(np.arange(64, dtype="int32"), whet.device("cuda_host"))
    assert held.device.type == "cuda_host" and whet.device("cuda_host").exist
    part = np.asarray(held)[8:16]
    del held
    gc.collect()
    np.testing.assert_array_equal(part, np.arange(8, 16))
