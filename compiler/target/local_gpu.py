"""Which architecture the first GPU of this machine has, asked of NVIDIA's management library.

It makes no CUDA context and survives a fork, which the driver itself would not.
"""

from __future__ import annotations

import ctypes
import functools

_LIBRARY = "libnvidia-ml.so.1"


@functools.cache
def local_arch() -> str:
    """E.g. ``"sm_90"``; ``""`` where there is no GPU or no driver."""
    try:
        nvml = ctypes.CDLL(_LIBRARY)
    except OSError:
        return ""
    if nvml.nvmlInit_v2() != 0:
        return ""
    try:
        return _arch(nvml)
    finally:
        nvml.nvmlShutdown()


def _arch(nvml: ctypes.CDLL) -> str:
    handle, major, minor = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
    if nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) != 0:
        return ""
    asked = nvml.nvmlDeviceGetCudaComputeCapability
    if asked(handle, ctypes.byref(major), ctypes.byref(minor)) != 0:
        return ""
    return f"sm_{major.value}{minor.value}"
