"""The plain knob: one of a list of values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import copysign, inf, log2
from operator import is_
from typing import Any, ClassVar

from whet.compiler.errors import SpaceError
from whet.compiler.late_numpy import np
from whet.search_spaces.knobs.definition import Definition
from whet.search_spaces.knobs.plain import Choice, plain, tagged


@dataclass(frozen=True, slots=True)
class OptionDefinition(Definition):
    """How a plain knob was asked for; see ``ConfigSpace.define_knob``."""

    name: str
    candidates: tuple[Choice, ...]

    kind: ClassVar[str] = "knob"

    @staticmethod
    def of(name: str, candidates: Iterable[Any]) -> OptionDefinition:
        """Check the arguments of ``define_knob``.

        Raises:
            SpaceError: an argument is wrong.
        """
        request = f"define_knob({name!r})"
        if isinstance(candidates, str) or not isinstance(candidates, Iterable):
            raise SpaceError(request, f"candidates={candidates!r} is not a list of values")
        values = tuple([plain(v, request, f"candidate {i}") for i, v in enumerate(candidates)])
        if not values:
            raise SpaceError(request, "the candidate list is empty")
        if type(candidates) is tuple and all(map(is_, values, candidates)):
            values = candidates
        return OptionDefinition(name, values)

    def choices(self) -> tuple[Choice, ...]:
        return self.candidates

    def same_as(self, other: Any) -> bool:
        return (
            isinstance(other, OptionDefinition)
            and self.name == other.name
            and tagged(self.candidates) == tagged(other.candidates)
        )

    def preferred(self, choices: tuple[Choice, ...]) -> int:
        return 0

    def closest(self, choices: tuple[Choice, ...], wanted: Any) -> int | None:
        value = tagged(plain(wanted, f"define_knob({self.name!r})", "default"))
        return next((i for i, choice in enumerate(choices) if tagged(choice) == value), None)

    def similar(self, choices: tuple[Choice, ...], wanted: Any) -> int | None:
        if isinstance(wanted, bool) or any(isinstance(choice, bool) for choice in choices):
            return None
        numbers = (wanted,) if isinstance(wanted, int | float) else wanted
        rows: Any = choices if _tuples(choices) else tuple((choice,) for choice in choices)
        if not isinstance(numbers, tuple | list) or len(numbers) != len(rows[0]):
            return None
        away = [_away(row, numbers) for row in rows]
        return None if min(away) == inf else away.index(min(away))

    def coordinates(self, choices: tuple[Choice, ...]) -> np.ndarray:
        if _numeric(choices):
            # Neighbours in rising order are one step apart, however the list is written.
            ranks = np.unique(np.asarray(choices, dtype=np.float64), return_inverse=True)[1]
            return ranks.reshape(-1, 1).astype(np.float32)
        if _tuples(choices):
            return np.hstack([self.coordinates(column) for column in _columns(choices)])
        return self.features(choices)[1] / 2

    def features(self, choices: tuple[Choice, ...]) -> tuple[list[str], np.ndarray]:
        if _numeric(choices):
            values = np.asarray(choices, dtype=np.float64)
            return [self.name], (np.sign(values) * np.log2(1 + np.abs(values))).reshape(-1, 1)
        if _tuples(choices):
            parts = [
                OptionDefinition(f"{self.name}[{k}]", column).features(column)
                for k, column in enumerate(_columns(choices))
            ]
            return [n for names, _ in parts for n in names], np.hstack([v for _, v in parts])
        choices_once = tuple({tagged(c): c for c in choices}.values())
        names = [f"{self.name}={choice}" for choice in choices_once]
        same = [[tagged(a) == tagged(b) for b in choices_once] for a in choices]
        return names, np.asarray(same, dtype=np.float32)


def _away(row: Any, wanted: Any) -> float:
    """The distance of two rows in powers of two; words must be equal."""
    total = 0.0
    for ours, theirs in zip(row, wanted):
        if isinstance(ours, int | float) and isinstance(theirs, int | float):
            total += abs(_log(ours) - _log(theirs))
        elif tagged(ours) != tagged(theirs):
            return inf
    return total


def _log(value: float) -> float:
    return copysign(log2(1 + abs(value)), value)


def _numeric(choices: tuple[Choice, ...]) -> bool:
    return all(isinstance(choice, int | float) for choice in choices)


def _tuples(choices: tuple[Choice, ...]) -> bool:
    """True if the choices are tuples of one length, each position a dimension of its own."""
    lengths = {len(c) if isinstance(c, tuple) else 0 for c in choices}
    return len(lengths) == 1 and 0 not in lengths


def _columns(choices: tuple[Choice, ...]) -> list[tuple[Choice, ...]]:
    return list(zip(*choices))
