"""Records brought into a log, in one transaction: runs by their names, trials by the batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa

from whet.compiler.errors import LogError
from whet.db.exchange.lines import Broken, Skipped
from whet.db.store import queries
from whet.db.store.batches import CHUNK, insert_trials, keep_tasks
from whet.db.store.models import TrialRow
from whet.db.values.decision import FINALISTS_RUN
from whet.db.values.records import RunRecord, TrialEntry
from whet.measure.values import Json
from whet.search_spaces.values.counted import counted

if TYPE_CHECKING:
    from whet.db.log import TuningLog

ROLLED_BACK = "40"
"""How SQLSTATE begins where a server ended a transaction because of others: a deadlock is 40P01."""
BATCH = 500
"""Trials that are inserted by one statement."""

R = TypeVar("R")


def in_one_transaction(log: TuningLog, request: str, fn: Callable[[sa.Connection], R]) -> R:
    """The result of a function that writes many batches, all of them or none.

    Each batch locks its tasks as it comes, so that such a transaction and a search of several tasks
    may wait for each other. A server ends one of the two, most often this one, which has done more
    and waited less: from then on it keeps the others from locking any task until it is done.

    Args:
        log: the log to write.
        request: its purpose, for the error's text.
        fn: reads and writes; called again after an error that passes.

    Raises:
        LogError: the log cannot be written; what ``fn`` raises.
    """
    in_a_circle = False

    def write(connection: sa.Connection) -> R:
        nonlocal in_a_circle
        if in_a_circle:
            keep_tasks(connection)
        try:
            return fn(connection)
        except sa.exc.DBAPIError as error:
            state = str(getattr(error.orig, "sqlstate", "") or "")
            in_a_circle = in_a_circle or state.startswith(ROLLED_BACK)
            raise

    return log.write(request, write)


@dataclass
class Taken:
    """Records that were written to a file, or were new to a log.

    Attributes:
        runs: searches and last measurements.
        trials: of searches.
        finals: of last measurements: a search's fastest and the default, measured once more.
        applied: of AutoTVM's trials, those of a space that a template here has.
        history: of AutoTVM's trials, those that no template here can build.
        skipped: lines that are no records.
    """

    runs: int = 0
    trials: int = 0
    finals: int = 0
    applied: int = 0
    history: int = 0
    skipped: Skipped = field(default_factory=Skipped)

    @property
    def records(self) -> int:
        """All trials."""
        return self.trials + self.finals

    def add(self, other: Taken) -> None:
        """Add another's numbers."""
        for name in ("runs", "trials", "finals", "applied", "history"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def __str__(self) -> str:
        words = [counted(self.trials, "trial")]
        if self.finals:
            words.append(f"{counted(self.finals, 'result')} of last measurements")
        return f"{' and '.join(words)} in {counted(self.runs, 'run')}"


class Writer:
    """Writes runs and trials in a transaction; those that are there already stay as they are.

    Args:
        connection: the transaction.
        broken: is called with what is no record; it may raise.
    """

    def __init__(self, connection: sa.Connection, broken: Callable[[Broken], None]) -> None:
        self._connection = connection
        self._broken = broken
        self._ids: dict[str, int] = {}
        self._keys: dict[int, Json] = {}
        self._batch: list[tuple[int, TrialEntry, str | None]] = []
        self.taken = Taken()

    def knows(self, uid: str) -> bool:
        """True if the run was written, or found, before."""
        return uid in self._ids

    def run(self, run: RunRecord) -> None:
        """Write a run, or bring the state of one that is there up to date."""
        if not self.knows(run.uid):
            there = sa.select(sa.func.count()).where(queries.RUNS.c.uid == run.uid)
            self.taken.runs += not self._connection.execute(there).scalar_one()
        run_id = queries.insert_run(self._connection, run)
        keys = queries.run_keys(self._connection, run_id)
        assert keys is not None
        self._ids[run.uid], self._keys[run_id] = run_id, keys
        if run.finished_at is not None:  # it may have been running when it was written before
            queries.update_run(self._connection, run_id, run.state, run.finished_at)

    def finish(self, uid: str, when: float) -> None:
        """Write when a run that is known ended."""
        queries.update_run(self._connection, self._ids[uid], "finished", when)

    def trial(
        self, uid: str, entry: TrialEntry, withdrawn: str | None = None, line: int = 0
    ) -> None:
        """Write a trial, sooner or later.

        Args:
            uid: of its run, which must be known.
            entry: the trial; its run is that of ``uid``.
            withdrawn: why it no longer holds; None: it does.
            line: its place in a file, for errors.
        """
        self._batch.append((line, entry._replace(run_id=self._ids[uid]), withdrawn))
        if len(self._batch) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Write what is left to write."""
        batch, self._batch = self._batch, []
        if not batch:
            return
        known = self._known(batch)
        try:
            insert_trials(self._connection, [entry for _, entry, _ in batch], self._keys)
        except LogError:
            # It refuses a batch before it writes any of it: which one is it?
            batch = [one for one in batch if self._inserted(one)]
        for _, entry, withdrawn in batch:
            place = (entry.run_id, entry.number)
            if place not in known:
                known.add(place)
                final = self._keys[entry.run_id]["sampler"] == FINALISTS_RUN
                self.taken.finals += final
                self.taken.trials += not final
            if withdrawn is not None:
                self._withdraw(place, withdrawn)

    def _inserted(self, one: tuple[int, TrialEntry, str | None]) -> bool:
        line, entry, _ = one
        try:
            insert_trials(self._connection, [entry], self._keys)
        except LogError as error:
            self._broken(Broken(line, str(error)))
            return False
        return True

    def _known(self, batch: list[tuple[int, TrialEntry, str | None]]) -> set[tuple[int, int]]:
        """The runs and numbers of those trials that the log has."""
        numbers: dict[int, list[int]] = {}
        for _, entry, _ in batch:
            numbers.setdefault(entry.run_id, []).append(entry.number)
        known: set[tuple[int, int]] = set()
        for run_id, wanted in numbers.items():
            for start in range(0, len(wanted), CHUNK):
                query = sa.select(TrialRow.number).where(
                    TrialRow.run_id == run_id, TrialRow.number.in_(wanted[start : start + CHUNK])
                )
                known.update((run_id, n) for n in self._connection.execute(query).scalars())
        return known

    def _withdraw(self, place: tuple[int, int], why: str) -> None:
        change: Any = sa.update(TrialRow).where(
            TrialRow.run_id == place[0], TrialRow.number == place[1], TrialRow.withdrawn.is_(None)
        )
        self._connection.execute(change.values(withdrawn=why))
