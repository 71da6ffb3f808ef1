"""TuningLog: every trial of every search, with its machine and its result."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import LogError, SpaceError
from whet.db.recorder import Recorder, new_run
from whet.db.store.database import Database
from whet.db.store.patience import PATIENCE
from whet.db.values.identity import Location, device_key
from whet.db.values.records import RunRecord, TaskSummary, TrialEntry, TrialRecord
from whet.measure.device.identity import device_of
from whet.measure.device.names import AnyDevice, Device, this_device
from whet.measure.values import AnyTarget, Json, MeasureResult, target_json
from whet.search_spaces.values import Config, Workload

if TYPE_CHECKING:
    from whet.db.session import LogSession
    from whet.db.store.reading import Reader
    from whet.db.values.claims import Counts, LoggedPoint, TaskKey
    from whet.search_spaces.space.config_space import ConfigSpace


class TuningLog(Database):
    """A log of trials in an SQLite file or another SQL database.

    What :meth:`add_trial` has returned from is on disk: a killed process loses nothing that was
    acknowledged. Several processes may write one log at once. Everything in it is data; nothing
    read from it is unpickled or evaluated.

    Args:
        location: a file's path (made where there is none), or an SQLAlchemy URL such as
            ``postgresql://user@host/name``.
        write: make the file and write to it; False opens an existing log for reading only. A file
            that may not be written is opened for reading either way, and refuses when written.
        patience: seconds for which what is read or written is tried again while the database is
            locked, full or away; 0: it is tried once. An opening waits for locks alone.
        waiting: is called with a line every few seconds of such a wait, or of an upgrade.

    Raises:
        LogError: the directory or (for reading) the file is missing; it is not a database, not a
            log, or made by a newer version of Whet.

    Targets are a ``Target``, its canonical ``to_json()`` or a target string; devices are
    ``host.fingerprint()`` or ``host.describe()``, and None is this machine's where one is needed.

    Rows that cannot be read are passed over, whatever reads them; an
    :class:`~whet.db.IgnoredRecordsWarning` says how many, once for each row and open log.
    """

    def __init__(
        self,
        location: Location = "whet.db",
        *,
        write: bool = True,
        patience: float = PATIENCE,
        waiting: Callable[[str], Any] | None = None,
    ) -> None:
        super().__init__(location, write, patience, waiting)
        # Not the log itself: it would hold itself, and its file open.
        self.recorder = Recorder(weakref.proxy(self))

    @property
    def _queries(self) -> Any:
        from whet.db.store import queries  # SQLAlchemy is loaded where it is needed, not before

        return queries

    def __repr__(self) -> str:
        return f"TuningLog({self.location!r})"

    def __len__(self) -> int:
        """The number of trials it holds, those that cannot be read included."""
        return self.read("count the trials", self._queries.count_trials)

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

    def start_run(
        self,
        workload: Workload,
        target: AnyTarget,
        device: Device | None,
        space_fingerprint: str,
        sampler: str = "",
        seed: int | None = None,
        options: Json | None = None,
        versions: Json | None = None,
    ) -> int:
        """Begin a search, and return its number in this log.

        Args:
            workload: the template's name and arguments.
            target: what is compiled for.
            device: the machine that measures; None describes this one.
            space_fingerprint: ``space.fingerprint``.
            sampler, seed: who proposes, and from which seed.
            options: how candidates are measured, as JSON-able data.
            versions: of the libraries that take part, as JSON-able data.

        Raises:
            LogError: the log cannot be written.
        """
        what = (workload, target_json(target), device, space_fingerprint)
        return self.recorder.start(new_run(*what, sampler, seed, options, versions))

    def finish_run(self, run_id: int, state: str = "finished") -> None:
        """Write how a run ended.

        Args:
            run_id: from :meth:`start_run`.
            state: such as ``"finished"``, ``"interrupted"`` or ``"failed"``.

        Raises:
            LogError: there is no such run, or the log cannot be written.
        """
        self.recorder.finish(run_id, state)

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
            result: of its measurement.
            flop: arithmetic operations of one call; 0 when not known.
            features: of a cost model, from :func:`whet.db.store.vectors.pack`; "": none.

        Raises:
            LogError: no such run; the number is taken by another trial; the config is of another
                space than the run's; a success without a finite cost; the log cannot be written.
        """
        self.add_trials([TrialEntry(run_id, number, config, result, flop, features)])

    def add_trials(
        self,
        entries: Sequence[TrialEntry | tuple[int, int, Config, MeasureResult, float, str]],
    ) -> None:
        """:meth:`add_trial` for several, given its arguments, in one transaction: all or none.

        The tasks' counters go up and claims of the configs end with it.
        """
        self.recorder.insert([TrialEntry(*entry) for entry in entries], drop_recorded=False)

    def open_session(self, label: Json | None = None) -> LogSession:
        """Begin to share this log with other searches that are alive.

        Args:
            label: says who searches what, to people: JSON-able data.

        Raises:
            LogError: the log cannot be written.
        """
        from whet.db.session import LogSession  # which only searches need

        return LogSession(self, label or {})

    def trials(
        self,
        workload: Workload | None = None,
        target: AnyTarget | None = None,
        device: Device | None = None,
        fingerprint: str | None = None,
        status: str | None = None,
        run_id: int | None = None,
    ) -> list[TrialRecord]:
        """The trials that match everything given (None: any), in order of runs and numbers."""
        more = {"status": status, "run_id": run_id}

        def read(reader: Reader) -> list[TrialRecord]:
            of_task = (workload, target, device, fingerprint)
            where = self._queries.conditions(reader.connection, *of_task)
            if where is None:
                return []
            where |= {name: value for name, value in more.items() if value is not None}
            return self._queries.select_trials(reader, where)

        return self.read_records("read trials", read)

    def best(
        self,
        workload: Workload,
        target: AnyTarget,
        device: AnyDevice | None = None,
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
        whose = device_of(target, device)

        quick = self.quick_best(workload, target, whose, fingerprint)
        if quick is not None:
            return quick[0]

        def read(reader: Reader) -> TrialRecord | None:
            of_task = (workload, target, whose, fingerprint)
            where = self._queries.conditions(reader.connection, *of_task)
            return None if where is None else self._queries.best_trial(reader, where)

        return self.read_records("read the best trial", read)

    def best_config(
        self,
        workload: Workload,
        target: AnyTarget,
        space: ConfigSpace,
        device: AnyDevice | None = None,
    ) -> Config | None:
        """The config of :meth:`best_in`, or None."""
        record = self.best_in(space, workload, target, device)
        return None if record is None else record.config

    def best_in(
        self,
        space: ConfigSpace,
        workload: Workload,
        target: AnyTarget,
        device: AnyDevice | None = None,
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
        """The result of a program that was measured on a device before, or None.

        Timeouts, lack of memory and lost workers do not count: they may end otherwise next time.

        Args:
            program_hash: hash of the lowered program and its target.
            device: the machine; None: this one.
        """
        whose = this_device() if device is None else device
        return self.read_records(
            "look up a program",
            lambda reader: self._queries.known_result(reader, program_hash, whose),
        )

    def workloads(self) -> list[Workload]:
        """Every workload that was searched, oldest first."""
        return self.read_records("read the workloads", self._queries.select_workloads)

    def devices(self) -> list[Device]:
        """Every machine that measured, oldest first."""
        devices: dict[str, Device] = {}
        for run in self.runs():
            devices.setdefault(device_key(run.device), run.device)
        return list(devices.values())

    def runs(self) -> list[RunRecord]:
        """Every search, oldest first."""
        return self.read_records("read runs", self._queries.select_runs)

    def summary(self) -> list[TaskSummary]:
        """One entry for each workload, target, device and space, with its best trial.

        Configs that searches tried count, each once; lost workers and the last measurement of
        finalists add none.
        """
        return self.read_records("summarise trials", self._queries.summarise)

    def tasks(self) -> list[tuple[TaskKey, Counts]]:
        """Each task that has trials, with its counters: :meth:`summary` without the best trials."""
        return self.read_records("read the tasks", self._queries.count_tasks)

    def withdraw(self, trials: Iterable[int], why: str) -> int:
        """Mark records that do not hold, with all others of their configs in their tasks.

        They stay in the log, and are no best trial any more. What was withdrawn before keeps its
        reason.

        Args:
            trials: ids of records; those that the log does not have are left out.
            why: the reason, for people.

        Returns:
            The number of records that bear this reason now. The same call again gives the same
            number, and with another reason 0.

        Raises:
            LogError: the reason is empty, or the log cannot be written.
        """
        return self.recorder.withdraw(tuple(trials), why)

    def counts(self, task: TaskKey) -> Counts:
        """The number of configs of a task that searches tried, and that are being measured."""
        from whet.db.store import points

        return self.read("count trials", lambda c: points.counts_of(c, task))

    def news(self, task: TaskKey, mark: int = 0) -> tuple[list[LoggedPoint], int]:
        """The trials of a task's searches that were recorded since the last call, and a new mark.

        Args:
            task: the task.
            mark: from the last call, or the id of a point; 0: from the first trial on.

        Returns:
            The points, in the order in which they were recorded, at most some thousands,
            those that cannot be read left out; and the mark for the next call.
        """
        from whet.db.store import points

        return self.read("read trials", lambda c: points.points_after(c, task, mark))

    def export_json(self, path: Location) -> int:
        """:func:`whet.db.exchange.export_log` to a file; the number of records written."""
        from whet.db import exchange

        return exchange.export_log(self, path).records

    def import_json(self, path: Location, skip_broken: bool = False) -> int:
        """:func:`whet.db.exchange.import_log` of a file; the number of records that were new."""
        from whet.db import exchange

        return exchange.import_log(self, path, skip_broken=skip_broken).records
