"""A log as text: one JSON object a line, runs before their trials; data only, to send and to merge.

A run carries a name that is the same in every log, so that importing a file twice, or files that
overlap, adds nothing twice, and exported files may be joined with ``cat``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from whet.compiler.errors import LogError
from whet.db.store import queries, vectors
from whet.db.store.batches import insert_trials
from whet.db.store.ignored import warn_of_ignored
from whet.db.store.queries import count_trials
from whet.db.store.reading import BROKEN
from whet.db.values.identity import Location, plain_json
from whet.db.values.records import RunRecord, TrialEntry
from whet.measure.values import Json, MeasureResult, is_number
from whet.search_spaces.values import Config, Workload
from whet.search_spaces.values.counted import counted

if TYPE_CHECKING:
    from whet.db.log import TuningLog

FORMAT = 1
"""Version of the lines' layout; every run says it."""

NUMBER = (int, float)
RUN_TYPES: dict[str, Any] = {
    "uid": str,
    "workload": dict,
    "target": dict,
    "device": (dict, str),
    "fingerprint": str,
    "sampler": str,
    "options": dict,
    "versions": dict,
    "state": str,
    "started_at": NUMBER,
    "finished_at": (int, float, type(None)),
    "seed": (int, str, type(None)),
}
TRIAL_TYPES: dict[str, Any] = {
    "run": str,
    "number": int,
    "config": dict,
    "flop": NUMBER,
    "result": dict,
}
RESULT_TYPES: dict[str, Any] = {
    "status": str,
    "costs": list,
    "error": str,
    "stage": str,
    "program_hash": str,
    "timings": dict,
    "environment": dict,
    "timestamp": NUMBER,
}


def export_json(log: TuningLog, path: Location) -> int:
    """Write every run and trial of a log to a file; return how many trials.

    Args:
        log: the log to read.
        path: the file to write; replaced only when everything was written.

    Raises:
        LogError: the file cannot be written, or the log not be read.
    """
    request = f"export log {log.location} to {os.fspath(path)}"
    draft = Path(f"{os.fspath(path)}.part")
    trials = astray = 0
    try:
        with open(draft, "w", encoding="utf-8") as file:
            for run in log.runs():
                file.write(plain_json(_run_line(run)) + "\n")
                for trial in log.trials(run_id=run.id):
                    if trial.config.fingerprint != run.fingerprint:
                        astray += 1
                        continue
                    line = {
                        "run": run.uid,
                        "number": trial.number,
                        "config": trial.config.to_json(),
                        "flop": trial.flop,
                        "result": trial.result.to_json(),
                    }
                    if trial.features and vectors.is_packed(trial.features):
                        line["features"] = trial.features
                    file.write(plain_json(line) + "\n")
                    trials += 1
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise LogError(request, str(error), "give a path that can be written") from error
    if astray:
        said = f"{counted(astray, 'trial')} of another space than the run that holds it"
        warn_of_ignored(f"log {log.location}: {said}: passed over")
    return trials


def _run_line(run: RunRecord) -> Json:
    line = {name: getattr(run, name) for name in RUN_TYPES}
    return {"format": FORMAT, **line, "workload": run.workload.to_json()}


def import_json(log: TuningLog, path: Location) -> int:
    """Add the runs and trials of a file to a log, all or none; return how many trials were new.

    Args:
        log: the log to write.
        path: a file that :func:`export_json` wrote.

    Raises:
        LogError: the file cannot be read; a line is not a record (the line is named, and nothing is
            imported); the log cannot be written.
    """
    request = f"import {os.fspath(path)} into log {log.location}"

    def write(connection: sa.Connection) -> int:
        before = count_trials(connection)
        _import_lines(connection, path, request)
        return count_trials(connection) - before

    return log.write("import records", write)


def _import_lines(connection: sa.Connection, path: Location, request: str) -> None:
    run_ids: dict[str, int] = {}
    number = 0
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):  # noqa: B007 (named in the error)
                if line.strip():
                    _import_line(connection, json.loads(line, parse_constant=_refuse), run_ids)
    except OSError as error:
        raise LogError(request, str(error), "give a file that export_json() wrote") from error
    except BROKEN as error:
        raise LogError(request, f"line {number}: {error}", "nothing was imported") from error


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _typed(data: Any, types: dict[str, Any], what: str) -> dict[str, Any]:
    """The named fields of a JSON object, each of the type that it must have."""
    if not isinstance(data, dict):
        raise ValueError(f"a {what} is a JSON object, not {type(data).__name__}")
    for name, kind in types.items():
        if name not in data:
            raise ValueError(f"a {what} needs {name!r}")
        if not isinstance(data[name], kind) or isinstance(data[name], bool):
            raise ValueError(f"{name!r} of a {what} cannot be {json.dumps(data[name])[:60]}")
    return {name: data[name] for name in types}


def _import_line(connection: sa.Connection, data: Any, run_ids: dict[str, int]) -> None:
    if isinstance(data, dict) and "format" in data:
        if data["format"] != FORMAT:
            raise ValueError(f"format {data['format']!r}: this version of Whet reads {FORMAT}")
        fields = _typed(data, RUN_TYPES, "run")
        workload = Workload.from_json(fields.pop("workload"))
        run = RunRecord(id=0, workload=workload, **fields)
        run_ids[run.uid] = queries.insert_run(connection, run)
        if run.finished_at is not None:  # it may have been running when it was imported before
            queries.update_run(connection, run_ids[run.uid], run.state, run.finished_at)
        return
    fields = _typed(data, TRIAL_TYPES, "trial")
    if fields["run"] not in run_ids:
        raise ValueError(f"a trial of run {fields['run']!r}, which no line before it describes")
    result = _typed(fields["result"], RESULT_TYPES, "result")
    known = [time for time in result["timings"].values() if time is not None]
    numbers = [*result["costs"], fields["flop"], *known]
    features = data.get("features", "")  # logs of earlier versions have none
    if features and not (isinstance(features, str) and vectors.is_packed(features)):
        raise ValueError(f"'features' of a trial cannot be {json.dumps(features)[:60]}")
    if not all(is_number(n) and n >= 0 for n in numbers):
        raise ValueError("costs, timings and flop are finite numbers, at least 0")
    run_id = run_ids[fields["run"]]
    keys = queries.run_keys(connection, run_id)
    assert keys is not None
    config, measured = Config.from_json(fields["config"]), MeasureResult.from_json(result)
    entry = TrialEntry(run_id, fields["number"], config, measured, fields["flop"], features)
    insert_trials(connection, [entry], {run_id: keys})
