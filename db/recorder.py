"""Runs and trials written to a log; a run that has become another's is refused."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from whet.compiler.errors import LogError
from whet.db.store.database import Database
from whet.db.values.identity import clean_text
from whet.db.values.records import RunRecord, TrialEntry
from whet.measure.device.names import Device
from whet.measure.values import Json
from whet.search_spaces.values import Workload
from whet.search_spaces.values.counted import counted

if TYPE_CHECKING:
    import sqlalchemy as sa


def new_run(
    workload: Workload,
    target: Json,
    device: Device | None,
    fingerprint: str,
    sampler: str,
    seed: int | None,
    options: Json | None,
    versions: Json | None,
) -> RunRecord:
    """A run that begins now, with a name of its own; its arguments are those of a log's."""
    from uuid import uuid4

    if device is None:
        from whet.compiler.target.machine import host

        device = host.describe()
    return RunRecord(
        id=0,
        uid=uuid4().hex,
        workload=workload,
        target=target,
        device=device,
        fingerprint=fingerprint,
        sampler=sampler,
        seed=seed,
        options=options or {},
        versions=versions or {},
        state="running",
        started_at=time.time(),
        finished_at=None,
    )


class Recorder:
    """Writes the runs and trials of an open log, each in one transaction that may be repeated.

    Args:
        database: the log's.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[int, Json] = {}

    def start(self, run: RunRecord) -> int:
        """Insert a run, unless its uid is there; return its id.

        Raises:
            LogError: the log cannot be written.
        """
        from whet.db.store import queries

        request = f"start a run of {run.workload}"

        def write(connection: sa.Connection) -> int:
            run_id = queries.insert_run(connection, run)
            self._known.pop(run_id, None)
            self.keys(connection, run_id, request)
            return run_id

        return self._database.write(request, write)

    def finish(self, run_id: int, state: str) -> None:
        """Write how a run ended, and that it ended now.

        Raises:
            LogError: there is no such run, or the log cannot be written.
        """
        from whet.db.store import queries

        request, ended = f"finish run {run_id}", time.time()

        def write(connection: sa.Connection) -> None:
            self.keys(connection, run_id, request)
            queries.update_run(connection, run_id, clean_text(state), ended)

        self._database.write(request, write)

    def insert(self, entries: Sequence[TrialEntry], drop_recorded: bool) -> list[TrialEntry]:
        """Insert trials, count them and end their claims: all or none.

        Args:
            entries: the trials.
            drop_recorded: leave out a trial whose config another search has recorded.

        Returns:
            The entries that were left out.

        Raises:
            LogError: as of :meth:`whet.db.TuningLog.add_trial`.
        """
        if not entries:
            return []
        from whet.db.store import batches

        def write(connection: sa.Connection) -> list[TrialEntry]:
            keys = self.keys_of(connection, entries)
            return batches.insert_trials(connection, entries, keys, drop_recorded)

        return self._database.write(entries[0].request, write)

    def keys_of(self, connection: sa.Connection, entries: Sequence[TrialEntry]) -> dict[int, Json]:
        """:meth:`keys` of the runs of trials."""
        requests = {entry.run_id: entry.request for entry in reversed(entries)}
        return {run: self.keys(connection, run, request) for run, request in requests.items()}

    def withdraw(self, trials: tuple[int, ...], why: str) -> int:
        """Mark trials and all others of their configs; return how many bear the reason then.

        Raises:
            LogError: as of :meth:`whet.db.TuningLog.withdraw`.
        """
        from whet.db.store import batches

        request, reason = f"withdraw {counted(len(trials), 'trial')}", clean_text(why).strip()
        if not reason:
            raise LogError(request, "no reason is given", "say why they do not hold")
        return self._database.write(request, lambda c: batches.withdraw(c, trials, reason))

    def keys(self, connection: sa.Connection, run_id: int, request: str) -> Json:
        """A run's columns that its trials need; refuses a run which is not the one it was.

        Where another log was copied over this one's file, the number may be a stranger's.

        Args:
            connection: a transaction.
            run_id: of the run.
            request: its purpose, for the error's text.

        Raises:
            LogError: there is no such run, or it is another one than it was.
        """
        from whet.db.store import queries

        known, keys = self._known.get(run_id), queries.run_keys(connection, run_id)
        if keys is None or (known is not None and known != keys):
            why = f"{self._database.location} has no such run"
            if known is None:
                raise LogError(request, why, "start_run() gives one")
            why += " any more: another file was copied over it while it was open"
            raise LogError(request, why, "open the log anew, and start the search again")
        return self._known.setdefault(run_id, keys)
