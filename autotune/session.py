"""One call of tune(): its tasks, pool, log, progress, seconds of each phase, and the result."""

from __future__ import annotations

import math
import sys
import time
import zlib
from contextlib import ExitStack, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from whet.autotune.progress import Progress
from whet.autotune.results.result import TuneResult
from whet.autotune.results.trial import Trial
from whet.autotune.results.unchecked import count_unchecked
from whet.autotune.samplers import load_ahead, make_sampler
from whet.autotune.search import outcome
from whet.autotune.search.early_stop import TIMEOUT
from whet.autotune.search.entries import entries_of, known_results
from whet.autotune.search.finalists import SECONDS
from whet.autotune.search.last_measurement import RESERVE, measure_finalists
from whet.autotune.search.learning import Learning
from whet.autotune.search.loop import Loop, News, Place
from whet.autotune.search.order import window_for
from whet.autotune.search.phase_times import PhaseTimes
from whet.autotune.search.sharing import HURRY, NAMED, Sharing, name_of
from whet.autotune.stopping import ending_on_sigterm
from whet.autotune.tasks.versions import peak_of, versions
from whet.compiler.errors import ArgumentError, LogError
from whet.db.values.records import TrialEntry
from whet.measure.pool.base import best_key
from whet.measure.pool.protocol import hear_notes
from whet.measure.values import MeasureOptions
from whet.search_spaces.values.counted import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from whet.autotune.arguments import TuneArguments
    from whet.autotune.search.goal import Goal
    from whet.db import LogSession, TuningLog
    from whet.db.values.claims import Answer
    from whet.measure import Pool
    from whet.measure.device.selection import Selection


