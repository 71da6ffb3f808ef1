"""A search's trials: asked for, told in any order; kept as arrays, or as a study of Optuna's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import numpy as np

from whet.compiler.errors import SpaceError

if TYPE_CHECKING:
    from whet.autotune.samplers.contract.base import SpaceSampler
    from whet.autotune.samplers.contract.history import History, Past, Point
    from whet.autotune.samplers.foreign import ForeignSampler
    from whet.measure.values import MeasureResult
    from whet.search_spaces import Config, ConfigSpace


class Search:
    """The trials of a search over a space: ask for configs, tell their results.

    Args:
        space: the space that is searched.
        sampler: a sampler over that space.

    Attributes:
        proposed: trials that have a number.
        observed: trials of these whose result was told.
    """

    def __init__(self, space: ConfigSpace, sampler: SpaceSampler) -> None:
        from whet.autotune.samplers.foreign import ForeignSampler

        self.space = space
        self.sampler = sampler
        self.proposed = 0
        self.observed = 0
        self._over: set[int] = set()  # numbers from `_first` on whose results were told
        self._first = 0
        self._book: _Book = (
            _StudyBook(sampler) if isinstance(sampler, ForeignSampler) else _OwnBook(sampler)
        )

    @property
    def history(self) -> History:
        """All that the sampler may know now."""
        return self._book.history()

    def ask(self) -> Config:
        """The config that the sampler proposes for trial number ``proposed``."""
        with self._named(f"asked for trial {self.proposed}"):
            point = self._book.ask()
        if not self.space.is_valid(np.array(point, dtype=np.int64)):
            raise SpaceError(
                f"trial {self.proposed} of {type(self.sampler).__name__}",
                f"it proposes {dict(zip(self.space.knobs, point))}, which the space's "
                "constraints exclude",
                "a sampler proposes valid points only: space.repair(point) gives the nearest",
            )
        self._book.number(point)
        self.proposed += 1
        return self.space.decode(point)

    def place(self, config: Config, own: bool = True) -> None:
        """Make ``config`` trial number ``proposed``; the sampler sees when, and is not asked.

        Args:
            config: of this space.
            own: False where another search proposed it while this one ran.
        """
        self._book.place(self.space.encode(config), own)
        self.proposed += 1

    def learn(self, config: Config, result: MeasureResult | None = None) -> bool:
        """Note a config of another search, which takes no number here.

        Args:
            config: of this space.
            result: what came of it; None while it is measured.

        Returns:
            False where nothing of it is news.
        """
        cost = None if result is None else _cost(result)
        return self._book.learn(self.space.encode(config), cost)

    def load(self, past: Past) -> None:
        """Begin with trials as if each had been placed and told in turn, at once.

        Raises:
            ValueError: the search has begun.
        """
        self._book.load(past)
        over = np.isin(past.row_of, past.told)
        self.proposed, self.observed = len(over), int(np.count_nonzero(over))
        self._first = len(over) if over.all() else int(np.argmin(over))
        self._over = set((self._first + np.flatnonzero(over[self._first :])).tolist())

    def knows(self, point: Point) -> bool:
        """True if a point was proposed, or placed here."""
        return self._book.history().is_taken(point)

    def expected_gain(self) -> float | None:
        """The relative improvement that the sampler expects next; None: it has no opinion."""
        return self.sampler.expected_gain(self._book.history())

    def tell(self, result: MeasureResult) -> None:
        """Tell the result of the first trial that has none."""
        self.observe(self._first, result)

    def observe(self, number: int, result: MeasureResult) -> None:
        """Tell the result of a trial; those before it may have none yet.

        Args:
            number: the trial's.
            result: what came of it.
        """
        with self._named(f"told of trial {number}"):
            self._book.observe(number, _cost(result))
        self.observed += 1
        self._over.add(number)
        while self._first in self._over:
            self._over.discard(self._first)
            self._first += 1

    @contextmanager
    def _named(self, doing: str) -> Iterator[None]:
        """Note on what is raised, by whom: samplers of a user's own may raise anything."""
        try:
            yield
        except Exception as error:
            error.add_note(f"raised by the sampler {self.sampler.name}, {doing}")
            raise


