"""One task of a search: its trials in the log, its new ones, and the next."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from whet.autotune.results.recorded import TaskTrials, read_recorded, search_options
from whet.autotune.results.trial import Trial
from whet.autotune.search.early_stop import TIMEOUT, Ending, Limits
from whet.autotune.search.loop import nothing_works
from whet.autotune.search.study import Search, slots
from whet.measure.values import OK, MeasureInput, MeasureResult

if TYPE_CHECKING:
    from whet.autotune.samplers.contract.base import Features, SpaceSampler
    from whet.autotune.tasks.task import Task
    from whet.db import TuningLog
    from whet.measure.device.names import Device
    from whet.search_spaces import Config

HOPELESS, ALL_PRUNED = 50, 500
"""Failures, and pruned candidates, with no success at all before a search gives up: what is pruned
costs little, and says that the space is larger than the target, not that anything is broken."""

_OF_WORKERS = {"build": ("lower_s", "build_s"), "measure": ("run_s",)}


class Goal:
    """A task that is searched, alone or beside others.

    Args:
        task: what is tuned.
        weight: how much its cost counts beside the others'.
        log: an open log.
        device: the machine that measures; None: this one.

    Attributes:
        found: every trial that is known, by its config's key.
        outside: recorded successes that are not in this (quick) space; they may be the best.
        bests: the best cost after each observed trial, infinity before the first success.
        finals: its interleaved measurement; empty before.
        features: loop features of its points; None where there are none.
        peak: FLOP/s of one core at its dtype; 0 when not known.
        workers: seconds of the workers on its new trials: ``build`` and ``measure``.
        run_id: its run in the log, once it has new trials.
        stopped: why it ended before its trials; "" where it did not.
        error: why it cannot go on at all; None where it can.
    """

    def __init__(self, task: Task, weight: float, log: TuningLog, device: Device | None) -> None:
        self.task = task
        self.weight = weight
        self.space = task.config_space
        self.default = self.space.default
        self.size: int | None = self.space.size if self.space.size_is_exact else None
        self._template = task.template.ref()
        self._target = task.target.to_json()
        self.recorded: TaskTrials = read_recorded(
            log, task.workload, task.target, self.space.fingerprint, device
        )
        searched = [Trial.of(record) for record in self.recorded.searched]
        inside = [t for t in searched if t.config in self.space]
        known = {t.config.key for t in inside}
        beside = [t for t in searched if t.config.key not in known]
        # A record that was altered may be in neither space: it is no candidate.
        full = replace(task, level="full").config_space if beside else self.space
        self.outside = [t for t in beside if t.config in full]
        self.placed = slots(inside, self.default)
        self.found = {t.config.key: t for t in self.placed.values()}
        self.bests: list[float] = []
        self.finals: list[Trial] = []
        self.peak = 0.0
        self.features: Features | None = None
        self.workers: dict[str, float] = {}
        self.run_id: int | None = None
        self.stopped = ""
        self.error: Exception | None = None
        self.measured = 0
        self._unused = dict(self.placed)
        self._failures: list[MeasureResult] | None = []
        self._search: Search | None = None

    # --- what is known ----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The task's name for people."""
        return str(self.task.workload)

    @property
    def trials(self) -> list[Trial]:
        """All trials in order."""
        return sorted(self.found.values(), key=lambda t: t.number)

    @property
    def best_cost(self) -> float | None:
        """Seconds per call of the fastest trial; None before the first success."""
        return min((t.cost for t in self.found.values() if t.result.ok), default=None)

    @property
    def known(self) -> int:
        """Trials that were asked for, and recorded ones whose turn has not come."""
        return self.proposed + len(self._unused)

    @property
    def is_full(self) -> bool:
        """True if every config of the space was tried."""
        return self.size is not None and len(self.placed) >= self.size

    def was_stopped(self, limits: Limits, sampler: str, seed: int) -> str:
        """Why a search with these limits that the log holds ended early; "" where it did not."""
        target, best = limits.target_cost, self.best_cost
        if target is not None and best is not None and best <= target:
            return Ending(limits, lambda: None).observe(MeasureResult(OK, (best,)))
        last = self.recorded.searches[-1] if self.recorded.searches else None
        if last is None or not limits.early_stop or (last.sampler, last.seed) != (sampler, seed):
            return ""
        then = search_options(last)
        prefix, _, why = last.state.partition(": ")
        same = then.get("early_stop") == limits.early_stop and then.get("level") == self.task.level
        return why if same and prefix == "stopped" and not why.startswith(TIMEOUT) else ""

    # --- the search -------------------------------------------------------------------------------

    def begin(self, sampler: SpaceSampler, limits: Limits) -> None:
        """Start the search from nothing; recorded trials follow at their places."""
        self._search = Search(self.space, sampler)
        self._ending = Ending(limits, self.expected_gain)
        if any(t.result.ok for t in self.found.values()):
            self._failures = None

    @property
    def proposed(self) -> int:
        """Trials that this search was asked for so far."""
        return self._search.proposed if self._search is not None else 0

    @property
    def is_open(self) -> bool:
        """True if it can take another trial."""
        ended = bool(self.stopped) or self.error is not None
        return not ended and (self.size is None or self.proposed < self.size)

    def expected_gain(self) -> float | None:
        """The relative improvement that the sampler expects next; None: it has no opinion."""
        assert self._search is not None
        return self._search.expected_gain()

    def next(self) -> tuple[int, Config, MeasureResult | None]:
        """The next trial's number and config, and its result where it is recorded already.

        Raises:
            SpaceError: the space is exhausted, a constraint raises, or the sampler left the space.
        """
        search = self._search
        assert search is not None
        number = search.proposed
        if number in self._unused:
            trial = self._unused.pop(number)
            search.place(trial.config)
            return number, trial.config, trial.result
        if number == 0:
            config = self.default
            search.place(config)
        else:
            config = search.ask()
        recorded = self.found.get(config.key)
        if recorded is None or self._unused.pop(recorded.number, None) is None:
            return number, config, None
        # Recorded under another number: it moves here.
        self.found[config.key] = replace(recorded, number=number)
        return number, config, recorded.result

    def tell(self, result: MeasureResult) -> None:
        """Tell the result of the next trial in order; may end the search."""
        assert self._search is not None
        self._search.tell(result)
        best = self.bests[-1] if self.bests else float("inf")
        self.bests.append(min(best, result.cost))
        if not self.stopped and (why := self._ending.observe(result)):
            self.stopped = why

    def count(self, result: MeasureResult) -> None:
        """Count a new result; fails the search when nothing at all works."""
        self.measured += 1
        for name, parts in _OF_WORKERS.items():
            seconds = sum(result.timings.get(part) or 0.0 for part in parts)
            self.workers[name] = self.workers.get(name, 0.0) + seconds
        if self._failures is None:
            return
        if result.ok:
            self._failures = None
            return
        self._failures.append(result)
        pruned = sum(one.pruned for one in self._failures)
        if len(self._failures) - pruned >= HOPELESS or pruned >= ALL_PRUNED:
            self.fail(nothing_works(self._failures))

    def fail(self, error: Exception) -> None:
        """End the search for good; the first reason stays."""
        self.error = self.error or error

    def input(self, config: Config) -> MeasureInput:
        """A candidate's measurement."""
        return MeasureInput(self.task.workload, self._target, config, self._template)
