"""TuningLog: what was tried, on which machine, and what came of it."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import LogError, SpaceError
from whet.db.values.identity import clean_text, device_key
from whet.db.values.records import RunRecord, TaskSummary, TrialRecord
from whet.measure.device.identity import device_of
from whet.measure.device.names import Device, this_device
from whet.measure.values import MeasureResult, target_json
from whet.search_spaces.values import Config, Workload

if TYPE_CHECKING:
    import sqlalchemy as sa

    from whet.compiler.runtime.arrays.device import Device as RuntimeDevice
    from whet.compiler.target import Target
    from whet.db.store.reading import Reader
    from whet.search_spaces.space.config_space import ConfigSpace


class TuningLog:
    """A log of trials in an SQLite file or another SQL database.

    What :meth:`add_trial` has returned from is on disk: a killed process loses nothing that was
    acknowledged. Several processes may write one log at once. Everything in it is data; nothing
    read from it is unpickled or evaluated.

    Args:
        location: a file's path (made where there is none), or an SQLAlchemy URL such as
            ``postgresql://user@host/name``.
        write: make the file and write to it; False opens an existing log for reading only. A file
            that may not be written is opened for reading either way, and refuses when written.

    Raises:
        LogError: the directory or (for reading) the file is missing; it is not a database, not a
            log, or made by a newer version of Whet.

    Targets are a ``Target``, its canonical ``to_json()`` or a target string; devices are
    ``host.fingerprint()`` or ``host.describe()``, and None is this machine's where one is needed.

    Rows that cannot be read are passed over, whatever reads them; an
    :class:`~whet.db.IgnoredRecordsWarning` says how many, once for each row and open log.
    """

    def __init__(self, location: str | os.PathLike[str] = "whet.db", *, write: bool = True) -> None:
        from whet.db.store import queries  # SQLAlchemy is loaded with the first log, not before
        from whet.db.store.database import Database

        self._queries = queries
        self._database = Database(location, write)
        self._keys_of_run: dict[int, dict[str, Any]] = {}

    @property
    def location(self) -> str:
        """The path or URL, without a password."""
        return self._database.place.shown

    @property
    def read_only(self) -> bool:
        """Whether this log refuses to be written."""
        return bool(self._database.read_only)

    @property
    def broken(self) -> int:
        """How many rows were passed over so far, because they cannot be read."""
        return len(self._database.broken)

    @property
    def _engine(self) -> sa.Engine:
        return self._database.engine

    def __repr__(self) -> str:
        return f"TuningLog({self.location!r})"

    def __len__(self) -> int:
        """How many trials it holds, those that cannot be read included."""
        with self.reading("count the trials") as connection:
            return self._queries.count_trials(connection)

    def __bool__(self) -> bool:
        """A log is one, also without trials."""
        return True

    def __iter__(self) -> Iterator[TrialRecord]:
        """The trials that can be read, in order of runs and numbers."""
        return iter(self.trials())

    def __enter__(self) -> TuningLog:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the log opens them again when it is used again."""
        self._database.close()

    def reading(self, asked: str) -> AbstractContextManager[sa.Connection]:
        """One transaction that only reads what ``asked`` says; ``LogError`` if it cannot."""
        return self._database.reading(asked)

    def _records(self, asked: str) -> AbstractContextManager[Reader]:
        return self._database.records(asked)

    def writing(self, asked: str) -> AbstractContextManager[sa.Connection]:
        """One transaction that writes: all of it is on disk afterwards, or nothing.

        Args:
            asked: what is being written, for the error's text.

        Raises:
            LogError: the log can only be read, or the database refused.
        """
        return self._database.writing(asked)

    def check_writable(self, asked: str) -> None:
        """Refuse a log that can only be read, before work is done for it.

        Args:
            asked: what will be written, for the error's text.

        Raises:
            LogError: the log can only be read.
        """
        self._database.check_writable(asked)

    def start_run(
        self,
        workload: Workload,
        target: Target | dict[str, Any] | str,
        device: Device | None,
        space_fingerprint: str,
        sampler: str = "",
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        versions: dict[str, Any] | None = None,
    ) -> int:
        """Begin a search, and return its number in this log.

        Args:
            workload: the template's name and arguments.
            target: what is compiled for.
            device: the machine that measures; None describes this one.
            space_fingerprint: ``space.fingerprint``.
            sampler: who proposes.
            seed: from which seed.
            options: how candidates are measured, as JSON-able data.
            versions: of the libraries that take part, as JSON-able data.

        Raises:
            LogError: the log cannot be written.
        """
        if device is None:
            from whet.compiler.target.machine import host

            device = host.describe()
        run = RunRecord(
            id=0,
            uid=uuid.uuid4().hex,
            workload=workload,
            target=target_json(target),
            device=device,
            fingerprint=space_fingerprint,
            sampler=sampler,
            seed=seed,
            options=options or {},
            versions=versions or {},
            state="running",
            started_at=time.time(),
            finished_at=None,
        )
        asked = f"start a run of {workload}"
        with self.writing(asked) as connection:
            run_id = self._queries.insert_run(connection, run)
            self._keys_of_run.pop(run_id, None)
            self._keys(connection, run_id, asked)
        return run_id

    def finish_run(self, run_id: int, state: str = "finished") -> None:
        """Write how a run ended.

        Args:
            run_id: from :meth:`start_run`.
            state: such as ``"finished"``, ``"interrupted"`` or ``"failed"``.

        Raises:
            LogError: there is no such run, or the log cannot be written.
        """
        asked = f"finish run {run_id}"
        with self.writing(asked) as connection:
            self._keys(connection, run_id, asked)
            self._queries.update_run(connection, run_id, clean_text(state), time.time())

    def add_trial(
        self,
        run_id: int,
        number: int,
        config: Config,
        result: MeasureResult,
        flop: float = 0,
        features: str = "",
    ) -> None:
        """Record a trial; it is on disk when this returns. The same trial again changes nothing.

        Args:
            run_id: from :meth:`start_run`.
            number: the trial's number in the run, from 0 on.
            config: the candidate.
            result: what came of it.
            flop: arithmetic operations of one call; 0 when not known.
            features: of a cost model, from :func:`whet.db.store.vectors.pack`; "": none.

        Raises:
            LogError: no such run; the number is taken by another trial; the config is of another
                space than the run's; a success without a finite cost; the log cannot be written.
        """
        self.add_trials([(run_id, number, config, result, flop, features)])

    def add_trials(
        self, entries: Sequence[tuple[int, int, Config, MeasureResult, float, str]]
    ) -> None:
        """:meth:`add_trial` for several, given its arguments, in one transaction: all or none."""
        if not entries:
            return
        first = f"add trial {entries[0][1]} of run {entries[0][0]}"
        with self.writing(first) as connection:
            for run_id, number, config, result, flop, features in entries:
                keys = self._keys(connection, run_id, f"add trial {number} of run {run_id}")
                self._queries.insert_trial(
                    connection, keys, run_id, number, config, result, flop, features
                )

    def _keys(self, connection: sa.Connection, run_id: int, asked: str) -> dict[str, Any]:
        """A run's keys; refuses a run of that number which is not the one it was.

        Where another log was copied over this one's file, the number may be a stranger's.
        """
        known, keys = self._keys_of_run.get(run_id), self._queries.run_keys(connection, run_id)
        if keys is None or (known is not None and known != keys):
            why = f"{self.location} has no such run"
            if known is None:
                raise LogError(asked, why, "start_run() gives one")
            why += " any more: another file was copied over it while it was open"
            raise LogError(asked, why, "open the log anew, and start the search again")
        return self._keys_of_run.setdefault(run_id, keys)

    def trials(
        self,
        workload: Workload | None = None,
        target: Target | dict[str, Any] | str | None = None,
        device: Device | None = None,
        fingerprint: str | None = None,
        status: str | None = None,
        run_id: int | None = None,
    ) -> list[TrialRecord]:
        """The trials that match everything given (None: any), in order of runs and numbers."""
        with self._records("read trials") as reader:
            where = self._queries.conditions(
                reader.connection, workload, target, device, fingerprint
            )
            if where is None:
                return []
            if status is not None:
                where["status"] = status
            return self._queries.select_trials(reader, where, run_id)

    def best(
        self,
        workload: Workload,
        target: Target | dict[str, Any] | str,
        device: Device | RuntimeDevice | None = None,
        fingerprint: str | None = None,
    ) -> TrialRecord | None:
        """The best trial of a workload, or None where nothing worked.

        The winner of the newest interleaved last measurement, unless a later search found a
        cheaper one: see :mod:`whet.db.values.decision`.

        Args:
            workload: the template's name and arguments.
            target: only what was compiled for this very target counts.
            device: whose records count: a fingerprint, a device or its name; None: this machine's.
                Another machine's are never taken unless that machine is named here.
            fingerprint: only trials of this space; None: of any.
        """
        with self._records("read the best trial") as reader:
            whose = device_of(target, device)
            where = self._queries.conditions(
                reader.connection, workload, target, whose, fingerprint
            )
            return None if where is None else self._queries.best_trial(reader, where)

    def best_config(
        self,
        workload: Workload,
        target: Target | dict[str, Any] | str,
        space: ConfigSpace,
        device: Device | RuntimeDevice | None = None,
    ) -> Config | None:
        """The config of :meth:`best_in`, or None."""
        record = self.best_in(space, workload, target, device)
        return None if record is None else record.config

    def best_in(
        self,
        space: ConfigSpace,
        workload: Workload,
        target: Target | dict[str, Any] | str,
        device: Device | RuntimeDevice | None = None,
    ) -> TrialRecord | None:
        """The best trial, its config as ``space`` makes it, or None.

        Args:
            space: the space as it is today; records of other versions of it do not count.
            workload: the template's name and arguments.
            target: what is compiled for.
            device: as in :meth:`best`.

        Raises:
            LogError: the record claims this space's fingerprint, but its choices are not in it
                (the log was edited).
        """
        record = self.best(workload, target, device, space.fingerprint)
        if record is None:
            return None
        try:
            return replace(record, config=space.from_choices(record.config.as_dict()))
        except SpaceError as error:
            raise LogError(
                f"take the best config of {workload} from {self.location}",
                f"trial {record.number} of run {record.run_id} is not in the space ({error})",
                "the record was altered: tune again into a fresh log",
            ) from error

    def known_program(
        self, program_hash: str, device: Device | None = None
    ) -> MeasureResult | None:
        """What came of a program that was measured on a device before, or None.

        Timeouts, lack of memory and lost workers do not count: they may end otherwise next time.

        Args:
            program_hash: hash of the lowered program and its target.
            device: the machine; None: this one.
        """
        device = this_device() if device is None else device
        with self._records("look up a program") as reader:
            device_id = self._queries.find_device_id(reader.connection, device)
            if not program_hash or device_id is None:
                return None
            return self._queries.known_result(reader, program_hash, device_id)

    def workloads(self) -> list[Workload]:
        """Every workload that was searched, oldest first."""
        return list(dict.fromkeys(run.workload for run in self.runs()))

    def devices(self) -> list[Device]:
        """Every machine that measured, oldest first."""
        found: dict[str, Device] = {}
        for run in self.runs():
            found.setdefault(device_key(run.device), run.device)
        return list(found.values())

    def runs(self) -> list[RunRecord]:
        """Every search, oldest first."""
        with self._records("read runs") as reader:
            return self._queries.select_runs(reader)

    def summary(self) -> list[TaskSummary]:
        """One entry for each workload, target, device and space, with its best trial.

        Trials of searches count; the last measurement of finalists adds none.
        """
        with self._records("summarise trials") as reader:
            return self._queries.summarise(reader)

    def export_json(self, path: str | os.PathLike[str]) -> int:
        """Write every run and trial to a file, one JSON object a line; return how many trials."""
        from whet.db import exchange

        return exchange.export_json(self, path)

    def import_json(self, path: str | os.PathLike[str]) -> int:
        """Add the runs and trials of an exported file: all or none; return how many were new."""
        from whet.db import exchange

        return exchange.import_json(self, path)
