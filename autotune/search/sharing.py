"""A search's part in a log that others write, too: its claims, its records, and their news."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from whet.db.values.claims import Answer, Mine, Recorded, Taken, TaskKey
from whet.db.values.identity import device_key, plain_json
from whet.search_spaces.values import Config

if TYPE_CHECKING:
    from whet.autotune.search.goal import Goal
    from whet.autotune.search.loop import Place
    from whet.db import LogSession
    from whet.db.values.records import TrialEntry

LISTEN_S, SOON_S = 0.5, 0.1
"""Seconds between two looks at the log, and where others' results are waited for."""
SHARE = 20
"""A look takes at most one part in so many of the time."""
AGAIN_S = 0.5
"""Seconds between two claims of one config."""
LAST = "whet: the last measurement"
"""The knob of the config whose claim lets one search at a time measure a task's finalists."""
HURRY = 6.0
"""Seconds for which a search that ends before its time waits for its log."""
NAMED = 8
"""Tasks that a session's label spells out."""


def name_of(task: TaskKey) -> str:
    """The name of a task in the labels of sessions."""
    parts = (task.workload.key, task.target, device_key(task.device), task.fingerprint)
    text = plain_json(parts, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


class Sharing:
    """The claims, records and news of one call of tune().

    Args:
        goals: its tasks.
        session: of the log.
        limit: configs that the log shall count in the end, of all these tasks together.
        begin_run: makes sure that a task has a run.

    Attributes:
        rank: how many other searches of one of the tasks were running when this one began.
    """

    def __init__(
        self,
        goals: Sequence[Goal],
        session: LogSession,
        limit: int,
        begin_run: Callable[[Goal], None],
    ) -> None:
        self._goals, self._session, self._begin_run = goals, session, begin_run
        self.limit = limit
        self.rank = session.rank(name_of(goal.key) for goal in goals)
        self._listened = self._again = time.monotonic()
        self._pause = LISTEN_S

    def claim(self, places: Sequence[Place]) -> list[Answer]:
        """Claim configs, in one transaction; the answers in order."""
        return self.exchange((), places)[1]

    def exchange(
        self, entries: Sequence[TrialEntry], places: Sequence[Place]
    ) -> tuple[set[tuple[int, int]], list[Answer]]:
        """Record trials and claim configs, in one transaction.

        Returns:
            Run and number of the trials that were left out: another search, which took this one for
            dead, has recorded their configs. And the answers to the claims, in order.
        """
        wanted = []
        for goal, number, config in places:
            self._begin_run(goal)
            assert goal.run_id is not None
            wanted.append((goal.run_id, number, config))
        together = [goal.key for goal in self._goals] if len(self._goals) > 1 else []
        left_out, answers = self._session.exchange(entries, wanted, self.limit, together)
        return self._left_out(left_out), answers

    def claim_if_lost(self, places: Sequence[Place]) -> None:
        """Claim again what is being measured here, where others took this search for dead.

        Who has claimed a config meanwhile measures it, too: whose result comes first counts.
        """
        if self._session.has_returned() and places:
            self.claim(places)

    def is_time_again(self) -> bool:
        """True if claims that others had may be repeated; then not again for :data:`AGAIN_S`."""
        now = time.monotonic()
        if now - self._again < AGAIN_S:
            return False
        self._again = now
        return True

    def _left_out(self, left_out: Sequence[TrialEntry]) -> set[tuple[int, int]]:
        if not left_out:
            return set()
        wanted = [(one.run_id, one.number, one.config) for one in left_out]
        answers = self._session.reserve_all(wanted)
        theirs = [isinstance(answer, Recorded | Taken) for answer in answers]
        # The other's record is broken: what was measured here is not lost for it.
        self._session.log.add_trials([e for e, other in zip(left_out, theirs) if not other])
        return {(e.run_id, e.number) for e, other in zip(left_out, theirs) if other}

    @contextmanager
    def hurry(self) -> Iterator[None]:
        """Wait :data:`HURRY` for the log at most, while the ``with`` lasts."""
        patience = self._session.log.patience
        seconds, patience.seconds = patience.seconds, min(patience.seconds, HURRY)
        try:
            yield
        finally:
            patience.seconds = seconds

    def release(self, places: Sequence[Place]) -> None:
        """Give up claims of configs that will not be measured."""
        by_run: dict[int, list[Config]] = {}
        for goal, _, config in places:
            if goal.run_id is not None:
                by_run.setdefault(goal.run_id, []).append(config)
        for run_id, configs in by_run.items():
            self._session.release(run_id, configs)

    def listen(self, soon: bool) -> bool:
        """Let the tasks hear what others recorded; False where the last look is not long ago.

        Args:
            soon: something is waited for.
        """
        began = time.monotonic()
        if began - self._listened < (min(SOON_S, self._pause) if soon else self._pause):
            return False
        for goal in self._goals:
            if goal.error is None:
                points, mark = self._session.log.news(goal.key, goal.mark)
                goal.hear(points, mark)
        self._listened = time.monotonic()
        self._pause = max(LISTEN_S, SHARE * (self._listened - began))
        return True

    def wait(self) -> None:
        """Wait a moment for others."""
        time.sleep(SOON_S / 2)

    @contextmanager
    def turn(self, goal: Goal, waiting: Callable[[], None]) -> Iterator[None]:
        """The only measurement of a task's finalists on this log, while the ``with`` lasts.

        Where others take this search for dead meanwhile, its claim is ended, and one of them may
        measure the finalists at the same time. Both record what they measured, and the newer of the
        two decides.

        Args:
            goal: the task, of which there are trials.
            waiting: called once where another search is at it.
        """
        run_id = max(goal.runs_in(self._session.log))
        claimed = Config(((LAST, 0),), goal.space.fingerprint)
        said = False
        while not isinstance(self._session.reserve(run_id, 0, claimed), Mine):
            if not said:
                waiting()
            said = True
            time.sleep(SOON_S)
        yield
        # An exception closes the session, and with it the claim.
        self._session.release(run_id, [claimed])
