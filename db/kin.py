"""Tasks of a log whose records may stand in for another task's: its kin."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from whet.db.quick.rows import BROKEN, identity_of
from whet.db.store.models import DeviceRow, TargetRow, TaskRow, WorkloadRow
from whet.db.store.queries import find_id
from whet.db.store.reading import Reader
from whet.db.values.identity import digest
from whet.measure.device.names import Device
from whet.measure.values import AnyTarget, target_json
from whet.search_spaces.values import Workload


@dataclass(frozen=True)
class Kin:
    """A task with a success.

    Attributes:
        workload: what was tuned.
        device: what measured.
        fingerprint: of its space.
        succeeded: the number of its configs that worked.
    """

    workload: Workload
    device: Device
    fingerprint: str
    succeeded: int


def kin_of(
    reader: Reader, target: AnyTarget, workload: Workload | None = None, template: str = ""
) -> list[Kin]:
    """The tasks of a target in which something worked, in the order in which they were begun.

    Args:
        reader: of a transaction.
        target: what is compiled for.
        workload: tasks of this one; None: of any.
        template: tasks of this template's workloads; "": of any.
    """
    target_id = find_id(reader.connection, TargetRow, digest(target_json(target)))
    columns = (TaskRow.id, TaskRow.space_fingerprint, TaskRow.succeeded)
    data = (WorkloadRow.data.label("workload"), DeviceRow.data.label("device"))
    query = (
        sa.select(*columns, *data)
        .join(WorkloadRow, WorkloadRow.id == TaskRow.workload_id)
        .join(DeviceRow, DeviceRow.id == TaskRow.device_id)
        .where(TaskRow.target_id == target_id, TaskRow.succeeded > 0)
        .order_by(TaskRow.id)
    )
    if workload is not None:
        query = query.where(WorkloadRow.digest == digest(workload.to_json()))
    if template:
        query = query.where(WorkloadRow.template == template)
    found = []
    for row in reader.connection.execute(query):
        try:
            if not isinstance(row.space_fingerprint, str):
                raise ValueError(f"its space is {row.space_fingerprint!r}")
            found.append(
                Kin(
                    identity_of("workload", row.workload),
                    identity_of("device", row.device),
                    row.space_fingerprint,
                    row.succeeded,
                )
            )
        except BROKEN as error:
            reader.broken["task", row.id] = str(error)
    return found
