"""Identities of devices: from a name to the device, and to the description that a log keeps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError, MeasureError, TargetError
from whet.measure.device import names
from whet.measure.device.names import CPU, CUDA, EMULATOR, EVERY_GPU, MODEL, NO_GPU
from whet.measure.device.specs import VERSION, spec_of
from whet.measure.values import target_json

if TYPE_CHECKING:  # the runtime is loaded where a device is named: reading a log needs none
    from whet.compiler.runtime.arrays.device import Device
    from whet.compiler.runtime.gpu.driver.properties import DeviceProperties
    from whet.compiler.target import Target

ONE_KIND = "name those of one kind; the others have searches of their own, in the same log"
"""The way out where several GPUs are of different kinds."""


def named_device(name: str) -> Device | None:
    """The device of a name such as ``"cuda:1"``; None where the text names none.

    Args:
        name: ``"cpu"``, ``"cuda"``, ``"cuda:0"``, ``"cuda-emulator"``, ...
    """
    parts = names.parse_name(name)
    return None if parts is None else _device(*parts)


def _device(kind: str, index: int = 0) -> Device:
    from whet.compiler.runtime.arrays.device import Device

    return Device(kind, index)


def measured_device(name: str) -> Device:
    """The device that a pool measures on; a name that is none of ours is a processor's.

    Args:
        name: as for :func:`named_device`, or any word, which names a processor's lock.

    Raises:
        MeasureError: it is close to a GPU's name, and none.
    """
    if names.is_misspelt(name):
        raise MeasureError(
            f"measurement on {name!r}",
            "there is no such device",
            names.nearest_name(name) + "'cuda:0', 'cuda-emulator', 'cpu'",
        )
    return named_device(name) or _device(CPU)


def measured_devices(name: str) -> tuple[Device, ...]:
    """The devices of this machine that a pool measures on, each by a worker of its own.

    Args:
        name: as for :func:`measured_device`; or several GPUs, ``"cuda:0,cuda:1"``, or all that
            this process may use, ``"cuda:*"``.

    Raises:
        MeasureError: one that is named several times, or beside others, is no GPU of its own.
        TargetError: there is no GPU.
    """
    if name == EVERY_GPU:
        return every_gpu()
    words = [word.strip() for word in name.split(",")]
    if len(words) == 1:
        return (measured_device(name),)
    devices: list[Device] = []
    for word in words:
        device = named_device(word)
        if device is None or device.type != CUDA or device in devices:
            wrong = "is named twice" if device in devices else "is no GPU"
            raise MeasureError(
                f"measurement on {name!r}",
                f"{word!r} {wrong}",
                "several devices are GPUs, each named once: 'cuda:0,cuda:1'; 'cuda:*' is all of "
                "them",
            )
        devices.append(device)
    return tuple(devices)


def every_gpu() -> tuple[Device, ...]:
    """The GPUs that this process may use.

    Raises:
        TargetError: there is none, or nothing to drive it with.
    """
    from whet.compiler.runtime.gpu.driver.interface import driver_of

    return tuple(_device(CUDA, index) for index in range(driver_of(CUDA).device_count()))


def check_alike(request: str, devices: Sequence[dict[str, Any]], way_out: str) -> None:
    """Refuse GPUs of different kinds for one search: the times of one say nothing of the other.

    Args:
        request: the user's words, for the error.
        devices: descriptions, by :func:`describe`.
        way_out: the remedy.

    Raises:
        MeasureError: they are of different kinds.
    """
    if len({one["fingerprint"] for one in devices}) < 2:
        return
    kinds = sorted({_kind_text(one) for one in devices})
    raise MeasureError(request, f"these are different GPUs: {', '.join(kinds)}", way_out)


def _kind_text(one: dict[str, Any]) -> str:
    """A GPU's kind: two of one name may differ in memory or multiprocessors."""
    facts = ("arch", "multiprocessors", "memory_gib")
    return " ".join(str(one[k]) for k in ("name", *facts) if k in one)


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
    from whet.compiler.runtime.gpu.driver.interface import driver_of

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
    try:
        return next(iter(every_gpu()), None)
    except TargetError:
        return None


def device_of(
    target: Target | dict[str, Any] | str, device: names.Device | Device | None = None
) -> names.Device:
    """The device whose records count for a target.

    Args:
        target: the target of the code.
        device: a device as the log has it, its fingerprint or its name (``"cuda:0"``,
            ``"cuda-emulator"``), or a runtime's device; None: this machine's for the target: its
            processor, or its first GPU.

    Raises:
        TargetError: a GPU was named that this machine does not have.
        ArgumentError: several devices were named, or one that does not exist.
    """
    if names.names_several(device):
        raise ArgumentError(
            f"records of device={device!r}",
            "these are several devices, and a record is of one",
            "GPUs of one kind are one device for the log: name one of them, 'cuda:0'",
        )
    if isinstance(device, str) and names.is_misspelt(device):
        raise ArgumentError(
            f"records of device={device!r}",
            "there is no such device",
            names.nearest_name(device) + "'cuda:0' is a GPU of this machine, 'cuda-emulator' a "
            "model; others are named by their fingerprints, 'cuda-' and 12 hex digits",
        )
    if isinstance(device, dict) or (isinstance(device, str) and not names.names_device(device)):
        return device  # a description, or anybody's own name
    named = named_device(device) if isinstance(device, str) else device
    data = target_json(target)
    if named is None and data.get("kind") == CUDA:
        named = first_gpu()
        return NO_GPU if named is None else describe(named, data)
    return names.this_device() if named is None or named.type == CPU else describe(named, data)
