"""Plain data: what may be a knob's choice or a template's argument, in one canonical form."""

from __future__ import annotations

import json
import math
from operator import is_
from typing import Any

from whet.compiler.errors import SpaceError
from whet.compiler.late_numpy import is_scalar, is_scalar_type, np

Choice = int | float | bool | str | None | tuple
_OPEN = ", or None for an end that is open: ('clip', 0, None)"


def plain(value: Any, request: str, where: str, inside: tuple | list | None = None) -> Choice:
    """``value`` in canonical form: sequences as tuples, numpy scalars as Python's, dtypes by name.

    Args:
        value: anything.
        request: what was asked, for the error's text.
        where: which part of it ``value`` is, for the error's text.
        inside: the sequence that ``value`` is an item of, for the error's text.

    Raises:
        SpaceError: ``value`` holds something that JSON cannot (or a NaN or an infinity).
    """
    if value is None or type(value) in (int, str, bool):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            held = f"is {value!r}" if inside is None else f"holds {value!r} in {inside!r}"
            raise SpaceError(
                request,
                f"{where} {held}, which JSON cannot hold",
                "give a finite number" + (_OPEN if inside and inside[0] == "clip" else ""),
            )
        return float(value)
    if isinstance(value, tuple | list):
        items = tuple([plain(item, request, where, value) for item in value])
        # The tuple itself where nothing changed: a template's own constant is known by identity.
        return value if type(value) is tuple and all(map(is_, items, value)) else items
    if is_scalar(value):
        item = value.item()
        if type(item) in (int, str, bool, float):
            return plain(item, request, where)
    elif _is_dtype(value):
        return np.dtype(value).name
    elif isinstance(value, int):
        return int(value)
    elif isinstance(value, str):
        return str(value)
    raise SpaceError(
        request,
        f"{where} is a {type(value).__name__}, which cannot be stored as JSON",
        "allowed: int, float, bool, str, None, and tuples or lists of these; "
        "an element type by its name, 'float32', or numpy's",
    )


def _is_dtype(value: Any) -> bool:
    return is_scalar_type(value) or (
        type(value).__module__.startswith("numpy") and isinstance(value, np.dtype)
    )


def plain_text(value: Choice) -> str:
    """The canonical JSON text of plain data."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def jsonable(value: Choice) -> Any:
    """Plain data with lists for tuples, as JSON reads it back."""
    return [jsonable(item) for item in value] if isinstance(value, tuple) else value


def tagged(value: Choice) -> Any:
    """A hashable stand-in that tells ``1``, ``1.0`` and ``True`` apart."""
    if isinstance(value, tuple):
        return tuple(map(tagged, value))
    return value if type(value) is int or type(value) is str else (type(value).__name__, value)


def said(error: Exception) -> str:
    """An error's kind and text on one line."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
