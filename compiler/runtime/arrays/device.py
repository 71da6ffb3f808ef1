"""Devices: where arrays live and kernels run."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whet.compiler.errors import ArgumentError, TargetError, nearest
from whet.compiler.runtime.gpu.driver.interface import Context, Stream, driver_of, has_driver
from whet.compiler.runtime.gpu.driver.properties import DeviceProperties
from whet.compiler.runtime.gpu.driver.streams import (
    DEFAULT,
    current_stream,
    handle_of,
    number_of_device,
    set_stream,
)
from whet.compiler.runtime.gpu.driver.workspace import workspace_of
from whet.compiler.target.machine import host

# name -> DLPack's device type (TVM's from 12 on).
DEVICE_TYPES = {
    "cpu": 1,
    "cuda": 2,
    "cuda_host": 3,
    "opencl": 4,
    "vulkan": 7,
    "metal": 8,
    "vpi": 9,
    "rocm": 10,
    "rocm_host": 11,
    "ext_dev": 12,
    "hexagon": 14,
    "webgpu": 15,
    "cuda-emulator": 200,  # beyond DLPack's numbers: nobody else can use its memory
}
_NAMES = {number: name for name, number in DEVICE_TYPES.items()}
# Kinds of targets, and other names, whose code runs on a device.
_ALIASES = {
    "llvm": "cpu",
    "c": "cpu",
    "gpu": "cuda",
    "nvptx": "cuda",
    "cl": "opencl",
    "mtl": "metal",
}


@dataclass(frozen=True, slots=True)
class Device:
    """One device. A value exists for every kind that TVM names; code runs on the CPU and on GPUs.

    Attributes:
        type: its kind, e.g. ``"cpu"``.
        index: which of that kind.

    Raises:
        TargetError: the index is no integer of 0 or more.
    """

    type: str
    index: int = 0

    def __post_init__(self) -> None:
        index = self.index
        if isinstance(index, bool) or not isinstance(index, int) or index < 0:
            raise TargetError(f"{self.type}({index!r})", "a device's number is 0 or more")

    @property
    def device_type(self) -> int:
        """DLPack's number of the kind."""
        return DEVICE_TYPES[self.type]

    @property
    def device_id(self) -> int:
        """The device's number, by TVM's name."""
        return self.index

    @property
    def exist(self) -> bool:
        """True where this machine has it and this build of Whet can use it."""
        if self.type == "cuda_host":
            return self.index == 0 and Device("cuda").exist
        if not has_driver(self.type):
            return self.type == "cpu" and self.index == 0
        try:
            return self.index < driver_of(self.type).device_count()
        except TargetError:
            return False

    @property
    def _gpu(self) -> DeviceProperties | None:
        """The driver's facts of a GPU."""
        if not has_driver(self.type) or not self.exist:
            return None
        return driver_of(self.type).properties(self.index)

    @property
    def _context(self) -> Context | None:
        """The context of a GPU; of the CPU none.

        Raises:
            TargetError: the GPU, or what drives it, is missing.
        """
        if not has_driver(self.type):
            return None
        return context_of(self)

    @property
    def device_name(self) -> str | None:
        """The device's own name; None where there is no device."""
        if self._gpu is not None:
            return self._gpu.name
        if not self.exist:
            return None
        return host.cpu_model()

    @property
    def multi_processor_count(self) -> int | None:
        """Multiprocessors of a GPU; of the CPU the physical cores that this process may use."""
        if self._gpu is not None:
            return self._gpu.multiprocessors
        if not self.exist:
            return None
        return host.physical_cores()

    @property
    def max_clock_rate(self) -> int | None:
        """The highest frequency in kHz; None where the system does not say."""
        if self._gpu is not None:
            return self._gpu.clock_khz or None
        path = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
        if not self.exist or not path.exists():
            return None
        return int(path.read_text())

    @property
    def max_threads_per_block(self) -> int | None:
        """Threads of a block at most; None: the device has no blocks."""
        return None if self._gpu is None else self._gpu.max_threads

    @property
    def max_thread_dimensions(self) -> list[int] | None:
        """Threads of a block at most along x, y and z; None: the device has no blocks."""
        return None if self._gpu is None else list(self._gpu.max_block)

    @property
    def max_shared_memory_per_block(self) -> int | None:
        """Bytes of shared memory that any block can have; None: the device has no blocks."""
        return None if self._gpu is None else self._gpu.shared_bytes

    @property
    def warp_size(self) -> int | None:
        """Threads that run in step; None: the device has no warps."""
        return None if self._gpu is None else self._gpu.warp_size

    @property
    def compute_version(self) -> str | None:
        """The compute capability, e.g. ``"9.0"``; None for what is no NVIDIA device."""
        if self._gpu is None:
            return None
        number = self._gpu.arch.removeprefix("sm_")
        return f"{number[:-1]}.{number[-1]}"

    @property
    def api_version(self) -> int | None:
        """The version of the device's programming interface; None: the device needs none.

        Of CUDA e.g. 13000, what its driver knows.
        """
        if self._gpu is None or not self._gpu.driver_version:
            return None
        major, _, minor = self._gpu.driver_version.partition(".")
        return 1000 * int(major) + 10 * int(minor or 0)

    @property
    def driver_version(self) -> str | None:
        """The version of CUDA that the device's driver knows; None: the device needs none."""
        return None if self._gpu is None else self._gpu.driver_version or None

    @property
    def texture_spatial_limit(self) -> int | None:
        """Extents of a two-dimensional texture at most; None: the device has no textures."""
        return None

    def create_raw_stream(self) -> Stream | None:
        """A new stream of work; on the CPU, which has one, None.

        Raises:
            TargetError: the device does not exist.
        """
        context = self._needed("create_raw_stream")
        return None if context is None else context.stream()

    def free_raw_stream(self, stream: Stream | None) -> None:
        """Give a stream back, after its work is done.

        Raises:
            TargetError: the device does not exist.
            ArgumentError: the stream is none of this device's.
        """
        context = self._needed("free_raw_stream")
        if stream is None:
            return
        if getattr(stream, "context", self) is not context:
            raise self._no_stream("free_raw_stream", stream)
        assert context is not None
        stream.synchronize()
        if current_stream(context) is stream:
            set_stream(context, None)
        workspace_of(context).forget(stream)

    def set_raw_stream(self, stream: Any) -> None:
        """Let this thread's later work on the device go to a stream.

        Args:
            stream: of :meth:`create_raw_stream`; or somebody else's, of PyTorch, CuPy, cuda-python
                or pycuda, or its number, a ``CUstream``. None: the default one.

        Raises:
            TargetError: the device does not exist.
            ArgumentError: the stream is none of this device's.
        """
        context, own = self._own_stream("set_raw_stream", stream)
        if context is None:
            return
        set_stream(context, own, stream)

    def sync(self, stream: Any = None) -> None:
        """Wait for all work on the device, or of one stream, ours or somebody else's.

        On the CPU a call returns when it is done.

        Raises:
            TargetError: the device does not exist.
            ArgumentError: the stream is none of this device's.
            KernelError: a kernel failed.
        """
        context, own = self._own_stream("sync", stream)
        if own is not None:
            own.synchronize()
        elif context is not None:
            context.synchronize()

    def _own_stream(self, method: str, stream: Any) -> tuple[Context | None, Stream | None]:
        """The device's context, and a stream of anybody's as one of ours."""
        context = self._needed(method)
        if stream is None:
            return context, None
        theirs = getattr(stream, "context", None)
        if context is not None and theirs is context:
            return context, stream
        if context is None or hasattr(theirs, "driver"):  # ours, of another device
            raise self._no_stream(method, stream)
        handle = handle_of(stream)
        if handle is None or number_of_device(stream) not in (None, self.index):
            raise self._no_stream(method, stream)
        return context, None if handle == DEFAULT else context.borrowed(handle, stream)

    def _no_stream(self, method: str, stream: object) -> ArgumentError:
        request = f"{self}.{method}({stream!r})"
        if self.type == "cpu":
            return ArgumentError(request, "the CPU's only stream is None")
        return ArgumentError(
            request, "it is no stream of this device", f"make one: {self}.create_raw_stream()"
        )

    def _needed(self, method: str) -> Context | None:
        """The context of a GPU, None for the CPU; an error where the device does not exist."""
        why = "this machine has no such device"
        try:
            context = self._context
            if context is not None or self.exist:
                return context
        except TargetError as error:
            why += f": {error}"
        raise TargetError(f"{self}.{method}()", why, instead_of(self))

    def __str__(self) -> str:
        return f"{self.type}({self.index})"


