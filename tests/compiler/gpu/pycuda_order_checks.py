"""Work on streams that nothing else orders, in a process with the stand-in for libcuda.

The stand-in does nothing before somebody waits for it: what should come first, and is not waited
for, has not happened. See test_cuda_pycuda.py.
"""

import gc

import numpy as np
import pytest
from device_programs import added, doubled_twice
from pycuda_exchange_checks import ByInterface
from pycuda_stand_in import (
    GPU,
    OTHER,
    drv,
    nothing_is_current,  # noqa: F401, a fixture of every check
    numbers,
    poisoned,
)
from pycuda_waits import default_streams, their_stream  # noqa: F401, likewise

import whet
from whet.compiler.runtime.arrays.device import context_of
from whet.compiler.runtime.gpu.driver.streams import current_stream

ONE = np.ones(100, "float32")


def filled(array, value, stream):
    """Let somebody else write an array in a stream of theirs."""
    word = int(np.float32(value).view("uint32"))
    with array.context:
        drv.memset_d32_async(array.address, word, array.nbytes // 4, stream)


def read(array, stream):
    """The data that somebody else finds there, in a stream of theirs."""
    found = np.full(array.shape, np.nan, "float32")
    with array.context:
        drv.memcpy_dtoh_async(found, array.address, stream)
    return found


@pytest.mark.parametrize("way", ["set", "told"])
def test_a_call_comes_after_their_work_and_before_their_later_work(way):
    f, theirs = added(100), their_stream()
    a, c = (whet.nd.array(ONE, GPU) for _ in range(2))
    args = [a, a, c]
    if way == "told":
        args = [ByInterface(x, stream=theirs.handle) for x in args]
    for value in (3.0, 4.0):
        filled(a, value, theirs)
        GPU.set_raw_stream(theirs if way == "set" else None)
        f(*args)
        GPU.set_raw_stream(None)
        assert (read(c, theirs) == 2 * value).all()
        filled(c, np.nan, theirs)


def test_their_later_work_waits_for_what_came_before_an_error():
    theirs, a = their_stream(), whet.nd.array(ONE, GPU)
    GPU.set_raw_stream(theirs)
    stream = current_stream(a.context)
    with pytest.raises(RuntimeError, match="the second one"), stream.together() as inside:
        a.context.fill(a.address, 0, a.nbytes, inside)
        raise RuntimeError("the second one")
    assert (read(a, theirs) == 0).all()


def test_what_is_read_on_the_host_comes_after_the_current_stream():
    theirs, a = their_stream(), whet.nd.array(ONE, GPU)
    GPU.set_raw_stream(theirs)
    filled(a, 7.0, theirs)
    assert (a.numpy() == 7).all()
    a[:] = 5
    assert (read(a, theirs) == 5).all()


def test_a_copy_from_the_host_is_there_for_every_stream():
    a = poisoned(100)
    a.copyfrom(numbers(1, 100))
    np.testing.assert_array_equal(read(a, their_stream()), numbers(1, 100))


def test_a_copy_comes_between_both_devices_streams():
    here, there = their_stream(), their_stream(OTHER)
    a, b = whet.nd.array(ONE, GPU), poisoned(100, OTHER)
    GPU.set_raw_stream(here)
    OTHER.set_raw_stream(there)
    filled(a, 2.0, here)
    b.copyfrom(a)
    filled(a, 9.0, here)  # in time for nothing
    assert (read(b, there) == 2).all()


def test_streams_have_memory_between_kernels_of_their_own():
    f, streams = doubled_twice(64), [their_stream() for _ in range(2)]
    inputs = [whet.nd.array(numbers(k, 64), GPU) for k in range(2)]
    outputs = [poisoned(64) for _ in range(2)]
    for _ in range(2):
        for stream, a, c in zip(streams, inputs, outputs):
            GPU.set_raw_stream(stream)
            f(a, c)
    for k in (1, 0):
        doubled = 2 * numbers(k, 64)[::-1]
        np.testing.assert_array_equal(read(outputs[k], streams[k]), doubled[::-1] + doubled)


@pytest.mark.parametrize("what", ["code", "array"])
def test_what_is_dropped_goes_after_its_work(what):
    GPU.set_raw_stream(their_stream())
    held = {"array": whet.nd.array(ONE, GPU), "code": added(100)}
    a, c = held["array"], poisoned(100)
    held["code"](a, a, c)
    del a, held[what]
    gc.collect()
    context_of(GPU).synchronize()
    assert (c.numpy() == 2).all()
