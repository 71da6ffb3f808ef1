"""The traffic of a pool: candidates wait, are built side by side, measured one by one, handed back.

One thread drives each stage, wherever the stage runs; the local and the Ray pool differ only in the
stages they bring.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from whet.compiler.errors import DeviceLostError, MeasureError, WhetError
from whet.measure.pool.base import PoolBase, turns
from whet.measure.pool.gate import Gate
from whet.measure.pool.outcome import result_of, reused
from whet.measure.pool.protocol import Known, Rounds
from whet.measure.pool.roles import Builder, Measurer
from whet.measure.pool.stopwatch import Stopwatch
from whet.measure.stage.builder import Built
from whet.measure.stage.runner import Measurement, RunReport
from whet.measure.values import OK, MeasureInput, MeasureOptions, MeasureResult
from whet.measure.worker.error_text import error_text

T = TypeVar("T", Built, RunReport)
# Results that would come out the same again: the program is at fault, not the moment.
REPEATABLE = {OK, "wrong_answer", "run_error", "run_crash"}
TRIES = 3  # attempts at one stage when a worker or a machine is lost


@dataclass
class _Job:
    ticket: int
    inp: MeasureInput
    begin: float
    built: Built = field(default_factory=lambda: Built("infra_error"))


@dataclass
class _Reference:
    """The default config of one workload, built when its first candidate is."""

    inp: MeasureInput
    built: Built | None = None
    claimed: bool = False
    ready: threading.Event = field(default_factory=threading.Event)


class StagedPool(PoolBase):
    """A pool over given stages; see :class:`whet.measure.pool.protocol.Pool` for its methods.

    Args:
        builders: at least one.
        measurers: at least one; each has a device of its own. One whose device is lost is left
            out from then on; with the last one :meth:`collect` raises.
        options: how to measure.
        reference: :meth:`compare_with` it from the start; None: nothing yet.
        known: asked with a program's hash between build and run, from the pool's threads.
    """

    def __init__(
        self,
        builders: Sequence[Builder],
        measurers: Sequence[Measurer],
        options: MeasureOptions,
        reference: MeasureInput | None = None,
        known: Known | None = None,
    ) -> None:
        # One at work and one that waits, at each stage: enough while the next ones are proposed.
        super().__init__(2 * (len(builders) + len(measurers)))
        self.options = options
        self._builders, self._measurers = list(builders), list(measurers)
        self._working = list(self._measurers)
        self._stopwatch = Stopwatch()
        self._known = known
        self._references: dict[str, _Reference] = {}
        self._to_build: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._to_run: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._in_flight = 0
        self._measured: dict[str, MeasureResult] = {}
        self._twins: dict[str, list[_Job]] = {}  # same program as one that is being measured
        self._failure: BaseException | None = None
        self._gates: dict[str, Gate] = {}
        if reference is not None:
            self.compare_with(reference)
        work: list[Any] = [(one, self._to_build, self._build_job) for one in self._builders]
        work += [(one, self._to_run, self._run_job) for one in self._measurers]
        self._threads = [
            threading.Thread(target=self._serve, args=one, daemon=True) for one in work
        ]
        for thread in self._threads:
            thread.start()

    @property
    def busy_s(self) -> float:
        """Seconds of work so far; see :class:`whet.measure.pool.protocol.Pool`."""
        return self._stopwatch.seconds

    def compare_with(self, reference: MeasureInput) -> None:
        """Check a workload's numbers; see :meth:`whet.measure.pool.protocol.Pool.compare_with`."""
        with self._changed:
            self._check_open("compare_with")
            known = self._references.get(reference.workload.key)
            if known is None or known.inp != reference:
                self._references[reference.workload.key] = _Reference(reference)

    def submit(self, inp: MeasureInput) -> int:
        """Queue a candidate; its ticket, counted from 0."""
        with self._changed:
            ticket = self._next_ticket()
            self._in_flight += 1
        self._to_build.put(_Job(ticket, inp, time.perf_counter()))
        return ticket

    def collect(self, timeout: float | None = None) -> list[tuple[int, MeasureResult]]:
        """Wait for at least one result; see :meth:`whet.measure.pool.protocol.Pool.collect`."""
        with self._changed:
            self._check_open("collect")
            self._changed.wait_for(
                lambda: self._done or not self._in_flight or self._failure or self._closed, timeout
            )
            self._check_open("collect")
            if self._failure is not None and not self._done:
                raise self._failure
            return self._take_finished()

    def remeasure(self, inputs: list[MeasureInput], rounds: int | Rounds) -> list[MeasureResult]:
        """Measure candidates in turns; see :meth:`whet.measure.pool.protocol.Pool.remeasure`."""
        with self._changed:
            self._check_open("remeasure")
        begin = time.perf_counter()
        builder = self._builders[0]
        for inp in inputs:
            self._build_reference(builder, inp)
        built = [self._build(builder, inp) for inp in inputs]
        while True:
            with self._changed:
                self._check_open("remeasure")
                if self._failure is not None and not self._working:
                    raise self._failure
                measurer = self._working[0]
            try:
                reports = self._in_turns(measurer, inputs, built, rounds)
            except DeviceLostError as lost:
                self._leave_out(measurer, lost)
                continue
            spent = time.perf_counter() - begin
            return [result_of(one, report, spent) for one, report in zip(built, reports)]

    def _in_turns(
        self,
        measurer: Measurer,
        inputs: list[MeasureInput],
        built: list[Built],
        rounds: int | Rounds,
    ) -> list[RunReport | None]:
        """The reports of candidates that one device measures in turns."""
        options = replace(self.options, repeat=1, min_repeats=1)
        last: list[RunReport | None] = [None] * len(inputs)
        costs: list[list[float]] = [[] for _ in inputs]
        for turn, places in enumerate(turns(rounds, costs)):
            for i in sorted(places, reverse=turn % 2 == 1):
                report = last[i]
                if built[i].status == OK and (report is None or report.status == OK):
                    last[i] = report = self._run(measurer, inputs[i], built[i], options)
                    costs[i] += report.costs
            options = replace(options, check=False)  # the first round has checked the numbers
        for i, report in enumerate(last):
            if report is not None and report.status == OK:
                last[i] = report.in_rounds(costs[i])
        return last

    def close(self) -> None:
        """End all workers at once; what is in flight is dropped. May be called again."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        for reference in list(self._references.values()):
            reference.ready.set()
        for stages, jobs in ((self._builders, self._to_build), (self._measurers, self._to_run)):
            for stage in stages:
                jobs.put(None)
                stage.close()
        for thread in self._threads:
            thread.join(5)

    # --- the threads ---------------------------------------------------------------------------

    def _serve(
        self, stage: Any, jobs: queue.SimpleQueue[_Job | None], act: Callable[[Any, _Job], None]
    ) -> None:
        with contextlib.suppress(WhetError):
            stage.start()  # if it cannot start, the first candidate says so
        while (job := jobs.get()) is not None and not self._closed:
            try:
                act(stage, job)
            except DeviceLostError as lost:
                jobs.put(job)  # before a warning that is an error ends this thread
                self._leave_out(stage, lost)
                return

    def _build_job(self, stage: Builder, job: _Job) -> None:
        self._build_reference(stage, job.inp)
        job.built = self._build_guarded(stage, job.inp)
        self._dispatch(job)

    def _build_reference(self, stage: Builder, inp: MeasureInput) -> None:
        """Build what a candidate is compared with, unless another builder does or has."""
        with self._changed:
            reference = self._references.get(inp.workload.key)
            if reference is None or reference.claimed:
                return
            reference.claimed = True
        reference.built = self._build_guarded(stage, reference.inp)
        reference.ready.set()

    def _run_job(self, stage: Measurer, job: _Job) -> None:
        best = self.best_costs.get(job.inp.workload.key)
        report = self._guarded(
            lambda: self._run(stage, job.inp, job.built, self.options, best),
            RunReport("infra_error"),
        )
        self._finish(job, result_of(job.built, report, time.perf_counter() - job.begin))

    def _leave_out(self, stage: Measurer, lost: DeviceLostError) -> None:
        """Go on without a measurer whose device is lost; without any, that is the pool's end."""
        with self._changed:
            if self._closed or stage not in self._working:
                return
            self._working.remove(stage)
            left = len(self._working)
            if not left:
                self._failure = lost
                self._changed.notify_all()
        if left:
            warnings.warn(f"{lost}\n{left} other devices measure on", RuntimeWarning, stacklevel=1)

    def _dispatch(self, job: _Job) -> None:
        """Send a built candidate on: to the measurer, or home if its program is known already."""
        built = job.built
        if built.status != OK:
            self._finish(job, result_of(built, None, time.perf_counter() - job.begin))
            return
        key = built.program_hash
        with self._changed:
            earlier = self._measured.get(key)
            if earlier is None and key:
                if key in self._twins:
                    self._twins[key].append(job)
                    return
                self._twins[key] = []
        if earlier is None and key and self._known is not None:
            try:
                earlier = self._known(key)
            except Exception as error:  # the log fails: not the candidate's fault, nor ours to hide
                with self._changed:
                    self._failure = error
                    self._changed.notify_all()
                return
        if earlier is None:
            self._to_run.put(job)
        else:
            self._finish(job, reused(earlier, built, job.begin))

    def _finish(self, job: _Job, result: MeasureResult) -> None:
        twins: list[_Job] = []
        with self._changed:
            if result.program_hash:
                twins = self._twins.pop(result.program_hash, [])
                if result.status in REPEATABLE:
                    self._measured[result.program_hash] = result
            self._finished(job.ticket, job.inp, result)
            self._in_flight -= 1
            self._changed.notify_all()
        for twin in twins:
            if result.status in REPEATABLE:
                self._finish(twin, reused(result, twin.built, twin.begin))
            else:
                self._to_run.put(twin)

    # --- one stage of one candidate ------------------------------------------------------------

    def _build(self, stage: Builder, inp: MeasureInput) -> Built:
        def act() -> Built:
            with self._gate(stage.start()).building(), self._stopwatch:
                return stage.build(inp)

        return self._patiently(act)

    def _build_guarded(self, stage: Builder, inp: MeasureInput) -> Built:
        return self._guarded(lambda: self._build(stage, inp), Built("infra_error"))

    def _run(
        self,
        stage: Measurer,
        inp: MeasureInput,
        built: Built,
        options: MeasureOptions,
        best_cost: float | None = None,
    ) -> RunReport:
        reference = self._references.get(inp.workload.key)
        if reference is not None:
            reference.ready.wait()
        right = None if reference is None else reference.built
        measurement = Measurement(built, options, right, best_cost)

        def act() -> RunReport:
            gate = self._gate(stage.start())
            disturbed = built.parallel or stage.overlaps_builds()
            with gate.alone() if disturbed else contextlib.nullcontext(), self._stopwatch:
                return stage.run(measurement)

        return self._patiently(act)

    def _patiently(self, act: Callable[[], T]) -> T:
        """Try again when a worker or a machine is lost: that is not the candidate's doing."""
        for attempt in range(TRIES):
            try:
                return act()
            except MeasureError:
                if attempt == TRIES - 1 or self._closed:
                    raise
                time.sleep(0.2 * 4**attempt)
        raise AssertionError("unreachable")

    def _guarded(self, act: Callable[[], T], failed: T) -> T:
        try:
            return act()
        except DeviceLostError:
            raise  # another device measures the candidate
        except Exception:  # a thread that dies would lose a candidate and hang collect()
            return replace(failed, error=error_text())

    def _gate(self, machine: str) -> Gate:
        with self._changed:
            return self._gates.setdefault(machine, Gate())
