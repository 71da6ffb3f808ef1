"""Streams of others and of two GPUs, in a process with the stand-in for libcuda.

See test_cuda_pycuda.py.
"""

import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from device_programs import added, doubled_twice
from pycuda_exchange_checks import ByInterface
from pycuda_stand_in import (
    GPU,
    OTHER,
    nothing_is_current,  # noqa: F401, a fixture of every check
    numbers,
    poisoned,
)
from pycuda_waits import (
    PEER_COPIES,
    Waits,
    default_streams,  # noqa: F401, likewise
    their_stream,
)

import whet
from whet.compiler.errors import ArgumentError, KernelError
from whet.compiler.runtime.arrays.device import context_of
from whet.compiler.runtime.arrays.gpu_import import taken_array
from whet.compiler.runtime.gpu.driver.streams import current_stream


@pytest.fixture
def waits():
    """The waits between streams: which was made to wait for which."""
    return Waits()


class Protocol:
    def __init__(self, handle):
        self.handles = handle

    def __cuda_stream__(self):
        return 0, self.handles


WAYS = {
    "pytorch": lambda s: SimpleNamespace(cuda_stream=s.handle, device_index=0),
    "cupy": lambda s: SimpleNamespace(ptr=s.handle, device_id=0),
    "protocol": lambda s: Protocol(s.handle),
    "pycuda": lambda s: s,
    "number": lambda s: s.handle,
}


@pytest.mark.parametrize("way", WAYS)
def test_work_goes_to_somebody_elses_stream(way, waits):
    f, a, b, theirs = added(100), numbers(1, 100), numbers(2, 100), their_stream()
    args = [*(whet.nd.array(x, GPU) for x in (a, b)), poisoned(100)]
    f(*args)
    args[2][:] = np.nan
    GPU.set_raw_stream(WAYS[way](theirs))
    stream = current_stream(context_of(GPU))
    inside = stream.held.handle
    assert stream.handle == theirs.handle != inside
    waits()
    f(*args)
    assert waits() == [(theirs.handle, inside), (inside, theirs.handle)]
    assert args[0].__cuda_array_interface__["stream"] == theirs.handle
    np.testing.assert_array_equal(args[2].numpy(), a + b)
    GPU.sync(WAYS[way](theirs))
    GPU.set_raw_stream(None)
    f(*args)
    assert waits() == []


def test_several_kernels_of_a_call_wait_once(waits):
    f, a, c, theirs = doubled_twice(64), numbers(1, 64), poisoned(64), their_stream()
    there = whet.nd.array(a, GPU)
    GPU.set_raw_stream(theirs)
    inside = current_stream(context_of(GPU)).held.handle
    for _ in range(2):
        waits()
        f(there, c)
        assert waits() == [(theirs.handle, inside), (inside, theirs.handle)]
    doubled = 2 * a[::-1]
    np.testing.assert_array_equal(c.numpy(), doubled[::-1] + doubled)


def test_copies_fills_and_events_of_somebody_elses_stream(waits):
    a, theirs = numbers(1, 100), their_stream()
    there = whet.nd.empty(100, "float32", GPU)
    held = whet.nd.array(a, whet.device("cuda_host"))
    GPU.set_raw_stream(theirs)
    inside = current_stream(context_of(GPU)).held.handle
    between = [(theirs.handle, inside), (inside, theirs.handle)]
    for source in (held, a, a.astype("float64"), whet.nd.array(a, GPU)):
        waits()
        there.copyfrom(source)
        assert waits()[-2:] == between
        np.testing.assert_array_equal(there.numpy(), a)
    there.copyto(held)
    GPU.sync(theirs)
    np.testing.assert_array_equal(np.asarray(held), a)
    waits()
    event = there.context.event()
    event.record(current_stream(there.context))
    current_stream(there.context).wait(event)
    assert len(waits()) == 5  # two of ours around each, and the event's own


def test_a_stream_says_whose_it_is():
    stream = OTHER.create_raw_stream()
    assert repr(stream) == f"<stream {stream.handle:#x} of cuda(1)>"
    with pytest.raises(ArgumentError, match=r"cuda\(0\)\.sync\(<stream 0x\w+ of cuda\(1\)>\)"):
        GPU.sync(stream)


def test_the_default_stream_of_others_is_ours():
    for default in (0, 1, SimpleNamespace(cuda_stream=0), SimpleNamespace(ptr=0, device_id=-1)):
        GPU.set_raw_stream(default)
        assert current_stream(context_of(GPU)) is None


