"""Functions of NVIDIA's driver that pycuda lacks: others' streams, peer copies, memory's owners.

pycuda has loaded the library. But for :meth:`Libcuda.device_of`, its functions are called with the
context current that they are about.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from whet.compiler.errors import KernelError

_NAME = "libcuda.so.1"
_NO_TIME = 2  # CU_EVENT_DISABLE_TIMING
_CONTEXT, _ORDINAL = 1, 9  # CU_POINTER_ATTRIBUTE_CONTEXT, _DEVICE_ORDINAL
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_INVALID_HANDLE, _NOT_READY = 400, 600
_HANDLE, _ADDRESS, _NUMBER = ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_int)

# function -> types of its arguments; those that wait for a device give the GIL up
_QUICK = {
    "cuEventCreate": (ctypes.POINTER(_HANDLE), ctypes.c_uint),
    "cuEventRecord": (_HANDLE, _HANDLE),
    "cuStreamWaitEvent": (_HANDLE, _HANDLE, ctypes.c_uint),
    "cuStreamQuery": (_HANDLE,),
    "cuStreamIsCapturing": (_HANDLE, _NUMBER),
    "cuThreadExchangeStreamCaptureMode": (_NUMBER,),
    "cuPointerGetAttribute": (_HANDLE, ctypes.c_int, _ADDRESS),
    "cuGetErrorString": (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)),
}
# of graphs; a driver before CUDA 11.4 lacks some
_OF_GRAPHS = {
    "cuStreamBeginCapture_v2": (_HANDLE, ctypes.c_int),
    "cuStreamEndCapture": (_HANDLE, ctypes.POINTER(_HANDLE)),
    "cuGraphInstantiateWithFlags": (ctypes.POINTER(_HANDLE), _HANDLE, ctypes.c_ulonglong),
    "cuGraphLaunch": (_HANDLE, _HANDLE),
    "cuGraphDestroy": (_HANDLE,),
    "cuGraphExecDestroy": (_HANDLE,),
}
_WAITING = {
    "cuStreamSynchronize": (_HANDLE,),
    "cuMemcpyPeerAsync": (_ADDRESS, _HANDLE, _ADDRESS, _HANDLE, ctypes.c_size_t, _HANDLE),
}


class Relaxed:
    """While it is entered, this thread's calls that are no stream's work end no capture.

    Without it the driver refuses them while anybody captures a graph, who then has none: memory and
    code come and go when Python drops arrays and modules.

    Args:
        exchange: the driver's function that sets a thread's mode and gives the one before.
    """

    __slots__ = ("_exchange", "_mode")

    def __init__(self, exchange: Callable[[ctypes.c_int], int]) -> None:
        self._exchange, self._mode = exchange, ctypes.c_int(_RELAXED)

    def __enter__(self) -> None:
        self._exchange(self._mode)

    def __exit__(self, *raised: object) -> None:
        self._exchange(self._mode)


class Libcuda:
    """The driver's library, which this process has loaded.

    Args:
        failed: called before a call's error is raised; gives the way out, or nothing.

    Attributes:
        has_graphs: whether it has the functions of graphs.
    """

    def __init__(self, failed: Callable[[], str] = str) -> None:
        self._failed = failed
        self._calls: dict[str, Any] = {}
        for library, functions in (
            (ctypes.PyDLL(_NAME), _QUICK),
            (ctypes.CDLL(_NAME), _WAITING),
        ):
            for name, types in functions.items():
                call = getattr(library, name)
                call.argtypes, call.restype = types, ctypes.c_int
                self._calls[name] = call
        graphs = ctypes.PyDLL(_NAME)
        self.has_graphs = all(hasattr(graphs, name) for name in _OF_GRAPHS)
        for name, types in _OF_GRAPHS.items() if self.has_graphs else ():
            call = getattr(graphs, name)
            call.argtypes, call.restype = types, ctypes.c_int
            self._calls[name] = call
        self._record = self._calls["cuEventRecord"]
        self._wait = self._calls["cuStreamWaitEvent"]

    def event(self) -> int:
        """A new event without a time, which lives as long as its context."""
        made = _HANDLE()
        self._check("cuEventCreate", self._calls["cuEventCreate"](ctypes.byref(made), _NO_TIME))
        return made.value or 0

    def record(self, event: int, stream: int) -> None:
        """Take the point after all work that a stream has now."""
        self._check("cuEventRecord", self._record(event, stream))

    def wait(self, stream: int, event: int) -> None:
        """Let later work of a stream start after an event, as it was recorded last."""
        self._check("cuStreamWaitEvent", self._wait(stream, event, 0))

    def order(self, event: int, earlier: int, later: int) -> None:
        """Record an event in one stream, and let another wait for it."""
        if self._record(event, earlier):
            self.record(event, earlier)  # the same error again, with words
        if self._wait(later, event, 0):
            self.wait(later, event)

    def synchronize(self, stream: int) -> None:
        """Wait until all work of a stream is done."""
        self._check("cuStreamSynchronize", self._calls["cuStreamSynchronize"](stream))

    def is_done(self, stream: int) -> bool:
        """True where all work of a stream is done now."""
        code = self._calls["cuStreamQuery"](stream)
        if code != _NOT_READY:
            self._check("cuStreamQuery", code)
        return not code

    def is_capturing(self, stream: int) -> bool:
        """True where somebody captures a stream's work into a graph, or that cannot be told."""
        status = ctypes.c_int()
        code = self._calls["cuStreamIsCapturing"](stream, ctypes.byref(status))
        return bool(code or status.value)

    def captured(self, stream: int, put: Callable[[], None]) -> int:
        """The executable graph of what ``put`` puts into a stream, which does none of it.

        Args:
            stream: one that does not wait for the default one, and that nobody else has.
            put: launches, and nothing else.
        """
        self._check(
            "cuStreamBeginCapture", self._calls["cuStreamBeginCapture_v2"](stream, _RELAXED)
        )
        graph, made = _HANDLE(), _HANDLE()
        try:
            put()
        finally:  # a stream that is captured takes no work
            code = self._calls["cuStreamEndCapture"](stream, ctypes.byref(graph))
        self._check("cuStreamEndCapture", code)
        try:
            code = self._calls["cuGraphInstantiateWithFlags"](ctypes.byref(made), graph, 0)
        finally:
            self._calls["cuGraphDestroy"](graph)
        self._check("cuGraphInstantiate", code)
        return made.value or 0

    def launch_graph(self, graph: int, stream: int) -> None:
        """Put an executable graph into a stream."""
        self._check("cuGraphLaunch", self._calls["cuGraphLaunch"](graph, stream))

    def destroy_graph(self, graph: int) -> None:
        """Let an executable graph go; what of it is put already, is done."""
        self._calls["cuGraphExecDestroy"](graph)

    def relaxed(self) -> Relaxed:
        """Let calls that are no stream's work go on while somebody captures a graph."""
        return Relaxed(self._calls["cuThreadExchangeStreamCaptureMode"])

    def copy_peer(
        self, to: int, context: int, source: int, source_context: int, nbytes: int, stream: int
    ) -> None:
        """Put a copy between two devices into a stream of the one that is written."""
        call = self._calls["cuMemcpyPeerAsync"]
        code = call(to, context, source, source_context, nbytes, stream)
        self._check("cuMemcpyPeerAsync", code)

    def device_of(self, address: int) -> int | None:
        """The number of the device whose memory an address is in; None where it does not tell."""
        found = ctypes.c_int()
        code = self._calls["cuPointerGetAttribute"](ctypes.byref(found), _ORDINAL, address)
        return None if code or found.value < 0 else found.value

    def context_of(self, address: int) -> int | None:
        """The ``CUcontext`` in which memory was allocated; None where the driver does not tell."""
        found = _HANDLE()
        code = self._calls["cuPointerGetAttribute"](ctypes.byref(found), _CONTEXT, address)
        return None if code else found.value

    def _check(self, name: str, code: int) -> None:
        if not code:
            return
        text = ctypes.c_char_p()
        self._calls["cuGetErrorString"](code, ctypes.byref(text))
        said = (text.value or b"").decode(errors="replace")
        way_out = self._failed()
        if code == _INVALID_HANDLE:
            way_out = way_out or "somebody's stream may be gone, or not of the primary context"
        raise KernelError(name, f"NVIDIA's driver says {code}: {said}", way_out)
