"""Memory of a device between the kernels of one call, kept for the next call."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict

from whet.compiler.errors import OutOfMemoryError
from whet.compiler.runtime.gpu.driver.interface import Context, Stream

_KEPT_PARTS = 8  # an eighth of the device's memory may lie idle here


class Workspace:
    """Blocks of a context's memory, by size and stream.

    A block that is given back can be taken at once by the same stream only: its work is done in
    order, so that what reads the block is done before it is written again.

    Args:
        context: whose memory.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        # By the stream itself, which lives as long as its blocks: handles are used again.
        self._idle: OrderedDict[tuple[int, Stream | None], list[int]] = OrderedDict()
        self._bytes = 0
        self._most = context.memory()[1] // _KEPT_PARTS
        self._lock = threading.Lock()

    def take(self, nbytes: int, stream: Stream | None) -> int:
        """The address of a block, whose contents are undefined.

        Args:
            nbytes: its exact size.
            stream: the one that uses it; None: the default stream.

        Raises:
            OutOfMemoryError: the device has not so much memory left, nothing of it idle.
        """
        with self._lock:
            blocks = self._idle.get((nbytes, stream))
            if blocks:
                self._bytes -= nbytes
                address = blocks.pop()
                self._context.discard(address, nbytes)
                return address
        return self.alloc(nbytes)

    def alloc(self, nbytes: int) -> int:
        """The address of new memory, for which idle blocks make room.

        Raises:
            OutOfMemoryError: the device has not so much memory left, nothing of it idle.
        """
        try:
            return self._context.alloc(nbytes)
        except OutOfMemoryError:
            self.shrink(0)
            return self._context.alloc(nbytes)

    def give_back(self, address: int, nbytes: int, stream: Stream | None) -> None:
        """Give a block back after all its work was put into the stream."""
        with self._lock:
            self._idle.setdefault((nbytes, stream), []).append(address)
            self._idle.move_to_end((nbytes, stream))
            self._bytes += nbytes
        if self._bytes > self._most:
            self.shrink(self._most)

    def forget(self, stream: Stream) -> None:
        """Free the idle blocks of a stream that nobody uses any more."""
        with self._lock:
            gone = [key for key in self._idle if key[1] is stream]
            blocks = [(address, key[0]) for key in gone for address in self._idle.pop(key)]
            self._bytes -= sum(nbytes for _, nbytes in blocks)
        for address, _ in blocks:
            self._context.free(address)

    def shrink(self, most: int) -> None:
        """Free idle blocks, the longest unused first, until so many bytes are left."""
        while True:
            with self._lock:
                if self._bytes <= most:
                    return
                (nbytes, _), blocks = next(iter(self._idle.items()))
                address = blocks.pop() if blocks else None
                if not blocks:
                    self._idle.popitem(last=False)
                if address is None:
                    continue
                self._bytes -= nbytes
            self._context.free(address)


_workspaces: weakref.WeakKeyDictionary[Context, Workspace] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def workspace_of(context: Context) -> Workspace:
    """The workspace of a context."""
    with _lock:
        found = _workspaces.get(context)
        if found is None:
            found = _workspaces[context] = Workspace(context)
        return found
