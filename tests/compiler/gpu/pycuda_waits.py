"""Somebody else's streams on the stand-in, and which stream was made to wait for which."""

import ctypes

import pytest
from pycuda_stand_in import GPU, OTHER, drv

from whet.compiler.runtime.arrays.device import context_of

LIBRARY = ctypes.CDLL("libcuda.so.1")
COUNT = ctypes.c_uint.in_dll(LIBRARY, "standin_wait_count")
PEER_COPIES = ctypes.c_uint.in_dll(LIBRARY, "standin_peer_copies")
WAITS = (ctypes.c_void_p * 128).in_dll(LIBRARY, "standin_waits")


@pytest.fixture(autouse=True)
def default_streams():
    yield
    for device in (GPU, OTHER):
        device.set_raw_stream(None)
        device.sync()


class Waits:
    """Calling it gives what came since the last call: (earlier, later) by handle, in order."""

    def __init__(self):
        self.seen = COUNT.value

    def __call__(self):
        first, self.seen = self.seen, COUNT.value
        pairs = [WAITS[2 * (k % 64) : 2 * (k % 64) + 2] for k in range(first, self.seen)]
        return [(earlier or 0, later or 0) for earlier, later in pairs]


def their_stream(device=GPU):
    """A stream that is not ours."""
    with context_of(device):
        return drv.Stream(1)
