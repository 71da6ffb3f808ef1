"""The plain knob: one of a list of values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from whet.compiler.errors import SpaceError
from whet.search_spaces.entities import VirtualAxis
from whet.search_spaces.plain import Choice, plain, tagged


@dataclass(frozen=True, slots=True)
class OptionDefinition:
    """How a plain knob was asked for; see ``ConfigSpace.define_knob``."""

    name: str
    candidates: tuple[Choice, ...]

    kind = "knob"

    @staticmethod
    def of(name: str, candidates: Iterable[Any]) -> OptionDefinition:
        """Check the arguments of ``define_knob``.

        Raises:
            SpaceError: an argument is wrong.
        """
        asked = f"define_knob({name!r})"
        if isinstance(candidates, str) or not isinstance(candidates, Iterable):
            raise SpaceError(asked, f"candidates={candidates!r} is not a list of values")
        values = tuple(plain(v, asked, f"candidate {i}") for i, v in enumerate(candidates))
        if not values:
            raise SpaceError(asked, "the candidate list is empty")
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

    def coordinates(self, choices: tuple[Choice, ...]) -> np.ndarray:
        if _numeric(choices):
            # Neighbours in rising order are one step apart, however the list is written.
            ranks = np.argsort(np.argsort(np.asarray(choices, dtype=np.float64), kind="stable"))
            return ranks.reshape(-1, 1).astype(np.float32)
        return np.eye(len(choices), dtype=np.float32) / 2

    def features(self, choices: tuple[Choice, ...]) -> tuple[list[str], np.ndarray]:
        if _numeric(choices):
            values = np.asarray(choices, dtype=np.float64)
            return [self.name], (np.sign(values) * np.log2(1 + np.abs(values))).reshape(-1, 1)
        names = [f"{self.name}={choice}" for choice in choices]
        return names, np.eye(len(choices), dtype=np.float32)

    def axes(self) -> list[VirtualAxis]:
        return []


def _numeric(choices: tuple[Choice, ...]) -> bool:
    return all(isinstance(choice, int | float) for choice in choices)
