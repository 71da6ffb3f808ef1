"""The feedback loop, closed here and nowhere else: propose, measure, record, tell."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from whet.autotune.results.trial import Trial
from whet.autotune.search.order import Order, Turn, window_for
from whet.autotune.search.task_scheduler import Turns
from whet.compiler.errors import LogError, MeasureError
from whet.db.values.claims import Answer, Full, Mine, Recorded
from whet.measure.values import is_time
from whet.search_spaces.values.counted import counted

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
LONG = 0.25
"""Seconds of proposing, as of a model's fit, before which results are written by themselves."""
FADES = 0.9
"""By how much the longest proposing counts for less with each round: models are fitted now and
then."""


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


@dataclass
class Loop:
    """Drives the searches of one or many tasks over one pool.

    All their trials stand in one order. The n-th of them is proposed when exactly those up to
    n - window are observed, however fast each of them was: what a seed proposes, and which task
    gets the next turn, depends on costs, never on who came first. But a trial that takes several
    times as long as the others holds nobody up: it is set aside, and observed when it comes. The
    log says what was observed before each proposal; a search of one task that goes on observes the
    same.

    A config is claimed in the log before it is measured. One that another search measures keeps
    its place in the order, and the next one is asked for; its result comes with the log's news, as
    do trials that were not asked for here: those are placed in the order when they come.

    Args:
        goals: the searches; new, with nothing asked.
        workers: where candidates are measured.
        total: trials that shall be known in the end, of all tasks, recorded ones included.
        shared: the log.
        finished: called with new results as they come, before any of them is told, and with
            configs to claim: writes both to the log, in one transaction. Returns the places of
            those results that another search had recorded before, and the answers to the claims.
        others: called with a task and another's trial, when it comes.
        waiting: called about once a second while nothing ends.
        spent: seconds of each phase.
        deadline: ``time.monotonic()`` at which no more is proposed.
    """

    goals: Sequence[Goal]
    workers: Pool
    total: int
    shared: Sharing
    finished: Callable[[Sequence[News], Sequence[Place]], tuple[set[int], list[Answer]]]
    others: Callable[[Goal, Trial], None]
    waiting: Callable[[], None]
    spent: PhaseTimes
    deadline: float = math.inf

    def __post_init__(self) -> None:
        self._order = Order(window_for(self.workers))
        self._turns = Turns(self.goals, self._order.window)
        for goal in self.goals if len(self.goals) == 1 else ():
            # Of several tasks, whose turn it was depends on what was told: they go step by step.
            for number, result in goal.recall(self._order.window):
                self._order.add(Turn(goal, number, number, result=result))
        self._turn_of: dict[tuple[int, int], Turn] = {}
        self._after: dict[int, int] = {}  # by task what the latest recorded trial was told of
        self._in_flight: dict[int, Place] = {}
        self._elsewhere: list[tuple[Place, MeasureResult | None]] = []
        self._held: list[Place] = []
        self._full = False
        self._lost = 0
        self._asking_s = 0.0  # what a round of proposals may take

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
        self._order.window = max(self._order.window, window_for(self.workers))
        self._turns.length = self._order.window
        self._place_arrivals()
        if self._told_before() is None:
            while (turn := self._order.next_of_others()) is not None:
                self._tell(turn)
        while len(self._in_flight) + len(wanted) < self.workers.capacity:
            if self._held:
                return self._waits(), wanted
            if not self._make_room():
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
            turn = Turn(goal, number, number, result=result, known=goal.observations.count)
            turn.after = self._after.get(id(goal), 0)
            self._order.add(turn)
            if result is None:
                self._turn_of[id(goal), number] = turn
                wanted.append((goal, number, config))
            else:
                self._after[id(goal)] = turn.known
        return True, wanted

    def _make_room(self) -> bool:
        """Tell what has to be told before the next proposal; False where it is not there yet."""
        told = self._told_before()
        if told is not None:
            for turn in self._order.next_as(told, bool(self._elsewhere)):
                self._tell(turn)
            return True
        while self._order.is_full(bool(self._elsewhere)):
            if not self._tell_next() and not self._order.set_aside():
                return False
        return True

    def _told_before(self) -> Sequence[int] | None:
        """The trials that were told before the next one was proposed; None where it is new.

        Of several tasks, whose turn it was depends on what was told of all: they go by the window.
        """
        return self.goals[0].told_before() if len(self.goals) == 1 else None

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
        turn = self._order.next()
        if turn is not None:
            self._tell(turn)
        return turn is not None

    def _tell(self, turn: Turn) -> None:
        assert turn.result is not None
        with self.spent.on("propose"):
            turn.goal.tell(turn.number, turn.result, turn.name)

    # --- sharing ----------------------------------------------------------------------------------

    def _claim(self, places: Sequence[Place]) -> None:
        """Claim configs, and measure those that nobody else has."""
        with self.spent.on("log"):
            answers = self.shared.claim(places)
        self._claimed(places, answers)

    def _claimed(self, places: Sequence[Place], answers: Sequence[Answer]) -> None:
        for place, answer in zip(places, answers, strict=True):
            goal, number, config = place
            if isinstance(answer, Mine):
                ticket = self.workers.submit(goal.input(config))
                self._in_flight[ticket] = place
                turn = self._turn_of[id(goal), number]
                turn.own, turn.since = True, time.monotonic()
                goal.observations.until(turn.after)
                turn.told = goal.observations.until(turn.known)
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
            self.shared.claim_if_lost(list(self._in_flight.values()))
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
                self._order.add(Turn(goal, number, f"t{log_id}", False, trial.result))
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
        if news:
            self._take(news, self._write_and_claim(news))
        return True

    def _write_and_claim(self, news: Sequence[News]) -> set[int]:
        """Write results and claim the next configs, which are told of none of these results.

        In one transaction; in two where proposing may take long: who is killed meanwhile would lose
        the results.

        Returns:
            The places of the results that another search had recorded before.
        """
        if self._asking_s > LONG:
            dropped = self.finished(news, ())[0]
            wanted = self._timed_round()
            if wanted:
                self._claim(wanted)
            return dropped
        try:
            wanted = self._timed_round()
        except BaseException as first:
            self._write_at_last(news, first)
            raise
        dropped, answers = self.finished(news, wanted)
        self._claimed(wanted, answers)
        return dropped

    def _timed_round(self) -> list[Place]:
        began = time.monotonic()
        wanted = self._ask_round()[1]
        self._asking_s = max(time.monotonic() - began, FADES * self._asking_s)
        return wanted

    def _write_at_last(self, news: Sequence[News], first: BaseException) -> None:
        """Write results though something ends the search, which is what its user must hear."""
        try:
            with self.shared.hurry():
                self.finished(news, ())
        except BaseException as second:
            first.add_note(f"{counted(len(news), 'result')} could not be recorded: {second!r}")

    def _take(self, news: Sequence[News], dropped: set[int]) -> None:
        """Put results that are recorded into the order."""
        for place, (goal, number, config, result, _) in enumerate(news):
            if place in dropped:  # it counts as the other search measured it
                self._elsewhere.append(((goal, number, config), None))
                self._turn_of[id(goal), number].own = False
                continue
            turn = self._turn_of.pop((id(goal), number))
            turn.result = result
            self._order.lasted(turn)
            self._check(goal, result)

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
