"""A configuration key of a pass: its type, default and meaning; they stand in the pass's row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: the values of all keys, as the passes read them
PassConfig = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Option:
    """One key of :class:`PassContext`'s ``config``.

    Attributes:
        kind: the type of its value.
        default: the value where none is given.
        meaning: a sentence.
        only: the one value that is possible, where there is but one.
        fields: for a dictionary, its inner keys.
        least: the smallest value, of a number.
    """

    kind: type
    default: Any
    meaning: str
    only: Any = None
    fields: Mapping[str, Option] = field(default_factory=dict)
    least: int | None = None


def section(meaning: str, **fields: Option) -> Option:
    """A key whose value is a dictionary."""
    return Option(dict, {k: f.default for k, f in fields.items()}, meaning, fields=fields)


def switch(meaning: str, default: bool = False) -> Option:
    """A key that is True or False."""
    return Option(bool, default, meaning)


def count(meaning: str, default: int = 0) -> Option:
    """A key whose value is a number, not negative."""
    return Option(int, default, meaning, least=0)
