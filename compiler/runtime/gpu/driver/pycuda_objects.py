"""pycuda's images, kernels, streams, events and page-locked memory, each destroyed where it may be.

pycuda destroys an object quietly or not at all in a thread where its context is not current. So
that here an object goes with its context made current, whoever dropped it last.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.compiler.errors import ArtifactError, KernelError
from whet.compiler.runtime.gpu.driver.interface import Event, Stream

if TYPE_CHECKING:
    from whet.compiler.runtime.gpu.driver.pycuda_context import PycudaContext


_allowing = threading.Lock()


class Reporting:
    """Makes a context current and turns pycuda's errors into ours.

    Args:
        context: the context.
        what: is done, for an error.
        stream: where work is put meanwhile; None: the default stream, or none.
    """

    __slots__ = ("_borrowed", "_context", "_what")

    def __init__(self, context: PycudaContext, what: str, stream: Stream | None = None) -> None:
        self._context = context
        self._what = what
        self._borrowed = stream if isinstance(stream, BorrowedStream) else None

    def __enter__(self) -> None:
        try:
            self._context.__enter__()
        except self._context.drv.Error as error:
            raise self._context.failed(f"{self._what} {self._context}", error) from None
        if self._borrowed is None:
            return
        try:
            self._borrowed.follow()
        except BaseException:
            self._context.__exit__()
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        context = self._context
        try:
            if self._borrowed is not None:
                # What was put before an error is work, too; that error is the one to tell.
                with suppress(KernelError) if error is not None else nullcontext():
                    self._borrowed.lead()
        finally:
            context.__exit__()
        if isinstance(error, context.drv.Error):
            raise context.failed(f"{self._what} {context}", error) from None


class Held:
    """One of pycuda's objects, which must be destroyed with its context current.

    Attributes:
        held: the object.
    """

    __slots__ = ("context", "held")

    def __init__(self, context: PycudaContext, held: Any) -> None:
        self.context = context
        self.held = held

    def drop(self) -> None:
        """Let go of pycuda's objects; the context is current."""
        del self.held

    def __del__(self) -> None:
        if not hasattr(self, "held"):
            return
        if not self.context.usable:
            immortal(self.held)
            return
        try:
            with self.context, self.context.library.relaxed():
                self.drop()
        except self.context.drv.Error:  # the device was reset: pycuda would end the process
            immortal(self.held)


class Pinned(Held):
    """Page-locked memory, as numpy takes it; arrays keep this object alive."""

    __slots__ = ("__array_interface__",)

    def __init__(self, context: PycudaContext, held: np.ndarray, nbytes: int) -> None:
        super().__init__(context, held)
        self.__array_interface__ = {**held.__array_interface__, "shape": (nbytes,)}


class PycudaImage(Held):
    """A cubin in a context.

    Attributes:
        streams: pycuda's streams that its kernels were launched in; None: the default one.
    """

    __slots__ = ("streams",)

    def __init__(self, context: PycudaContext, held: Any) -> None:
        super().__init__(context, held)
        self.streams: set[Any] = set()

    def kernel(self, name: str) -> PycudaKernel:
        """The kernel of that name."""
        drv = self.context.drv
        try:
            with self.context:
                return PycudaKernel(self, self.held.get_function(name), name)
        except drv.Error as error:
            raise ArtifactError(
                f"kernel {name!r} on {self.context}", f"its code has none: {error}"
            ) from None

    def drop(self) -> None:
        """Let go of pycuda's module; the driver does not promise to wait for what runs."""
        self.context.leaving.add_code(self.held, self.streams)
        super().drop()


