"""The emulator as a device: what the runtime asks of a driver, done by the host's processor."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from whet.compiler.emulator.handwritten.adapt import adapt
from whet.compiler.emulator.library import EmulatedLibrary, Launch
from whet.compiler.emulator.memory import EmulatedMemory
from whet.compiler.emulator.options import current_options
from whet.compiler.errors import ArgumentError, ArtifactError, KernelError, TargetError
from whet.compiler.runtime.gpu.driver.interface import (
    Context,
    Driver,
    Event,
    Kernel,
    Prepared,
    Stream,
)
from whet.compiler.runtime.gpu.driver.properties import DeviceProperties, Extents
from whet.compiler.target.gpu_limits import MOST_SHARED_BYTES

PROPERTIES = DeviceProperties(
    name="cuda-emulator",
    arch="sm_80",
    multiprocessors=1,
    shared_bytes_optin=MOST_SHARED_BYTES,
    shared_bytes_multiprocessor=MOST_SHARED_BYTES + 1024,
    memory_bytes=1 << 34,
    driver_version="0",
)
"""With the widest limits of all architectures: those of a target are checked by the build."""

_LONG_SECONDS = 0.5  # a kernel that runs longer is compiled again, to run fast


@dataclass(eq=False)
class EmulatedStream:
    """A stream whose work is done at once: there is nothing to wait for.

    Attributes:
        context: of the stream.
    """

    context: EmulatedContext
    handle: int = 0

    def synchronize(self) -> None:
        """Do nothing: all is done."""

    def wait(self, event: Event) -> None:
        """Do nothing: all is done."""

    def together(self) -> AbstractContextManager[Stream]:
        """Itself."""
        return nullcontext(self)


class EmulatedEvent:
    """A point in time, of the host's clock."""

    def __init__(self) -> None:
        self._at = 0.0

    def record(self, stream: Stream | None = None) -> None:
        """Take the time."""
        self._at = time.perf_counter()

    def synchronize(self) -> None:
        """Do nothing: it is reached."""

    def reached(self) -> bool:
        """Yes."""
        return True

    def seconds_since(self, earlier: Any) -> float:
        """Seconds of the host between two points."""
        return self._at - earlier._at


@dataclass(eq=False)
class EmulatedGraph:
    """Launches that run one after the other.

    Attributes:
        context: where.
        launches: in order.
    """

    context: EmulatedContext
    launches: tuple[Prepared, ...]

    def launch(self, stream: Stream | None = None) -> bool:
        """Run the launches; they are done on return."""
        for kernel, grid, block, arguments, shared_bytes in self.launches:
            self.context.launch(kernel, grid, block, arguments, shared_bytes, stream)
        return True


@dataclass(eq=False)
class EmulatedKernel:
    """A kernel of a text.

    Attributes:
        image: the text it belongs to.
        name: its name.
        quick: whether its checked code is what compiles fast, as long as it does not run long.
    """

    image: EmulatedImage
    name: str
    quick: bool = True


