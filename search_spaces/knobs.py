"""A knob: a named list of legal choices, with what a search needs to know about each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from whet.compiler.errors import SpaceError
from whet.search_spaces.entities import VirtualAxis, entity_of
from whet.search_spaces.plain import Choice, tagged

# A list longer than this is a mistake (a filter or a max_factor is missing), and would only
# fill the memory.
LARGEST_LIST = 1_000_000
_SHOWN = 12
# Knobs up to this long keep the weights of a step from each position (2 MiB at most).
_SUMS_KEPT = 512


class Definition(Protocol):
    """How a knob was asked for: what ``define_*`` was given, and the choices that follow."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    def choices(self) -> tuple[Choice, ...]:
        """Every legal choice, in a fixed order."""
        ...

    def same_as(self, other: Any) -> bool:
        """True only if ``other`` is sure to have the same choices; False where one must look."""
        ...

    def preferred(self, choices: tuple[Choice, ...]) -> int:
        """The position of the choice to take when the template names no default."""
        ...

    def closest(self, choices: tuple[Choice, ...], wanted: Any) -> int | None:
        """The position of the choice that ``default=wanted`` means; None where there is none."""
        ...

    def coordinates(self, choices: tuple[Choice, ...]) -> np.ndarray:
        """Points, float32 of shape ``(len(choices), n)``: alike where the L1 distance is small."""
        ...

    def features(self, choices: tuple[Choice, ...]) -> tuple[list[str], np.ndarray]:
        """Names and values, float32 of shape ``(len(choices), len(names))``, for a cost model."""
        ...

    def axes(self) -> list[VirtualAxis]:
        """What ``define_*`` returns."""
        ...


@dataclass(frozen=True, eq=False)
class Knob:
    """One dimension of a space.

    Attributes:
        definition: how it was asked for.
        choices: every legal choice.
        default: the position of the default choice.
    """

    definition: Definition
    choices: tuple[Choice, ...]
    default: int
    _positions: dict[Any, int] = field(repr=False)
    _step_sums: dict[int, np.ndarray] = field(default_factory=dict, init=False, repr=False)

    @staticmethod
    def of(definition: Definition, default: Any = None) -> Knob:
        """The knob of a definition.

        Args:
            definition: how the knob was asked for.
            default: the choice to take outside a search; None: the built-in preference.

        Raises:
            SpaceError: there are no legal choices, or ``default`` is not one of them.
        """
        choices = definition.choices()
        asked = f"define_{definition.kind}({definition.name!r})"
        if not choices:
            raise SpaceError(asked, "no legal choice is left", "widen the candidates or the filter")
        positions = {tagged(choice): i for i, choice in enumerate(choices)}
        if len(positions) != len(choices):
            # The dict kept the last position of each.
            twice = next(c for i, c in enumerate(choices) if positions[tagged(c)] != i)
            raise SpaceError(asked, f"the candidate {twice!r} is listed twice")
        position: int | None
        if default is None:
            position = definition.preferred(choices)
        else:
            position = definition.closest(choices, default)
        if position is None:
            raise SpaceError(asked, f"default={default!r} is not a legal choice", legal(choices))
        return Knob(definition, choices, position, positions)

    def __len__(self) -> int:
        return len(self.choices)

    def __iter__(self) -> Iterator[Choice]:
        return iter(self.choices)

    @property
    def name(self) -> str:
        """The knob's name."""
        return self.definition.name

    @property
    def kind(self) -> str:
        """``"split"``, ``"reorder"``, ``"annotate"`` or ``"knob"``."""
        return self.definition.kind

    def entity(self, position: int) -> Any:
        """The entity of the choice at ``position``."""
        return entity_of(self.kind, self.choices[position])

    def position(self, choice: Choice) -> int:
        """Where ``choice`` stands in the list.

        Raises:
            SpaceError: it is not a legal choice; names the knob, the value and the legal ones.
        """
        found = self._positions.get(tagged(choice))
        if found is None:
            raise SpaceError(
                f"{self.kind} {self.name!r} = {choice!r}",
                "not one of the knob's choices",
                lambda: legal(self.choices),
            )
        return found

    @cached_property
    def feature_table(self) -> tuple[list[str], np.ndarray]:
        """Feature names and one float32 row for each choice."""
        names, table = self.definition.features(self.choices)
        return names, np.ascontiguousarray(table, dtype=np.float32)

    @cached_property
    def _coordinates(self) -> np.ndarray:
        return self.definition.coordinates(self.choices)

    def distances(self, position: int) -> np.ndarray:
        """How far each choice is from that at ``position``: float32 of shape ``(len(self),)``."""
        points = self._coordinates
        return np.abs(points - points[position]).sum(axis=1)

    def near(self, position: int) -> list[int]:
        """The positions one step away: those at the distance of the nearest other choices, or 1."""
        distances = self.distances(position)
        distances[position] = np.inf
        if len(self) == 1:
            return []
        step = max(float(distances.min()), 1.0)
        # A slack for distances that are sums of logarithms.
        return [int(i) for i in np.flatnonzero(distances <= step + 1e-4)]

    def step(self, position: int, rng: np.random.Generator) -> int:
        """Another position, nearer ones more likely; ``position`` itself if it is the only one."""
        if len(self) == 1:
            return position
        sums = self._step_sums.get(position)
        if sums is None:
            weights = np.exp2(-2.0 * self.distances(position).astype(np.float64))
            weights[position] = 0.0
            # Far choices stay possible, so that a walk can leave a valley.
            weights += 0.05 * weights.sum() / len(self)
            weights[position] = 0.0
            sums = np.cumsum(weights)
            if len(self) <= _SUMS_KEPT:
                self._step_sums[position] = sums
        found = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
        # Rounding can reach the end of the sums, whose last step may be the position itself.
        return found if found < len(self) else int(np.argmax(sums == sums[-1]))


def legal(choices: Sequence[Choice]) -> str:
    """A line that lists the legal choices, shortened in the middle if they are many."""
    texts = [repr(choice) for choice in choices]
    if len(texts) > _SHOWN:
        texts = [*texts[: _SHOWN - 2], f"... {len(texts) - _SHOWN + 1} more ...", texts[-1]]
    return "legal: " + ", ".join(texts)


def check_policy(asked: str, policy: Any, policies: Sequence[str]) -> None:
    """Refuse an unknown policy.

    Raises:
        SpaceError: ``policy`` is not in ``policies``; names the nearest spelling.
    """
    if policy in policies:
        return
    from difflib import get_close_matches

    near = get_close_matches(str(policy), policies, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise SpaceError(asked, f"unknown policy{hint}", f"policies: {', '.join(policies)}")


def number_of(axes: Sequence[Any], axis: Any, asked: str) -> int:
    """The position of ``axis`` in ``axes`` by identity (``==`` of axes may build an expression).

    Raises:
        SpaceError: it is not among them.
    """
    for i, other in enumerate(axes):
        if other is axis:
            return i
    raise SpaceError(asked, f"the axis {axis!r} is not among axes=", f"axes: {list(axes)!r}")
