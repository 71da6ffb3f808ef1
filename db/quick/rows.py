"""From rows to records, whoever fetched them: what a row must hold, and what it says then.

A row has the names of its columns as attributes; columns of JSON are decoded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from whet.compiler.errors import WhetError
from whet.db.values.identity import device_key
from whet.db.values.records import TrialRecord
from whet.measure.values import OK, STATUSES, MeasureResult, is_number, is_time, median
from whet.search_spaces.values import Config, Workload


@dataclass(frozen=True)
class Unreadable:
    """A value of the database that is broken: it ends no query, and readers pass over its row.

    Attributes:
        value: the bytes or the text.
        kind: of what it should be.
    """

    value: Any
    kind: str

    def __repr__(self) -> str:
        return f"{self.value!r}, which is no {self.kind}"


BROKEN = (ValueError, TypeError, KeyError, RecursionError, OverflowError, WhetError)
"""The errors of making a record of a broken row."""
PRECISION = 1e-6
"""The relative difference of a row's cost from the median of its costs, at most."""
SHOWN = 40
"""Characters of a broken value that are quoted."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_end(value: Any) -> bool:
    """True for a time, or None: a run that is under way, or was killed."""
    return value is None or is_number(value)


def _are_timings(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_end, value.values()))


Columns = dict[str, Callable[[Any], bool]]
RUN_COLUMNS: Columns = {
    **dict.fromkeys(("uid", "space_fingerprint", "sampler", "state"), _is_text),
    "started_at": is_number,
    "finished_at": _is_end,
}
RESULT_COLUMNS: Columns = {
    **dict.fromkeys(("error", "stage", "program_hash"), _is_text),
    "timings": _are_timings,
    "environment": lambda value: isinstance(value, dict),
    "timestamp": is_number,
}


TRIAL_COLUMNS: Columns = {
    "number": lambda value: type(value) is int,
    "run_id": lambda value: type(value) is int,
    "flop": is_number,
}


def checked(row: Any, columns: Columns) -> dict[str, Any]:
    """The values of some columns of a row.

    Raises:
        ValueError: one of them is broken.
    """
    values = {}
    for name, holds in columns.items():
        values[name] = value = getattr(row, name)
        if not holds(value):
            raise ValueError(f"its {name} is {shown(value)}")
    return values


def check_costs(status: Any, cost: Any, costs: Any) -> None:
    """Refuse a status that there is not, and costs that no measurement gives.

    Args:
        status: of a trial.
        cost: what the database sorts by; None for a failure.
        costs: seconds per call, one a repeat.

    Raises:
        ValueError: they are broken.
    """
    if status not in STATUSES:
        raise ValueError(f"there is no status {shown(status)}")
    if not isinstance(costs, list) or not all(map(is_time, costs)):
        raise ValueError(f"its costs are {shown(costs)}")
    if bool(costs) != (status == OK):
        raise ValueError(f"its status is {status!r}, with {len(costs)} costs")
    if costs and not (is_number(cost) and math.isclose(cost, median(costs), rel_tol=PRECISION)):
        raise ValueError(f"its cost is {shown(cost)}, and the median of its costs is not")


def decoded(text: Any) -> Any:
    """The value of a column of JSON text; an :class:`Unreadable` where it is none."""
    if text is None:
        return None
    try:
        data = json.loads(text)
        if "\\ud" in text.lower():  # half a pair of surrogates can be neither shown nor kept
            json.dumps(data, ensure_ascii=False).encode()
        return data
    except (ValueError, TypeError, RecursionError):
        return Unreadable(text, "JSON")


def record_of(row: Any, identities: dict[str, Any], compared: Callable[[int], bool]) -> TrialRecord:
    """The record in a row of trials.

    Args:
        row: all of its columns.
        identities: its workload, target and device.
        compared: says of a run's id whether its trials were measured in turns with the default.

    Raises:
        ValueError, SpaceError, ...: the row is broken; one of :data:`BROKEN`.
    """
    result = result_of(row)
    config = Config.from_json(row.config)
    if config.fingerprint != row.space_fingerprint:
        raise ValueError("its config is of another space than its run's")
    return TrialRecord(
        **checked(row, TRIAL_COLUMNS),
        **identities,
        config=config,
        result=result,
        features=row.features if isinstance(row.features, str) else "",
        compared=compared(row.run_id),
        id=row.id,
        withdrawn="" if row.withdrawn is None else str(row.withdrawn),
    )


def identity_of(table: str, data: Any) -> Any:
    """A workload, or the JSON of a target or a device.

    Args:
        table: ``"workload"``, ``"target"`` or ``"device"``.
        data: its JSON value.

    Raises:
        ValueError, SpaceError: it is none.
    """
    if table == "workload":
        if not isinstance(data, dict):
            raise ValueError(f"its workload is {shown(data)}")
        return Workload.from_json(data)
    if table == "device":
        if not isinstance(data, str | dict):
            raise ValueError(f"its device is {shown(data)}")
        device_key(data)
    elif not isinstance(data, dict) or not isinstance(data.get("kind"), str):
        raise ValueError(f"its target is {shown(data)}")
    return data


def result_of(row: Any) -> MeasureResult:
    """The result in a row of trials.

    Raises:
        ValueError: it is broken.
    """
    check_costs(row.status, row.cost, row.costs)
    values = checked(row, RESULT_COLUMNS)
    return MeasureResult(status=row.status, costs=tuple(row.costs), **values)


def shown(value: Any) -> str:
    """A broken value, as much of it as fits a line."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def first_line(error: BaseException) -> str:
    """The first line of an error's text."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
