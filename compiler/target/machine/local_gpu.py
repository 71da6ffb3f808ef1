"""The GPUs that this process may use, asked of NVIDIA's management library.

It makes no CUDA context and survives a fork, which the driver itself would not. It numbers GPUs by
their places on the bus; CUDA does so only where ``CUDA_DEVICE_ORDER`` says ``PCI_BUS_ID``.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass

from whet.compiler import settings
from whet.compiler.target.machine import nvml

_UNKNOWN = 0, 0


@dataclass(frozen=True, slots=True)
class _Gpu:
    """A GPU, or a part of one (MIG)."""

    uuid: str
    capability: tuple[int, int]


def local_arch() -> str:
    """E.g. ``"sm_90"``; ``""`` where there is no GPU or no driver, or none may be seen."""
    found = _local(0)
    if found is None or found.capability == _UNKNOWN:
        return ""
    return "sm_{}{}".format(*found.capability)


def local_uuid(index: int) -> str:
    """A name for this process's GPU of a number that holds in every process; ``""``: unknown.

    ``CUDA_VISIBLE_DEVICES`` says which that is, by numbers or the beginnings of UUIDs. Without
    ``CUDA_DEVICE_ORDER=PCI_BUS_ID``, CUDA gives the fastest GPU the number 0: among different ones
    that of the highest compute capability is taken for it.
    """
    found = _local(index)
    return "" if found is None else found.uuid


def _local(index: int) -> _Gpu | None:
    if settings.hides_cuda_devices():
        return None
    visible = settings.cuda_visible_devices()
    if visible and index >= len(visible):
        return None
    seen = [_named(name) for name in visible[: index + 1]] if visible else [_numbered(index)]
    return None if None in seen else seen[-1]  # CUDA sees nothing from a wrong name on


def _named(name: str) -> _Gpu | None:
    """The GPU of a number or a UUID, which may be cut short."""
    if name.isdecimal():
        return _numbered(int(name))
    if name.startswith("MIG-"):
        return _part(name)
    if not name.startswith("GPU-"):
        return None
    return next((gpu for gpu in _every_gpu() if gpu.uuid.startswith(name)), None)


def _numbered(index: int) -> _Gpu | None:
    every = list(_every_gpu())
    if not settings.orders_cuda_devices_by_bus():
        every.sort(key=lambda gpu: gpu.capability, reverse=True)
    return every[index] if index < len(every) else None


@functools.cache
def _every_gpu() -> tuple[_Gpu, ...]:
    """The machine's GPUs, in NVML's order."""
    with nvml.session():
        count = nvml.number("DeviceGetCount_v2") or 0
        return tuple(_facts(nvml.handle("DeviceGetHandleByIndex_v2", k)) for k in range(count))


@functools.cache
def _part(uuid: str) -> _Gpu | None:
    """A part of a GPU, which can what the whole can."""
    with nvml.session():
        part = nvml.handle("DeviceGetHandleByUUID", uuid.encode())
        if part is None:
            return None
        whole = nvml.handle("DeviceGetDeviceHandleFromMigDeviceHandle", part)
        return None if whole is None else _Gpu(uuid, _facts(whole).capability)


def _facts(gpu: ctypes.c_void_p | None) -> _Gpu:
    """The library's facts of a GPU; one that it cannot reach keeps its number."""
    uuid = None if gpu is None else nvml.text("DeviceGetUUID", gpu)
    if uuid is None:
        return _Gpu("", _UNKNOWN)
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvml.answers("DeviceGetCudaComputeCapability", gpu, ctypes.byref(major), ctypes.byref(minor))
    return _Gpu(uuid, (major.value, minor.value))
