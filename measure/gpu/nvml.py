"""Clocks, temperature, power and driver of a GPU while it measures, from NVIDIA's NVML.

The library comes with the driver; where there is none, or it does not say, a record does without.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
_TEXT = 96
_SM, _MEMORY = 1, 2  # nvmlClockType_t: NVML_CLOCK_SM, NVML_CLOCK_MEM
_GPU = 0  # nvmlTemperatureSensors_t
#: bits of nvmlDeviceGetCurrentClocksThrottleReasons that say that the clock was held down
_SLOWED = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}


@functools.cache
def _library() -> Any:
    """NVML, initialised; None where this machine has none."""
    try:
        library = ctypes.CDLL(LIBRARY)
        return library if library.nvmlInit_v2() == 0 else None
    except (OSError, AttributeError):  # no driver, or one from before 2012
        return None


@functools.lru_cache(maxsize=32)
def _handle(pci_bus_id: str) -> ctypes.c_void_p | None:
    library, handle = _library(), ctypes.c_void_p()
    if library is None or not pci_bus_id:
        return None
    status = library.nvmlDeviceGetHandleByPciBusId_v2(pci_bus_id.encode(), ctypes.byref(handle))
    return handle if status == 0 else None


def state_of(pci_bus_id: str) -> dict[str, Any]:
    """The state of a GPU now, by NVML.

    Args:
        pci_bus_id: where it is, e.g. ``"0000:3B:00.0"``: NVML counts GPUs in another order than
            CUDA, and knows nothing of CUDA_VISIBLE_DEVICES.

    Returns:
        Of ``sm_mhz``, ``memory_mhz``, ``celsius``, ``watts``, ``slowed`` (why the clock is held
        down) and ``driver`` those that it says; nothing where there is no NVML.
    """
    library, handle = _library(), _handle(pci_bus_id)
    if library is None or handle is None:
        return {}
    state: dict[str, Any] = {
        "sm_mhz": _number(library, "nvmlDeviceGetClockInfo", handle, _SM),
        "memory_mhz": _number(library, "nvmlDeviceGetClockInfo", handle, _MEMORY),
        "celsius": _number(library, "nvmlDeviceGetTemperature", handle, _GPU),
        "driver": _driver(library),
    }
    milliwatts = _number(library, "nvmlDeviceGetPowerUsage", handle)
    state["watts"] = None if milliwatts is None else round(milliwatts / 1000, 1)
    state["slowed"] = _slowed(library, handle)
    return {name: value for name, value in state.items() if value is not None}


def _number(library: Any, function: str, handle: Any, *which: int) -> int | None:
    value = ctypes.c_uint()
    try:
        status = getattr(library, function)(handle, *which, ctypes.byref(value))
    except AttributeError:  # an older NVML
        return None
    return value.value if status == 0 else None


def _slowed(library: Any, handle: Any) -> list[str] | None:
    bits = ctypes.c_ulonglong()
    try:
        status = library.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(bits))
    except AttributeError:
        return None
    if status != 0:
        return None
    return [why for bit, why in _SLOWED.items() if bits.value & bit]


def _driver(library: Any) -> str | None:
    text = ctypes.create_string_buffer(_TEXT)
    if library.nvmlSystemGetDriverVersion(text, _TEXT) != 0:
        return None
    return text.value.decode(errors="replace")