def _cost(result: MeasureResult) -> float:
    return result.cost if result.ok else math.inf


class _Book(Protocol):
    """Where the trials of a search stand, for its sampler."""

    def history(self) -> History:
        """All that is known."""

    def ask(self) -> Point:
        """The sampler's next point; it has no number before :meth:`number`."""

    def number(self, point: Point) -> None:
        """Give the point that was asked for its number."""

    def place(self, point: Point, own: bool) -> None:
        """Give a point the next number; not ``own``: another search proposed it."""

    def observe(self, number: int, cost: float) -> None:
        """Note a trial's cost."""

    def learn(self, point: Point, cost: float | None) -> bool:
        """Note a point of another search; False where nothing of it is news."""

    def load(self, past: Past) -> None:
        """Begin with earlier trials."""


class _OwnBook:
    """The trials as arrays, which our samplers propose from.

    Args:
        sampler: one of ours.
    """

    def __init__(self, sampler: SpaceSampler) -> None:
        from whet.autotune.samplers.contract.history import Trials

        self._sampler = sampler
        self._trials = Trials(len(sampler.space.knobs))
        self.observe = self._trials.observe
        self.learn = self._trials.place
        self.load = self._trials.load

    def history(self) -> History:
        return self._trials.history()

    def ask(self) -> Point:
        self._trials.begin()
        return self._sampler.propose(self._trials.history())

    def number(self, point: Point) -> None:
        self._trials.ask(point)

    def place(self, point: Point, own: bool) -> None:
        self._trials.begin()
        self._trials.ask(point, own)


class _StudyBook:
    """The trials as a study in memory, which a sampler of Optuna's proposes from.

    Args:
        sampler: it, behind our contract.
    """

    def __init__(self, sampler: ForeignSampler) -> None:
        import optuna

        # Optuna would print a line a trial; the progress line says the same, once.
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._sampler = sampler
        self._study = optuna.create_study(direction="minimize", sampler=sampler)
        self._of_number: list[int] = []  # the study's number of each of ours
        self._others: dict[Point, int] = {}  # the study's numbers of others' points in flight
        self._asked = -1

    def history(self) -> History:
        return self._sampler.history(self._study)

    def ask(self) -> Point:
        trial = self._study.ask(self._sampler.distributions)
        self._asked = trial.number
        return tuple(int(trial.params[name]) for name in self._sampler.distributions)

    def number(self, point: Point) -> None:
        self._of_number.append(self._asked)

    def place(self, point: Point, own: bool) -> None:
        number = self._add(point)
        self._sampler.history(self._study, self._study.get_trials(deepcopy=False)[number])
        self._of_number.append(number)

    def observe(self, number: int, cost: float) -> None:
        self._tell(self._of_number[number], cost)

    def learn(self, point: Point, cost: float | None) -> bool:
        if point not in self._others:
            if self.history().is_taken(point):
                return False
            self._others[point] = self._add(point)
        elif cost is None:
            return False
        if cost is not None:
            self._tell(self._others.pop(point), cost)
        return True

    def load(self, past: Past) -> None:
        if self._study.get_trials(deepcopy=False):
            raise ValueError("the study has trials already")
        ours = set(past.row_of.tolist())
        for row, point in enumerate(past.points.tolist()):
            self._add(tuple(point))
            if row not in ours:
                self._others[tuple(point)] = row
        self._of_number = past.row_of.tolist()
        for row, cost in zip(past.told.tolist(), past.costs.tolist()):
            self._tell(row, cost)
            self._others.pop(tuple(past.points[row].tolist()), None)

    def _add(self, point: Point) -> int:
        """Add a point in flight; returns the study's number of it."""
        from optuna.trial import TrialState, create_trial

        params = dict(zip(self._sampler.distributions, map(int, point)))
        dists = dict(self._sampler.distributions)
        self._study.add_trial(
            create_trial(state=TrialState.RUNNING, params=params, distributions=dists)
        )
        return len(self._study.get_trials(deepcopy=False)) - 1

    def _tell(self, number: int, cost: float) -> None:
        from optuna.trial import TrialState

        if math.isfinite(cost):
            self._study.tell(number, cost)
        else:
            self._study.tell(number, state=TrialState.FAIL)
