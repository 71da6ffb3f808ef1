"""GPU objects that nobody refers to any more: code until its launches are done, idle streams.

An image goes whenever Python drops its last reference, perhaps while somebody's streams are busy or
captured into a graph: then the driver allows neither a wait for the context nor unloading. So that
dropping asks nothing of the driver. Code is unloaded when the context next loads code or is waited
for, which nobody does during a capture.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import KernelError

if TYPE_CHECKING:
    from whet.compiler.runtime.gpu.driver.pycuda_context import PycudaContext


@dataclass
class _Code:
    """A module of pycuda, the streams that it was launched in, and what its launches come before.

    Attributes:
        events: after what these streams had when the module was first looked at; None: not yet.
    """

    module: Any
    streams: list[Any]
    events: list[Any] | None = field(default=None)


class Leaving:
    """Objects that a context has let go of.

    Nothing here takes a lock: what is dropped may be dropped by the collector, at any place.

    Args:
        context: whose it was.
    """

    def __init__(self, context: PycudaContext) -> None:
        self._context = context
        self._code: deque[_Code] = deque()
        self._streams: deque[Any] = deque()

    def add_code(self, module: Any, streams: Iterable[Any]) -> None:
        """Take a module of pycuda, and its streams that it was launched in (None: the default)."""
        self._code.append(_Code(module, list(streams)))

    def add_stream(self, held: Any) -> None:
        """Take a stream of pycuda."""
        self._streams.append(held)

    def idle_stream(self) -> Any:
        """A stream that was let go of and has no work left; None: there is none.

        The context is current.
        """
        for _ in range(len(self._streams)):
            try:
                held = self._streams.popleft()
            except IndexError:  # another thread took it
                return None
            done = False
            try:  # to ask a stream that is captured would end the capture
                captured = self._context.library.is_capturing(int(held.handle))
                done = not captured and held.is_done()
            finally:  # one of a lost context is not destroyed, either
                if not done:
                    self._streams.append(held)
            if done:
                return held
        return None

    def unload(self) -> None:
        """Unload the code whose launches are done; wait for none. The context is current."""
        for _ in range(len(self._code)):
            try:
                code = self._code.popleft()
            except IndexError:  # another thread looks at it
                return
            done = False
            try:
                done = self._is_done(code)
            except (KernelError, self._context.drv.Error):
                return  # the context is lost: nothing of it may be destroyed any more
            finally:
                if not done:
                    self._code.append(code)

    def _is_done(self, code: _Code) -> bool:
        if code.events is not None:
            return all(event.query() for event in code.events)
        library, drv = self._context.library, self._context.drv
        handles = [0 if held is None else int(held.handle) for held in code.streams]
        if any(map(library.is_capturing, handles)):
            return False  # what is recorded there now belongs to the graph
        busy = [s for s, handle in zip(code.streams, handles) if not library.is_done(handle)]
        # A stream may never be without work: what matters is the work that it has by now.
        events = [drv.Event(drv.event_flags.DISABLE_TIMING) for _ in busy]
        for event, held in zip(events, busy):
            event.record(held)
        code.events = events
        return not busy
