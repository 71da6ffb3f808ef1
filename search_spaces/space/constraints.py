"""Constraints: filters over several knobs, traced for the knobs they read, tabulated on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import SpaceError, nearest
from whet.compiler.late_numpy import np
from whet.search_spaces.knobs.constraint_source import described, meaning_of, words
from whet.search_spaces.knobs.plain import said

if TYPE_CHECKING:
    from whet.search_spaces.knobs.knob import Knob

Constraint = Callable[["PointView"], Any]
"""A filter: from a view, where ``view[name]`` is an entity, to a truth value."""

TABLE = 200_000
"""Evaluations that tabulating one constraint may take; beyond that, points are tried one by one."""
PROBES = 48
_FEW = 2_000
_LONG = 16_384


class KnobList(list["Knob"]):
    """A space's knobs in order, with what evaluating constraints on them needs at hand."""

    def __init__(self, knobs: Sequence[Knob]) -> None:
        super().__init__(knobs)
        self.numbers = {knob.name: number for number, knob in enumerate(knobs)}
        self._entities: dict[int, list[Any]] = {}

    def entity(self, number: int, position: int) -> Any:
        """The entity of one choice."""
        if len(self[number]) > _LONG:
            return self[number].entity(position)
        return self.entities(number)[position]

    def entities(self, number: int) -> list[Any]:
        """The entities of a knob's choices; kept."""
        found = self._entities.get(number)
        if found is None:
            knob = self[number]
            found = self._entities[number] = [knob.entity(p) for p in range(len(knob))]
        return found


class PointView(dict):
    """A point as a constraint sees it: ``view[name]`` is the entity of the knob's choice.

    Args:
        knobs: all knobs of the space.
        point: a position for each; None where it is not chosen yet.
    """

    def __init__(self, knobs: KnobList, point: Sequence[int | None]) -> None:
        super().__init__()
        self._knobs = knobs
        self.point = point
        self.read: set[int] = set()

    def __missing__(self, name: Any) -> Any:
        # A dict holds what was read or set beforehand, so that only a first reading comes here.
        number = self._knobs.numbers.get(name) if isinstance(name, str) else None
        if number is None:
            known = self._knobs.numbers
            raise NoSuchKnob(
                f"view[{name!r}]",
                "the space has no such knob",
                f"{nearest(name, known)}knobs: {', '.join(known) or '(none)'}",
            )
        self.read.add(number)
        position = self.point[number]
        if position is None:
            raise Undecided
        entity = self[name] = self._knobs.entity(number, position)
        return entity

    def __contains__(self, name: object) -> bool:
        return name in self._knobs.numbers

    def get(self, name: Any, default: Any = None) -> Any:
        """``view[name]``; ``default`` where the space has no such knob."""
        if name not in self:
            return default
        return self[name]


class NoSuchKnob(SpaceError):
    """A constraint asks for a knob that the space does not have."""


class Undecided(BaseException):
    """A constraint reads a knob that is not chosen yet (no error: filters may catch those)."""


