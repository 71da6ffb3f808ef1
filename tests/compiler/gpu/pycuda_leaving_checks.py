"""Objects that Python drops while others work or capture, with the stand-in for libcuda.

The stand-in does nothing before somebody waits for it, and gives a capture up as the driver does.
See test_cuda_pycuda.py.
"""

import ctypes
import gc
from contextlib import contextmanager

import numpy as np
import pytest
from device_programs import added
from pycuda_stand_in import (
    GPU,
    drv,
    emulated,
    nothing_is_current,  # noqa: F401, a fixture of every check
    poisoned,
)
from pycuda_waits import LIBRARY, default_streams, their_stream  # noqa: F401, likewise

import whet
from whet.compiler.errors import KernelError
from whet.compiler.runtime.arrays.device import context_of

ONE = np.ones(100, "float32")
LOADED = ctypes.c_uint.in_dll(LIBRARY, "standin_modules")


@pytest.fixture(autouse=True)
def nothing_waits():
    """Free the memory that earlier checks dropped."""
    gc.collect()
    GPU.sync()


def launched(stream=None):
    """A function whose kernel was put into a stream, the array that it writes, and the other."""
    f, c, a = added(100), poisoned(100), whet.nd.array(ONE, GPU)
    GPU.set_raw_stream(stream)
    f(a, a, c)
    GPU.set_raw_stream(None)
    return f, c, a


def other_code():
    """Loads code, at which what waits is looked at; it stays loaded."""
    context = context_of(GPU)
    return context.load(emulated(added(4).get_source("cuda"), "sm_80"))


def is_busy(stream):
    with stream.context:
        return not stream.held.is_done()


def without(things):
    """Drop the last one; functions and their module know each other, and go with the collector."""
    things.pop()
    gc.collect()


@contextmanager
def capture(mode=0):
    """Somebody's capture, which is given up where a call was not allowed."""
    theirs, graph = their_stream(), ctypes.c_void_p()
    handle = ctypes.c_void_p(theirs.handle)
    with context_of(GPU):
        assert LIBRARY.cuStreamBeginCapture_v2(handle, mode) == 0
    try:
        yield theirs
    finally:
        with context_of(GPU):
            code = LIBRARY.cuStreamEndCapture(handle, ctypes.byref(graph))
    assert code == 0 and graph.value, f"the capture was given up: {code}"


def test_dropping_code_waits_for_no_stream():
    own, others = GPU.create_raw_stream(), their_stream()
    theirs = whet.nd.array(ONE, GPU)
    (f, c, _), before = launched(own), LOADED.value
    with theirs.context:
        drv.memset_d32_async(theirs.address, 0, 100, others)
    dropped = [f]
    del f
    without(dropped)
    first = other_code()
    assert LOADED.value == before + 1 and is_busy(own)
    GPU.sync(own)
    second = other_code()
    assert LOADED.value == before + 1  # what was launched is gone
    with theirs.context:
        assert not others.is_done()
    assert (c.numpy() == 2).all()
    del first, second


def test_code_goes_though_its_stream_has_later_work():
    stream = GPU.create_raw_stream()
    (f, c, a), before = launched(stream), LOADED.value
    dropped = [f]
    del f
    without(dropped)
    first = other_code()  # its stream is busy: the end of its work is noted
    event = a.context.event()
    event.record(stream)
    a.context.fill(a.address, 0, a.nbytes, stream)
    event.synchronize()
    second = other_code()
    assert LOADED.value == before + 1 and is_busy(stream)
    GPU.sync(stream)
    assert (c.numpy() == 2).all() and not a.numpy().any()
    del first, second


def test_code_without_launches_and_code_that_is_done_go_when_the_device_is_waited_for():
    before, held = LOADED.value, [other_code(), launched(), launched(their_stream())]
    assert LOADED.value == before + 3
    for left in (2, 1, 0):
        without(held)
        assert LOADED.value == before + left + 1  # it asks nothing of the driver
        GPU.sync()
        assert LOADED.value == before + left


@pytest.mark.parametrize("mode", [0, 1])
def test_what_is_dropped_made_and_loaded_does_not_end_a_capture(mode):
    things = [launched(), GPU.create_raw_stream(), poisoned(10), context_of(GPU).event()]
    things += [whet.nd.empty(4, "float32", whet.device("cuda_host"))]
    other = their_stream()
    with capture(mode):
        while things:
            without(things)
        GPU.set_raw_stream(other)
        GPU.set_raw_stream(None)
        things += [whet.nd.empty(9, "int8", GPU), other_code(), GPU.create_raw_stream()]
        things += [whet.nd.empty(4, "float32", whet.device("cuda_host"))]


def test_what_a_capture_forbids_ends_it():
    """The stand-in is as strict as the driver: so that the checks above can fail."""
    context = context_of(GPU)
    for forbidden in (GPU.sync, context.event().reached, poisoned(4).numpy):
        with (
            pytest.raises(AssertionError, match="given up: 901"),
            capture(),
            pytest.raises(KernelError, match="not permitted when stream is capturing"),
        ):
            forbidden()


def test_code_stays_while_a_stream_of_its_launches_is_captured():
    theirs, before = their_stream(), LOADED.value
    f, c, _ = launched(theirs)
    GPU.sync(theirs)
    inside = context_of(GPU).borrowed(theirs.handle, theirs)._own  # captured, too, by a call
    with context_of(GPU):
        assert LIBRARY.cuStreamBeginCapture_v2(ctypes.c_void_p(inside), 0) == 0
    dropped = [f]
    del f
    without(dropped)
    other = other_code()
    assert LOADED.value == before + 2
    with context_of(GPU):
        graph = ctypes.c_void_p()
        assert LIBRARY.cuStreamEndCapture(ctypes.c_void_p(inside), ctypes.byref(graph)) == 0
    GPU.sync()
    assert LOADED.value == before + 1 and (c.numpy() == 2).all()
    del other


def test_a_stream_that_is_captured_is_not_asked():
    leaving = context_of(GPU).leaving
    with capture() as theirs:
        leaving.add_stream(theirs)
        assert GPU.create_raw_stream().handle != int(theirs.handle)
        leaving._streams.remove(theirs)


def test_streams_are_taken_again_when_their_work_is_done():
    (f, c, a), leaving = launched(), context_of(GPU).leaving
    first = GPU.create_raw_stream()
    handle = first.handle
    GPU.set_raw_stream(first)
    f(a, a, c)
    GPU.set_raw_stream(None)
    del first
    second = GPU.create_raw_stream()
    assert second.handle != handle  # its work is not done
    GPU.sync()
    taken = [GPU.create_raw_stream() for _ in range(len(leaving._streams))]
    assert handle in [stream.handle for stream in taken] and not leaving._streams
