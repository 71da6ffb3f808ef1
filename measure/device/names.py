"""Names and keys of devices that measure, for users and for a log: text only, which costs nothing.

Costs that a model predicted and costs that were measured are never one device's: the emulator's key
names the GPU that is modelled and the model's version.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Union

from whet.compiler.errors import nearest
from whet.measure.values import Json

if TYPE_CHECKING:
    from whet.compiler.runtime.arrays.device import Device as RuntimeDevice

Device = Json | str
"""A machine: ``host.fingerprint()``, or the dict that ``host.describe()`` gives, which holds it; or
a GPU, by its description (:func:`whet.measure.device.identity.describe`)."""

AnyDevice = Union[Device, "RuntimeDevice"]
"""A machine or a GPU as :data:`Device`, a device's name, or a runtime's device."""

CPU, CUDA, EMULATOR = "cpu", "cuda", "cuda-emulator"
MODEL = "model"
"""A record's word for a cost that nobody measured."""
EVERY_GPU = "cuda:*"
"""All GPUs that this process may use."""
NO_GPU = "cuda-none"
"""The key of a GPU that is not there: no record has it."""

_KEY = re.compile(r"(cpu|cuda|device|replay)-[\w.-]+")
_NAME = re.compile(rf"({CPU}|{CUDA}|{EMULATOR})(?::(\d+))?")
_KEY_OF_A_GPU = re.compile(rf"{NO_GPU}|{CUDA}-[0-9a-f]{{12}}|{EMULATOR}-[\w.-]+-v\d+")


def parse_name(name: str) -> tuple[str, int] | None:
    """The kind and the number in a device's name; None where the text names no device.

    Args:
        name: ``"cpu"``, ``"cuda"``, ``"cuda:0"``, ``"cuda-emulator"``, ...
    """
    match = _NAME.fullmatch(name)
    return None if match is None else (match[1], int(match[2] or 0))


def names_device(device: AnyDevice) -> bool:
    """True for a runtime's device or its name; False for a description or a fingerprint."""
    if isinstance(device, str):
        return parse_name(device) is not None
    return not isinstance(device, dict)


def names_several(device: Any) -> bool:
    """True for several devices, as a search on several GPUs takes them."""
    if not isinstance(device, str):
        return isinstance(device, list | tuple)
    words = device.split(",")
    each = all(parse_name(word.strip()) is not None for word in words)
    return device == EVERY_GPU or (len(words) > 1 and each)


def fingerprint_of(device: Device) -> str | None:
    """The fingerprint of a description, or the text itself; None for a dict of stable facts."""
    named = device if isinstance(device, str) else device.get("fingerprint")
    return named if isinstance(named, str) else None


def is_device_key(key: str) -> bool:
    """True for a text of the form that keys have in a log: ``cpu-...``, ``cuda-...``."""
    return _KEY.fullmatch(key) is not None


def is_misspelt(text: str) -> bool:
    """True for a text about a GPU that is neither a device's name nor its key in a log.

    Args:
        text: a name, or a key such as ``"cuda-0123456789ab"`` or ``"cuda-emulator-a100-v2"``.
    """
    named = parse_name(text) is not None or text == EVERY_GPU
    return text.startswith(CUDA) and not named and _KEY_OF_A_GPU.fullmatch(text) is None


def nearest_name(text: str) -> str:
    """``"did you mean 'cuda-emulator'? "`` for a name that is close to a text, or nothing."""
    return nearest(text, [EMULATOR, f"{CUDA}:0", EVERY_GPU, CUDA, CPU])


def is_model(key: str) -> bool:
    """True for the key of a device whose costs are a model's."""
    return key.startswith(EMULATOR)


def this_device() -> str:
    """The fingerprint of this machine's processor."""
    from whet.compiler.target.machine import host

    return host.fingerprint()
