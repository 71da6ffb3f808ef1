"""One stage of one candidate: the call of a worker, what it waits for, when it is repeated."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import TypeVar

from whet.compiler.errors import DeviceLostError, MeasureError, WorkerLostError
from whet.measure.pool.base import best_key, turns
from whet.measure.pool.gate import Gate, Stopwatch
from whet.measure.pool.protocol import Rounds
from whet.measure.pool.traffic import LOOK_S, TRIES, Reference, Seat
from whet.measure.stage.builder import Built
from whet.measure.stage.runner import Measurement, RunReport
from whet.measure.values import OK, MeasureInput, MeasureOptions
from whet.measure.worker.error_text import error_text

T = TypeVar("T", Built, RunReport)


class Calls:
    """Calls workers; knows the references of all workloads, and which machine is measuring.

    Args:
        options: how to measure.
    """

    def __init__(self, options: MeasureOptions) -> None:
        self._options = options
        self._references: dict[str, Reference] = {}
        self._stopwatch = Stopwatch()
        self._gates: dict[str, Gate] = {}
        self._lock = threading.Lock()
        self._closed = False

    @property
    def busy_s(self) -> float:
        """Seconds so far in which at least one worker was at work."""
        return self._stopwatch.seconds

    def close(self) -> None:
        """Hold up nobody any more."""
        self._closed = True
        for reference in list(self._references.values()):
            reference.ready.set()

    # --- references ----------------------------------------------------------------------------

    def compare_with(self, reference: MeasureInput) -> None:
        """Take a candidate's numbers for right."""
        known = self._references.get(best_key(reference))
        if known is None or known.inp != reference:
            self._references[best_key(reference)] = Reference(reference)

    def claimed(self, inp: MeasureInput) -> Reference | None:
        """The reference of a candidate, for the one builder that shall build it."""
        reference = self._references.get(best_key(inp))
        if reference is None or reference.claimed:
            return None
        reference.claimed = True
        return reference

    # --- calls ---------------------------------------------------------------------------------

    def build(self, seat: Seat, inp: MeasureInput) -> Built:
        """Build a candidate.

        Raises:
            WorkerLostError: another worker has to.
            MeasureError: no worker can be had.
        """

        def act() -> Built:
            with self._gate(seat.stage.start()).building(), self._stopwatch:
                return seat.stage.build(inp)

        return self._patiently(seat, act)

    def build_guarded(self, seat: Seat, inp: MeasureInput) -> Built:
        """As :meth:`build`; what fails, other than a worker's loss, is the answer."""
        return self._guarded(lambda: self.build(seat, inp), Built("infra_error"))

    def run(
        self,
        seat: Seat,
        inp: MeasureInput,
        built: Built,
        options: MeasureOptions,
        best_cost: float | None = None,
    ) -> RunReport:
        """Measure a built candidate.

        Raises:
            WorkerLostError: another worker has to.
            DeviceLostError: another device has to.
            MeasureError: no worker can be had.
        """
        reference = self._references.get(best_key(inp))
        while reference is not None and not reference.ready.wait(LOOK_S):
            if seat.left:
                raise WorkerLostError("measurement", "the worker leaves before it has begun")
        right = None if reference is None else reference.built
        measurement = Measurement(built, options, right, best_cost)

        def act() -> RunReport:
            gate = self._gate(seat.stage.start())
            disturbed = not seat.apart and (built.parallel or seat.stage.overlaps_builds())
            shared = gate.building() if seat.disturbs else contextlib.nullcontext()
            with gate.alone() if disturbed else shared, self._stopwatch:
                return seat.stage.run(measurement)

        return self._patiently(seat, act)

    def run_guarded(
        self, seat: Seat, inp: MeasureInput, built: Built, best_cost: float | None
    ) -> RunReport:
        """As :meth:`run`; what fails, other than a worker's or a device's loss, is the answer."""
        return self._guarded(
            lambda: self.run(seat, inp, built, self._options, best_cost), RunReport("infra_error")
        )

    def in_turns(
        self, seat: Seat, inputs: list[MeasureInput], built: list[Built], rounds: int | Rounds
    ) -> list[RunReport | None]:
        """The reports of candidates that one device measures in turns; None: it was not built."""
        options = replace(self._options, repeat=1, min_repeats=1)
        rounds = deepcopy(rounds)  # it may keep account, and another device would begin anew
        last: list[RunReport | None] = [None] * len(inputs)
        costs: list[list[float]] = [[] for _ in inputs]
        for turn, places in enumerate(turns(rounds, costs)):
            for i in sorted(places, reverse=turn % 2 == 1):
                report = last[i]
                if built[i].status == OK and (report is None or report.status == OK):
                    last[i] = report = self.run(seat, inputs[i], built[i], options)
                    costs[i] += report.costs
            options = replace(options, check=False)  # the first round has checked the numbers
        for i, report in enumerate(last):
            if report is not None and report.status == OK:
                last[i] = report.in_rounds(costs[i])
        return last

    def _patiently(self, seat: Seat, act: Callable[[], T]) -> T:
        """Try again when a worker cannot be had: that is not the candidate's doing."""
        for attempt in range(TRIES):
            try:
                answer = act()
            except WorkerLostError:
                raise  # its pool gives the candidate to another one at once
            except MeasureError:
                if seat.gone:
                    raise WorkerLostError("a candidate", "its worker's machine is lost") from None
                if attempt == TRIES - 1 or self._closed:
                    raise
                time.sleep(0.2 * 4**attempt)
            else:
                if seat.gone:  # an end by force looks like a fault of the candidate
                    raise WorkerLostError("a candidate", "its worker's machine is lost")
                return answer
        raise AssertionError("unreachable")

    def _guarded(self, act: Callable[[], T], failed: T) -> T:
        try:
            return act()
        except (DeviceLostError, WorkerLostError):
            raise  # another one takes the candidate
        except Exception:  # a thread that dies would lose a candidate and hang collect()
            return replace(failed, error=error_text())

    def _gate(self, machine: str) -> Gate:
        with self._lock:
            return self._gates.setdefault(machine, Gate())
