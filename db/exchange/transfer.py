"""A log as text, one JSON object a line, runs before their trials; and logs put together.

A run carries a name that is the same in every log, so that importing a file twice, or files that
overlap, adds nothing twice, and exported files may be joined with ``cat``. Merging logs does what
importing their exports would do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from whet.compiler.errors import LogError, WhetError
from whet.db.exchange.autotvm import Histories, is_record
from whet.db.exchange.lines import Broken, Say, read_lines
from whet.db.exchange.records import Row, run_line, run_of, trial_line, trial_of
from whet.db.exchange.rows import rows_of
from whet.db.exchange.write import Taken, Writer, in_one_transaction
from whet.db.store.reading import BROKEN
from whet.db.values.decision import FINALISTS_RUN
from whet.db.values.identity import Location, plain_json
from whet.db.values.records import RunRecord
from whet.measure.device.names import AnyDevice
from whet.search_spaces.values.counted import counted

if TYPE_CHECKING:
    from whet.db.log import TuningLog


def export_log(log: TuningLog, path: Location, say: Say | None = None) -> Taken:
    """Write every run and trial of a log to a file; return how many of each.

    Args:
        log: the log to read.
        path: the file to write; replaced only when everything was written.
        say: is told of the progress.

    Raises:
        LogError: the file cannot be written, or the log not be read.
    """
    request = f"export log {log.location} to {os.fspath(path)}"
    draft = Path(f"{os.fspath(path)}.part")
    if log.place.path is not None and _same_file(log.place.path, Path(path)):
        raise LogError(request, "that is the log itself", "give the export another name")
    if Path(path).exists() and not Path(path).is_file():
        what = "it is a directory" if Path(path).is_dir() else "it is a device or a pipe"
        raise LogError(request, what, "give a file's path")
    taken = Taken()
    try:
        try:
            with open(draft, "w", encoding="utf-8") as file:
                for run in log.runs():
                    taken.runs += 1
                    file.write(plain_json(run_line(run)) + "\n")
                    for row in rows_of(log, run):
                        file.write(plain_json(trial_line(run.uid, row)) + "\n")
                        _count(taken, run, say, "written")
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        why = f"it cannot be written: {error.strerror}"
        raise LogError(request, why, "give a path that can be written") from error
    return taken


def _count(taken: Taken, run: RunRecord, say: Say | None, done: str) -> None:
    if run.sampler == FINALISTS_RUN:
        taken.finals += 1
    else:
        taken.trials += 1
    if say is not None and taken.records % 1000 == 0:
        say(f"{counted(taken.records, 'trial')} {done}")


def import_log(
    log: TuningLog,
    path: Location,
    *,
    skip_broken: bool = False,
    device: AnyDevice | None = None,
    say: Say | None = None,
) -> Taken:
    """Add the runs and trials of a file to a log, all or none; return how many were new.

    The file is an export, a log of AutoTVM (version 0.2), or several of them one after the other.

    Args:
        log: the log to write.
        path: the file.
        skip_broken: pass over and count lines that are no records.
        device: the machine that measured the trials of AutoTVM's logs, which do not name it; None:
            not known, so that its records apply where it is named.
        say: is told of the progress.

    Raises:
        LogError: the file cannot be read; a line is not a record (the line is named, and nothing is
            imported); the log cannot be written.
    """
    request = f"import {os.fspath(path)} into log {log.location}"

    def write(connection: sa.Connection) -> Taken:
        histories = Histories(device)

        def broken(one: Broken) -> None:
            if not skip_broken:
                raise LogError(request, str(one), "nothing was imported")
            writer.taken.skipped.add(one)

        writer = Writer(connection, broken)
        for number, value in read_lines(Path(path), request, say):
            try:
                _read_value(writer, histories, number, value, broken)
            except BROKEN as error:
                if isinstance(error, LogError):
                    raise
                broken(Broken(number, str(error)))
        writer.flush()
        histories.finish(writer)
        return writer.taken

    return in_one_transaction(log, f"import {os.fspath(path)}", write)


def _refusal(request: str) -> Callable[[Broken], None]:
    def refuse(one: Broken) -> None:
        raise LogError(request, str(one), "nothing was changed")

    return refuse


def _read_value(
    writer: Writer,
    histories: Histories,
    number: int,
    value: Any,
    broken: Callable[[Broken], None],
) -> None:
    """Write the record of one line."""
    if isinstance(value, Broken):
        broken(value)
    elif is_record(value):
        histories.add(writer, number, value)
    elif isinstance(value, dict) and "format" in value:
        writer.run(run_of(value))
    else:
        line = trial_of(value)
        if not writer.knows(line.uid):
            why = f"a trial of run {line.uid!r}, which no line before it describes"
            raise ValueError(why)
        writer.trial(line.uid, line.entry, line.withdrawn, number)


def merge_logs(into: TuningLog, sources: Sequence[TuningLog], say: Say | None = None) -> Taken:
    """Add the runs and trials of several logs to one; return how many were new.

    The result is that of importing the export of each. A log is taken wholly, or not at all where
    it fails.

    Args:
        into: the log to write.
        sources: the logs to read.
        say: is told of the progress.

    Raises:
        LogError: one of them is the log to write, or cannot be read; two logs have different trials
            under one name; the log cannot be written.
    """
    taken = Taken()
    for source in sources:
        request = f"merge log {source.location} into {into.location}"
        if _same_place(source, into):
            raise LogError(request, "that is the same log", "give the result another name")
        taken.add(write_rows(into, request, source.runs(), lambda run: rows_of(source, run), say))  # noqa: B023 (called before the next)
    return taken


def write_rows(
    into: TuningLog,
    request: str,
    runs: Sequence[RunRecord],
    rows: Callable[[RunRecord], Any],
    say: Say | None = None,
) -> Taken:
    """Write runs of another log, and those of their trials that ``rows`` gives, all or none."""

    def write(connection: sa.Connection) -> Taken:
        writer, read = Writer(connection, _refusal(request)), Taken()
        for run in runs:
            writer.run(run)
            row: Row
            for row in rows(run):
                writer.trial(run.uid, row.entry(0), row.withdrawn)
                _count(read, run, say, "read")
        writer.flush()
        return writer.taken

    try:
        return in_one_transaction(into, request, write)
    except LogError:
        raise
    except WhetError as error:
        raise LogError(request, str(error), "nothing of it was written") from error


def _same_place(one: TuningLog, other: TuningLog) -> bool:
    if one.place.path is not None and other.place.path is not None:
        return _same_file(one.place.path, other.place.path)
    return one.place.url is not None and one.place.url == other.place.url


def _same_file(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them is not there yet
        return False