class KnobConstraint:
    """One constraint of a space: what it reads, what it admits.

    Attributes:
        function: the filter.
        reads: numbers of the knobs that it was seen to read, in rising order. A later evaluation
            may add to them, but for a constraint with a table, whose every case was looked at.
    """

    def __init__(self, function: Constraint) -> None:
        self.function = function
        self.reads: tuple[int, ...] = ()
        self._table: np.ndarray | None = None
        self._too_large = False
        self._probed = False
        self._evaluated = 0

    def __str__(self) -> str:
        return described(self.function)

    @property
    def text(self) -> str:
        """Its text in a line, without the place in the code; see :func:`words`."""
        return words(self.function)

    def meaning(self, by_source: bool) -> str:
        """Its part of a fingerprint; see :func:`meaning_of`."""
        return meaning_of(self.function, by_source)

    def admits(self, knobs: KnobList, point: Sequence[int | None]) -> bool:
        """True if a point passes; a position that is None raises :class:`Undecided` where read."""
        if self._table is not None:
            positions = tuple(point[i] for i in self.reads)
            if None in positions:
                raise Undecided
            return bool(self._table[positions])
        view = PointView(knobs, point)
        try:
            return self._decide(view)
        finally:
            self._note(view)

    def check(self, knobs: KnobList, points: np.ndarray) -> np.ndarray:
        """The mask of ``points`` (int64, shape (n, knobs)) pass: bool, shape (n,)."""
        # Once as many were tried as a table has entries, the table would have been cheaper.
        self._evaluated += len(points)
        if self._table is None and self._evaluated > _FEW:
            self._probe(knobs)
            if self._evaluated * 2 > self.cases(knobs):
                self.table(knobs)
        if self._table is not None:
            return self._table[tuple(points[:, i] for i in self.reads)]
        return np.array(self._each(knobs, points), dtype=bool)

    def _each(self, knobs: KnobList, points: np.ndarray) -> list[bool]:
        """:meth:`admits` of many points: what is known to be read is put into the view at once."""
        # Of long lists, only what is read is made.
        known = [
            (i, knobs[i].name, knobs.entities(i)) for i in self.reads if len(knobs[i]) <= _LONG
        ]
        view, found = PointView(knobs, ()), []
        for row in points.tolist():
            view.clear()
            view.point = row
            for i, name, entities in known:
                view[name] = entities[row[i]]
            found.append(self._decide(view))
        self._note(view)
        return found

    def _note(self, view: PointView) -> None:
        """Remember what was read for the first time."""
        if not view.read <= set(self.reads):
            self.reads = tuple(sorted({*self.reads, *view.read}))

    def cases(self, knobs: KnobList) -> int:
        """Evaluations that a table takes: the product of the knobs that are read."""
        return prod(len(knobs[i]) for i in self.reads)

    def table(self, knobs: KnobList) -> np.ndarray | None:
        """Truth values by the positions of the knobs in :attr:`reads`; None where it is too large.

        Made when first asked for.
        """
        self._probe(knobs)
        while self._table is None and not self._too_large:
            reads = self.reads
            if self.cases(knobs) > TABLE:
                self._too_large = True
            else:
                found = self._tabulated(knobs)
                if reads == self.reads:
                    self._table = found
        return self._table

    def _probe(self, knobs: KnobList) -> None:
        """Find out what it reads: at the default point and at some others."""
        if self._probed:
            return
        sizes = [len(knob) for knob in knobs]
        points = np.random.default_rng(0).integers(0, sizes, (PROBES, len(knobs)))
        for point in [[knob.default for knob in knobs], *points.tolist()]:
            self.admits(knobs, point)
        self._probed = True

    def _tabulated(self, knobs: KnobList) -> np.ndarray:
        """The table over :attr:`reads`; ends early where more is read."""
        names = [knobs[i].name for i in self.reads]
        shape = [len(knobs[i]) for i in self.reads]
        entities = [knobs.entities(i) for i in self.reads]
        table = np.zeros(prod(shape), dtype=bool)
        point: list[int | None] = [knob.default for knob in knobs]
        view = PointView(knobs, point)
        decide = self._decide
        for case, chosen in enumerate(product(*entities)):
            view.update(zip(names, chosen))
            table[case] = decide(view)
            if view.read:
                self._note(view)
                break
        return table.reshape(shape)

    def _decide(self, view: PointView) -> bool:
        try:
            return bool(self.function(view))
        except NoSuchKnob as error:
            raise SpaceError(f"constraint {self}: {error.args[0]}", *error.args[1:]) from None
        except Exception as error:
            seen = ", ".join(f"{name}={_shown(entity)}" for name, entity in view.items())
            raise SpaceError(
                f"constraint {self}",
                f"it raised {said(error)} for {seen or 'a config of which it read nothing'}",
                "a constraint answers for every config: test for the cases that it cannot judge",
            ) from error


def constraint_of(function: Any) -> KnobConstraint:
    """A filter as a constraint.

    Raises:
        SpaceError: it is not callable.
    """
    if not callable(function):
        raise SpaceError(
            f"multi_filter({function!r})",
            f"a {type(function).__name__} is not a function",
            "e.g. cfg.multi_filter(lambda c: c['x'].size[1] * c['y'].size[1] <= 64)",
        )
    return KnobConstraint(function)


def _shown(entity: Any) -> str:
    parts = (getattr(entity, name, None) for name in ("size", "perm", "anns", "val"))
    value = next((part for part in parts if part is not None), None)
    return f"({','.join(map(str, value))})" if isinstance(value, tuple) else repr(value)
