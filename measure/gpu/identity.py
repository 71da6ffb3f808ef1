"""Which GPU a record is of: devices by their names, and what a log keeps of them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import TargetError
from whet.compiler.runtime.device import Device
from whet.measure.gpu.model import VERSION
from whet.measure.gpu.names import CPU, CUDA, EMULATOR, MODEL, parsed
from whet.measure.gpu.specs import spec_of

if TYPE_CHECKING:
    from whet.compiler.runtime.gpu.driver import DeviceProperties


def named_device(name: str) -> Device | None:
    """The device of a name such as ``"cuda:1"``; None where the text names none.

    Args:
        name: ``"cpu"``, ``"cuda"``, ``"cuda:0"``, ``"cuda-emulator"``, ...
    """
    found = parsed(name)
    return None if found is None else Device(*found)


def measured_device(name: str) -> Device:
    """The device that a pool measures on; a name that is none of ours is a processor's.

    Args:
        name: as for :func:`named_device`, or any word, which names a processor's lock.
    """
    return named_device(name) or Device(CPU)


def text_of(device: Device) -> str:
    """A device's name, as :func:`named_device` takes it."""
    return f"{device.type}:{device.index}" if device.type == CUDA else device.type


def describe(device: Device, target: dict[str, Any]) -> dict[str, Any]:
    """A device as a log keeps it, with its fingerprint.

    Args:
        device: a GPU of this machine, or the emulator.
        target: the canonical target as JSON; the emulator models a GPU of its architecture.

    Raises:
        TargetError: there is no such GPU here, or none of the architecture is modelled.
    """
    if device.type == EMULATOR:
        spec = spec_of(str(target.get("arch", "")))
        return {
            "fingerprint": f"{EMULATOR}-{spec.key}-v{VERSION}",
            "name": f"{EMULATOR} (model of {spec.name})",
            "arch": spec.arch,
            "cost": MODEL,
        }
    from whet.compiler.runtime.gpu.driver import driver_of

    return described(driver_of(device.type).properties(device.index))


def described(properties: DeviceProperties) -> dict[str, Any]:
    """A GPU by what it is: two alike have one fingerprint, as two equal processors have."""
    facts = {
        "name": properties.name,
        "arch": properties.arch,
        "multiprocessors": properties.multiprocessors,
        "memory_gib": round(properties.memory_bytes / 2**30),
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
    return {"fingerprint": f"{CUDA}-{digest}", **facts, "driver": properties.driver_version}


def first_gpu() -> Device | None:
    """This machine's first GPU; None where it has none, or nothing to drive it with."""
    from whet.compiler.runtime.gpu.driver import driver_of

    try:
        return Device(CUDA) if driver_of(CUDA).device_count() else None
    except TargetError:
        return None
