"""Reading records by SQLAlchemy: what cannot be read is passed over and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from whet.db.quick.rows import BROKEN as BROKEN
from whet.db.quick.rows import (
    RUN_COLUMNS,
    checked,
    first_line,
    identity_of,
    record_of,
    result_of,
    shown,
)
from whet.db.quick.rows import check_costs as check_costs
from whet.db.store.ignored import warn_of_ignored
from whet.db.store.models import DeviceRow, Identity, RunRow, TargetRow, TrialRow, WorkloadRow
from whet.db.values.decision import FINALISTS_RUN
from whet.db.values.records import RunRecord, TrialRecord
from whet.measure.values import OK, MeasureResult
from whet.search_spaces.values import Workload

IDENTITIES: list[tuple[str, str, type[Identity]]] = [
    (table.__tablename__, f"{table.__tablename__}_id", table)
    for table in (WorkloadRow, TargetRow, DeviceRow)
]


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
            return record_of(row, self.identities(row), self._is_compared)
        except BROKEN as error:
            self._pass_over(row, error)
            return None

    def result(self, row: Any) -> MeasureResult | None:
        """The result in a row of trials; None where it is broken."""
        try:
            return result_of(row)
        except BROKEN as error:
            self._pass_over(row, error)
            return None

    def run(self, row: Any) -> RunRecord | None:
        """The record in a row of runs; None where it is broken.

        Options and versions say how a run was made, not what it found: where they are broken, the
        run is taken without them.
        """
        try:
            values = checked(row, RUN_COLUMNS)
            identities = self.identities(row)
        except BROKEN as error:
            self.broken["run", row.id] = f"run {row.id}: {first_line(error)}"
            return None
        maps = {"options": row.options, "versions": row.versions}
        for name, value in maps.items():
            if not isinstance(value, dict):
                said = f"run {row.id}: its {name} are {shown(value)}"
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

    def workload(self, row_id: int) -> Workload | None:
        """The workload of an id; None where it is broken."""
        try:
            return self._identity(WorkloadRow, row_id)
        except BROKEN as error:
            self.broken["workload", row_id] = f"workload {row_id}: {first_line(error)}"
            return None

    def _identity(self, table: type[Identity], row_id: int) -> Any:
        key = (table.__tablename__, row_id)
        if key not in self._identities:
            if type(row_id) is not int:
                raise ValueError(f"its {table.__tablename__} is {shown(row_id)}")
            query = sa.select(table.data).where(table.id == row_id)
            data = self.connection.execute(query).scalar()
            try:
                self._identities[key] = identity_of(table.__tablename__, data)
            except BROKEN as error:
                self._identities[key] = error
        identity = self._identities[key]
        if isinstance(identity, BROKEN):
            raise ValueError(first_line(identity))
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
        self.broken["trial", row.id] = f"{where}: {first_line(error)}"


def _told(location: str, broken: list[tuple[str, str]]) -> str:
    """One line about rows that were passed over, from the kind of each and why."""
    kinds = Counter(kind for kind, _ in broken)
    what = " and ".join(f"{n} broken {k if n == 1 else k + 's'}" for k, n in kinds.items())
    are = "is" if len(broken) == 1 else "are"
    first = "" if len(broken) == 1 else "the first: "
    return f"log {location}: {what} {are} passed over ({first}{broken[0][1]})"
