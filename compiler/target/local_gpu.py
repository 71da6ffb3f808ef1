"""Which architecture this process's first GPU has, asked of NVIDIA's management library.

It makes no CUDA context and survives a fork, which the driver itself would not.
"""

from __future__ import annotations

import ctypes
import functools

from whet.compiler import settings

_LIBRARY = "libnvidia-ml.so.1"
_UUID_BYTES = 96


def local_arch() -> str:
    """E.g. ``"sm_90"``; ``""`` where there is no GPU or no driver, or none may be seen.

    ``CUDA_VISIBLE_DEVICES`` says which is the first: by its number, or the beginning of its UUID.
    """
    if settings.hides_cuda_devices():
        return ""
    return _arch_of(next(iter(settings.cuda_visible_devices()), "0"))


@functools.cache
def _arch_of(gpu: str) -> str:
    try:
        nvml = ctypes.CDLL(_LIBRARY)
    except OSError:
        return ""
    if nvml.nvmlInit_v2() != 0:
        return ""
    try:
        handle = _handle(nvml, gpu)
        return "" if handle is None else _arch(nvml, handle)
    finally:
        nvml.nvmlShutdown()


def _handle(nvml: ctypes.CDLL, gpu: str) -> ctypes.c_void_p | None:
    """The GPU of a number or a UUID, which may be cut short; of a part of one (MIG), the whole."""
    if gpu.isdecimal():
        return _by_index(nvml, int(gpu))
    if gpu.startswith("MIG-"):
        return _by_part(nvml, gpu)
    count = ctypes.c_uint()
    if not gpu.startswith("GPU-") or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
        return None
    text = ctypes.create_string_buffer(_UUID_BYTES)
    for k in range(count.value):
        handle = _by_index(nvml, k)
        if handle is None or nvml.nvmlDeviceGetUUID(handle, text, _UUID_BYTES) != 0:
            continue
        if text.value.decode(errors="replace").startswith(gpu):
            return handle
    return None


def _by_index(nvml: ctypes.CDLL, index: int) -> ctypes.c_void_p | None:
    handle = ctypes.c_void_p()
    found = nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0
    return handle if found else None


def _by_part(nvml: ctypes.CDLL, uuid: str) -> ctypes.c_void_p | None:
    part, whole = ctypes.c_void_p(), ctypes.c_void_p()
    if nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(part)) != 0:
        return None
    of_part = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle
    return whole if of_part(part, ctypes.byref(whole)) == 0 else None


def _arch(nvml: ctypes.CDLL, handle: ctypes.c_void_p) -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    asked = nvml.nvmlDeviceGetCudaComputeCapability
    if asked(handle, ctypes.byref(major), ctypes.byref(minor)) != 0:
        return ""
    return f"sm_{major.value}{minor.value}"
