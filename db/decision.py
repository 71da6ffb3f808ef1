"""Which trial of a task is its best: the one rule, for everybody who builds from a log.

A search measures each candidate alone, and the smallest of many noisy numbers is a lucky one. So a
search ends by measuring its fastest candidates and the default config once more, in turns, as a run
of its own (``sampler="finalists"``). The winner of the newest such run that was finished is the
best; only a cheaper success of a search that was begun after it takes its place. Where none was
finished, the cheapest success is the best. The default config (number 0) wins a tie.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from whet.measure.values import MeasureResult

FINALISTS_RUN = "finalists"
"""The ``sampler`` of a run that holds an interleaved last measurement, not a search."""


class Measured(Protocol):
    """A trial, whether it comes from a log or from a search."""

    @property
    def number(self) -> int: ...
    @property
    def result(self) -> MeasureResult: ...


M = TypeVar("M", bound=Measured)


def cheapest(trials: Iterable[M]) -> M | None:
    """The success with the smallest cost, of equals the one with the lowest number; or None."""
    ok = (trial for trial in trials if trial.result.ok)
    return min(ok, key=lambda trial: (trial.result.cost, trial.number), default=None)


@dataclass(frozen=True)
class Deciding:
    """The runs of one task that decide what is best.

    Attributes:
        finals: the newest finished run of finalists; None where there is none.
        searches: the searches that were begun after it; all searches where there is none.
    """

    finals: int | None
    searches: tuple[int, ...]


def deciding(runs: Iterable[Any]) -> Deciding:
    """Pick the runs that decide.

    Args:
        runs: those of one workload, target, device and space, each with ``id``, ``sampler``,
            ``state`` and ``started_at``.
    """
    # By time, not by number: an imported run has a new number, however old it is.
    ordered = sorted(runs, key=lambda run: (run.started_at, run.id))
    last = None
    for place, run in enumerate(ordered):
        if run.sampler == FINALISTS_RUN and run.state == "finished":
            last = place
    after = ordered if last is None else ordered[last + 1 :]
    searches = tuple(run.id for run in after if run.sampler != FINALISTS_RUN)
    return Deciding(None if last is None else ordered[last].id, searches)
