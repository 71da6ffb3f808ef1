"""The feedback loop, closed here and nowhere else: propose, measure, record, tell."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from whet.autotune.results.failures import grouped, last_line
from whet.autotune.results.result import pruned_words
from whet.autotune.search.task_scheduler import Turns
from whet.compiler.errors import LogError, MeasureError
from whet.measure.values import is_time

if TYPE_CHECKING:
    from whet.autotune.search.goal import Goal
    from whet.autotune.search.phase_times import PhaseTimes
    from whet.measure import Pool
    from whet.measure.values import MeasureResult
    from whet.search_spaces import Config

LOST = 10
"""Workers lost (``infra_error``) in a row before the search gives up."""
GRACE = 2.0
"""Seconds after a timeout in which results in flight are still taken."""


News = tuple["Goal", int, "Config", "MeasureResult"]
"""A new result: whose, the trial's number, its config, what came of it."""


def window_of(capacity: int) -> int:
    """The trials that are proposed before the first of them is observed: 4, 8 or 16.

    Few sizes, so that pools of similar capacity give one seed the same search; never more than
    16, because samplers get worse when they learn late.
    """
    return next((w for w in (4, 8) if capacity <= w), 16)


@dataclass
class Loop:
    """Drives the searches of one or many tasks over one pool.

    All their trials stand in one order. The n-th of them is proposed when exactly those up to
    n - window are observed, however fast each of them was: what a seed proposes, and which task
    gets the next turn, depends on costs, never on who came first.

    Args:
        goals: the searches; new, with nothing asked.
        workers: where candidates are measured.
        total: trials that shall be known in the end, of all tasks, recorded ones included.
        finished: called with new results as they come, before anything is proposed after them:
            writes them to the log.
        waiting: called about once a second while nothing ends.
        spent: seconds of each phase.
        deadline: ``time.monotonic()`` at which no more is proposed.
    """

    goals: Sequence[Goal]
    workers: Pool
    total: int
    finished: Callable[[Sequence[News]], None]
    waiting: Callable[[], None]
    spent: PhaseTimes
    deadline: float = math.inf

    def __post_init__(self) -> None:
        self._window = window_of(self.workers.capacity)
        self._turns = Turns(self.goals, self._window)
        self._order: deque[tuple[Goal, int]] = deque()
        self._results: dict[tuple[int, int], MeasureResult] = {}
        self._in_flight: dict[int, tuple[Goal, int, Config]] = {}
        self._lost = 0

    def run(self) -> bool:
        """Search until all is observed that shall be; returns whether the time was up before.

        Raises:
            MeasureError: workers are lost again and again.
            LogError: a result cannot be written.
        """
        while True:
            more = self._propose()
            if not more:
                while self._tell_next():
                    pass
            if not self._in_flight:
                if not more:
                    return False
                continue
            if not self._collect():
                return True

    def _propose(self) -> bool:
        """Keep the pool full; returns whether there is more to propose once results are in."""
        while len(self._in_flight) < self.workers.capacity:
            if len(self._order) == self._window and not self._tell_next():
                return True
            if self._known() >= self.total or time.monotonic() >= self.deadline:
                return False
            with self.spent.on("propose"):
                goal = self._turns.next()
                proposal = None if goal is None else self._ask(goal)
            if goal is None:
                return False
            if proposal is None:
                continue
            number, config, result = proposal
            self._order.append((goal, number))
            if result is not None:
                self._results[id(goal), number] = result
                continue
            ticket = self.workers.submit(goal.input(config))
            self._in_flight[ticket] = goal, number, config
        return True

    def _known(self) -> int:
        return sum(goal.known for goal in self.goals)

    def _ask(self, goal: Goal) -> tuple[int, Config, MeasureResult | None] | None:
        """The next trial of a task; None where its template, space or sampler fails."""
        try:
            return goal.next()
        except LogError:
            raise
        except Exception as error:
            goal.fail(error)
            return None

    def _tell_next(self) -> bool:
        """Tell the next result in order; False where it is not there yet."""
        if not self._order:
            return False
        goal, number = self._order[0]
        result = self._results.pop((id(goal), number), None)
        if result is None:
            return False
        self._order.popleft()
        with self.spent.on("propose"):
            goal.tell(result)
        return True

    def _collect(self) -> bool:
        """Wait for results; False when the time is up and what is in flight takes too long."""
        if time.monotonic() >= self.deadline + GRACE:
            return False
        with self.spent.on("waiting"):
            done = self.workers.collect(timeout=1.0)
        if not done:
            self.waiting()
        # A ticket may be of an earlier search on this pool, which did not wait for it.
        ours = [(t, plausible(result)) for t, result in done if t in self._in_flight]
        news = [(*self._in_flight.pop(ticket), result) for ticket, result in ours]
        self.finished(news)
        for goal, number, _, result in news:
            self._results[id(goal), number] = result
            self._check(goal, result)
        return True

    def _check(self, goal: Goal, result: MeasureResult) -> None:
        """End a search that goes nowhere."""
        goal.count(result)
        self._lost = self._lost + 1 if result.status == "infra_error" else 0
        if self._lost >= LOST:
            raise MeasureError(
                "tune",
                f"{LOST} candidates in a row came back without an answer, as when workers are lost",
                "the last one:\n" + result.error,
            )


def plausible(result: MeasureResult) -> MeasureResult:
    """The result, or a failure where its costs cannot be times."""
    if not result.ok or all(map(is_time, result.costs)):
        return result
    costs = ", ".join(map(str, result.costs))
    error = f"costs are seconds, finite and above 0; these were reported: {costs}"
    return replace(result, status="run_error", stage="run", costs=(), error=error)


def _all_failed(failures: list[MeasureResult], commonest: int, status: str) -> str:
    pruned = sum(one.pruned for one in failures)
    failed = len(failures) - pruned
    if not failed:
        which = "the only candidate was" if pruned == 1 else f"all {pruned} candidates were"
        why = pruned_words(failures)
        return f"{which} pruned: the target has no room for them" + (f" ({why})" if why else "")
    apart = f", and {pruned} were pruned" if pruned else ""
    if failed == 1:
        return f"the only candidate failed with {status}" + apart.replace("were", "besides were")
    return f"all {failed} candidates failed, {commonest} of them with {status}{apart}"


def nothing_works(failures: list[MeasureResult]) -> MeasureError:
    """The error of a search in which no candidate worked; quotes the commonest failure."""
    if not failures:
        return MeasureError(
            "tune", "no trial of this task came to an end", "give it more trials, or more time"
        )
    broken = [failure for failure in failures if not failure.pruned]
    commonest = grouped(broken or failures, lambda one: (one.status, last_line(one.error)))[0]
    quoted = commonest[0]
    return MeasureError(
        "tune",
        _all_failed(failures, len(commonest), quoted.status),
        quoted.error.strip() or f"(no text; it ended in stage {quoted.stage!r})",
    )
