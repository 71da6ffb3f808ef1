"""Trials read out of a log by the page, with all that another log keeps of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from whet.db.exchange.records import Row
from whet.db.store.batches import told_of_text
from whet.db.store.ignored import warn_of_ignored
from whet.db.store.models import TrialRow
from whet.db.store.queries import TRIALS
from whet.db.store.reading import Reader
from whet.search_spaces.values.counted import counted

if TYPE_CHECKING:
    from whet.db.log import TuningLog
    from whet.db.values.records import RunRecord

PAGE = 1000
"""Trials that are read in one transaction."""


def rows_of(log: TuningLog, run: RunRecord, numbers: Iterable[int] | None = None) -> Iterator[Row]:
    """The trials of a run that can be read, in order of their numbers.

    Trials of another space than the run's, which no import takes, are left out with a warning.

    Args:
        log: an open log.
        run: one of its runs.
        numbers: only these few; None: all.

    Raises:
        LogError: the log cannot be read.
    """
    wanted = None if numbers is None else sorted(set(numbers))
    after, more, astray = -1, True, 0
    while more:
        rows, after, more = _page(log, run.id, after, wanted)
        for row in rows:
            if row.trial.config.fingerprint == run.fingerprint:
                yield row
            else:
                astray += 1
    if astray:
        said = f"{counted(astray, 'trial')} of another space than the run that holds it"
        warn_of_ignored(f"log {log.location}: {said}: passed over")


def _page(
    log: TuningLog, run_id: int, after: int, wanted: list[int] | None
) -> tuple[list[Row], int, bool]:
    """Some trials, the last number that was looked at, and whether there may be more."""
    where = [TrialRow.run_id == run_id, TrialRow.number > after]
    if wanted is not None:
        where.append(TrialRow.number.in_(wanted))
    query = sa.select(TRIALS).where(*where).order_by(TrialRow.number).limit(PAGE)

    def read(reader: Reader) -> tuple[list[Row], int, bool]:
        found = reader.connection.execute(query).all()
        rows = [row for row in (_row(reader, one) for one in found) if row is not None]
        last = max((one.number for one in found if isinstance(one.number, int)), default=after)
        return rows, last, len(found) == PAGE and last > after

    return log.read_records("read trials", read)


def _row(reader: Reader, row: Any) -> Row | None:
    record = reader.trial(row)
    if record is None:
        return None
    told = None if row.told is None else told_of_text(row.told)
    if told is not None and not all(type(item) is int for item in told):
        told = None  # others' trials have other numbers in another log
    withdrawn = row.withdrawn if isinstance(row.withdrawn, str) else None
    return Row(record, told, withdrawn)