class PycudaKernel(Held):
    """A kernel of an image.

    Attributes:
        name: its name.
        launch: pycuda's call: grid, block, arguments, bytes of shared memory, stream.
        shared_bytes: of dynamic shared memory it may have as it is.
        streams: its image's, for a launch to add to.
    """

    __slots__ = ("image", "launch", "name", "shared_bytes", "streams")

    def __init__(self, image: PycudaImage, held: Any, name: str) -> None:
        super().__init__(image.context, held)
        self.image = image
        self.streams = image.streams
        self.name = name
        self.launch = held._launch_kernel
        self.shared_bytes = image.context.properties.shared_bytes

    def allow(self, shared_bytes: int) -> None:
        """Ask for more dynamic shared memory than any kernel may have; the context is current."""
        which = self.context.drv.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
        with _allowing:  # another thread may have asked for more in between
            if shared_bytes > self.shared_bytes:
                self.held.set_attribute(which, shared_bytes)
                self.shared_bytes = shared_bytes

    def drop(self) -> None:
        """Let go of pycuda's objects; the context is current."""
        del self.launch, self.held, self.image  # pycuda's function keeps its module


class PycudaStream(Held):
    """Work in its order."""

    __slots__ = ()
    is_borrowed = False

    def drop(self) -> None:
        """Let go of pycuda's stream, which code may have been launched in, for the next one."""
        self.context.leaving.add_stream(self.held)
        super().drop()

    @property
    def handle(self) -> int:
        """The ``CUstream`` as a number."""
        return int(self.held.handle)

    def __repr__(self) -> str:
        return f"<stream {self.handle:#x} of {self.context}>"

    def synchronize(self) -> None:
        """Wait until all its work is done."""
        with Reporting(self.context, "waiting for a stream of"):
            self.held.synchronize()

    def wait(self, event: Event) -> None:
        """Let later work start after an event."""
        with Reporting(self.context, "waiting for an event on"):
            self.held.wait_for_event(own(event))

    def together(self) -> AbstractContextManager[Stream]:
        """Itself."""
        return nullcontext(self)


class BorrowedStream:
    """Somebody else's stream.

    pycuda puts work into streams of its own making only. So that work goes to one of these, after
    what their stream has (:meth:`follow`), and what comes into theirs later waits for it
    (:meth:`lead`): as if it had been put there.

    Args:
        context: of the device.
        held: pycuda's stream.
        handle: theirs, a ``CUstream`` as a number.
    """

    __slots__ = ("_inside", "_own", "context", "handle", "held")
    is_borrowed = True

    def __init__(self, context: PycudaContext, held: Any, handle: int) -> None:
        self.context = context
        self.held = held
        self.handle = handle
        self._own = int(held.handle)
        self._inside = PycudaStream(context, held)

    def follow(self) -> None:
        """Let work come after what their stream has now; the context is current."""
        self.context.order_here(self.handle, self._own)

    def lead(self) -> None:
        """Let what comes into their stream wait for the work; the context is current."""
        self.context.order_here(self._own, self.handle)

    def synchronize(self) -> None:
        """Wait until all its work is done."""
        with Reporting(self.context, "waiting for a stream of"):
            self.context.library.synchronize(self.handle)

    def wait(self, event: Event) -> None:
        """Let later work start after an event."""
        with Reporting(self.context, "waiting for an event on", self):
            self.held.wait_for_event(own(event))

    @contextmanager
    def together(self) -> Iterator[Stream]:
        """Ours: it waits for theirs once, and theirs for it once, whatever comes in between."""
        with Reporting(self.context, "launching on", self):
            yield self._inside


class PycudaEvent(Held):
    """A point in a stream's work."""

    __slots__ = ()

    def record(self, stream: Stream | None = None) -> None:
        """Take the point after all work that the stream has now."""
        with Reporting(self.context, "recording an event on", stream):
            self.held.record(own(stream))

    def synchronize(self) -> None:
        """Wait until the point is reached."""
        with Reporting(self.context, "waiting for an event of"):
            self.held.synchronize()

    def reached(self) -> bool:
        """True where the point is reached now."""
        with Reporting(self.context, "looking at an event of"):
            return bool(self.held.query())

    def seconds_since(self, earlier: Event) -> float:
        """Seconds between two points that are both reached."""
        with Reporting(self.context, "comparing events of"):
            return float(self.held.time_since(own(earlier))) / 1e3


def own(held: Any) -> Any:
    """pycuda's object of one of ours; None: the default stream."""
    return None if held is None else held.held


def immortal(kept: object) -> None:
    """Let an object live as long as its process."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
