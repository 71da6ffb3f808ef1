"""The current stream of a thread on a device, and streams of other libraries."""

from __future__ import annotations

import threading
from typing import Any

from whet.compiler.runtime.gpu.driver.interface import Context, Stream

DEFAULT = 1
"""The handle of the default stream, by which DLPack, others and the driver know it; 0 is, too."""


class _Current(threading.local):
    """Of one thread: context -> its stream, where that is not the default one, and whose it is."""

    def __init__(self) -> None:
        self.streams: dict[Context, Stream] = {}
        self.owners: dict[Context, object] = {}


_current = _Current()


def current_stream(context: Context) -> Stream | None:
    """The stream that this thread's work goes to; None: the default stream."""
    return _current.streams.get(context)


def set_stream(context: Context, stream: Stream | None, owner: object = None) -> None:
    """Let this thread's later work go to a stream of a context; None: to the default one.

    Args:
        context: whose it is.
        stream: ours, or a borrowed one.
        owner: somebody else's object, kept alive as long as the stream is the current one.
    """
    if stream is None:
        _current.streams.pop(context, None)
    else:
        _current.streams[context] = stream
    _current.owners[context] = owner


def current_handle(context: Context) -> int:
    """The current stream's handle as DLPack and others count: 1 is the default stream."""
    stream = current_stream(context)
    return DEFAULT if stream is None else stream.handle


def handle_of(stream: Any) -> int | None:
    """The ``CUstream`` of a stream of PyTorch, CuPy, cuda-python or pycuda, as a number.

    Args:
        stream: an object with ``__cuda_stream__``, ``cuda_stream``, ``ptr`` or ``handle``, or the
            number itself.

    Returns:
        The number, 1 for the default stream; None where it is no stream.
    """
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        _, stream = protocol() if callable(protocol) else protocol
    for name in ("cuda_stream", "ptr", "handle"):
        stream = getattr(stream, name, stream)
    if isinstance(stream, bool) or not hasattr(stream, "__index__"):
        return None
    return int(stream) or DEFAULT


def number_of_device(stream: Any) -> int | None:
    """The number of the device that somebody's stream is on; None where it does not tell."""
    for name in ("device_index", "device_id"):  # PyTorch's, CuPy's
        number = getattr(stream, name, None)
        if isinstance(number, int) and number >= 0:
            return number
    return None
