"""The locate knob: at which axes of a stage caches are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any, ClassVar

from whet.compiler.errors import SpaceError
from whet.compiler.late_numpy import np
from whet.search_spaces.knobs.definition import LARGEST_LIST, Definition
from whet.search_spaces.knobs.plain import Choice


@dataclass(frozen=True, slots=True)
class LocateDefinition(Definition):
    """How an annotate knob of policy ``"locate_cache"`` was asked for."""

    name: str
    num_axes: int
    num_anchor: int

    kind: ClassVar[str] = "annotate"

    @staticmethod
    def of(name: str, axes: Sequence[Any], num_anchor: int | None, candidate: Any) -> Any:
        """Check the arguments of ``define_annotate``.

        Raises:
            SpaceError: an argument is wrong.
        """
        request = f"define_annotate({name!r}, policy='locate_cache')"
        if candidate is not None:
            raise SpaceError(request, "policy='candidate' and candidate= go together")
        if type(num_anchor) is not int or not 1 <= num_anchor <= len(axes):
            raise SpaceError(
                request, f"num_anchor={num_anchor!r} must be an int from 1 to the {len(axes)} axes"
            )
        if comb(len(axes), num_anchor) > LARGEST_LIST:
            raise SpaceError(
                request,
                f"{len(axes)} axes have more than {LARGEST_LIST} choices of {num_anchor}",
                "name fewer axes",
            )
        return LocateDefinition(name, len(axes), num_anchor)

    def choices(self) -> tuple[Choice, ...]:
        return tuple(combinations(range(self.num_axes), self.num_anchor))

    def preferred(self, choices: tuple[Choice, ...]) -> int:
        return len(choices) - 1  # as far inside as can be: the smallest caches

    def coordinates(self, choices: tuple[Choice, ...]) -> np.ndarray:
        # One loop further out or in is a step of 1.
        return np.asarray(choices, dtype=np.float32).reshape(len(choices), self.num_anchor)

    def features(self, choices: tuple[Choice, ...]) -> tuple[list[str], np.ndarray]:
        names = [f"{self.name}.at{anchor}" for anchor in range(self.num_anchor)]
        return names, self.coordinates(choices)
