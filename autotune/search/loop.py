"""The feedback loop, closed here and nowhere else: propose, measure, record, tell."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from whet.autotune.results.failures import grouped, last_line
from whet.autotune.results.result import pruned_words
from whet.autotune.results.trial import Trial
from whet.autotune.search.task_scheduler import Turns
from whet.compiler.errors import LogError, MeasureError
from whet.db.values.claims import Full, Mine, Recorded
from whet.measure.values import is_time

if TYPE_CHECKING:
    from whet.autotune.search.goal import Goal
    from whet.autotune.search.phase_times import PhaseTimes
    from whet.autotune.search.sharing import Sharing
    from whet.db.values.records import Told
    from whet.measure import Pool
    from whet.measure.values import MeasureResult
    from whet.search_spaces import Config

LOST = 10
"""Workers lost (``infra_error``) in a row before the search gives up."""
GRACE = 2.0
"""Seconds after a timeout in which results in flight are still taken."""


BEYOND = 8
"""Windows of trials in the order at most, where some of them are measured by other searches."""

Place = tuple["Goal", int, "Config"]
"""A trial of a search: whose, its number, its config."""


class News(NamedTuple):
    """A new result.

    Attributes:
        goal: whose.
        number: the trial's.
        config: the candidate.
        result: what came of it.
        told: what the proposer had been told of since the proposal before.
    """

    goal: Goal
    number: int
    config: Config
    result: MeasureResult
    told: Told


def window_of(capacity: int) -> int:
    """The trials that are proposed before the first of them is observed: 4, 8 or 16.

    Few sizes, so that pools of similar capacity give one seed the same search; never more than
    16, because samplers get worse when they learn late.
    """
    return next((w for w in (4, 8) if capacity <= w), 16)


@dataclass(eq=False)
class _Turn:
    """A trial in the order of telling.

    Attributes:
        goal: whose.
        number: the trial's.
        name: as the log says what was told; None: it was known from the start.
        own: it is measured here, or was recorded by an earlier search.
        result: of it; None while it is not there.
        known: results that its task was told of when it was proposed.
        told: those of them that came since the proposal before.
    """

    goal: Goal
    number: int
    name: int | str | None
    own: bool = True
    result: MeasureResult | None = None
    known: int = 0
    told: Told = ()


@dataclass
class Loop:
    """Drives the searches of one or many tasks over one pool.

    All their trials stand in one order. The n-th of them is proposed when exactly those up to
    n - window are observed, however fast each of them was: what a seed proposes, and which task
    gets the next turn, depends on costs, never on who came first.

    A config is claimed in the log before it is measured. One that another search measures keeps
    its place in the order, and the next one is asked for; its result comes with the log's news, as
    do trials that were not asked for here: those are placed in the order when they come.

    Args:
        goals: the searches; new, with nothing asked.
        workers: where candidates are measured.
        total: trials that shall be known in the end, of all tasks, recorded ones included.
        shared: the log.
        finished: called with new results as they come, before anything is proposed after them:
            writes them to the log. Returns those that another search had recorded before.
        others: called with a task and another's trial, when it comes.
        waiting: called about once a second while nothing ends.
        spent: seconds of each phase.
        deadline: ``time.monotonic()`` at which no more is proposed.
    """

    goals: Sequence[Goal]
    workers: Pool
    total: int
    shared: Sharing
    finished: Callable[[Sequence[News]], set[int]]
    others: Callable[[Goal, Trial], None]
    waiting: Callable[[], None]
    spent: PhaseTimes
    deadline: float = math.inf

    def __post_init__(self) -> None:
        self._window = window_of(self.workers.capacity)
        self._turns = Turns(self.goals, self._window)
        self._order: deque[_Turn] = deque()
        self._turn_of: dict[tuple[int, int], _Turn] = {}
        self._in_flight: dict[int, Place] = {}
        self._elsewhere: list[tuple[Place, MeasureResult | None]] = []
        self._held: list[Place] = []
        self._full = False
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
            if self._in_flight:
                if not self._collect():
                    self.shared.release(list(self._in_flight.values()))
                    return True
            elif not more and not self._waits():
                return False
            else:  # for others
                with self.spent.on("waiting"):
                    self.shared.wait()
                self.waiting()
            self._listen()

    # --- proposing --------------------------------------------------------------------------------

    def _propose(self) -> bool:
        """Keep the pool full; returns whether there is more to propose once results are in."""
        while True:
            more, wanted = self._ask_round()
            if not wanted:
                return more
            self._claim(wanted)

    def _ask_round(self) -> tuple[bool, list[Place]]:
        """As many configs as the pool has room for; whether there may be more."""
        wanted: list[Place] = []
        self._place_arrivals()
        while self._order and not self._order[0].own and self._tell_next():
            pass
        while len(self._in_flight) + len(wanted) < self.workers.capacity:
            if self._held:
                return self._waits(), wanted
            while self._is_window_full():
                if not self._tell_next():
                    return True, wanted
            if self._known() >= self.total or time.monotonic() >= self.deadline:
                return False, wanted
            with self.spent.on("propose"):
                goal = self._turns.next()
                proposal = None if goal is None else self._ask(goal)
            if goal is None:
                return False, wanted
            if proposal is None:
                continue
            number, config, result = proposal
            name = number if result is None else None
            turn = _Turn(goal, number, name, result=result, known=goal.told)
            self._order.append(turn)
            if result is None:
                self._turn_of[id(goal), number] = turn
                wanted.append((goal, number, config))
        return True, wanted

    def _is_window_full(self) -> bool:
        own = sum(turn.own for turn in self._order)
        if own < self._window:
            return False
        # Others' configs that are waited for shall keep nobody idle.
        return not self._elsewhere or len(self._order) >= BEYOND * self._window

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
        if not self._order or (result := self._order[0].result) is None:
            return False
        turn = self._order.popleft()
        with self.spent.on("propose"):
            turn.goal.tell(result, turn.name)
        return True

    # --- sharing ----------------------------------------------------------------------------------

    def _claim(self, places: Sequence[Place]) -> None:
        """Claim configs, and measure those that nobody else has."""
        with self.spent.on("log"):
            answers = self.shared.claim(places)
        for place, answer in zip(places, answers, strict=True):
            goal, number, config = place
            if isinstance(answer, Mine):
                ticket = self.workers.submit(goal.input(config))
                self._in_flight[ticket] = place
                turn = self._turn_of[id(goal), number]
                turn.own, turn.told = True, goal.told_until(turn.known)
            elif isinstance(answer, Full):
                self._held.append(place)
                self._full = self._full or answer.trials >= self.shared.limit
            else:
                found = answer.trial.result if isinstance(answer, Recorded) else None
                self._elsewhere.append((place, found))
                self._turn_of[id(goal), number].own = False

    def _waits(self) -> bool:
        """True while others' results, or room for a config, may come and are wanted."""
        if self._full or time.monotonic() >= self.deadline:
            return False
        places = [*self._held, *(place for place, _ in self._elsewhere)]
        return any(not goal.stopped and goal.error is None for goal, *_ in places)

    def _listen(self) -> None:
        """Learn of others' results, and claim again what they had claimed."""
        open_places = bool(self._elsewhere or self._held)
        with self.spent.on("log"):
            if not self.shared.listen(open_places) and not open_places:
                return
        left: list[tuple[Place, MeasureResult | None]] = []
        for (goal, number, config), recorded in self._elsewhere:
            heard = goal.from_elsewhere(config)
            if heard is None and recorded is not None:
                heard = None, recorded
            if heard is None:
                left.append(((goal, number, config), None))
                continue
            name = None if heard[0] is None else f"t{heard[0]}"
            self._has_come(Trial(number, config, heard[1], goal.task.flop), goal, name)
        self._elsewhere = left
        if not self._full and time.monotonic() < self.deadline and self.shared.is_time_again():
            self._claim_again()

    def _claim_again(self) -> None:
        """Claim what others had, or what there was no room for, as far as the pool has room."""
        room = max(0, self.workers.capacity - len(self._in_flight))
        places = [*(place for place, _ in self._elsewhere), *self._held]
        again = places[:room]
        if not again:
            return
        held = set(map(id, again))
        self._elsewhere = [one for one in self._elsewhere if id(one[0]) not in held]
        self._held = [place for place in self._held if id(place) not in held]
        self._claim(again)

    def _has_come(self, trial: Trial, goal: Goal, name: str | None) -> None:
        """Another's result of a config that was asked for here."""
        turn = self._turn_of.pop((id(goal), trial.number))
        turn.result, turn.name = trial.result, name
        goal.note(trial, own=False)
        self.others(goal, trial)

    def _place_arrivals(self) -> None:
        """Others' trials that were not asked for here take the next places."""
        for goal in self.goals:
            if not goal.is_searched:
                continue
            for log_id, number, trial in goal.arrivals():
                self._order.append(_Turn(goal, number, f"t{log_id}", False, trial.result))
                self.others(goal, trial)

    # --- results ----------------------------------------------------------------------------------

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
        news = []
        for ticket, result in ours:
            goal, number, config = self._in_flight.pop(ticket)
            told = self._turn_of[id(goal), number].told
            news.append(News(goal, number, config, result, told))
        dropped = self.finished(news)
        for place, one in enumerate(news):
            goal, number, config, result, _ = one
            if place in dropped:  # it counts as the other search measured it
                self._elsewhere.append(((goal, number, config), None))
                self._turn_of[id(goal), number].own = False
                continue
            self._turn_of.pop((id(goal), number)).result = result
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
