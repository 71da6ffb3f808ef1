"""Which stream a thread's work on a device goes to."""

from __future__ import annotations

import threading

from whet.compiler.runtime.gpu.driver import Context, Stream


class _Current(threading.local):
    """Of one thread: context -> its stream, where that is not the default one."""

    def __init__(self) -> None:
        self.streams: dict[Context, Stream] = {}


_current = _Current()


def current_stream(context: Context) -> Stream | None:
    """The stream that this thread's work goes to; None: the default stream."""
    return _current.streams.get(context)


def set_stream(context: Context, stream: Stream | None) -> None:
    """Let this thread's later work go to a stream of a context; None: to the default one."""
    if stream is None:
        _current.streams.pop(context, None)
    else:
        _current.streams[context] = stream


def current_handle(context: Context) -> int:
    """The current stream's handle as DLPack and others count: 1 is the default stream."""
    stream = current_stream(context)
    return 1 if stream is None else stream.handle
