"""One task of a search: its trials in the log, its new ones, and the next."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from whet.autotune.results.recorded import TaskTrials, read_recorded, search_options
from whet.autotune.results.trial import Trial
from whet.autotune.search.early_stop import TIMEOUT, Ending, Limits
from whet.autotune.search.loop import nothing_works
from whet.autotune.search.study import Search, slots
from whet.db.values.claims import TaskKey
from whet.measure.device.identity import device_of
from whet.measure.values import OK, MeasureInput, MeasureResult
from whet.search_spaces.values import Config

if TYPE_CHECKING:
    from whet.autotune.samplers.contract.base import Features, SpaceSampler
    from whet.autotune.tasks.task import Task
    from whet.db import TuningLog
    from whet.db.values.claims import LoggedPoint
    from whet.db.values.records import Told
    from whet.measure.device.names import Device

HOPELESS, ALL_PRUNED = 50, 500
"""Failures, and pruned candidates, with no success at all before a search gives up: what is pruned
costs little, and says that the space is larger than the target, not that anything is broken."""

LOST = "infra_error"
"""The status of a trial that was not measured: nothing is known of its config."""
READS = 3
"""Times that a task is read while others write to it."""

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
        key: its name in the log.
        mark: the id of the last trial of the log that is known here.
        uncounted: configs that the log counts and that are not among ``placed``: of the full space,
            or broken.
        others: trials that other searches recorded while this one ran.
        run_id: its run in the log, once it proposes.
        own_runs: the runs that this search began.
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
        self._device = device
        self._read(log)
        self.bests: list[float] = []
        self.finals: list[Trial] = []
        self.peak = 0.0
        self.features: Features | None = None
        self.workers: dict[str, float] = {}
        self.run_id: int | None = None
        self.own_runs: set[int] = set()
        self.others = 0
        self.stopped = ""
        self.error: Exception | None = None
        self.measured = 0
        self._unused = dict(self.placed)
        self._failures: list[MeasureResult] | None = []
        self._search: Search | None = None
        self._waiting: set[str] = set()
        self._heard: dict[str, tuple[int, MeasureResult]] = {}
        self._came: list[tuple[int, Config, MeasureResult]] = []
        self._told: list[int | str] = []
        self._said = 0

    def _read(self, log: TuningLog) -> None:
        """Read what the log holds of the task."""
        from whet.db.store import points

        whose = device_of(self._target, self._device)
        fingerprint = self.space.fingerprint
        self.key = TaskKey(self.task.workload, self._target, whose, fingerprint)
        for _ in range(READS):
            before = log.counts(self.key).trials
            # Before the records: what comes meanwhile is heard again, never missed.
            self.mark: int = log.read("read trials", lambda c: points.mark_of(c, self.key))
            self.recorded: TaskTrials = read_recorded(
                log, self.task.workload, self.task.target, fingerprint, self._device
            )
            if still := log.counts(self.key).trials == before:
                break
        searched = [Trial.of(record) for record in self.recorded.searched]
        inside = [t for t in searched if t.config in self.space]
        known = {t.config.key for t in inside}
        beside = [t for t in searched if t.config.key not in known]
        # A record that was altered may be in neither space: it is no candidate.
        full = replace(self.task, level="full").config_space if beside else self.space
        self.outside = [t for t in beside if t.config in full]
        self.placed = slots(inside, self.default)
        self.found = {t.config.key: t for t in self.placed.values()}
        self.uncounted = before - len(self.placed) if still else max(0, before - len(self.placed))

    def runs_in(self, log: TuningLog) -> set[int]:
        """The ids of its runs in the log."""
        from whet.db.store import points

        return log.read("read runs", lambda c: points.runs_of(c, self.key))

    def catch_up(self, log: TuningLog) -> bool:
        """Read the task again where others have recorded anything of it; True if they have."""
        known = {run.id for run in self.recorded.task.runs} | self.own_runs
        if not self.others and self.runs_in(log) <= known:
            return False
        seen = self.found
        self._read(log)
        # What was recorded and cannot be read any more was measured all the same.
        self.found = seen | self.found
        return True

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
    def is_searched(self) -> bool:
        """True once the search has begun."""
        return self._search is not None

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
            self._waiting.add(config.key)
            return number, config, None
        # Recorded under another number: it moves here.
        self.found[config.key] = replace(recorded, number=number)
        return number, config, recorded.result

    def tell(self, result: MeasureResult, name: int | str | None) -> None:
        """Tell the result of the next trial in order; may end the search.

        Args:
            result: of the trial.
            name: of the trial, as the log says what was told; None: it was known from the start.
        """
        assert self._search is not None
        self._search.tell(result)
        if name is not None:
            self._told.append(name)
        best = self.bests[-1] if self.bests else float("inf")
        self.bests.append(min(best, result.cost))
        if not self.stopped and (why := self._ending.observe(result)):
            self.stopped = why

    @property
    def told(self) -> int:
        """The number of results that were told so far."""
        return len(self._told)

    def told_until(self, place: int) -> Told:
        """The results that were told since the last call, up to a place among all told ones."""
        told = tuple(self._told[self._said : place])
        self._said = max(self._said, place)
        return told

    # --- the others -------------------------------------------------------------------------------

    def hear(self, points: Sequence[LoggedPoint], mark: int) -> None:
        """Take note of trials that others recorded since the last time.

        Args:
            points: new trials in the log; those of this search are passed over.
            mark: the id of the last of them.
        """
        self.mark = mark
        if not points:
            return
        from whet.db.store.reading import BROKEN

        for point in points:
            if point.run_id == self.run_id or point.status == LOST:
                continue
            try:
                config = Config.from_json(json.loads(point.config))
            except BROKEN:  # the log's readers pass over it, too
                continue
            if config not in self.space:
                continue
            result = MeasureResult(point.status, () if point.cost is None else (point.cost,))
            if config.key in self._waiting:
                self._heard.setdefault(config.key, (point.id, result))
            elif config.key not in self.found:
                # Its number comes with its turn.
                self.found[config.key] = Trial(-1, config, result, self.task.flop)
                self._came.append((point.id, config, result))

    def from_elsewhere(self, config: Config) -> tuple[int | None, MeasureResult] | None:
        """The result of a config that is waited for, and its trial's id in the log; or None.

        Where a sampler repeated itself, it is the result of an earlier trial here, without an id.
        """
        if (heard := self._heard.pop(config.key, None)) is not None:
            return heard
        again = self.found.get(config.key)
        return None if again is None or again.result.status == LOST else (None, again.result)

    def note(self, trial: Trial, own: bool) -> None:
        """Note the result of a config that was waited for.

        Args:
            trial: with its result.
            own: it was measured here.
        """
        self._waiting.discard(trial.config.key)
        self.found[trial.config.key] = trial
        if not own:
            self._count_others(trial.result)

    def arrivals(self) -> Iterator[tuple[int, int, Trial]]:
        """The others' trials that came since the last time, each at the next place of the search.

        Returns:
            Their ids in the log, their numbers here, the trials.
        """
        search = self._search
        assert search is not None
        came, self._came = self._came, []
        for id, config, result in came:
            number = search.proposed
            if (moved := self._unused.pop(number, None)) is not None:
                place = 1 + max(number, *self._unused)
                self._unused[place] = self.found[moved.config.key] = replace(moved, number=place)
            search.place(config)
            trial = self.found[config.key] = Trial(number, config, result, self.task.flop)
            self._count_others(result)
            yield id, number, trial

    def _count_others(self, result: MeasureResult) -> None:
        self.others += 1
        if result.ok:
            self._failures = None

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
