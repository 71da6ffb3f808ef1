"""From rows to records, for every reader: what cannot be read is passed over and counted."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from whet.compiler.errors import WhetError
from whet.db.store.ignored import warn_of_ignored
from whet.db.store.models import DeviceRow, Identity, RunRow, TargetRow, TrialRow, WorkloadRow
from whet.db.values.decision import FINALISTS_RUN
from whet.db.values.identity import device_key
from whet.db.values.records import RunRecord, TrialRecord
from whet.measure.values import OK, STATUSES, MeasureResult, is_number, is_time
from whet.search_spaces.values import Config, Workload

IDENTITIES: list[tuple[str, str, type[Identity]]] = [
    (table.__tablename__, f"{table.__tablename__}_id", table)
    for table in (WorkloadRow, TargetRow, DeviceRow)
]
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


def _checked(row: Any, columns: Columns) -> dict[str, Any]:
    """The values of some columns of a row.

    Raises:
        ValueError: one of them is broken.
    """
    values = {}
    for name, holds in columns.items():
        values[name] = value = getattr(row, name)
        if not holds(value):
            raise ValueError(f"its {name} is {_shown(value)}")
    return values


def tell_of_broken(
    location: str, broken: Mapping[tuple[str, int], str], known: set[tuple[str, int]]
) -> None:
    """Warn of rows that were passed over.

    Args:
        location: of the log.
        broken: why each is broken.
        known: rows that were told of before; those that are told of now are added.
    """
    news = [(row[0], why) for row, why in broken.items() if row not in known]
    known.update(broken)
    if news:
        warn_of_ignored(_told(location, news))


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
        raise ValueError(f"there is no status {_shown(status)}")
    if not isinstance(costs, list) or not all(map(is_time, costs)):
        raise ValueError(f"its costs are {_shown(costs)}")
    if bool(costs) != (status == OK):
        raise ValueError(f"its status is {status!r}, with {len(costs)} costs")
    if costs and not (
        is_number(cost) and math.isclose(cost, statistics.median(costs), rel_tol=PRECISION)
    ):
        raise ValueError(f"its cost is {_shown(cost)}, and the median of its costs is not")


class Reader:
    """Makes records of the rows of one transaction, and remembers what it could not read.

    Args:
        connection: the transaction.

    Attributes:
        broken: why each row that was passed over is broken, by its kind (``"trial"``, ``"run"``,
            ``"task"``) and its id.
    """

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection
        self.broken: dict[tuple[str, int], str] = {}
        self._identities: dict[tuple[str, int], Any] = {}
        self._compared: dict[int, bool] = {}

    def trial(self, row: Any) -> TrialRecord | None:
        """The record in a row of trials; None where it is broken."""
        try:
            result = _result(row)
            config = Config.from_json(row.config)
            if config.fingerprint != row.space_fingerprint:
                raise ValueError("its config is of another space than its run's")
            return TrialRecord(
                **_checked(row, TRIAL_COLUMNS),
                **self.identities(row),
                config=config,
                result=result,
                features=row.features if isinstance(row.features, str) else "",
                compared=self._is_compared(row.run_id),
            )
        except BROKEN as error:
            self._pass_over(row, error)
            return None

    def result(self, row: Any) -> MeasureResult | None:
        """The result in a row of trials; None where it is broken."""
        try:
            return _result(row)
        except BROKEN as error:
            self._pass_over(row, error)
            return None

    def run(self, row: Any) -> RunRecord | None:
        """The record in a row of runs; None where it is broken.

        Options and versions say how a run was made, not what it found: where they are broken, the
        run is taken without them.
        """
        try:
            values = _checked(row, RUN_COLUMNS)
            identities = self.identities(row)
        except BROKEN as error:
            self.broken["run", row.id] = f"run {row.id}: {_first_line(error)}"
            return None
        maps = {"options": row.options, "versions": row.versions}
        for name, value in maps.items():
            if not isinstance(value, dict):
                said = f"run {row.id}: its {name} are {_shown(value)}"
                self.broken["run", row.id] = f"{said} (it is taken without)"
                maps[name] = {}
        return RunRecord(
            id=row.id,
            fingerprint=values.pop("space_fingerprint"),
            **values,
            **identities,
            **maps,
            seed=row.seed if type(row.seed) in (int, str) else None,
        )

    def identities(self, row: Any) -> dict[str, Any]:
        """``workload``, ``target`` and ``device`` of a row; each is read once for many rows.

        Raises:
            ValueError, SpaceError: one of them is broken.
        """
        return {
            name: self._identity(table, getattr(row, column)) for name, column, table in IDENTITIES
        }

    def _identity(self, table: type[Identity], row_id: int) -> Any:
        key = (table.__tablename__, row_id)
        if key not in self._identities:
            if type(row_id) is not int:
                raise ValueError(f"its {table.__tablename__} is {_shown(row_id)}")
            query = sa.select(table.data).where(table.id == row_id)
            data = self.connection.execute(query).scalar()
            try:
                self._identities[key] = checked_identity(table, data)
            except BROKEN as error:
                self._identities[key] = error
        identity = self._identities[key]
        if isinstance(identity, BROKEN):
            raise ValueError(_first_line(identity))
        return identity

    def _is_compared(self, run_id: int) -> bool:
        """True if a run measured its trials in turns with a default config that worked."""
        if run_id not in self._compared:
            default = (
                sa.select(RunRow.id)
                .join(TrialRow, TrialRow.run_id == RunRow.id)
                .where(RunRow.id == run_id, RunRow.sampler == FINALISTS_RUN)
                .where(TrialRow.number == 0, TrialRow.status == OK)
            )
            self._compared[run_id] = self.connection.execute(default).scalar() is not None
        return self._compared[run_id]

    def _pass_over(self, row: Any, error: BaseException) -> None:
        where = f"trial {row.number} of run {row.run_id}"
        self.broken["trial", row.id] = f"{where}: {_first_line(error)}"


def checked_identity(table: type[Identity], data: Any) -> Any:
    """A workload, or the JSON of a target or a device.

    Raises:
        ValueError, SpaceError: it is none.
    """
    if table is WorkloadRow:
        if not isinstance(data, dict):
            raise ValueError(f"its workload is {_shown(data)}")
        return Workload.from_json(data)
    if table is DeviceRow:
        if not isinstance(data, str | dict):
            raise ValueError(f"its device is {_shown(data)}")
        device_key(data)
    elif not isinstance(data, dict) or not isinstance(data.get("kind"), str):
        raise ValueError(f"its target is {_shown(data)}")
    return data


def _told(location: str, broken: list[tuple[str, str]]) -> str:
    """One line about rows that were passed over, from the kind of each and why."""
    kinds = Counter(kind for kind, _ in broken)
    what = " and ".join(f"{n} broken {k if n == 1 else k + 's'}" for k, n in kinds.items())
    are = "is" if len(broken) == 1 else "are"
    first = "" if len(broken) == 1 else "the first: "
    return f"log {location}: {what} {are} passed over ({first}{broken[0][1]})"


def _result(row: Any) -> MeasureResult:
    check_costs(row.status, row.cost, row.costs)
    values = _checked(row, RESULT_COLUMNS)
    return MeasureResult(status=row.status, costs=tuple(row.costs), **values)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
