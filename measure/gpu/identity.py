"""Which GPU a record is of: devices by their names, and what a log keeps of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import MeasureError, TargetError
from whet.compiler.runtime.device import Device
from whet.measure.gpu.cost.model import VERSION
from whet.measure.gpu.cost.specs import spec_of
from whet.measure.gpu.names import (
    CPU,
    CUDA,
    EMULATOR,
    EVERY_GPU,
    MODEL,
    is_misspelt,
    nearest_name,
    parsed,
)

if TYPE_CHECKING:
    from whet.compiler.runtime.gpu.driver.properties import DeviceProperties


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

    Raises:
        MeasureError: it is close to a GPU's name, and none.
    """
    if is_misspelt(name):
        raise MeasureError(
            f"measurement on {name!r}",
            "there is no such device",
            nearest_name(name) + "'cuda:0', 'cuda-emulator', 'cpu'",
        )
    return named_device(name) or Device(CPU)


def measured_devices(names: str) -> tuple[Device, ...]:
    """The devices of this machine that a pool measures on, each by a worker of its own.

    Args:
        names: as for :func:`measured_device`; or several GPUs, ``"cuda:0,cuda:1"``, or all that
            this process may use, ``"cuda:*"``.

    Raises:
        MeasureError: what is named several times, or beside others, is no GPU of its own.
        TargetError: there is no GPU.
    """
    if names == EVERY_GPU:
        return every_gpu()
    words = [word.strip() for word in names.split(",")]
    if len(words) == 1:
        return (measured_device(names),)
    found = [named_device(word) for word in words]
    strange = [w for w, one in zip(words, found) if one is None or one.type != CUDA]
    twice = [w for k, w in enumerate(words) if found[k] in found[:k]]
    if strange or twice:
        why = f"{strange[0]!r} is no GPU" if strange else f"{twice[0]!r} is named twice"
        raise MeasureError(
            f"measurement on {names!r}",
            why,
            "several devices are GPUs, each named once: 'cuda:0,cuda:1'; 'cuda:*' is all of them",
        )
    return tuple(one for one in found if one is not None)


def every_gpu() -> tuple[Device, ...]:
    """The GPUs that this process may use.

    Raises:
        TargetError: there is none, or nothing to drive it with.
    """
    from whet.compiler.runtime.gpu.driver.interface import driver_of

    return tuple(Device(CUDA, index) for index in range(driver_of(CUDA).device_count()))


def check_alike(asked: str, devices: Sequence[dict[str, Any]], way_out: str) -> None:
    """Refuse GPUs of different kinds for one search: the times of one say nothing of the other.

    Args:
        asked: what was asked for.
        devices: descriptions, by :func:`describe`.
        way_out: what to do instead.

    Raises:
        MeasureError: they are of different kinds.
    """
    if len({one["fingerprint"] for one in devices}) < 2:
        return
    kinds = sorted({_kind_text(one) for one in devices})
    raise MeasureError(asked, f"these are different GPUs: {', '.join(kinds)}", way_out)


def _kind_text(one: dict[str, Any]) -> str:
    """What tells a GPU's kind: two of one name may differ in what they have."""
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
