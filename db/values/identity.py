"""Keys of workloads, targets and devices in a log: plain JSON, and digests of it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
from typing import Any

from whet.compiler.errors import WhetError
from whet.measure.device.names import Device, fingerprint_of
from whet.measure.values import Json
from whet.search_spaces.values import Config

Location = str | os.PathLike[str]
"""The path of a file, or (of a log) an SQLAlchemy URL."""


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


# Made once: a trial has five values that become JSON.
_SEPARATORS = (",", ":")
_STRICT, _LOOSE = (
    {
        sort: json.JSONEncoder(
            sort_keys=sort, separators=_SEPARATORS, default=_plain, allow_nan=allow_nan
        )
        for sort in (False, True)
    }
    for allow_nan in (False, True)
)


def plain_json(value: Any, *, sort_keys: bool = False) -> str:
    """Strict one-line JSON of a value, its keys in their own order.

    Args:
        value: any nest of dicts, lists, tuples and scalars; a nan or an infinity becomes null.
        sort_keys: order the keys of dicts.
    """
    try:
        return _STRICT[sort_keys].encode(value)
    except ValueError:
        loose = _LOOSE[sort_keys].encode(value)
        return json.dumps(_finite(json.loads(loose)), separators=_SEPARATORS)


def digest(value: Any) -> str:
    """SHA-256, in hex, of a value's canonical JSON: the same however its keys were ordered."""
    return hashlib.sha256(plain_json(value, sort_keys=True).encode()).hexdigest()


def config_digest(config: Config) -> str:
    """The key of a config in a log: SHA-256, in hex, of its own key."""
    return hashlib.sha256(config.key.encode()).hexdigest()


def config_digest_of_text(text: Any) -> str | None:
    """The key of a config that is written as JSON text; None for what is no config."""
    try:
        return config_digest(Config.from_json(json.loads(text)))
    except (ValueError, TypeError, RecursionError, WhetError):
        return None


def clean_text(text: str) -> str:
    """Text that every database can store: NULs and stray bytes of a crashed tool spelled out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")


def target_difference(there: Json, here: Json) -> str:
    """The attributes in which two targets' JSON differs: ``"num_threads=1 instead of 2"``, ...

    Of long lists, such as a processor's features, only what one of them has and the other has not;
    of two processors their names, which their features follow from.
    """
    names = [n for n in sorted(there.keys() | here.keys()) if there.get(n) != here.get(n)]
    if "mcpu" in names and there.get("mcpu") and here.get("mcpu"):
        names = [n for n in names if n != "mattr"]
    return ", ".join(_difference(name, there.get(name), here.get(name)) for name in names)


def _difference(name: str, there: Any, here: Any) -> str:
    if not (isinstance(there, str) and isinstance(here, str) and "," in there + here):
        return f"{name}={there} instead of {here}"
    theirs, ours = ({part for part in text.split(",") if part} for text in (there, here))
    parts = ("with", theirs - ours), ("without", ours - theirs)
    said = " and ".join(f"{word} {' '.join(sorted(some))}" for word, some in parts if some)
    return f"{name} {said}"


def device_key(device: Device) -> str:
    """The key of a device in a log: its fingerprint alone, whatever else a description says.

    Args:
        device: a fingerprint, a description with the key ``"fingerprint"``, or a dict of stable
            facts.
    """
    fingerprint = fingerprint_of(device)
    return f"device-{digest(device)[:12]}" if fingerprint is None else fingerprint


def device_name(device: Device) -> str:
    """A device's name for people: its CPU's or its own name where it is known, and its key."""
    model = "" if isinstance(device, str) else str(device.get("name") or device.get("cpu") or "")
    return f"{model} ({device_key(device)})" if model else device_key(device)


def distance(a: Any, b: Any, different: float = math.inf) -> float:
    """The distance of two workloads' arguments: doublings of sizes.

    Args:
        a, b: the arguments.
        different: the distance of two words, truth values or structures that are not the same.
    """
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return float(sum(distance(x, y, different) for x, y in zip(a, b)))
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (a, b))
    if numbers and min(a, b) >= 0:
        return abs(math.log2((a + 1) / (b + 1)))
    return 0.0 if type(a) is type(b) and a == b else different