class Session:
    """A search of one or many tasks, each another one.

    Args:
        arguments: of the call.
        log: an open log.
        places: the kinds of devices on which it is measured.

    Attributes:
        entries: each task on each kind of device.
        shared: its part in the log, while it measures.
        learning: what its samplers learn from besides their own trials.
        began: ``time.monotonic()`` at its beginning.
        busy_s: seconds in which at least one candidate was being built or measured.
    """

    def __init__(
        self, arguments: TuneArguments, log: TuningLog, places: Sequence[Selection]
    ) -> None:
        self.log, self.places = log, places
        self.sampler, self.sampler_name = arguments.sampler, arguments.sampler_name
        self.seed, self.limits = int(arguments.seed), arguments.limits
        self.transfer, self.callbacks = arguments.transfer, arguments.callbacks
        self.options = arguments.options or MeasureOptions()
        self.spent = PhaseTimes()
        self.began = time.monotonic()
        self.busy_s = 0.0
        self.entries = entries_of(arguments, places, log)
        self.many = len(self.entries) > 1
        self.goals = [entry.goal for entry in self.entries if entry.goal is not None]
        errors = [entry.error for entry in self.entries if entry.error is not None]
        self.failed = bool(errors)
        if not self.goals:
            raise errors[0]
        sizes = [goal.size for goal in self.goals]
        trials = int(arguments.trials)
        room = trials if None in sizes else sum(size for size in sizes if size is not None)
        self.total, self.exhausting = min(trials, room), room < trials
        name = self.goals[0].name if not self.many else f"{len(self.entries)} tasks"
        self.bar = Progress(name, self.total, 0.0, arguments.progress, timeout=self.limits.timeout)
        self.learning = Learning(self.goals, log, self.bar.say, self.spent)
        self.shared: Sharing | None = None
        self._logged: LogSession | None = None
        self._pool: Pool | None = None
        self._window = 0

    # --- without measuring ------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """True if the log holds all that the call wants; notes the tasks that were stopped."""
        for goal in self.goals:
            goal.stopped = goal.was_stopped(self.limits, self.sampler_name, self.seed)
        enough = sum(goal.known for goal in self.goals) >= self.total
        ended = [goal for goal in self.goals if goal.stopped or goal.is_full]
        settled = all(goal.recorded.settled for goal in self.goals)
        if settled and (enough or len(ended) == len(self.goals)) and not self.failed:
            return True
        for goal in self.goals:
            goal.stopped = ""
        return False

    def results_from_log(self) -> list[TuneResult]:
        """The results of a search that was finished by an earlier run."""
        self._say_exhausted()
        for goal in self.goals:
            goal.peak = goal.recorded.peak
        return outcome.results(self)

    # --- with measuring ---------------------------------------------------------------------------

    def run(self, workers: Any) -> list[TuneResult]:
        """Search, then measure the finalists; keep the log's runs up to date whatever happens."""
        patience = self.log.patience
        seconds, waiting = patience.seconds, patience.waiting
        with ending_on_sigterm():
            try:
                patience.waiting = waiting or self.bar.say
                return self._run(workers)
            except (KeyboardInterrupt, SystemExit) as end:
                patience.seconds = min(seconds, HURRY)
                self._say_interrupted(self._finish_all("interrupted"))
                # Where in the search it came says nothing to who pressed it.
                if isinstance(end, SystemExit):
                    raise SystemExit(end.code) from None
                raise KeyboardInterrupt from None
            except BaseException as error:
                # What ended the search is what its user must hear, not what came of it.
                if unwritten := self._finish_all("failed"):
                    error.add_note(unwritten)
                raise
            finally:
                patience.seconds, patience.waiting = seconds, waiting

    def _run(self, workers: Any) -> list[TuneResult]:
        self.learning.prepare()
        load_ahead(self.sampler)
        for goal in self.goals:
            goal.read()
        with ExitStack() as stack:
            pool = self._pool = self._open(workers, stack)
            busy, self._window = pool.busy_s, window_for(pool)
            self._share()
            timed_out = self._search(pool)
            self._finish_runs(timed_out)
            self._raise_if_hopeless()
            measure_finalists(self, pool)
            self._raise_if_hopeless()
            self.busy_s = pool.busy_s - busy
            self._close()
            return outcome.results(self)

    def _share(self) -> None:
        """Open the log's session of this search."""
        label = {
            "tasks": [name_of(goal.key) for goal in self.goals],
            "names": [goal.name for goal in self.goals[:NAMED]],
            "sampler": self.sampler_name,
            "trials": self.total,
        }
        self._logged = self.log.open_session(label)
        limit = self.total + sum(goal.uncounted for goal in self.goals)
        self.shared = Sharing(self.goals, self._logged, limit, self._begin_run)

    def _close(self, state: str = "finished") -> None:
        if self._logged is not None:
            logged, self._logged = self._logged, None
            logged.close(state)

    def _open(self, workers: Any, stack: ExitStack) -> Pool:
        from whet.measure import open_pool

        with self.spent.on("start"):
            for goal in self.goals:
                goal.peak = peak_of(goal.task)
            stack.enter_context(self.bar)
            self._say_exhausted()
            for goal in self.goals:
                self.bar.at(goal.name, goal.peak)
                assert goal.past is not None  # it was read
                unchecked = count_unchecked(goal.best, goal.trials)
                self.bar.resumed(goal.past.outcomes(), goal.best, unchecked)
            self.bar.at(self.bar.name)
            self.bar.enter("starting the workers")
            device: str | dict[str, str] = self.places[0].device
            if len(self.places) > 1:
                device = {place.kind: place.device for place in self.places}
            pool = open_pool(
                workers,
                options=self.options,
                known=known_results(self.entries, self.log),
                device=device,
            )
            if pool is not workers:  # a pool that was passed in stays its owner's
                stack.enter_context(pool)
            hear_notes(pool, self.bar.say)
            for goal in self.goals:
                default = goal.input(goal.default)
                pool.compare_with(goal.input(goal.space.reference))
                if goal.best_cost is not None:
                    pool.best_costs[best_key(default)] = goal.best_cost
        return pool

    def _search(self, pool: Pool) -> bool:
        """Run the loop, if anything is left to do; returns whether the time was up."""
        if sum(goal.known for goal in self.goals) >= self.total:
            return False
        for goal in self.goals:
            self._begin(goal)
        deadline = math.inf
        if self.limits.timeout is not None:
            reserve = min(SECONDS, RESERVE * self.limits.timeout)
            deadline = self.began + self.limits.timeout - reserve
        assert self.shared is not None
        loop = Loop(
            self.goals, pool, self.total, self.shared, self._finished, self._heard_of,
            self.bar.tick, self.spent, deadline,
        )  # fmt: skip
        loop.run()
        return time.monotonic() >= deadline

    def _begin(self, goal: Goal) -> None:
        """Make a task's sampler, which may fail as its template may."""
        try:
            with self.spent.on("propose"):
                features, prior = self.learning.of(goal, self.transfer)
                sampler = make_sampler(self.sampler, goal.space, self._own_seed, features, prior)
            goal.begin(sampler, self.limits)
        except (ArgumentError, LogError):
            raise
        except Exception as error:
            goal.fail(error)

    @property
    def _own_seed(self) -> int:
        """The seed of the samplers: beside others, each search has another one."""
        rank = self.shared.rank if self.shared is not None else 0
        return zlib.crc32(f"{self.seed} {rank}".encode()) if rank else self.seed

    def _begin_run(self, goal: Goal) -> None:
        """A run begins with its first claim."""
        if goal.run_id is None:
            goal.run_id = self.start_run(goal, self.sampler_name)

    def _finished(
        self, news: Sequence[News], wanted: Sequence[Place]
    ) -> tuple[set[int], list[Answer]]:
        """Record results and claim configs; the places of those that another search had recorded,
        and the answers."""
        assert self.shared is not None
        texts = [self.learning.text(one.goal, one.config) for one in news]
        with self.spent.on("log"):
            entries = []
            for (goal, number, config, result, told), text in zip(news, texts):
                assert goal.run_id is not None
                flop = goal.task.flop
                entries.append(TrialEntry(goal.run_id, number, config, result, flop, text, told))
            left_out, answers = self.shared.exchange(entries, wanted)
        dropped = {i for i, one in enumerate(entries) if (one.run_id, one.number) in left_out}
        for place, (goal, number, config, result, _) in enumerate(news):
            if place in dropped:
                continue
            trial = Trial(number, config, result, goal.task.flop)
            goal.note(trial, own=True)
            with self.spent.on("progress"):
                if self.many:
                    self.bar.at(goal.name)
                self.bar.trial(trial)
            for callback in self.callbacks:
                callback(goal.task, trial)
        return dropped, answers

    def _heard_of(self, goal: Goal, trial: Trial) -> None:
        """Count a trial that another search recorded."""
        assert self._pool is not None
        with self.spent.on("progress"):
            if self.many:
                self.bar.at(goal.name)
            self.bar.trial(trial, own=False)
        if trial.result.ok:
            key, bests = best_key(goal.input(trial.config)), self._pool.best_costs
            bests[key] = min(trial.cost, bests.get(key, math.inf))

    # --- the log's runs ---------------------------------------------------------------------------

    def start_run(self, goal: Goal, sampler: str, more: dict[str, Any] | None = None) -> int:
        """Begin a run of a task in the log; its number.

        Args:
            goal: the task.
            sampler: who proposes, or the name of a last measurement.
            more: for its options.
        """
        from whet.search_spaces.graph.family import graph_data

        # A log needs a derived task's graph, so that its program can be shown from it alone.
        graph = graph_data(goal.task.template, goal.task.workload)
        search = {
            "trials": self.total,
            "tasks": len(self.entries),
            "call": list(self.learning.call),
            "weight": goal.weight,
            "level": goal.task.level,
            "peak": goal.peak,
            "transfer": self.learning.until(goal) if self.transfer else False,
            "rank": self.shared.rank if self.shared is not None else 0,
            "window": self._window,
            **asdict(self.limits),
            **(more or {}),
        }
        run_id = self.log.start_run(
            goal.task.workload,
            goal.task.target,
            goal.device,
            goal.space.fingerprint,
            sampler,
            self.seed,
            self.options.to_json()
            | {"search": search}
            | ({} if graph is None else {"graph": graph}),
            versions(),
        )
        goal.own_runs.add(run_id)
        return run_id

    def _finish_runs(self, timed_out: bool) -> None:
        for goal in self.goals:
            if timed_out and goal.error is None and not goal.stopped and not goal.is_full:
                goal.stopped = f"{TIMEOUT} of {self.limits.timeout:g} s"
            state = f"stopped: {goal.stopped}" if goal.stopped else "finished"
            self._finish_run(goal, "failed" if goal.error is not None else state)

    def _finish_run(self, goal: Goal, state: str) -> None:
        if goal.run_id is not None:
            run_id, goal.run_id = goal.run_id, None
            self.log.finish_run(run_id, state)

    def _finish_all(self, state: str) -> str:
        """Write how the runs ended; returns why the log does not say so, or ""."""
        unwritten = ""
        for goal in self.goals:
            try:
                self._finish_run(goal, state)
            except LogError as error:
                unwritten = unwritten or f"the log's run stays as 'running': {error}"
        try:
            self._close(state)
        except LogError as error:
            unwritten = unwritten or f"the log's session stays as 'running': {error}"
        return unwritten

    def _say_interrupted(self, unwritten: str) -> None:
        """Print a summary of what the log holds."""
        try:
            summary = str(outcome.interrupted(self))
        except LogError as error:
            summary = f"{self.bar.name}: interrupted; no summary: {error}"
        with suppress(OSError):  # who would have read it may be gone
            print(*filter(None, (summary, unwritten)), sep="\n", file=sys.stderr, flush=True)

    def _raise_if_hopeless(self) -> None:
        """A task that fails does not end the others; all of them do."""
        errors = [goal.error for goal in self.goals if goal.error is not None]
        if len(errors) == len(self.goals):
            raise errors[0]

    def _say_exhausted(self) -> None:
        if self.exhausting:
            self.bar.say(
                f"{self.bar.name}: the space has only {counted(self.total, 'config')}; "
                f"the search ends after {counted(self.total, 'trial')}"
            )
