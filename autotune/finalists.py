"""The last measurement: the best candidates and the default, interleaved: noise crowns nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from whet.autotune.result import Trial
from whet.db.decision import cheapest

if TYPE_CHECKING:
    from whet.measure.values import MeasureInput, MeasureResult
    from whet.search_spaces import Config

FINALISTS = 4
"""How many of the fastest candidates are measured again, beside the default."""
ROUNDS = range(5, 16)
"""Rounds of the last measurement: as many as fit into its time, within these bounds."""
SECONDS = 10.0
"""Time for the last measurement; a slow default config may make it longer."""
SHORTEST = 0.02
"""Seconds that one repeat takes at least, however fast the kernel is."""


class Remeasurer(Protocol):
    """The part of a pool that measures finalists."""

    def remeasure(self, inputs: list[MeasureInput], repeats: int) -> list[MeasureResult]:
        """Measure the inputs again, interleaved; one result each, in order."""


def finalists(trials: Iterable[Trial]) -> list[Trial]:
    """The trials to measure again: the default first, then the fastest of different programs."""
    ok = sorted((t for t in trials if t.result.ok), key=lambda t: (t.cost, t.number))
    chosen = [t for t in ok if t.is_default]
    programs = {t.result.program_hash for t in chosen if t.result.program_hash}
    room = FINALISTS + len(chosen)
    for trial in ok:
        if len(chosen) == room:
            break
        if trial.is_default or trial.result.program_hash in programs:
            continue
        if trial.result.program_hash:
            programs.add(trial.result.program_hash)
        chosen.append(trial)
    return chosen


def measure_again(
    chosen: list[Trial], pool: Remeasurer, make_input: Callable[[Config], MeasureInput]
) -> list[Trial]:
    """The chosen trials with the results of an interleaved measurement."""
    results = pool.remeasure([make_input(t.config) for t in chosen], rounds(chosen))
    return [replace(trial, result=result) for trial, result in zip(chosen, results, strict=True)]


def rounds(chosen: list[Trial]) -> int:
    """How many times each of the chosen trials is measured again."""
    seconds = sum(max(trial.cost, SHORTEST) for trial in chosen)
    return min(max(int(SECONDS / seconds), ROUNDS[0]), ROUNDS[-1])


def winner(measured: Iterable[Trial]) -> tuple[Trial | None, Trial | None]:
    """The best trial and the default's, among trials that were measured together.

    The best has the smallest median; the default wins a tie, hence a tuned kernel is never slower
    than the untuned one. None where nothing worked; the default's result may be a failure.
    """
    trials = list(measured)
    return cheapest(trials), next((t for t in trials if t.is_default), None)
