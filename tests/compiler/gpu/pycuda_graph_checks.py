"""Launches that were captured and are put as one work, with the stand-in for libcuda.

The stand-in does nothing before somebody waits for it. See test_cuda_pycuda.py.
"""

import ctypes
import gc

import numpy as np
from device_programs import added, doubled_twice
from pycuda_stand_in import (
    GPU,
    nothing_is_current,  # noqa: F401, a fixture of every check
    numbers,
    poisoned,
)
from pycuda_waits import LIBRARY, default_streams, their_stream  # noqa: F401, likewise

import whet
from whet.compiler.runtime.arrays.device import context_of
from whet.compiler.runtime.gpu.replay import Replay

PUT = ctypes.c_uint.in_dll(LIBRARY, "standin_graph_launches")
LOADED = ctypes.c_uint.in_dll(LIBRARY, "standin_modules")
N = 100


def twice_added(function):
    """c = a + b, then d = c + b."""
    given = [poisoned(N) for _ in range(3)]
    ready, slots = function.entry_func.prepared(given)
    steps = [(ready, slots, [(0, 0, 0), (1, 1, 0), (2, 2, 0)])]
    steps += [(ready, slots, [(0, 2, 0), (1, 1, 0), (2, 3, 0)])]
    return Replay(given[0], steps)


def on_gpu(seed):
    a, b = (whet.nd.array(numbers(seed + k, N), GPU) for k in range(2))
    return a, b, poisoned(N), poisoned(N)


def run(replay, arrays, graphs):
    """Run on new numbers, and compare; so many graphs are launched."""
    a, b, c, d = arrays
    x, y = (np.random.default_rng().integers(-9, 9, N).astype("float32") for _ in range(2))
    a.copyfrom(x), b.copyfrom(y)
    for out in (c, d):
        out.copyfrom(np.full(N, np.nan, "float32"))
    before = PUT.value
    replay.run([each.address for each in arrays])
    assert PUT.value == before + graphs
    np.testing.assert_array_equal(d.numpy(), x + 2 * y)
    np.testing.assert_array_equal(c.numpy(), x + y)


def test_addresses_that_come_again_are_a_graph():
    replay, one, other = twice_added(added(N)), on_gpu(0), on_gpu(2)
    run(replay, one, 0)
    run(replay, one, 1)
    run(replay, other, 0)
    run(replay, one, 1)
    run(replay, other, 1)
    mixed = (one[0], other[1], one[2], other[3])
    run(replay, mixed, 0)
    run(replay, mixed, 1)
    run(replay, one, 1)


def test_a_graph_goes_into_the_current_stream():
    replay, arrays = twice_added(added(N)), on_gpu(0)
    run(replay, arrays, 0)
    theirs = their_stream()
    for stream in (GPU.create_raw_stream(), theirs):
        GPU.sync()
        GPU.set_raw_stream(stream)
        replay.run([each.address for each in arrays])
        GPU.set_raw_stream(None)
        GPU.sync(stream)
        np.testing.assert_array_equal(arrays[3].numpy(), arrays[0].numpy() + 2 * arrays[1].numpy())
        arrays[3].copyfrom(np.full(N, np.nan, "float32"))


def test_what_somebody_captures_gets_no_graph():
    replay, arrays, theirs = twice_added(added(N)), on_gpu(0), their_stream()
    run(replay, arrays, 0)
    run(replay, arrays, 1)
    graph = replay._graphs[tuple(each.address for each in arrays)]
    borrowed = context_of(GPU).borrowed(theirs.handle, theirs)
    handle, made = ctypes.c_void_p(int(theirs.handle)), ctypes.c_void_p()
    before = PUT.value
    with context_of(GPU):
        assert LIBRARY.cuStreamBeginCapture_v2(handle, 2) == 0
    assert not graph.launch(borrowed)
    with context_of(GPU):
        assert LIBRARY.cuStreamEndCapture(handle, ctypes.byref(made)) == 0
    assert PUT.value == before
    assert graph.launch(borrowed)
    GPU.sync()


def test_code_lives_as_long_as_its_graph_and_its_work():
    gc.collect()
    GPU.sync()
    before, replay, arrays = LOADED.value, twice_added(added(N)), on_gpu(0)
    run(replay, arrays, 0)
    run(replay, arrays, 1)
    gc.collect()
    assert LOADED.value == before + 1
    stream = their_stream()  # in which no kernel was launched by itself
    GPU.set_raw_stream(stream)
    replay.run([each.address for each in arrays])
    GPU.set_raw_stream(None)
    (graph,) = replay._graphs.values()
    inside = context_of(GPU).borrowed(int(stream.handle), stream).held
    assert all(inside in streams for streams in graph._streams)  # for whose work code waits
    del replay, graph
    gc.collect()
    assert LOADED.value == before + 1  # its work is not done
    GPU.sync()
    gc.collect()
    GPU.sync()
    assert LOADED.value == before
    np.testing.assert_array_equal(arrays[3].numpy(), arrays[0].numpy() + 2 * arrays[1].numpy())


def test_temporaries_have_memory_of_the_graph():
    function, n = doubled_twice(N), N * 4
    a, b, c, d = on_gpu(0)
    ready, slots = function.entry_func.prepared([a, c])
    assert n <= ready.temporary_bytes < n + 256
    steps = [(ready, slots, [(0, 0, 0), (1, 2, 0)]), (ready, slots, [(0, 1, 0), (1, 3, 0)])]
    replay = Replay(a, steps)
    for _ in range(3):
        for out in (c, d):
            out.copyfrom(np.full(N, np.nan, "float32"))
        replay.run([each.address for each in (a, b, c, d)])
        for x, out in ((a, c), (b, d)):
            np.testing.assert_array_equal(out.numpy(), 2 * (x.numpy() + x.numpy()[::-1]))
    assert replay._graphs
