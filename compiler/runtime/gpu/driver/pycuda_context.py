"""A GPU's primary context through pycuda: memory, copies, launches.

pycuda ends the process when a context is current at its exit, and none is current in a new thread.
So that here every operation makes the context current and gives the former one back, destruction
included; and nothing at all is destroyed in a forked child or after the interpreter's exit began.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from whet.compiler.errors import (
    ArtifactError,
    KernelError,
    OutOfMemoryError,
    TargetError,
    WhetError,
)
from whet.compiler.runtime.gpu.driver.deferred_free import Leaving
from whet.compiler.runtime.gpu.driver.interface import Context, Driver, Prepared, Stream
from whet.compiler.runtime.gpu.driver.libcuda import Libcuda
from whet.compiler.runtime.gpu.driver.properties import DeviceProperties, Extents
from whet.compiler.runtime.gpu.driver.pycuda_graph import PycudaGraph
from whet.compiler.runtime.gpu.driver.pycuda_objects import (
    BorrowedStream,
    Pinned,
    PycudaEvent,
    PycudaImage,
    PycudaStream,
    Reporting,
    immortal,
    own,
)

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
LOST = (
    "a kernel failed, or the device was reset: CUDA does nothing more in this process; start "
    'another. device("cuda-emulator") and whet check-kernel name kernel, thread and place'
)


class PycudaContext:
    """The primary context of one GPU, shared with whoever else uses it in this process.

    Args:
        driver: whose it is.
        drv: ``pycuda.driver``.
        device: pycuda's.
        properties: of the device.
        index: the device's number.

    Attributes:
        leaving: what was let go of and is not destroyed yet.
        usable: whether what goes is destroyed: not in a forked child, nor at the process's end.
    """

    def __init__(
        self,
        driver: Driver,
        drv: Any,
        device: Any,
        properties: DeviceProperties,
        index: int,
    ) -> None:
        self.driver = driver
        self.drv = drv
        self.library = Libcuda(self._way_out)
        self.device = device
        self.properties = properties
        self.index = index
        self._context = device.retain_primary_context()
        self._push = self._context.push
        self._pop = drv.Context.pop
        self._allocations: dict[int, Any] = {}
        self._peers: set[int] = set()
        self._borrowed: dict[int, BorrowedStream] = {}
        self.leaving = Leaving(self)
        self._event = 0
        self._ordering = threading.Lock()
        self.usable = True
        _contexts.add(self)

    @property
    def handle(self) -> int:
        """The ``CUcontext`` as a number."""
        return int(self._context.handle)

    def __enter__(self) -> None:
        self._push()

    def __exit__(self, *raised: object) -> None:
        self._pop()

    def abandon(self) -> None:
        """Destroy nothing from here on: what this context holds is the system's to clean up."""
        self.usable = False
        immortal(self)

    def refuse(self) -> None:
        """Stands for making the context current, in a forked child.

        Raises:
            TargetError: always.
        """
        raise TargetError(
            f"using {self}",
            f"process {os.getpid()} was forked from one that used CUDA: CUDA does not work in "
            "forked children",
            'start it by multiprocessing.get_context("spawn"), or fork before CUDA is used',
        )

    def alloc(self, nbytes: int) -> int:
        """The address of new memory."""
        try:
            with self, self.library.relaxed():
                made = self.drv.mem_alloc(max(1, nbytes))
        except self.drv.MemoryError:
            free, total = self.memory()
            raise OutOfMemoryError(
                f"{nbytes} bytes on {self}",
                f"{free} of its {total} bytes are free",
                "drop arrays that are not needed, or take smaller ones",
            ) from None
        except self.drv.Error as error:
            raise self.failed(f"{nbytes} bytes on {self}", error) from None
        address = int(made)
        self._allocations[address] = made
        return address

    def free(self, address: int) -> None:
        """Give memory back."""
        if not self.usable:
            return
        made = self._allocations.pop(address)
        try:
            with self, self.library.relaxed():
                made.free()
        except self.drv.Error:  # the device was reset: pycuda would end the process
            immortal(made)

    def discard(self, address: int, nbytes: int) -> None:
        """Nothing: nobody watches what is read."""

    def pinned(self, nbytes: int) -> np.ndarray:
        """Page-locked memory of the host as ``uint8``."""
        try:
            with self, self.library.relaxed():
                made = self.drv.pagelocked_empty(max(1, nbytes), np.uint8)
        except self.drv.Error as error:
            raise self.failed(f"{nbytes} bytes of page-locked memory", error) from None
        # Views have the array below as their base: it must not go while one is left.
        memory = Pinned(self, made, nbytes)
        return np.asarray(memory)

    def copy_in(self, address: int, source: np.ndarray, stream: Stream | None = None) -> None:
        """Copy a contiguous array of the host to the device."""
        if not source.nbytes:
            return
        held = _bytes(source)
        with Reporting(self, "copying to", stream):
            if stream is None:
                self.drv.memcpy_htod(address, held)
                # It returns when the host's memory is read, which may be before the device's is
                # written; somebody's stream that waits for no other could come in between.
                self.library.synchronize(0)
            else:
                self.drv.memcpy_htod_async(address, held, own(stream))

    def copy_out(self, target: np.ndarray, address: int, stream: Stream | None = None) -> None:
        """Copy from the device to a contiguous array of the host."""
        if not target.nbytes:
            return
        held = _bytes(target)
        with Reporting(self, "copying from", stream):
            if stream is None:
                self.drv.memcpy_dtoh(held, address)
            else:
                self.drv.memcpy_dtoh_async(held, address, own(stream))

    def copy(
        self,
        to: int,
        source: int,
        nbytes: int,
        stream: Stream | None = None,
        source_context: Context | None = None,
    ) -> None:
        """Copy within the device, or from another one, without the host's waiting."""
        if not nbytes:
            return
        if isinstance(source_context, PycudaContext) and source_context is not self:
            self._copy_from_peer(to, source, nbytes, stream, source_context)
            return
        with Reporting(self, "copying within", stream):
            self.drv.memcpy_dtod_async(to, source, nbytes, own(stream))

    def _copy_from_peer(
        self, to: int, source: int, nbytes: int, stream: Stream | None, other: PycudaContext
    ) -> None:
        # pycuda's memcpy_peer takes the current context for both sides.
        self._reach(other)
        with Reporting(self, "copying from another device to", stream):
            handle = 0 if stream is None else own(stream).handle
            self.library.copy_peer(to, self.handle, source, other.handle, nbytes, handle)

    def _reach(self, other: PycudaContext) -> None:
        """Let copies go straight from another device where they can; else the driver stages."""
        if other.index in self._peers:
            return
        self._peers.add(other.index)
        if not self.device.can_access_peer(other.device):
            return
        # another library of this process may have done so before
        with self, contextlib.suppress(self.drv.Error):
            self.drv.Context.enable_peer_access(other._context)

    def fill(self, address: int, byte: int, nbytes: int, stream: Stream | None = None) -> None:
        """Set bytes of the device's memory."""
        if nbytes:
            with Reporting(self, "filling memory of", stream):
                self.drv.memset_d8_async(address, byte, nbytes, own(stream))

    def load(self, image: bytes) -> PycudaImage:
        """Load a cubin, or PTX."""
        arch = self.properties.arch
        request = f"loading {len(image)} bytes of code on {self} ({arch})"
        try:
            with self, self.library.relaxed():
                self.leaving.unload()
                return PycudaImage(self, self.drv.module_from_buffer(image))
        except self.drv.Error as error:
            if isinstance(error, self.drv.MemoryError) or self._is_lost():
                raise self.failed(request, error) from None
            cuda = self.properties.driver_version
            out = f"build it for -arch={arch}, by an NVRTC no newer than the driver's CUDA {cuda}"
            raise ArtifactError(request, str(error), out) from None

    def launch(
        self,
        kernel: Any,  # of PycudaKernel: to look costs more than it is worth
        grid: Extents,
        block: Extents,
        arguments: bytes,
        shared_bytes: int = 0,
        stream: Any = None,
    ) -> None:
        """Put a launch into a stream."""
        held = None if stream is None else stream.held
        try:
            self._push()
        except self.drv.Error as error:
            raise self.failed(f"launching {kernel.name} on {self}", error) from None
        try:
            if shared_bytes > kernel.shared_bytes:
                kernel.allow(shared_bytes)
            kernel.streams.add(held)
            if stream is None or not stream.is_borrowed:
                kernel.launch(grid, block, arguments, shared_bytes, held)
                return
            stream.follow()
            kernel.launch(grid, block, arguments, shared_bytes, held)
            stream.lead()
        except self.drv.Error as error:
            raise self.failed(
                f"launching {kernel.name} on {self}, grid {grid}, block {block}, "
                f"{shared_bytes} bytes of shared memory",
                error,
            ) from None
        finally:
            self._pop()

    def graph(self, launches: Sequence[Prepared]) -> PycudaGraph | None:
        """Launches as one work; None: this driver has no graphs."""
        return PycudaGraph(self, launches) if self.library.has_graphs else None

    def stream(self) -> PycudaStream:
        """A new stream."""
        with Reporting(self, "making a stream on"), self.library.relaxed():
            return PycudaStream(self, self.leaving.idle_stream() or self.drv.Stream())

    def borrowed(self, handle: int, owner: object) -> BorrowedStream:
        """Somebody else's stream of this device."""
        found = self._borrowed.get(handle)  # the same one: idle memory is kept for it
        if found is not None:
            return found
        with Reporting(self, "making a stream on"), self._ordering, self.library.relaxed():
            if handle not in self._borrowed:
                made = BorrowedStream(self, self.drv.Stream(_NON_BLOCKING), handle)
                self._borrowed[handle] = made
            return self._borrowed[handle]

    def order(self, earlier: int, later: int, source: Context | None = None) -> None:
        """Let what comes into a stream later start after what another stream has now."""
        if source is None or source is self:
            with Reporting(self, "ordering streams of"):
                self.order_here(earlier, later)
            return
        assert isinstance(source, PycudaContext)
        with Reporting(source, "recording an event on"), source._ordering:
            event = source._event or source._new_event()
            self.library.record(event, earlier)
            with Reporting(self, "waiting for an event on"):
                self.library.wait(later, event)

    def order_here(self, earlier: int, later: int) -> None:
        """As :meth:`order` within this context, which is current."""
        with self._ordering:  # the event is one for all
            self.library.order(self._event or self._new_event(), earlier, later)

    def _new_event(self) -> int:
        self._event = self.library.event()
        return self._event

    def event(self) -> PycudaEvent:
        """A new event, with a time."""
        with Reporting(self, "making an event on"), self.library.relaxed():
            return PycudaEvent(self, self.drv.Event())

    def synchronize(self) -> None:
        """Wait until all work of the context is done."""
        with Reporting(self, "waiting for"):
            self.drv.Context.synchronize()
            self.leaving.unload()

    def has(self, address: int) -> bool:
        """True where memory is of this context, as far as the driver tells."""
        with self:
            return self.library.context_of(address) in (None, self.handle)

    def memory(self) -> tuple[int, int]:
        """Bytes of the device's memory that are free, and all."""
        with Reporting(self, "asking for the free memory of"):
            free, total = self.drv.mem_get_info()
        return int(free), int(total)

    def failed(self, request: str, error: Exception) -> WhetError:
        """One of pycuda's errors as ours."""
        if isinstance(error, self.drv.MemoryError):
            return OutOfMemoryError(request, str(error), "take smaller arrays")
        return KernelError(request, str(error), self._way_out())

    def _way_out(self) -> str:
        """Of an error; destroys nothing any more if all later calls fail, as that would, too."""
        if self.usable and self._is_lost():
            self.abandon()
        return "" if self.usable else LOST

    def _is_lost(self) -> bool:
        """True where an error has come that every later call ends with."""
        try:
            with self, self.library.relaxed():
                self.drv.mem_get_info()
        except self.drv.Error:
            return True
        return False

    def __str__(self) -> str:
        return f"cuda({self.index})"


def _bytes(array: np.ndarray) -> np.ndarray:
    """A contiguous array as bytes: buffers of some dtypes cannot be described otherwise."""
    if not array.flags.c_contiguous:
        raise ValueError("the array of the host is not contiguous")
    return array.reshape(-1).view(np.uint8)


_contexts: weakref.WeakSet[PycudaContext] = weakref.WeakSet()


def _abandon_all() -> None:
    for context in list(_contexts):
        context.abandon()


def _forked() -> None:
    for context in list(_contexts):
        context.abandon()
        context._push = context.refuse


os.register_at_fork(after_in_child=_forked)
atexit.register(_abandon_all)
