"""Clocks, temperature, power and driver of a GPU while it measures, from NVIDIA's NVML.

The library comes with the driver; where there is none, or it does not say, a record does without.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from whet.measure.values import Json

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
    handle = ctypes.c_void_p()
    place = pci_bus_id.encode(), ctypes.byref(handle)
    return handle if pci_bus_id and _answers("DeviceGetHandleByPciBusId_v2", *place) else None


def _answers(function: str, *arguments: Any) -> bool:
    """Call a function; False where there is no NVML, an older one, or it does not say."""
    call = getattr(_library(), f"nvml{function}", None)
    return call is not None and call(*arguments) == 0


def state_of(pci_bus_id: str) -> Json:
    """The state of a GPU now, by NVML.

    Args:
        pci_bus_id: where it is, e.g. ``"0000:3B:00.0"``: NVML counts GPUs in another order than
            CUDA, and knows nothing of CUDA_VISIBLE_DEVICES.

    Returns:
        Of ``sm_mhz``, ``memory_mhz``, ``celsius``, ``watts``, ``slowed`` (why the clock is held
        down) and ``driver`` those that it says; nothing where there is no NVML.
    """
    handle = _handle(pci_bus_id)
    if handle is None:
        return {}
    milliwatts = _number("DeviceGetPowerUsage", handle)
    reasons = _number("DeviceGetCurrentClocksThrottleReasons", handle, kind=ctypes.c_ulonglong)
    text = ctypes.create_string_buffer(_TEXT)
    named = _answers("SystemGetDriverVersion", text, _TEXT)
    state = {
        "sm_mhz": _number("DeviceGetClockInfo", handle, _SM),
        "memory_mhz": _number("DeviceGetClockInfo", handle, _MEMORY),
        "celsius": _number("DeviceGetTemperature", handle, _GPU),
        "driver": text.value.decode(errors="replace") if named else None,
        "watts": None if milliwatts is None else round(milliwatts / 1000, 1),
        "slowed": None if reasons is None else [why for k, why in _SLOWED.items() if reasons & k],
    }
    return {name: value for name, value in state.items() if value is not None}


def _number(function: str, *arguments: Any, kind: type = ctypes.c_uint) -> int | None:
    value: Any = kind()
    return value.value if _answers(function, *arguments, ctypes.byref(value)) else None
