"""The driver interface: what the runtime asks of whatever runs kernels, and which one a device has.

Two things implement it: pycuda on NVIDIA's driver (`pycuda_driver.py`), and the emulator
(`whet/compiler/emulator/driver.py`). Addresses are integers in the device's address space.
Every method may be called by any thread; no context needs to be current before, and whatever was
current before is current afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np

from whet.compiler.errors import TargetError
from whet.compiler.homes import imported
from whet.compiler.runtime.gpu.driver.properties import DeviceProperties, Extents


class Kernel(Protocol):
    """A kernel of a loaded image.

    Attributes:
        name: its name in the image.
    """

    name: str


class Image(Protocol):
    """Code that was loaded into a context; it is unloaded when nothing refers to it any more."""

    def kernel(self, name: str) -> Kernel:
        """The kernel of that name.

        Raises:
            ArtifactError: the image has none.
        """
        ...


Prepared = tuple[Kernel, Extents, Extents, bytes, int]
"""A launch: a kernel, its grid and block, its packed arguments, bytes of shared memory."""


class Stream(Protocol):
    """Work in the order in which it was asked for."""

    @property
    def context(self) -> Context:
        """Whose it is."""
        ...

    @property
    def handle(self) -> int:
        """The driver's ``CUstream`` as a number."""
        ...

    def synchronize(self) -> None:
        """Wait until all its work is done."""
        ...

    def wait(self, event: Event) -> None:
        """Let later work of this stream start after an event."""
        ...

    def together(self) -> AbstractContextManager[Stream]:
        """Several works as one, in their order: the stream that takes them meanwhile."""
        ...


class WorkGraph(Protocol):
    """Launches that were given to the driver once, and are put into streams as one work."""

    def launch(self, stream: Stream | None = None) -> bool:
        """Put all launches into a stream, in their order; None: the default stream.

        False: nothing was put there, as somebody captures the stream's work.

        Raises:
            KernelError: the driver refuses it, or earlier work failed.
        """
        ...


class Event(Protocol):
    """A point in a stream's work, with its time."""

    def record(self, stream: Stream | None = None) -> None:
        """Take the point after all work that the stream has now; None: the default stream."""
        ...

    def synchronize(self) -> None:
        """Wait until the point is reached."""
        ...

    def reached(self) -> bool:
        """True where the point is reached now, without waiting."""
        ...

    def seconds_since(self, earlier: Event) -> float:
        """Seconds on the device between two points that are both reached."""
        ...


class Context(Protocol):
    """A device's primary context: its memory, its code, its work.

    ``stream=None`` is the default stream throughout (CUDA's legacy one, handle 0).

    Attributes:
        properties: the device's.
        index: the device's number.
        driver: whose it is.
    """

    properties: DeviceProperties
    index: int
    driver: Driver

    def alloc(self, nbytes: int) -> int:
        """The address of new memory, aligned to 256 bytes at least; its contents are undefined.

        Raises:
            OutOfMemoryError: the device has not so much memory left.
        """
        ...

    def free(self, address: int) -> None:
        """Give memory back that :meth:`alloc` gave."""
        ...

    def discard(self, address: int, nbytes: int) -> None:
        """Make memory's contents undefined again; what checks reads of unwritten memory acts."""
        ...

    def pinned(self, nbytes: int) -> np.ndarray:
        """Page-locked memory of the host as ``uint8``, from and to which copies need no waiting."""
        ...

    def copy_in(self, address: int, source: np.ndarray, stream: Stream | None = None) -> None:
        """Copy a contiguous array of the host to the device.

        It is done on return where ``source`` is not page-locked, or ``stream`` is None.
        """
        ...

    def copy_out(self, target: np.ndarray, address: int, stream: Stream | None = None) -> None:
        """Copy from the device to a contiguous array of the host; as for :meth:`copy_in`."""
        ...

    def copy(
        self,
        to: int,
        source: int,
        nbytes: int,
        stream: Stream | None = None,
        source_context: Context | None = None,
    ) -> None:
        """Copy within the device, or from another device, whose context is ``source_context``."""
        ...

    def fill(self, address: int, byte: int, nbytes: int, stream: Stream | None = None) -> None:
        """Set bytes of the device's memory."""
        ...

    def load(self, image: bytes) -> Image:
        """Load code, which :meth:`Driver.compile` made or somebody else for this device.

        Raises:
            ArtifactError: it is no code for this device.
        """
        ...

    def launch(
        self,
        kernel: Kernel,
        grid: Extents,
        block: Extents,
        arguments: bytes,
        shared_bytes: int = 0,
        stream: Stream | None = None,
    ) -> None:
        """Put a launch into a stream.

        Args:
            kernel: of an image that this context loaded.
            grid: blocks along x, y, z.
            block: threads of a block along x, y, z.
            arguments: the kernel's parameters as they lie in its parameter space: in order, each
                aligned to its size, addresses as 8 bytes.
            shared_bytes: size of the dynamic shared memory, up to ``shared_bytes_optin``.
            stream: which.

        Raises:
            KernelError: the driver refuses it, or earlier work failed.
        """
        ...

    def graph(self, launches: Sequence[Prepared]) -> WorkGraph | None:
        """Launches as one work, in their order; None: this driver has no graphs.

        Args:
            launches: as the arguments of :meth:`launch`, addresses included.

        Raises:
            KernelError: the driver refuses one, or earlier work failed.
        """
        ...

    def stream(self) -> Stream:
        """A new stream; it and the default stream wait for each other's earlier work."""
        ...

    def borrowed(self, handle: int, owner: object) -> Stream:
        """Somebody else's stream of this device, into which work can be put as into one of ours.

        Args:
            handle: its ``CUstream`` as a number, above 1.
            owner: the object that it came as, for an error; who puts work there keeps it alive.

        Raises:
            ArgumentError: the device shares nothing with others.
        """
        ...

    def order(self, earlier: int, later: int, source: Context | None = None) -> None:
        """Let what comes into a stream later start after what another stream has now.

        Args:
            earlier: the other stream's handle; 1 is the default stream.
            later: the stream's handle.
            source: the context of ``earlier``; this one by default.
        """
        ...

    def event(self) -> Event:
        """A new event, with a time."""
        ...

    def has(self, address: int) -> bool:
        """True where somebody's memory can be used here: others' contexts have their own."""
        ...

    def synchronize(self) -> None:
        """Wait until all work of the context is done.

        Raises:
            KernelError: a kernel failed. After an illegal address and its like, every later call
                fails, too: the process has to end.
        """
        ...

    def memory(self) -> tuple[int, int]:
        """Bytes of the device's memory that are free, and all."""
        ...