@pytest.mark.parametrize(
    "stream",
    [
        "no stream",
        True,
        3.5,
        SimpleNamespace(cuda_stream=77, device_index=1),
        SimpleNamespace(ptr=77, device_id=1),
    ],
)
def test_what_is_no_stream_of_the_device_is_refused(stream):
    for call in (GPU.set_raw_stream, GPU.sync):
        with pytest.raises(ArgumentError, match=r"it is no stream of this device\n.*raw_stream"):
            call(stream)
    with pytest.raises(ArgumentError, match="the CPU's only stream is None"):
        whet.cpu().set_raw_stream(stream)
    with pytest.raises(ArgumentError, match="it is a GPU's"):
        whet.device("cuda-emulator").set_raw_stream(77)
    with pytest.raises(ArgumentError, match="it is no stream of this device"):
        GPU.free_raw_stream(their_stream())


def test_a_stream_that_is_gone_is_an_error():
    gone = np.zeros(8, "uint64")  # nothing that the driver has made
    there, f = poisoned(8), added(8)
    f(there, there, poisoned(8))
    GPU.set_raw_stream(gone.ctypes.data)
    for ask in (
        lambda: GPU.sync(gone.ctypes.data),
        lambda: there.copyfrom(np.zeros(8, "float32")),
        lambda: f(there, there, there),
        there.numpy,
    ):
        with pytest.raises(KernelError, match=r"driver says 400(.|\n)*stream may be gone, or not"):
            ask()


@pytest.mark.parametrize("theirs", [None, 1, 2, "a stream"])
def test_a_taker_waits_for_our_stream_and_the_host_does_not(theirs, waits):
    a, own, stream = poisoned(8), GPU.create_raw_stream(), their_stream()
    theirs = stream.handle if theirs == "a stream" else theirs
    a.__dlpack__(stream=theirs)
    assert waits() == ([] if theirs in (None, 1) else [(1, theirs)])
    GPU.set_raw_stream(own)
    a.__dlpack__(stream=theirs)
    assert waits() == [(own.handle, theirs or 1)]
    a.__dlpack__(stream=own.handle)
    a.__dlpack__(stream=-1)
    assert waits() == []


def test_our_stream_waits_for_a_givers(waits):
    a, stream = poisoned(8), their_stream()
    taken_array(ByInterface(a, stream=stream.handle))
    assert waits() == [(stream.handle, 1)]
    taken_array(ByInterface(a, stream=1))
    taken_array(ByInterface(a, stream=None))
    assert waits() == []


def test_memory_between_kernels_is_kept_for_somebody_elses_stream():
    f, a, c, theirs = doubled_twice(64), numbers(1, 64), poisoned(64), their_stream()
    context, there = context_of(GPU), whet.nd.array(a, GPU)
    left = []
    for _ in range(3):
        GPU.set_raw_stream(theirs)
        f(there, c)
        GPU.set_raw_stream(None)
        left.append(context.memory()[0])
    assert left[0] == left[1] == left[2]


def test_streams_that_nobody_uses_any_more_go():
    f, a, c, theirs = doubled_twice(64), numbers(1, 64), poisoned(64), their_stream()
    context, there, owner = context_of(GPU), whet.nd.array(a, GPU), Protocol(theirs.handle)
    alive = weakref.ref(owner)
    GPU.set_raw_stream(owner)
    del owner
    f(there, c)  # with memory between its kernels
    assert alive() is not None
    GPU.set_raw_stream(None)
    assert alive() is None
    own, before = GPU.create_raw_stream(), context.memory()[0]
    GPU.set_raw_stream(own)
    f(there, c)
    assert context.memory()[0] < before
    GPU.free_raw_stream(own)
    assert context.memory()[0] == before and current_stream(context) is None


@pytest.mark.parametrize("own", [False, True])
def test_copies_between_devices_are_the_devices_own(own, waits):
    a = numbers(4, (5, 7))
    before, there = PEER_COPIES.value, whet.nd.array(a, GPU)
    streams = [1, 1]
    if own:
        made = [device.create_raw_stream() for device in (GPU, OTHER)]
        for device, stream in zip((GPU, OTHER), made):
            device.set_raw_stream(stream)
        streams = [s.handle for s in made]
    waits()
    copied = there.copyto(OTHER)
    assert PEER_COPIES.value == before + 1 and copied.device == OTHER
    assert waits() == [tuple(streams), tuple(streams[::-1])]  # it comes between the work of both
    np.testing.assert_array_equal(copied.numpy(), a)
    there[:] = 3
    copied.copyfrom(there)
    assert PEER_COPIES.value == before + 2 and (copied.numpy() == 3).all()
    copied.copyfrom(whet.nd.array(a.astype("float64"), GPU))  # cast by way of the host
    assert PEER_COPIES.value == before + 2
    np.testing.assert_array_equal(copied.numpy(), a)
    GPU.set_raw_stream(their_stream())
    there.copyfrom(copied)
    np.testing.assert_array_equal(there.numpy(), a)
