"""Which GPUs this process may use, asked of NVIDIA's management library.

It makes no CUDA context and survives a fork, which the driver itself would not. It numbers GPUs by
their places on the bus; CUDA does so only where ``CUDA_DEVICE_ORDER`` says ``PCI_BUS_ID``.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass

from whet.compiler import settings

_LIBRARY = "libnvidia-ml.so.1"
_UUID_BYTES = 96
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
    """What names this process's GPU of a number in every process; ``""`` where nobody knows.

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


def _nvml() -> ctypes.CDLL | None:
    """The library, begun; it must be ended."""
    try:
        nvml = ctypes.CDLL(_LIBRARY)
    except OSError:
        return None
    return nvml if nvml.nvmlInit_v2() == 0 else None


@functools.cache
def _every_gpu() -> tuple[_Gpu, ...]:
    """The machine's GPUs, in NVML's order."""
    nvml = _nvml()
    if nvml is None:
        return ()
    try:
        count = ctypes.c_uint()
        if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
            return ()
        return tuple(_told(nvml, _by_index(nvml, k)) for k in range(count.value))
    finally:
        nvml.nvmlShutdown()


@functools.cache
def _part(uuid: str) -> _Gpu | None:
    """A part of a GPU, which can what the whole can."""
    nvml = _nvml()
    if nvml is None:
        return None
    part, whole = ctypes.c_void_p(), ctypes.c_void_p()
    try:
        if nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(part)) != 0:
            return None
        of_part = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle
        if of_part(part, ctypes.byref(whole)) != 0:
            return None
        return _Gpu(uuid, _told(nvml, whole).capability)
    finally:
        nvml.nvmlShutdown()


def _by_index(nvml: ctypes.CDLL, index: int) -> ctypes.c_void_p | None:
    handle = ctypes.c_void_p()
    found = nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0
    return handle if found else None


def _told(nvml: ctypes.CDLL, handle: ctypes.c_void_p | None) -> _Gpu:
    """What the library tells of a GPU; one that it cannot reach keeps its number."""
    text = ctypes.create_string_buffer(_UUID_BYTES)
    major, minor = ctypes.c_int(), ctypes.c_int()
    if handle is None or nvml.nvmlDeviceGetUUID(handle, text, _UUID_BYTES) != 0:
        return _Gpu("", _UNKNOWN)
    nvml.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor))
    return _Gpu(text.value.decode(errors="replace"), (major.value, minor.value))
