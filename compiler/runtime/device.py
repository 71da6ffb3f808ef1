"""Devices: where arrays live and kernels run."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whet.compiler.errors import ArgumentError, TargetError

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
    """One device. A value exists for every kind that TVM names; this build runs on the CPU.

    Attributes:
        type: its kind, e.g. ``"cpu"``.
        index: which of that kind.

    Raises:
        TargetError: the index is no whole number of 0 or more.
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
        """Which of that kind, by TVM's name."""
        return self.index

    @property
    def exist(self) -> bool:
        """Whether this machine has it and this build of Whet can use it."""
        return self.type == "cpu" and self.index == 0

    @property
    def device_name(self) -> str | None:
        """What the device calls itself; None where there is none."""
        if not self.exist:
            return None
        from whet.compiler.target import host

        return host.cpu_model()

    @property
    def multi_processor_count(self) -> int | None:
        """Multiprocessors of a GPU; of the CPU the physical cores that this process may use."""
        if not self.exist:
            return None
        from whet.compiler.target import host

        return host.physical_cores()

    @property
    def max_clock_rate(self) -> int | None:
        """The highest frequency in kHz; None where the system does not say."""
        path = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
        if not self.exist or not path.exists():
            return None
        return int(path.read_text())

    @property
    def max_threads_per_block(self) -> int | None:
        """Threads of a block at most; None: the device has no blocks."""
        return None

    @property
    def max_thread_dimensions(self) -> list[int] | None:
        """Threads of a block at most along x, y and z; None: the device has no blocks."""
        return None

    @property
    def max_shared_memory_per_block(self) -> int | None:
        """Bytes of shared memory that a block can have; None: the device has no blocks."""
        return None

    @property
    def warp_size(self) -> int | None:
        """Threads that run in step; None: the device has no warps."""
        return None

    @property
    def compute_version(self) -> str | None:
        """The compute capability, e.g. ``"9.0"``; None for what is no NVIDIA device."""
        return None

    @property
    def api_version(self) -> int | None:
        """The version of the device's programming interface; None: the device needs none."""
        return None

    @property
    def driver_version(self) -> str | None:
        """The version of the device's driver; None: the device needs none."""
        return None

    @property
    def texture_spatial_limit(self) -> int | None:
        """Extents of a two-dimensional texture at most; None: the device has no textures."""
        return None

    def create_raw_stream(self) -> None:
        """A new stream of work; on the CPU, which has one, None.

        Raises:
            TargetError: the device does not exist.
        """
        self._needed("create_raw_stream")

    def free_raw_stream(self, stream: None) -> None:
        """Give a stream back.

        Raises:
            TargetError: the device does not exist.
            ArgumentError: the stream is none of this device's.
        """
        self._check_stream("free_raw_stream", stream)

    def set_raw_stream(self, stream: None) -> None:
        """Let later work go to a stream.

        Raises:
            TargetError: the device does not exist.
            ArgumentError: the stream is none of this device's.
        """
        self._check_stream("set_raw_stream", stream)

    def sync(self, stream: None = None) -> None:
        """Wait for all work on the device; on the CPU a call returns when it is done.

        Raises:
            TargetError: the device does not exist.
            ArgumentError: the stream is none of this device's.
        """
        self._check_stream("sync", stream)

    def _check_stream(self, method: str, stream: object) -> None:
        self._needed(method)
        if stream is not None:
            raise ArgumentError(f"{self}.{method}({stream!r})", "the CPU's only stream is None")

    def _needed(self, method: str) -> None:
        if not self.exist:
            raise TargetError(
                f"{self}.{method}()", "this machine has no such device", "use whet.cpu(0)"
            )

    def __str__(self) -> str:
        return f"{self.type}({self.index})"


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
        kind: e.g. ``"cpu"``, ``"cuda"``, ``"llvm -mcpu=znver3"``, or DLPack's number: 1, 2, ...
        index: which of that kind.

    Raises:
        TargetError: there is no such kind of device, or the index is below 0.
    """
    if isinstance(kind, int) and not isinstance(kind, bool):
        name = _NAMES.get(kind, str(kind))
    else:
        words = str(kind).split()
        name = _ALIASES.get(words[0], words[0]) if words else ""
    if name not in DEVICE_TYPES:
        raise TargetError(
            f"device({kind!r}, {index})",
            f"there is no device kind {name!r}",
            f"kinds: {', '.join(DEVICE_TYPES)}",
        )
    return Device(name, index)
