"""The wire between supervisor and child: pickles over a socket, with a length and a deadline.

Pickle is safe here because both ends are one program: a child is started by its supervisor, over a
socket pair that nobody else can open. Nothing that comes from a log or a file passes through it.
"""

from __future__ import annotations

import pickle
import socket
import struct
import time
from typing import Any

HEADER = struct.Struct("<Q")


def send(sock: socket.socket, value: Any, deadline: float | None = None) -> None:
    """Send one value.

    Args:
        sock: a connected stream socket.
        value: anything picklable.
        deadline: ``time.monotonic()`` by which all of it must be taken; None waits for ever.

    Raises:
        TimeoutError: the other end did not take it in time.
        ConnectionError: the other end is gone.
    """
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    _limit(sock, deadline)
    sock.sendall(HEADER.pack(len(data)) + data)


def receive(sock: socket.socket, deadline: float | None = None) -> Any:
    """Receive one value; the deadline also covers a sender that stops halfway.

    Raises:
        TimeoutError: no whole value arrived in time.
        EOFError, ConnectionError: the other end is gone.
    """
    (size,) = HEADER.unpack(_exactly(sock, HEADER.size, deadline))
    return pickle.loads(_exactly(sock, size, deadline))


def _exactly(sock: socket.socket, size: int, deadline: float | None) -> bytearray:
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        _limit(sock, deadline)
        n = sock.recv_into(view[got:])
        if n == 0:
            raise EOFError(f"connection closed after {got} of {size} bytes")
        got += n
    return data


def _limit(sock: socket.socket, deadline: float | None) -> None:
    if deadline is None:
        sock.settimeout(None)
        return
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("deadline passed")
    sock.settimeout(left)