class Driver(Protocol):
    """A way to devices of one type.

    Attributes:
        name: e.g. ``"pycuda 2026.1"``, ``"emulator"``.
        loads_cubins: whether :meth:`Context.load` takes what NVRTC makes; otherwise only what
            :meth:`compile` makes.
        shares_memory: whether others in this process can use its memory, by DLPack and
            ``__cuda_array_interface__``.
    """

    @property
    def name(self) -> str: ...

    loads_cubins: bool
    shares_memory: bool

    def device_count(self) -> int:
        """How many devices there are. No context is made for the answer."""
        ...

    def properties(self, index: int) -> DeviceProperties:
        """A device's properties. No context is made for the answer.

        Raises:
            TargetError: there is no such device.
        """
        ...

    def context(self, index: int) -> Context:
        """A device's primary context, made when it is first asked for; always the same object.

        Raises:
            TargetError: there is no such device, or this is a forked child of a process that
                has a context.
        """
        ...

    def device_of(self, address: int) -> int:
        """The number of the device whose memory an address is in."""
        ...

    def compile(self, source: str, arch: str) -> bytes:
        """CUDA C as the generator wrote it to an image that :meth:`Context.load` takes.

        Args:
            source: the text, without the prelude.
            arch: of the device, e.g. ``"sm_90"``.

        Raises:
            CodegenError: the compiler refuses it.
        """
        ...


# Type of device -> the class of its driver, as "module:class"; to make it may raise TargetError.
DRIVERS = {
    "cuda": "whet.compiler.runtime.gpu.driver.pycuda_driver:PycudaDriver",
    "cuda-emulator": "whet.compiler.emulator.driver:EmulatorDriver",
}
_chosen: dict[str, Driver] = {}
_missing: dict[str, TargetError] = {}  # why a type has none: to ask again costs an import
_lock = threading.Lock()


def has_driver(device_type: str) -> bool:
    """True where devices of a type are driven through this interface, on some machine."""
    return device_type in DRIVERS


def driver_of(device_type: str) -> Driver:
    """The driver of a type of devices.

    Args:
        device_type: ``"cuda"`` or ``"cuda-emulator"``.

    Raises:
        TargetError: a library or the system's driver is missing, or the type has no driver.
    """
    found = _chosen.get(device_type)
    if found is not None:
        return found
    if device_type not in DRIVERS:
        raise TargetError(
            f"running code on {device_type}",
            "this build of Whet drives no such devices",
            f"it drives: cpu, {', '.join(DRIVERS)}",
        )
    if device_type in _missing:
        raise TargetError(*_missing[device_type].args)
    try:
        made: Driver = imported(DRIVERS[device_type])()
    except TargetError as error:
        _missing[device_type] = error
        raise
    with _lock:
        return _chosen.setdefault(device_type, made)


def use_driver(device_type: str, driver: Driver | None) -> None:
    """Let a type of devices be driven by another driver; None: by its own again.

    Arrays and modules that exist already stay with the driver that made them.
    """
    with _lock:
        _chosen.pop(device_type, None)
        _missing.pop(device_type, None)
        if driver is not None:
            _chosen[device_type] = driver
