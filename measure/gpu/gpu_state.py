"""Clocks, temperature, power and driver of a GPU while it measures, from NVIDIA's NVML.

Where there is no NVML, or it does not say, a record does without.
"""

from __future__ import annotations

import ctypes
import functools

from whet.compiler.target.machine import nvml
from whet.measure.values import Json

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
def _begun() -> bool:
    """Begin NVML; it stays open in a process that measures."""
    return nvml.answers("Init_v2")


@functools.lru_cache(maxsize=32)
def _handle(pci_bus_id: str) -> ctypes.c_void_p | None:
    if not (pci_bus_id and _begun()):
        return None
    return nvml.handle("DeviceGetHandleByPciBusId_v2", pci_bus_id.encode())


def state_of(pci_bus_id: str) -> Json:
    """The state of a GPU now, by NVML.

    Args:
        pci_bus_id: where it is, e.g. ``"0000:3B:00.0"``: NVML counts GPUs in another order than
            CUDA, and knows nothing of CUDA_VISIBLE_DEVICES.

    Returns:
        Of ``sm_mhz``, ``memory_mhz``, ``celsius``, ``watts``, ``slowed`` (why the clock is held
        down) and ``driver`` those that it says; nothing where there is no NVML.
    """
    gpu = _handle(pci_bus_id)
    if gpu is None:
        return {}
    number = nvml.number
    milliwatts = number("DeviceGetPowerUsage", gpu)
    reasons = number("DeviceGetCurrentClocksThrottleReasons", gpu, kind=ctypes.c_ulonglong)
    state = {
        "sm_mhz": number("DeviceGetClockInfo", gpu, _SM),
        "memory_mhz": number("DeviceGetClockInfo", gpu, _MEMORY),
        "celsius": number("DeviceGetTemperature", gpu, _GPU),
        "driver": nvml.text("SystemGetDriverVersion"),
        "watts": None if milliwatts is None else round(milliwatts / 1000, 1),
        "slowed": None if reasons is None else [why for k, why in _SLOWED.items() if reasons & k],
    }
    return {name: value for name, value in state.items() if value is not None}
