"""One task of a search: its trials in the log, its new ones, and the next."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from whet.autotune.results.logged_trials import LoggedTrials
from whet.autotune.results.recall import recall
from whet.autotune.results.recorded import TaskState, read_state
from whet.autotune.results.recorded_columns import LOST
from whet.autotune.results.trial import Trial
from whet.autotune.search.early_stop import Ending, Failing, Limits
from whet.autotune.search.finalists import Leaders
from whet.autotune.search.recorded_trials import (
    Observations,
    OtherSearches,
    RecordedTrials,
    Unobserved,
    read_trials,
    why_stopped,
)
from whet.autotune.search.study import Search
from whet.autotune.search.task_scheduler import PAST
from whet.db.values.claims import TaskKey
from whet.measure.device.identity import device_of
from whet.measure.values import OK, MeasureInput, MeasureResult

if TYPE_CHECKING:
    from whet.autotune.samplers.contract.base import Features, SpaceSampler
    from whet.autotune.samplers.contract.history import Point
    from whet.autotune.tasks.task import Task
    from whet.db import TuningLog
    from whet.db.values.claims import LoggedPoint
    from whet.measure.device.names import Device
    from whet.search_spaces.values import Config

RECENT = 1024
"""Latest results that are kept for samplers that repeat themselves."""

_OF_WORKERS = {"build": ("lower_s", "build_s"), "measure": ("run_s",)}


class Goal:
    """A task that is searched, alone or beside others.

    Args:
        task: what is tuned.
        weight: how much its cost counts beside the others'.
        log: an open log.
        device: the machine that measures; None: this one.
        kind: its name in the pool, where a search has several kinds of devices; else "".

    Attributes:
        device: as given.
        kind: as given.
        recorded: its runs in the log, and its last measurement.
        outside: recorded successes that are not in this (quick) space; they may be the best.
        bests: the best cost after each of the latest trials told, infinity before a success.
        finals: its interleaved measurement; empty before.
        features: loop features of its points; None where there are none.
        peak: FLOP/s of one core at its dtype; 0 when not known.
        workers: seconds of the workers on its new trials: ``build`` and ``measure``.
        key: its name in the log.
        mark: the id of the last trial of the log that is known here.
        uncounted: configs that the log counts and that are not of this space, or broken.
        others: trials that other searches recorded while this one ran.
        tried: configs of its space that searches have tried, as far as is known here.
        leaders: its fastest trials.
        past: its trials in the log when it was read; None before.
        observations: the names of the results that its sampler observed.
        recent: the latest results, by their configs' keys.
        run_id: its run in the log, once it proposes.
        own_runs: the runs that this search began.
        stopped: why it ended before its trials; "" where it did not.
        error: why it cannot go on at all; None where it can.
    """

    def __init__(
        self, task: Task, weight: float, log: TuningLog, device: Device | None, kind: str = ""
    ) -> None:
        self.task = task
        self.device, self.kind = device, kind
        self.weight = weight
        self.space = task.config_space
        self.default = self.space.default
        self.size: int | None = self.space.size if self.space.size_is_exact else None
        self._template = task.template.ref()
        self._target = task.target.to_json()
        whose = device_of(self._target, device)
        self.key = TaskKey(task.workload, self._target, whose, self.space.fingerprint)
        self._log = log
        self.bests: deque[float] = deque(maxlen=PAST)
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
        self.leaders = Leaders()
        self.outside: list[Trial] = []
        self.uncounted = 0
        self.mark = 0
        self._default: Trial | None = None
        self.past: RecordedTrials | None = None
        self._failing = Failing()
        self._search: Search | None = None
        self._others: OtherSearches | None = None
        self._waiting: set[Point] = set()
        self.recent: OrderedDict[str, MeasureResult] = OrderedDict()
        self.observations = Observations()
        self.recorded: TaskState = read_state(log, self.key)
        # As many as a search said that just measured the finalists: then none has to be read.
        self.tried = self.recorded.known.get(task.level, 0)
        if not self.tried:
            self.read()

    def read(self) -> None:
        """Read its trials in the log, where that was not necessary so far."""
        if self.past is None:
            self._take_over(read_trials(self._log, self.key, self.task))

    def _take_over(self, known: RecordedTrials) -> None:
        self.past, self.recorded, self.mark = known, known.state, known.mark
        self.tried, self.uncounted = len(known.placed), known.uncounted
        self.leaders, self._default, self.outside = known.leaders, known.default, known.outside

    def runs_in(self, log: TuningLog) -> set[int]:
        """The ids of its runs in the log."""
        from whet.db.store import points

        return log.read("read runs", lambda c: points.runs_of(c, self.key))

    def catch_up(self, log: TuningLog) -> bool:
        """Read the task again where others have recorded anything of it; True if they have."""
        known = {run.id for run in self.recorded.task.runs} | self.own_runs
        if not self.others and self.runs_in(log) <= known:
            return False
        seen, default, tried = self.leaders, self._default, self.tried
        self._take_over(read_trials(log, self.key, self.task))
        # A trial that cannot be read any more was measured all the same.
        for trial in seen:
            self.leaders.add(trial)
        self._default, self.tried = self._default or default, max(self.tried, tried)
        return True

    # --- what is known ----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The task's name for people, with its kind of device where there are several."""
        return f"{self.task.workload} on {self.kind}" if self.kind else str(self.task.workload)

    @property
    def trials(self) -> LoggedTrials:
        """All trials in order, as the log has them now."""
        from whet.db.store import points

        mark = self._log.read("read trials", lambda c: points.mark_of(c, self.key))
        return LoggedTrials(self._log, self.key, self.space, mark)

    @property
    def best(self) -> Trial | None:
        """The fastest trial; None before the first success."""
        self.read()
        return self.leaders.best

    @property
    def best_cost(self) -> float | None:
        """Seconds per call of the fastest trial; None before the first success."""
        return None if self.best is None else self.best.cost

    @property
    def default_trial(self) -> Trial | None:
        """The default config's trial; None where there is none that counts."""
        self.read()
        return self._default

    @property
    def known(self) -> int:
        """Trials that were asked for, and recorded ones whose turn has not come."""
        left = 0 if self._others is None else len(self._others.unobserved)
        return self.tried if self._search is None else self.proposed + left

    @property
    def is_full(self) -> bool:
        """True if every config of the space was tried."""
        return self.size is not None and self.tried >= self.size

    def was_stopped(self, limits: Limits, sampler: str, seed: int) -> str:
        """Why a search with these limits that the log holds ended early; "" where it did not."""
        target = limits.target_cost
        best = None if target is None else self.best_cost
        if target is not None and best is not None and best <= target:
            return Ending(limits, lambda: None).observe(MeasureResult(OK, (best,)))
        return why_stopped(self.recorded, self.task.level, limits, sampler, seed)

    # --- the search -------------------------------------------------------------------------------

    def begin(self, sampler: SpaceSampler, limits: Limits) -> None:
        """Start the search from nothing; recorded trials follow at their places."""
        self.read()
        assert self.past is not None
        placed, repeats = self.past.placed, None
        if limits.early_stop is True and len(placed):  # the noise of a cost counts
            repeats = LoggedTrials(self._log, self.key, self.space, self.mark)
            repeats.keep(self._log, placed)
        self._search = Search(self.space, sampler)
        self._others = OtherSearches(self._search, Unobserved(placed, 0, repeats))
        self._ending = Ending(limits, self.expected_gain)
        self._failing.over = len(self.leaders) > 0

    def recall(self, window: int) -> list[tuple[int, MeasureResult]]:
        """Take the recorded trials up to the first gap at once, unless the way there counts.

        Args:
            window: trials that may be in flight; of use where the log does not say what was told.

        Returns:
            Those of them of which nothing was told yet, in order: numbers and results.
        """
        if self._search is None or self.past is None or self._ending.limits.early_stop is True:
            return []
        assert self._others is not None
        recalled = recall(self.past.placed, window, self.past.beside)
        self._search.load(recalled.past)
        left = self._others.unobserved = Unobserved(self.past.placed, recalled.rows)
        costs = recalled.past.costs
        self.stopped = self._ending.resume(costs) or self.stopped
        self.bests.extend(np.minimum.accumulate(costs)[-PAST:].tolist())
        return [(n, left.result_of(n)) for n in recalled.waiting]

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
        search, others = self._search, self._others
        assert search is not None and others is not None
        left, number = others.unobserved, search.proposed
        if number in left:
            point, result = left.take(number)
            config = self.space.decode(point)
            search.place(config)
            return number, config, result
        if number == 0:
            config = self.default
            search.place(config)
        else:
            config = search.ask()
        point = self.space.encode(config)
        recorded = left.number_of(point) if len(left) else None
        if recorded is None:
            self._waiting.add(point)
            return number, config, None
        # Recorded under another number: it moves here.
        return number, config, left.take(recorded)[1]

    def told_before(self) -> list[int] | None:
        """As :meth:`Unobserved.told_before`, of the next trial."""
        others = self._others
        return None if others is None else others.unobserved.told_before(self.proposed)

    def tell(self, number: int, result: MeasureResult, name: int | str | None) -> None:
        """Tell the result of a trial; may end the search.

        Args:
            number: the trial's.
            result: of the trial.
            name: of the trial, as the log says what was told; None: it was known from the start.
        """
        assert self._search is not None
        self._search.observe(number, result)
        if name is not None:
            self.observations.add(name)
        best = self.bests[-1] if self.bests else math.inf
        self.bests.append(min(best, result.cost))
        if not self.stopped and (why := self._ending.observe(result)):
            self.stopped = why

    # --- the others -------------------------------------------------------------------------------

    def hear(self, points: Sequence[LoggedPoint], mark: int) -> None:
        """Take note of trials that others recorded since the last time.

        Args:
            points: new trials in the log; those of this search are passed over.
            mark: the id of the last of them.
        """
        self.mark = mark
        if points:
            assert self._others is not None
            self._others.hear(points, self.run_id, self._waiting)

    def from_elsewhere(self, config: Config) -> tuple[int | None, MeasureResult] | None:
        """The result of a config that is waited for, and its trial's id in the log; or None.

        Where a sampler repeated itself, it is the result of an earlier trial here, without an id.
        """
        assert self._others is not None
        if (heard := self._others.pop(self.space.encode(config))) is not None:
            return heard
        again = self.recent.get(config.key)
        return None if again is None or again.status == LOST else (None, again)

    def note(self, trial: Trial, own: bool) -> None:
        """Note the result of a config that was waited for.

        Args:
            trial: with its result.
            own: it was measured here.
        """
        self._waiting.discard(self.space.encode(trial.config))
        self._take(trial)
        if not own:
            self._count_others(trial.result)

    def _take(self, trial: Trial) -> None:
        """Keep of a new trial what will be asked for; the log has it."""
        key, lost = trial.config.key, trial.result.status == LOST
        self.tried += not lost and key not in self.recent
        self.leaders.add(trial)
        if key == self.default.key:
            self._default = trial
        self.recent[key] = trial.result
        if len(self.recent) > RECENT:
            self.recent.popitem(last=False)

    def arrivals(self) -> Iterator[tuple[int, int, Trial]]:
        """The others' trials that came since the last time, each at the next place of the search.

        Returns:
            Their ids in the log, their numbers here, the trials.
        """
        search, others = self._search, self._others
        assert search is not None and others is not None
        for point, (id, result) in others.arrivals().items():
            number = search.proposed
            if number in others.unobserved:
                others.unobserved.move(number)
            config = self.space.decode(point)
            search.place(config, own=False)
            trial = Trial(number, config, result, self.task.flop)
            self._take(trial)
            self._count_others(result)
            yield id, number, trial

    def _count_others(self, result: MeasureResult) -> None:
        self.others += 1
        self._failing.over |= result.ok

    def count(self, result: MeasureResult) -> None:
        """Count a new result; fails the search when nothing at all works."""
        self.measured += 1
        for name, parts in _OF_WORKERS.items():
            seconds = sum(result.timings.get(part) or 0.0 for part in parts)
            self.workers[name] = self.workers.get(name, 0.0) + seconds
        if (error := self._failing.count(result)) is not None:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """End the search for good; the first reason stays."""
        self.error = self.error or error

    def input(self, config: Config) -> MeasureInput:
        """A candidate's measurement."""
        whose = self.task.workload, self._target, config, self._template
        return MeasureInput(*whose, device=self.kind)
