"""The room that remembers: every trial of every search, in SQL, and what was best in each.

:class:`TuningLog` is a log in an SQLite file or another database; :class:`AppliedLog` puts one in
force. Importing this package loads no part of it, and reading a file's best record no SQLAlchemy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whet.db.apply import AppliedLog, UntunedWarning
    from whet.db.log import TuningLog
    from whet.db.session import LogSession
    from whet.db.store.ignored import IgnoredRecordsWarning
    from whet.db.values.claims import Counts, Full, LoggedPoint, Mine, Recorded, Taken, TaskKey
    from whet.db.values.identity import device_key, device_name
    from whet.db.values.records import RunRecord, TaskSummary, TrialEntry, TrialRecord
    from whet.measure.device.names import Device

_HOMES = {
    "AppliedLog": "whet.db.apply",
    "Counts": "whet.db.values.claims",
    "Device": "whet.measure.device.names",
    "Full": "whet.db.values.claims",
    "IgnoredRecordsWarning": "whet.db.store.ignored",
    "LogSession": "whet.db.session",
    "LoggedPoint": "whet.db.values.claims",
    "Mine": "whet.db.values.claims",
    "Recorded": "whet.db.values.claims",
    "RunRecord": "whet.db.values.records",
    "Taken": "whet.db.values.claims",
    "TaskKey": "whet.db.values.claims",
    "TaskSummary": "whet.db.values.records",
    "TrialEntry": "whet.db.values.records",
    "TrialRecord": "whet.db.values.records",
    "TuningLog": "whet.db.log",
    "UntunedWarning": "whet.db.apply",
    "device_key": "whet.db.values.identity",
    "device_name": "whet.db.values.identity",
}

__all__ = [
    "AppliedLog",
    "Counts",
    "Device",
    "Full",
    "IgnoredRecordsWarning",
    "LogSession",
    "LoggedPoint",
    "Mine",
    "Recorded",
    "RunRecord",
    "Taken",
    "TaskKey",
    "TaskSummary",
    "TrialEntry",
    "TrialRecord",
    "TuningLog",
    "UntunedWarning",
    "device_key",
    "device_name",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
