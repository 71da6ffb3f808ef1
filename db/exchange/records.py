"""Records as lines of JSON: what each must hold, to be one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from whet.db.quick.rows import identity_of
from whet.db.store import vectors
from whet.db.values.records import RunRecord, Told, TrialEntry, TrialRecord
from whet.measure.values import Json, MeasureResult, is_number
from whet.search_spaces.values import Config, Workload

FORMAT = 1
"""Version of the lines' layout; every run says it."""
MOST = 2**31 - 1
"""The largest number of a trial: what every database's integers hold."""
UID = 32
"""Characters of a run's uid, at most."""

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


@dataclass(frozen=True)
class Row:
    """A trial on its way from one log to another.

    Attributes:
        trial: the record.
        told: what its proposer was told of, where that means something in another log.
        withdrawn: why it no longer holds; None: it does.
    """

    trial: TrialRecord
    told: Told | None = None
    withdrawn: str | None = None

    def entry(self, run_id: int) -> TrialEntry:
        """The trial, to be recorded in a run of another log."""
        t = self.trial
        features = t.features if vectors.is_packed(t.features) else ""
        return TrialEntry(run_id, t.number, t.config, t.result, t.flop, features, self.told)


def run_line(run: RunRecord) -> Json:
    """A run as JSON-able data."""
    line = {name: getattr(run, name) for name in RUN_TYPES}
    return {"format": FORMAT, **line, "workload": run.workload.to_json()}


def trial_line(uid: str, row: Row) -> Json:
    """A trial of a run as JSON-able data."""
    trial = row.trial
    line: Json = {
        "run": uid,
        "number": trial.number,
        "config": trial.config.to_json(),
        "flop": trial.flop,
        "result": trial.result.to_json(),
    }
    if trial.features and vectors.is_packed(trial.features):
        line["features"] = trial.features
    if row.told is not None:
        line["told"] = list(row.told)
    if row.withdrawn is not None:
        line["withdrawn"] = row.withdrawn
    return line


def run_of(data: Json) -> RunRecord:
    """The run of a line.

    Raises:
        ValueError, SpaceError: it is none.
    """
    if data["format"] != FORMAT:
        raise ValueError(f"format {data['format']!r}: this version of Whet reads {FORMAT}")
    fields = _typed(data, RUN_TYPES, "run")
    for name in ("uid", "fingerprint", "sampler", "state"):
        _check_text(name, fields[name])
    if not 0 < len(fields["uid"]) <= UID:
        raise ValueError(f"'uid' of a run has 1 to {UID} characters")
    if not all(
        is_number(fields[n]) for n in ("started_at", "finished_at") if fields[n] is not None
    ):
        raise ValueError("times of a run are finite numbers")
    workload = Workload.from_json(fields.pop("workload"))
    identity_of("target", fields["target"])
    identity_of("device", fields["device"])
    return RunRecord(id=0, workload=workload, **fields)


@dataclass(frozen=True)
class TrialLine:
    """A trial of a line, whose run is known by its uid alone.

    Attributes:
        uid: of its run.
        entry: the trial; its ``run_id`` says nothing.
        withdrawn: why it no longer holds; None: it does.
    """

    uid: str
    entry: TrialEntry
    withdrawn: str | None


def trial_of(data: Any) -> TrialLine:
    """The trial of a line.

    Raises:
        ValueError, SpaceError: it is none.
    """
    fields = _typed(data, TRIAL_TYPES, "trial")
    result = _typed(fields["result"], RESULT_TYPES, "result")
    known = [time for time in result["timings"].values() if time is not None]
    features = data.get("features", "")  # logs of earlier versions have none
    if features and not (isinstance(features, str) and vectors.is_packed(features)):
        raise ValueError(f"'features' of a trial cannot be {json.dumps(features)[:60]}")
    if not all(is_number(n) and n >= 0 for n in (*result["costs"], fields["flop"], *known)):
        raise ValueError("costs, timings and flop are finite numbers, at least 0")
    if not is_number(result["timestamp"]):
        raise ValueError("'timestamp' of a result is a finite number")
    if not 0 <= fields["number"] <= MOST:
        raise ValueError(f"'number' of a trial is from 0 to {MOST}")
    for name in ("stage", "program_hash"):
        _check_text(name, result[name])
    withdrawn = data.get("withdrawn")
    if withdrawn is not None:
        if not isinstance(withdrawn, str):
            raise ValueError(f"'withdrawn' of a trial cannot be {json.dumps(withdrawn)[:60]}")
        _check_text("withdrawn", withdrawn)
    entry = TrialEntry(
        0,
        fields["number"],
        Config.from_json(fields["config"]),
        MeasureResult.from_json(result),
        float(fields["flop"]),
        features,
        _told(data.get("told")),
    )
    return TrialLine(fields["run"], entry, withdrawn)


def _told(told: Any) -> Told | None:
    if told is None:
        return None
    if not isinstance(told, list) or not all(type(n) is int and 0 <= n <= MOST for n in told):
        raise ValueError(f"'told' of a trial cannot be {json.dumps(told)[:60]}")
    return tuple(told)


def _check_text(name: str, text: str) -> None:
    if "\x00" in text:  # PostgreSQL has no such text
        raise ValueError(f"{name!r} cannot hold a NUL")


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