class EmulatedImage:
    """A text, compiled when one of its kernels is first launched: with checks, or without.

    Args:
        source: CUDA C.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.names = tuple(k.name for k in adapt(source).kernels)
        self._libraries: dict[tuple[bool, bool], EmulatedLibrary] = {}
        self._lock = threading.Lock()

    def kernel(self, name: str) -> EmulatedKernel:
        """The kernel of that name.

        Raises:
            ArtifactError: the text has none.
        """
        if name not in self.names:
            raise ArtifactError(
                f"the kernel {name!r}",
                f"the text has none of that name; it has {', '.join(self.names)}",
            )
        return EmulatedKernel(self, name)

    def library(self, checks: bool, quick: bool) -> EmulatedLibrary:
        """The compiled text: with checks or without, compiled fast or to run fast.

        Raises:
            CodegenError, TargetError: it cannot be compiled.
        """
        with self._lock:
            key = checks, quick
            if key not in self._libraries:
                self._libraries[key] = EmulatedLibrary(self.source, checks, quick)
            return self._libraries[key]


class EmulatedContext:
    """The emulator's memory and work. Launches follow :func:`~whet.compiler.emulator.options`."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.properties = PROPERTIES
        self.index = 0
        self._memory = EmulatedMemory(PROPERTIES.memory_bytes)
        self._lock = threading.RLock()

    def alloc(self, nbytes: int) -> int:
        """The address of new memory; it counts as unwritten."""
        with self._lock:
            return self._memory.alloc(max(1, nbytes))

    def free(self, address: int) -> None:
        """Give memory back."""
        with self._lock:
            self._memory.free(address)

    def discard(self, address: int, nbytes: int) -> None:
        """Take memory as unwritten again."""
        self._store(address, nbytes, 0xFF, written=False)

    def pinned(self, nbytes: int) -> np.ndarray:
        """Memory of the host."""
        return np.empty(nbytes, np.uint8)

    def copy_in(self, address: int, source: np.ndarray, stream: Stream | None = None) -> None:
        """Copy a contiguous array of the host to the device."""
        self._store(address, source.nbytes, _flat(source))

    def copy_out(self, target: np.ndarray, address: int, stream: Stream | None = None) -> None:
        """Copy from the device to a contiguous array of the host."""
        flat = _flat(target)
        with self._lock:
            flat[:] = self._memory.bytes_at(address, flat.size)[0]

    def copy(
        self,
        to: int,
        source: int,
        nbytes: int,
        stream: Stream | None = None,
        source_context: Context | None = None,
    ) -> None:
        """Copy within the device; what was unwritten stays so."""
        with self._lock:
            data, defined = self._memory.bytes_at(source, nbytes)
            target, target_defined = self._memory.bytes_at(to, nbytes)
            target[:], target_defined[:] = data.copy(), defined.copy()

    def fill(self, address: int, byte: int, nbytes: int, stream: Stream | None = None) -> None:
        """Set bytes of the device's memory."""
        self._store(address, nbytes, byte)

    def _store(
        self, address: int, nbytes: int, values: np.ndarray | int, written: bool = True
    ) -> None:
        with self._lock:
            data, defined = self._memory.bytes_at(address, nbytes)
            data[:], defined[:] = values, written

    def load(self, image: bytes | str) -> EmulatedImage:
        """Take a CUDA C text; it is compiled when a kernel of it is launched.

        Raises:
            ArtifactError: it is no text.
            CodegenError: there is no kernel in it.
        """
        try:
            return EmulatedImage(image if isinstance(image, str) else image.decode())
        except UnicodeDecodeError:
            raise ArtifactError(
                "loading code into the emulator",
                "it takes CUDA C text, and this is something else: a cubin, maybe",
            ) from None

    def launch(
        self,
        kernel: Kernel,
        grid: Extents,
        block: Extents,
        arguments: bytes,
        shared_bytes: int = 0,
        stream: Stream | None = None,
    ) -> None:
        """Run a kernel; it is done on return.

        Raises:
            EmulatorError: what the kernel did wrong.
            KernelError: no device would take the launch.
        """
        assert isinstance(kernel, EmulatedKernel)
        _check_launch(kernel.name, grid, block, shared_bytes)
        options = current_options()
        library = kernel.image.library(options.checks, options.checks and kernel.quick)
        entry = library.entry(kernel.name)
        if len(arguments) < entry.packed_bytes:
            raise KernelError(
                f"launching {kernel.name}",
                f"its arguments have {entry.packed_bytes} bytes, and {len(arguments)} are given",
            )
        with self._lock:
            allocations = self._memory.described(options.checks)
            launch = Launch(
                grid,
                block,
                shared_bytes,
                options.seed & 0xFFFFFFFF,
                0,
                len(allocations),
                allocations,
                arguments,
            )
            began = time.perf_counter()
            library.launch(entry, launch)
            if time.perf_counter() - began > _LONG_SECONDS:
                kernel.quick = False
            if not options.checks:
                self._memory.all_written()

    def graph(self, launches: Sequence[Prepared]) -> EmulatedGraph:
        """Launches as one work."""
        return EmulatedGraph(self, tuple(launches))

    def stream(self) -> EmulatedStream:
        """A stream."""
        return EmulatedStream(self)

    def borrowed(self, handle: int, owner: object) -> NoReturn:
        """Refused: what others compute is not in the emulator.

        Raises:
            ArgumentError: always.
        """
        raise ArgumentError(
            f"working in the stream of a {type(owner).__name__} on the emulator",
            "it is a GPU's",
            "the emulator's calls return when they are done: leave the stream out",
        )

    def order(self, earlier: int, later: int, source: Context | None = None) -> None:
        """Do nothing: all is done."""

    def event(self) -> EmulatedEvent:
        """An event."""
        return EmulatedEvent()

    def has(self, address: int) -> bool:
        """Always: nobody else has memory here."""
        return True

    def synchronize(self) -> None:
        """Do nothing: all is done."""

    def memory(self) -> tuple[int, int]:
        """Bytes that are free, and all."""
        return self._memory.total - self._memory.used, self._memory.total


class EmulatorDriver:
    """One emulated device."""

    name = "emulator"
    loads_cubins = False
    shares_memory = False  # what others do to the host's memory is not seen by the checks

    def __init__(self) -> None:
        self._context = EmulatedContext(self)

    def device_count(self) -> int:
        """1."""
        return 1

    def properties(self, index: int) -> DeviceProperties:
        """The properties of the emulated device."""
        _check_index(index)
        return PROPERTIES

    def context(self, index: int) -> EmulatedContext:
        """The emulator's context."""
        _check_index(index)
        return self._context

    def device_of(self, address: int) -> int:
        """0: there is one."""
        return 0

    def compile(self, source: str, arch: str) -> bytes:
        """The text itself, which is what :meth:`EmulatedContext.load` takes."""
        return source.encode()


def _check_index(index: int) -> None:
    if index != 0:
        raise TargetError(f"the device cuda-emulator({index})", "there is one: cuda-emulator(0)")


def _check_launch(name: str, grid: Extents, block: Extents, shared_bytes: int) -> None:
    """Refuse launches that no device takes."""
    limits, threads = PROPERTIES, math.prod(block)
    checks = (
        (_within(grid, limits.max_grid), f"a grid of {tuple(grid)}, at most {limits.max_grid}"),
        (
            _within(block, limits.max_block),
            f"a block of {tuple(block)}, at most {limits.max_block}",
        ),
        (
            threads <= limits.max_threads,
            f"{threads} threads in a block, at most {limits.max_threads}",
        ),
        (
            0 <= shared_bytes <= limits.shared_bytes_optin,
            f"{shared_bytes} bytes of shared memory, at most {limits.shared_bytes_optin}",
        ),
    )
    refused = "; ".join(why for holds, why in checks if not holds)
    if refused:
        raise KernelError(f"launching {name}", refused, "split loops by smaller factors")


def _within(sizes: Extents, most: Extents) -> bool:
    return all(1 <= n <= m for n, m in zip(sizes, most))


def _flat(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)
