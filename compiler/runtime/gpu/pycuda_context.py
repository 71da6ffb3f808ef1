"""A GPU's primary context through pycuda: memory, copies, launches.

pycuda ends the process when a context is current at its exit, and none is current in a new thread.
So that here every operation makes the context current and gives the former one back, destruction
included; and nothing at all is destroyed in a forked child or after the interpreter's exit began.
"""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Any

import numpy as np

from whet.compiler.errors import (
    ArtifactError,
    KernelError,
    OutOfMemoryError,
    TargetError,
    WhetError,
)
from whet.compiler.runtime.gpu.driver import (
    Context,
    DeviceProperties,
    Driver,
    Extents,
    Stream,
)
from whet.compiler.runtime.gpu.pycuda_objects import (
    Pinned,
    PycudaEvent,
    PycudaImage,
    PycudaStream,
    Reporting,
    immortal,
    own,
)

_STAGED_BYTES = 1 << 24  # of the host's memory, for copies between GPUs


class PycudaContext:
    """The primary context of one GPU, shared with whoever else uses it in this process.

    Args:
        driver: whose it is.
        drv: ``pycuda.driver``.
        device: pycuda's.
        properties: of the device.
        index: the device's number.

    Attributes:
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
        self._properties = properties
        self._index = index
        self._context = device.retain_primary_context()
        self._push = self._context.push
        self._pop = drv.Context.pop
        self._allocations: dict[int, Any] = {}
        self.usable = True
        _contexts.add(self)

    @property
    def properties(self) -> DeviceProperties:
        """The device's."""
        return self._properties

    @property
    def index(self) -> int:
        """The device's number."""
        return self._index

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
            with self:
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
        if self.usable:
            with self:
                self._allocations.pop(address).free()

    def discard(self, address: int, nbytes: int) -> None:
        """Nothing: nobody watches what is read."""

    def pinned(self, nbytes: int) -> np.ndarray:
        """Page-locked memory of the host as ``uint8``."""
        try:
            with self:
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
        with Reporting(self, "copying to"):
            if stream is None:
                self.drv.memcpy_htod(address, held)
            else:
                self.drv.memcpy_htod_async(address, held, own(stream))

    def copy_out(self, target: np.ndarray, address: int, stream: Stream | None = None) -> None:
        """Copy from the device to a contiguous array of the host."""
        if not target.nbytes:
            return
        held = _bytes(target)
        with Reporting(self, "copying from"):
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
        """Copy within the device; from another one by way of the host, done on return."""
        if not nbytes:
            return
        if source_context is not None and source_context is not self:
            self._copy_staged(to, source, nbytes, stream, source_context)
            return
        with Reporting(self, "copying within"):
            self.drv.memcpy_dtod_async(to, source, nbytes, own(stream))

    def _copy_staged(
        self, to: int, source: int, nbytes: int, stream: Stream | None, other: Context
    ) -> None:
        # pycuda's memcpy_peer takes the current context for both sides.
        other.synchronize()
        staged = np.empty(min(nbytes, _STAGED_BYTES), np.uint8)
        for start in range(0, nbytes, _STAGED_BYTES):
            part = staged[: nbytes - start]
            other.copy_out(part, source + start)
            self.copy_in(to + start, part, stream)
            if stream is not None:
                stream.synchronize()

    def fill(self, address: int, byte: int, nbytes: int, stream: Stream | None = None) -> None:
        """Set bytes of the device's memory."""
        if nbytes:
            with Reporting(self, "filling memory of"):
                self.drv.memset_d8_async(address, byte, nbytes, own(stream))

    def load(self, image: bytes) -> PycudaImage:
        """Load a cubin."""
        try:
            with self:
                return PycudaImage(self, self.drv.module_from_buffer(image))
        except self.drv.Error as error:
            raise ArtifactError(
                f"loading {len(image)} bytes of code on {self} ({self._properties.arch})",
                str(error),
                f"build it for -arch={self._properties.arch}",
            ) from None

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
        self._push()
        try:
            if shared_bytes > kernel.shared_bytes:
                kernel.allow(shared_bytes)
            kernel.launch(grid, block, arguments, shared_bytes, held)
        except self.drv.Error as error:
            raise self.failed(
                f"launching {kernel.name} on {self}, grid {grid}, block {block}, "
                f"{shared_bytes} bytes of shared memory",
                error,
            ) from None
        finally:
            self._pop()

    def stream(self) -> PycudaStream:
        """A new stream."""
        with Reporting(self, "making a stream on"):
            return PycudaStream(self, self.drv.Stream())

    def event(self) -> PycudaEvent:
        """A new event, with a time."""
        with Reporting(self, "making an event on"):
            return PycudaEvent(self, self.drv.Event())

    def synchronize(self) -> None:
        """Wait until all work of the context is done."""
        with Reporting(self, "waiting for"):
            self.drv.Context.synchronize()

    def memory(self) -> tuple[int, int]:
        """Bytes of the device's memory that are free, and all."""
        with Reporting(self, "asking for the free memory of"):
            free, total = self.drv.mem_get_info()
        return int(free), int(total)

    def failed(self, asked: str, error: Exception) -> WhetError:
        """One of pycuda's errors as ours."""
        if isinstance(error, self.drv.MemoryError):
            return OutOfMemoryError(asked, str(error), "take smaller arrays")
        return KernelError(asked, str(error))

    def __str__(self) -> str:
        return f"cuda({self._index})"


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
