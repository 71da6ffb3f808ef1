"""Checks after a driver ends: what it noted beside what the log has."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whet.db import TuningLog
from whet.db.values.decision import FINALISTS_RUN

GONE_S = 10.0
"""Seconds after its signal in which all processes of a driver have ended."""
CLOSED_S = 2.0
"""Seconds in which a server's process ends after its client."""
Config = tuple[tuple[Any, ...], str]
"""A task's arguments, and the key of a config."""


@dataclass(frozen=True)
class Held:
    """One check.

    Attributes:
        holds: its result.
        what: is wrong, where it does not hold.
    """

    holds: bool
    what: str


def processes_under(temporary: Path) -> list[int]:
    """The processes whose temporary folder is this one or one in it."""
    mark, found = f"TMPDIR={temporary}".encode(), []
    for path in Path("/proc").iterdir():
        if not path.name.isdigit() or int(path.name) == os.getpid():
            continue
        with suppress(OSError):
            if mark in (path / "environ").read_bytes():
                found.append(int(path.name))
    return found


class Ledger:
    """The notes of drivers beside the trials of their log.

    Args:
        notes: the file of the drivers' notes.
        location: of the log.
    """

    def __init__(self, notes: Path, location: str) -> None:
        self._notes, self._location = notes, location
        self._path = None if "://" in location else Path(location)
        self.kind = "SQLite" if self._path is not None else "PostgreSQL"
        self._read = 0
        self._known: set[Config] = set()
        self._segments = self._all_segments()
        self.acknowledged: dict[Config, list[float]] = {}
        self.recorded = self.lost = self.doubled = self.again = 0

    def size(self) -> int:
        """Bytes that were noted."""
        return self._notes.stat().st_size if self._notes.exists() else 0

    def _lines(self, start: int) -> list[list[Any]]:
        if not self._notes.exists():
            return []
        with open(self._notes, "rb") as file:
            file.seek(start)
            # The part behind the last newline is being written.
            return [json.loads(line) for line in file.read().split(b"\n")[:-1]]

    def noted(self, start: int, what: str) -> int:
        """The number of notes of a kind beyond so many bytes."""
        return sum(line[0] == what for line in self._lines(start))

    def has_hot_journal(self) -> bool:
        """True if a transaction on a file was cut off in its commit."""
        if self._path is None:
            return False
        with suppress(OSError), open(f"{self._path}-journal", "rb") as file:
            return any(file.read(8))
        return False

    def segments(self) -> list[str]:
        """Files in shared memory that were not there at the beginning."""
        return sorted(self._all_segments() - self._segments)

    def _all_segments(self) -> set[str]:
        named = ("whet", "psm_")  # others have theirs there, too
        return {name for name in os.listdir("/dev/shm") if name.startswith(named)}

    # --- checks -------------------------------------------------------------------------------

    def check(self) -> list[Held]:
        """Compare the notes that are new with what is recorded now."""
        lines = self._lines(self._read)
        self._read = self.size()
        again = []
        for what, *words in lines:
            if what not in ("submitted", "acknowledged"):
                continue
            config = (tuple(words[0]), words[1])
            if what == "acknowledged":
                self.acknowledged[config] = words[2]
            elif config in self._known or config in self.acknowledged:
                again.append(config)
        self.again += len(again)
        held = [Held(not again, f"measured again: {again[:3]}")]
        with TuningLog(self._location, write=False) as log:  # as a deployment would read it
            held += self._check_records(log)
        return held + (self._check_file() if self._path is not None else [])

    def _check_records(self, log: TuningLog) -> list[Held]:
        finals = {run.id for run in log.runs() if run.sampler == FINALISTS_RUN}
        searched = [trial for trial in log.trials() if trial.run_id not in finals]
        recorded = {(t.workload.args, t.config.key): list(t.result.costs) for t in searched}
        times = Counter((t.workload.args, t.config.key) for t in searched)
        twice = [config for config, count in times.items() if count > 1]
        lost = [c for c, costs in self.acknowledged.items() if recorded.get(c) != costs]
        forgotten = [config for config in self._known if config not in recorded]
        self._known = set(recorded)
        self.recorded = len(searched)
        self.lost, self.doubled = len(lost), len(twice)
        counted = {key.workload.args: counts.trials for key, counts in log.tasks()}
        tried = Counter(args for args, _ in recorded)
        return [
            Held(not lost, f"acknowledged and not recorded so: {lost[:3]}"),
            Held(not forgotten, f"recorded before and not now: {forgotten[:3]}"),
            Held(not twice, f"recorded twice: {twice[:3]}"),
            Held(counted == tried, f"counters say {counted}, the trials {dict(tried)}"),
            Held(not log.broken, f"{log.broken} rows cannot be read"),
        ]

    def _check_file(self) -> list[Held]:
        with closing(sqlite3.connect(str(self._path), isolation_level=None)) as raw:
            whole = raw.execute("PRAGMA integrity_check").fetchall()
            broken = raw.execute("PRAGMA foreign_key_check").fetchall()
        return [
            Held(whole == [("ok",)], f"integrity_check: {whole[:3]}"),
            Held(not broken, f"foreign_key_check: {broken[:3]}"),
        ]

    def check_interrupted(
        self, number: signal.Signals, code: int, said: str, measured: bool
    ) -> list[Held]:
        """Check what SIGINT or SIGTERM leaves, where it did not come before the search."""
        plain = {signal.SIGINT: (130, -2, 1), signal.SIGTERM: (143, -15)}[number]
        held = [Held(code in plain, f"{number.name} ended it with {code}: {said}")]
        with TuningLog(self._location, write=False) as log:
            runs = log.runs()
            claims, last = self._sessions(log)
        searches = [run.state for run in runs if run.sampler != FINALISTS_RUN]
        if not measured or (last == "finished" and "interrupted" not in said):
            return held  # it came before the search, or after its end
        # In the last measurement, the search's own run has finished; in the last transaction,
        # for whose end a signal waits, its session, too.
        ended = searches[-1] in ("interrupted", "finished")
        at_the_end = last == "finished" and runs[-1].sampler == FINALISTS_RUN
        closed = at_the_end or last == "interrupted"
        return [
            *held,
            Held("interrupted" in said, f"no summary after {number.name}: {said!r}"),
            Held("Traceback" not in said, f"a traceback after {number.name}: {said!r}"),
            Held(ended, f"the run's state is {searches[-1]} after {number.name}"),
            Held(closed, f"the session's is {last} after {number.name}"),
            Held(not claims, f"{claims} claims are left after {number.name}"),
        ]

    def _sessions(self, log: TuningLog) -> tuple[int, str]:
        def read(connection: Any) -> tuple[int, str]:
            claims = connection.exec_driver_sql("SELECT count(*) FROM claim").scalar()
            last = "SELECT state FROM session ORDER BY id DESC LIMIT 1"
            return claims, connection.exec_driver_sql(last).scalar() or ""

        return log.read("look", read)

    def check_finished(self, trials: int) -> list[Held]:
        """Check what a driver leaves that came to its end."""
        with TuningLog(self._location, write=False) as log:
            claims, _ = self._sessions(log)
            query = "SELECT count(*) FROM session WHERE state = 'running'"
            running = log.read("look", lambda c: c.exec_driver_sql(query).scalar())
            connected = self._connections(log)
            counts = [counts.trials for _, counts in log.tasks()]
        return [
            Held(not claims, f"{claims} claims are left"),
            Held(not running, f"{running} sessions still run"),
            Held(not connected, f"{connected} connections of others are open"),
            Held(counts[-1] == trials, f"{counts[-1]} trials, not {trials}"),
        ]

    def _connections(self, log: TuningLog) -> int:
        if self._path is not None:
            return 0
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        end = time.monotonic() + CLOSED_S
        while found := int(log.read("look", lambda c: c.exec_driver_sql(query).scalar())):
            if time.monotonic() > end:
                return found
            time.sleep(0.05)  # a server's process outlives its client by a moment
        return 0