def context_of(device: Device) -> Context:
    """The context of a GPU.

    Raises:
        TargetError: this machine has no such device, or what drives it is missing.
    """
    return driver_of(device.type).context(device.index)


def instead_of(device: object) -> str:
    """The devices to use instead, for an error's way out."""
    if isinstance(device, Device) and device.type == "cuda":
        return (
            'whet.device("cuda-emulator") runs code for GPUs without one, whet.cpu(0) code for '
            "the CPU"
        )
    return "use whet.cpu(0)"


def cpu(index: int = 0) -> Device:
    """The CPU (all its cores are one device)."""
    return Device("cpu", index)


def cuda(index: int = 0) -> Device:
    """An NVIDIA GPU."""
    return Device("cuda", index)


def gpu(index: int = 0) -> Device:
    """TVM's old name of :func:`cuda`, deprecated."""
    warnings.warn("whet.gpu() is deprecated: use whet.cuda()", DeprecationWarning, stacklevel=2)
    return Device("cuda", index)


def opencl(index: int = 0) -> Device:
    """A device that OpenCL drives."""
    return Device("opencl", index)


def vulkan(index: int = 0) -> Device:
    """A device that Vulkan drives."""
    return Device("vulkan", index)


def metal(index: int = 0) -> Device:
    """A device that Metal drives."""
    return Device("metal", index)


def rocm(index: int = 0) -> Device:
    """An AMD GPU."""
    return Device("rocm", index)


def ext_dev(index: int = 0) -> Device:
    """A device of another kind, which an extension drives."""
    return Device("ext_dev", index)


def context(kind: Any, index: int = 0) -> Device:
    """TVM's old name of :func:`device`, deprecated."""
    warnings.warn(
        "whet.context() is deprecated: use whet.device()", DeprecationWarning, stacklevel=2
    )
    return device(kind, index)


def device(kind: Any, index: int = 0) -> Device:
    """A device by the name or the number of its kind; of a whole target text the first word counts.

    Args:
        kind: e.g. ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"cuda-emulator"``,
            ``"llvm -mcpu=znver3"``, or DLPack's number: 1, 2, ...
        index: which of that kind.

    Raises:
        TargetError: there is no such kind of device, or the index is below 0.
    """
    if isinstance(kind, int) and not isinstance(kind, bool):
        name = _NAMES.get(kind, str(kind))
    else:
        word, colon, number = (str(kind).split() or [""])[0].partition(":")
        name = _ALIASES.get(word, word)
        if colon and number.isdecimal() and index == 0:
            index = int(number)
        elif colon:
            name = f"{word}:{number}"
    if name not in DEVICE_TYPES:
        raise TargetError(
            f"device({kind!r}, {index})",
            f"there is no device kind {name!r}",
            f"{nearest(name, DEVICE_TYPES)}kinds: {', '.join(DEVICE_TYPES)}",
        )
    return Device(name, index)
