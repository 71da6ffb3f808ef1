"""The best trial of a task: the one rule, for everybody who builds from a log.

A search measures each candidate alone, and the smallest of many noisy numbers is a lucky one. So a
search ends by measuring its fastest candidates and the default config once more, in turns, as a run
of its own (``sampler="finalists"``). The winner of the newest such run that was finished is the
best, and that is the default config (number 0) unless another is faster beyond the noise; only a
cheaper success that came after it takes its place: of a search that was begun later, or of one
that was still running, and measured it later. Where none was finished, the cheapest success is the
best. A record that was withdrawn is none of all these, and a last measurement of which nothing else
worked decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from whet.measure.values import MeasureResult

FINALISTS_RUN = "finalists"
"""The ``sampler`` of a run that holds an interleaved last measurement, not a search."""
CONFIDENCE = 0.95
"""The confidence of an interval, at least."""


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
class Verdict(Generic[M]):
    """The verdict of an interleaved measurement.

    Attributes:
        best: the winner: the default where nothing is faster beyond the noise; None: nothing ran.
        default: the default config's trial; None where it was not measured.
        interval: where the fastest other config's speed-up over the default lies with at least
            95 % confidence; None where too few rounds were measured to say.
        better: True if ``best`` is another config than the default.
    """

    best: M | None
    default: M | None
    interval: tuple[float, float] | None
    better: bool


def judge(finals: Iterable[M]) -> Verdict[M]:
    """The verdict of trials that were measured in turns; the i-th costs of all are one round.

    A trial that clearly fell behind has fewer rounds than the others. What was measured to the end
    with the smallest median challenges the default, and wins if the whole interval of its speed-up
    is above 1 (its median, where there are too few rounds for an interval).
    """
    trials = list(finals)
    default = next((t for t in trials if t.number == 0), None)
    others = [t for t in trials if t.result.ok and t is not default]
    longest = max((len(t.result.costs) for t in others), default=0)
    rival = cheapest(t for t in others if len(t.result.costs) == longest)
    if default is None or not default.result.ok:
        return Verdict(rival, default, None, rival is not None)
    if rival is None:
        return Verdict(default, default, None, False)
    pairs = zip(default.result.costs, rival.result.costs)
    logs = median_interval([math.log(a / b) for a, b in pairs])
    interval = logs and (math.exp(logs[0]), math.exp(logs[1]))
    better = interval[0] > 1 if interval else rival.result.cost < default.result.cost
    return Verdict(rival if better else default, default, interval or None, better)


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """An interval that holds the median of a distribution with at least 95 % confidence.

    The k-th smallest to the k-th largest value: how many values fall below the median is binomial
    whatever they are drawn from, so that one round which something disturbed moves the interval by
    a place and not, as with Student's, by its size.

    Returns:
        None for fewer than six values: even the smallest to the largest would not be sure enough.
    """
    n, k, tail = len(values), 0, 0.0
    while True:
        tail += math.comb(n, k) * 0.5**n
        if 2 * tail > 1 - CONFIDENCE:
            break
        k += 1
    ordered = sorted(values)
    return (ordered[k - 1], ordered[n - k]) if k else None


@dataclass(frozen=True)
class Deciding:
    """The runs of one task that decide what is best.

    Attributes:
        finals: the newest finished run of finalists; None where there is none.
        searches: the searches that were begun after it; all searches where there is none.
        earlier: the searches that were begun before it.
    """

    finals: int | None
    searches: tuple[int, ...]
    earlier: tuple[Any, ...] = ()

    def running_at(self, when: float) -> tuple[int, ...]:
        """The earlier searches that may have measured something after a moment.

        Args:
            when: seconds since the epoch.
        """
        return tuple(
            run.id for run in self.earlier if run.finished_at is None or run.finished_at > when
        )


def deciding(runs: Iterable[Any]) -> Deciding:
    """Pick the runs that decide.

    Args:
        runs: those of one workload, target, device and space, each with ``id``, ``sampler``,
            ``state``, ``started_at`` and ``finished_at``.
    """
    # By time, not by number: an imported run has a new number, however old it is.
    ordered = sorted(runs, key=lambda run: (run.started_at, run.id))
    last = -1
    for place, run in enumerate(ordered):
        if run.sampler == FINALISTS_RUN and run.state == "finished":
            last = place
    searches = [run for run in ordered if run.sampler != FINALISTS_RUN]
    after = {run.id for run in ordered[last + 1 :]}
    return Deciding(
        ordered[last].id if last >= 0 else None,
        tuple(run.id for run in searches if run.id in after),
        tuple(run for run in searches if run.id not in after),
    )
