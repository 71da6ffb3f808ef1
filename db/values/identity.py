"""What workloads, targets and devices are called in a log: plain JSON, and digests of it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError
from whet.measure.gpu.names import (
    CPU,
    CUDA,
    EVERY_GPU,
    NO_GPU,
    is_misspelt,
    nearest_name,
    parsed,
)

if TYPE_CHECKING:
    from whet.compiler.runtime.device import Device as RuntimeDevice
    from whet.compiler.target import Target

Device = dict[str, Any] | str
"""A machine: ``host.fingerprint()``, or the dict that ``host.describe()`` gives, which holds it; or
a GPU, by what :func:`whet.measure.gpu.identity.describe` says of it."""


def _plain(value: Any) -> Any:
    """numpy scalars, dataclasses, sets and paths as JSON values; anything else as its text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return str(value)


def _finite(value: Any) -> Any:
    """The same value with null where a float is not finite: JSON has no nan and no infinity."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain_json(value: Any, *, sort_keys: bool = False) -> str:
    """Strict one-line JSON of a value, its keys in their own order.

    Args:
        value: any nest of dicts, lists, tuples and scalars; a nan or an infinity becomes null.
        sort_keys: order the keys of dicts.
    """
    separators = (",", ":")
    try:
        return json.dumps(
            value, sort_keys=sort_keys, separators=separators, default=_plain, allow_nan=False
        )
    except ValueError:
        loose = json.dumps(value, sort_keys=sort_keys, separators=separators, default=_plain)
        return json.dumps(_finite(json.loads(loose)), separators=separators)


def digest(value: Any) -> str:
    """SHA-256, in hex, of a value's canonical JSON: the same however its keys were ordered."""
    return hashlib.sha256(plain_json(value, sort_keys=True).encode()).hexdigest()


def clean_text(text: str) -> str:
    """Text that every database can store: NULs and stray bytes of a crashed tool spelled out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")


def target_json(target: Target | dict[str, Any] | str) -> dict[str, Any]:
    """The canonical JSON of a target.

    Args:
        target: a ``Target``, its canonical ``to_json()``, which is taken as it is, or a string.
    """
    if isinstance(target, dict):
        return target
    if isinstance(target, str):
        from whet.compiler.target import Target

        target = Target(target)
    return target.canonical().to_json()


def target_difference(there: dict[str, Any], here: dict[str, Any]) -> str:
    """In which attributes two targets' JSON differs: ``"num_threads=1 instead of 2"``, ..."""
    names = [n for n in sorted(there.keys() | here.keys()) if there.get(n) != here.get(n)]
    return ", ".join(f"{n}={there.get(n)} instead of {here.get(n)}" for n in names)


def this_device() -> Device:
    """The fingerprint of the machine this process runs on."""
    from whet.compiler.target.machine import host

    return host.fingerprint()


def device_of(
    target: Target | dict[str, Any] | str, device: Device | RuntimeDevice | None = None
) -> Device:
    """The device whose records count for a target.

    Args:
        target: what is compiled for.
        device: a device as the log has it, its fingerprint or its name (``"cuda:0"``,
            ``"cuda-emulator"``), or a runtime's device; None: this machine's for the target: its
            processor, or its first GPU.

    Raises:
        TargetError: a GPU was named that this machine does not have.
        ArgumentError: several devices were named, or one that does not exist.
    """
    if _names_several(device):
        raise ArgumentError(
            f"records of device={device!r}",
            "these are several devices, and a record is of one",
            "GPUs of one kind are one device for the log: name one of them, 'cuda:0'",
        )
    if isinstance(device, str) and is_misspelt(device):
        raise ArgumentError(
            f"records of device={device!r}",
            "there is no such device",
            nearest_name(device) + "'cuda:0' is a GPU of this machine, 'cuda-emulator' a model; "
            "others are named by their fingerprints, 'cuda-' and 12 hex digits",
        )
    if isinstance(device, dict) or (isinstance(device, str) and not names_device(device)):
        return device
    data = target_json(target)
    if device is None and data.get("kind") != CUDA:
        return this_device()
    from whet.measure.gpu import identity

    named = identity.named_device(device) if isinstance(device, str) else device
    if named is not None and named.type == CPU:
        return this_device()
    named = named or identity.first_gpu()
    return NO_GPU if named is None else identity.describe(named, data)


def _names_several(device: Any) -> bool:
    """Whether these are devices as a search on several GPUs takes them."""
    if not isinstance(device, str):
        return isinstance(device, list | tuple)
    words = device.split(",")
    each = all(parsed(word.strip()) is not None for word in words)
    return device == EVERY_GPU or (len(words) > 1 and each)


def names_device(device: Device | RuntimeDevice) -> bool:
    """Whether this is a runtime's device or its name, and no description or fingerprint."""
    if isinstance(device, str):
        return parsed(device) is not None
    return not isinstance(device, dict)


def device_key(device: Device) -> str:
    """What tells two devices apart: the fingerprint alone, whatever else a description says.

    Args:
        device: a fingerprint, a description with the key ``"fingerprint"``, or a dict of stable
            facts.
    """
    if isinstance(device, str):
        return device
    named = device.get("fingerprint")
    return named if isinstance(named, str) else f"device-{digest(device)[:12]}"


def is_device_key(key: str) -> bool:
    """Whether a text looks like what :func:`device_key` gives: ``cpu-...``, ``cuda-...``."""
    return re.fullmatch(r"(cpu|cuda|device)-[\w.-]+", key) is not None


def device_name(device: Device) -> str:
    """A device's name for people: its CPU's or its own name where it is known, and its key."""
    model = "" if isinstance(device, str) else str(device.get("name") or device.get("cpu") or "")
    return f"{model} ({device_key(device)})" if model else device_key(device)
