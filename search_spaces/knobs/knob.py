"""A knob: a named list of legal choices, with what a search needs to know about each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from whet.compiler.errors import SpaceError
from whet.compiler.late_numpy import np
from whet.search_spaces.knobs.definition import Definition
from whet.search_spaces.knobs.entities import entity_of
from whet.search_spaces.knobs.plain import Choice, tagged
from whet.search_spaces.knobs.steps import Steps

_SHOWN = 12
QUICK = 6
"""Choices of a knob in a quick space where the template names none: the default and its nearest."""


@dataclass(frozen=True, eq=False)
class Knob:
    """One dimension of a space.

    Attributes:
        definition: how it was asked for.
        choices: every legal choice.
        default: the position of the default choice.
        quick: positions of the choices of a quick space; None: :meth:`kept_when_quick` says.
        whole: the knob of the full space, where this one has some of its choices.
    """

    definition: Definition
    choices: tuple[Choice, ...]
    default: int
    quick: tuple[int, ...] | None = None
    whole: Knob | None = field(default=None, repr=False)
    _rows: tuple[int, ...] = field(default=(), repr=False)

    @staticmethod
    def of(definition: Definition, default: Any = None, quick: Sequence[Any] | None = None) -> Knob:
        """The knob of a definition.

        Args:
            definition: how the knob was asked for.
            default: the choice to take outside a search; None: the built-in preference.
            quick: the choices of a quick space, besides the default.

        Raises:
            SpaceError: there are no legal choices, or ``default`` or one of ``quick`` is not legal.
        """
        choices, request = definition.choices(), definition.request
        if not choices:
            raise SpaceError(
                request, "no legal choice is left", "widen the candidates or the filter"
            )
        if default is None:
            position = definition.preferred(choices)
        else:
            position = _closest(definition, choices, default, "default")
        knob = Knob(definition, choices, position, _quick(definition, choices, quick))
        if len(knob._positions) != len(choices):
            # The dict kept the last position of each.
            twice = next(c for i, c in enumerate(choices) if knob._positions[tagged(c)] != i)
            raise SpaceError(request, f"the candidate {twice!r} is listed twice")
        return knob

    @cached_property
    def _positions(self) -> dict[Any, int]:
        return {tagged(choice): i for i, choice in enumerate(self.choices)}

    def subset(self, positions: Sequence[int], default: int) -> Knob:
        """The knob with some of its choices.

        Args:
            positions: which ones, in rising order.
            default: the position of the default choice, one of ``positions``.
        """
        choices = tuple(self.choices[i] for i in positions)
        default = list(positions).index(default)
        return Knob(self.definition, choices, default, whole=self, _rows=tuple(positions))

    def kept_when_quick(self, default: int) -> list[int]:
        """The positions of a quick space's choices, in rising order.

        Those that the template named, and the default; where it named none, the default and the
        nearest choices to it, :data:`QUICK` in all.

        Args:
            default: the position of the space's default choice.
        """
        if self.quick is not None:
            return sorted({*self.quick, default})
        nearest = np.argsort(self.distances(default), kind="stable")
        others = [int(i) for i in nearest[:QUICK] if i != default]
        return sorted([default, *others[: QUICK - 1]])

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

    __getitem__ = entity

    @property
    def entities(self) -> list[Any]:
        """The entity of each choice, by AutoTVM's name."""
        return [self.entity(position) for position in range(len(self))]

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
        if self.whole is not None:
            names, table = self.whole.feature_table
            return names, table[list(self._rows)]
        names, table = self.definition.features(self.choices)
        return names, np.ascontiguousarray(table, dtype=np.float32)

    @cached_property
    def coordinates(self) -> np.ndarray:
        """Float32 of shape ``(len(self), n)``: choices are alike where their L1 distance is small.

        A step of 1 is a factor of two between two loops of a split, a swap of two neighbouring
        axes, another word, or the next number of a list.
        """
        if self.whole is not None:
            return self.whole.coordinates[list(self._rows)]
        return self.definition.coordinates(self.choices)

    @cached_property
    def steps(self) -> Steps:
        """Random steps from choices to others, near ones likelier."""
        return Steps(self.coordinates)

    def distances(self, position: int) -> np.ndarray:
        """How far each choice is from that at ``position``: float32 of shape ``(len(self),)``."""
        points = self.coordinates
        return np.abs(points - points[position]).sum(axis=1)

    def similar(self, wanted: Any) -> int:
        """The position of the choice most like one of another space's; the default where none is.

        Args:
            wanted: a choice of a knob of the same name.
        """
        found = self._positions.get(tagged(wanted))
        if found is None:
            found = self.definition.similar(self.choices, wanted)
        return self.default if found is None else found

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
        return int(self.steps.step(np.array([position]), rng)[0])


def _closest(definition: Definition, choices: tuple[Choice, ...], wanted: Any, word: str) -> int:
    found = definition.closest(choices, wanted)
    if found is None:
        raise SpaceError(
            definition.request, f"{word}={wanted!r} is not a legal choice", legal(choices)
        )
    return found


def _quick(
    definition: Definition, choices: tuple[Choice, ...], quick: Sequence[Any] | None
) -> tuple[int, ...] | None:
    if quick is None:
        return None
    if isinstance(quick, str) or not isinstance(quick, Sequence) or not quick:
        raise SpaceError(
            definition.request,
            f"quick={quick!r} is not a list of choices",
            "e.g. quick=[the default, another]",
        )
    return tuple(sorted({_closest(definition, choices, wanted, "quick") for wanted in quick}))


def legal(choices: Sequence[Choice]) -> str:
    """A line that lists the legal choices, shortened in the middle if they are many."""
    texts = [repr(choice) for choice in choices]
    if len(texts) > _SHOWN:
        texts = [*texts[: _SHOWN - 2], f"... {len(texts) - _SHOWN + 1} more ...", texts[-1]]
    return "legal: " + ", ".join(texts)
