"""The life of a candidate in a pool: it is built, measured, handed back, whoever dies meanwhile.

One thread drives each stage, wherever it runs. Stages come and go; what waits is in
:mod:`whet.measure.pool.traffic`.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

from whet.compiler.errors import DeviceLostError, MeasureError, WhetError, WorkerLostError
from whet.measure.pool.base import PoolBase, best_key
from whet.measure.pool.calls import Calls
from whet.measure.pool.news import News
from whet.measure.pool.protocol import Builder, Known, Measurer, Rounds, Stage
from whet.measure.pool.traffic import BUILD, LOOK_S, LOST_S, TRIES, Job, Reference, Seat, Traffic
from whet.measure.stage.builder import Built
from whet.measure.stage.outcome import result_of, reused
from whet.measure.values import OK, MeasureInput, MeasureOptions, MeasureResult

# Results that would come out the same again: the program is at fault, not the moment.
REPEATABLE = {OK, "wrong_answer", "run_error", "run_crash"}
ALONE = "apart", "disturbs"


class StagedPool(PoolBase):
    """A pool over given stages; see :class:`whet.measure.pool.protocol.Pool` for its methods.

    Args:
        builders: those that are there from the start.
        measurers: each has a device of its own, of the kind that its attribute ``kind`` names.
            One whose device is lost is left out from then on; with the last one :meth:`collect`
            raises.
        options: how to measure.
        reference: :meth:`compare_with` it from the start; None: nothing yet.
        known: asked for a program's earlier result between build and run, from the pool's threads.
    """

    def __init__(
        self,
        builders: Sequence[Builder],
        measurers: Sequence[Measurer],
        options: MeasureOptions,
        reference: MeasureInput | None = None,
        known: Known | None = None,
    ) -> None:
        super().__init__(0)
        self.options = options
        self._traffic = Traffic()
        self._calls = Calls(options)
        self._known = known
        self._in_flight = 0
        # By kind of device and program: what is known, and who waits for one that is measured now.
        self._measured: dict[tuple[str, str], MeasureResult] = {}
        self._twins: dict[tuple[str, str], list[Job]] = {}
        self._failure: BaseException | None = None
        self._news = News()
        self._threads: list[threading.Thread] = []
        for measurer in measurers:
            self.join(measurer, measures=True)
        for builder in builders:
            self.join(builder)
        if reference is not None:
            self.compare_with(reference)

    @property
    def capacity(self) -> int:
        """One for each builder, and for each device one at work and two that wait."""
        return self._traffic.capacity

    @property
    def devices(self) -> dict[str, int]:
        """The devices that measure now, counted by kind; "": this machine's own."""
        return {kind: self._traffic.devices[kind] for kind in sorted(self._traffic.kinds)}

    @property
    def busy_s(self) -> float:
        """As of :class:`whet.measure.pool.protocol.Pool`."""
        return self._calls.busy_s

    def join(self, stage: Stage, measures: bool = False) -> None:
        """Take a worker in, from now on.

        Args:
            stage: ``kind``: of its device ("" without it); ``apart``, ``disturbs``: as of a seat.
            measures: it measures; else it builds.
        """
        kind = str(getattr(stage, "kind", "")) if measures else BUILD
        seat = Seat(stage, kind, measures, *(getattr(stage, w, False) for w in ALONE))
        serve = self._serve_runs if measures else self._serve_builds
        thread = threading.Thread(target=serve, args=(seat,), daemon=True)
        with self._traffic.lock:
            if not self._closed:
                self._traffic.add(seat)
                self._threads.append(thread)
                thread.start()  # in here: close() waits for those that have started
                return
        stage.close()  # nobody else would

    def leave(self, stage: Stage, why: str = "", gone: bool = False) -> None:
        """Let a worker go, if it is still here.

        Args:
            stage: as it has joined.
            why: a line for the user; "": nothing to say.
            gone: its machine is lost: others take what it has in hand. Else it finishes that.
        """
        with self._traffic.lock:
            seats = [seat for seat in self._traffic.seats if seat.stage is stage]
            for seat in seats:
                self._traffic.remove(seat, gone)
        if why:
            self._news.say(why, lost=gone)
        if gone or not any(seat.up for seat in seats):  # it has nothing in hand to wait for
            stage.close()

    def notes(self) -> list[str]:
        """Lines for the user since the last call: machines that came, left, were lost."""
        return self._news.taken()

    # --- the pool's methods --------------------------------------------------------------------

    def compare_with(self, reference: MeasureInput) -> None:
        """Check a workload's numbers; see :meth:`whet.measure.pool.protocol.Pool.compare_with`."""
        with self._traffic.lock:
            self._check_open("compare_with")
            self._calls.compare_with(reference)

    def submit(self, inp: MeasureInput) -> int:
        """Queue a candidate; its ticket, counted from 0.

        Raises:
            MeasureError: the pool is closed, or has no device of the kind that it names.
        """
        with self._traffic.lock:
            kind = self._kind_of(inp)
            ticket = self._next_ticket()
            self._in_flight += 1
        self._traffic.to_build(Job(ticket, inp, kind, time.perf_counter()))
        return ticket

    def collect(self, timeout: float | None = None) -> list[tuple[int, MeasureResult]]:
        """Wait for at least one result; see :meth:`whet.measure.pool.protocol.Pool.collect`."""
        end = None if timeout is None else time.monotonic() + timeout
        self._say_notes()
        with self._traffic.lock:
            while True:
                self._check_open("collect")
                left = LOOK_S if end is None else min(LOOK_S, end - time.monotonic())
                if self._done or not self._in_flight or left <= 0:
                    return self._take_finished()
                self._check_going()
                self._traffic.done.wait(left)

    def remeasure(self, inputs: list[MeasureInput], rounds: int | Rounds) -> list[MeasureResult]:
        """Measure candidates in turns; see :meth:`whet.measure.pool.protocol.Pool.remeasure`."""
        if not inputs:
            return []
        begin = time.perf_counter()
        kind, *others = {self._kind_of(inp) for inp in inputs}
        if others:
            raise MeasureError("remeasure()", f"{kind} and {others} are two kinds", "one a call")
        built = [self._built(inp) for inp in inputs]
        for _ in self._traffic.attempts(self._check_going, True, kind):
            seat = self._someone(True, kind)
            try:
                reports = self._calls.in_turns(seat, inputs, built, rounds)
            except DeviceLostError as lost:
                self._leave_out(seat, lost)
            except MeasureError as lost:  # its worker is lost, or could not be started anew
                if self._closed:
                    raise
                self._news.say(str(lost), lost=True)
            else:
                spent = time.perf_counter() - begin
                return [result_of(one, report, spent) for one, report in zip(built, reports)]
        raise MeasureError("remeasure()", "each measurer was lost meanwhile", self._news.losses())

    def close(self) -> None:
        """End all workers at once; what is in flight is dropped. May be called again."""
        with self._traffic.lock:
            if self._closed:
                return
            self._closed = self._traffic.closed = True
            seats = list(self._traffic.seats)
            self._traffic.wake()
        self._calls.close()
        for seat in seats:
            seat.stage.close()
        for thread in self._threads:
            thread.join(5)

    def _built(self, inp: MeasureInput) -> Built:
        """A candidate, built with what it is compared with, by a builder that is up."""
        for _ in self._traffic.attempts(self._check_going, False, BUILD):
            seat = self._someone(False, BUILD)
            try:
                self._build_reference(seat, inp)
                return self._calls.build_guarded(seat, inp)
            except WorkerLostError as lost:
                self._news.say(str(lost), lost=True)
        raise MeasureError("remeasure()", "each builder was lost meanwhile", self._news.losses())

    def _someone(self, measures: bool, kind: str) -> Seat:
        """The first worker of a group that is up; waits for one as :meth:`collect` does."""
        with self._traffic.lock:
            while True:
                self._check_open("remeasure")
                working = self._traffic.working(measures, kind)
                if up := next((seat for seat in working if seat.up), None):
                    return up
                self._check_going([(measures, kind)])
                self._traffic.done.wait(LOOK_S)

    # --- the threads ---------------------------------------------------------------------------

    def _comes_up(self, seat: Seat) -> bool:
        """Start a worker, again and again while it is lost; False when it leaves."""
        said = False
        while not (self._closed or seat.left):
            try:
                seat.stage.start()
            except WorkerLostError as lost:
                said = said or self._is_lost(seat, lost)
                time.sleep(LOST_S)
                continue
            except WhetError:
                pass  # its first candidate says so
            self._traffic.mark(seat, up=True)
            return True
        return False

    def _serve_builds(self, seat: Seat) -> None:
        while self._comes_up(seat):
            try:
                while (item := self._traffic.next_build(seat)) is not None:
                    if isinstance(item, Reference):
                        self._build_claimed(seat, item)
                    else:
                        self._build_job(seat, item)
                break
            except WorkerLostError as lost:
                self._is_lost(seat, lost)
        if seat.left:  # what it had in hand is done
            seat.stage.close()

    def _serve_runs(self, seat: Seat) -> None:
        while self._comes_up(seat):
            try:
                while (job := self._traffic.next_run(seat)) is not None:
                    self._run_job(seat, job)
                break
            except DeviceLostError as lost:
                self._leave_out(seat, lost)
            except WorkerLostError as lost:
                self._is_lost(seat, lost)
        if seat.left:  # what it had in hand is done
            seat.stage.close()

    def _is_lost(self, seat: Seat, lost: WorkerLostError) -> bool:
        """Say that a worker is lost, unless its whole machine is, or it was let go."""
        self._traffic.mark(seat, up=False)
        if not (seat.left or self._closed):
            self._news.say(f"whet: {str(lost).splitlines()[0]}", lost=True)
            time.sleep(LOST_S)
        return True

    def _build_job(self, seat: Seat, job: Job) -> None:
        try:
            self._build_reference(seat, job.inp)
            built = self._calls.build_guarded(seat, job.inp)
        except WorkerLostError as lost:
            self._again(job, lost, lambda: self._traffic.to_build(job, first=True))
            raise
        job.built = built
        self._dispatch(job, seat)

    def _build_reference(self, seat: Seat, inp: MeasureInput) -> None:
        """Build what a candidate is compared with, unless another builder does or has."""
        with self._traffic.lock:
            reference = self._calls.claimed(inp)
        if reference is not None:
            self._build_claimed(seat, reference)

    def _build_claimed(self, seat: Seat, reference: Reference) -> None:
        try:
            reference.built = self._calls.build_guarded(seat, reference.inp)
        except WorkerLostError as lost:
            reference.lost += 1
            if reference.lost < TRIES:  # another builder claims it: measurers may wait for it
                self._traffic.build_again(reference)
                raise
            reference.built = Built("infra_error", error=str(lost))
            reference.ready.set()
            raise
        reference.ready.set()

    def _run_job(self, seat: Seat, job: Job) -> None:
        best = self.best_costs.get(best_key(job.inp))
        try:
            report = self._calls.run_guarded(seat, job.inp, job.built, best)
        except DeviceLostError:
            self._traffic.to_run(job, first=True)  # before a warning that is an error ends us
            raise
        except WorkerLostError as lost:
            self._again(job, lost, lambda: self._traffic.to_run(job, first=True))
            raise
        self._finish(job, result_of(job.built, report, time.perf_counter() - job.begin))

    def _again(self, job: Job, lost: WorkerLostError, queue: Callable[[], None]) -> None:
        """Give a candidate to another worker, unless it has been with too many that were lost."""
        job.lost += 1
        if job.lost < TRIES:
            queue()
            return
        text = f"{job.lost} workers were lost while they had this candidate; the last one:\n{lost}"
        failed = replace(job.built, status="infra_error", error=text)
        self._finish(job, result_of(failed, None, time.perf_counter() - job.begin))

    def _leave_out(self, seat: Seat, lost: DeviceLostError) -> None:
        """Go on without a measurer whose device is lost; without any, that is the pool's end."""
        with self._traffic.lock:
            if self._closed or not self._traffic.remove(seat):
                return
            if not (left := len(self._traffic.working(True, seat.kind))):
                self._fail(lost)
        if left:
            warnings.warn(f"{lost}\n{left} other devices measure on", RuntimeWarning, stacklevel=1)

    def _fail(self, error: BaseException) -> None:
        with self._traffic.lock:
            self._failure = self._failure or error
            self._traffic.wake()

    def _kind_of(self, inp: MeasureInput) -> str:
        self._check_open("submit")
        return self._traffic.kind_of(inp.device, self.other_names())

    def other_names(self) -> Sequence[str]:  # of a pool's only kind
        return ()

    def _check_going(self, groups: Sequence[tuple[bool, str]] | None = None) -> None:
        """Raise if the pool has failed, or waits for workers that do not come.

        Args:
            groups: who is needed; None: whoever candidates in flight wait for.
        """
        if self._failure is not None:
            raise self._failure
        for group in self._traffic.stranded() if groups is None else groups:
            self._news.check(*group, *self._traffic.idle_for(*group))

    def _dispatch(self, job: Job, seat: Seat) -> None:
        """Send a built candidate on: to a measurer, or home if its program is known already."""
        built, key = job.built, (job.kind, job.built.program_hash)
        if built.status != OK:
            self._finish(job, result_of(built, None, time.perf_counter() - job.begin))
            return
        with self._traffic.lock:
            earlier = self._measured.get(key)
            if earlier is None and key[1]:
                if key in self._twins:
                    self._twins[key].append(job)
                    return
                self._twins[key] = []
        if earlier is None and key[1] and self._known is not None:
            try:
                earlier = self._known(key[1], job.inp.device)
            except Exception as error:  # the log fails: not the candidate's fault, nor ours to hide
                self._fail(error)
                return
        if earlier is not None:
            self._finish(job, reused(earlier, built, job.begin))
            return
        while (reference := self._traffic.hand_over(job, seat)) is not None:
            try:
                self._build_claimed(seat, reference)
            except WorkerLostError:
                self._traffic.to_run(job)
                raise

    def _finish(self, job: Job, result: MeasureResult) -> None:
        key, twins = (job.kind, result.program_hash), []
        with self._traffic.lock:
            if key[1]:
                twins = self._twins.pop(key, [])
                if result.status in REPEATABLE:
                    self._measured[key] = result
            self._finished(job.ticket, job.inp, result)
            self._in_flight -= 1
            self._traffic.done.notify_all()
        for twin in twins:
            if result.status in REPEATABLE:
                self._finish(twin, reused(result, twin.built, twin.begin))
            else:
                self._traffic.to_run(twin)
