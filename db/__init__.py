"""The room that remembers: every trial of every search, in SQL, and what was best in each.

:class:`TuningLog` is a log in an SQLite file or another database; :class:`AppliedLog` puts one in
force. Importing this package does not load SQLAlchemy: opening a log does.
"""

from whet.db.apply import AppliedLog, UntunedWarning
from whet.db.log import TuningLog
from whet.db.session import LogSession
from whet.db.store.ignored import IgnoredRecordsWarning
from whet.db.values.claims import Counts, Full, LoggedPoint, Mine, Recorded, Taken, TaskKey
from whet.db.values.identity import device_key, device_name
from whet.db.values.records import RunRecord, TaskSummary, TrialEntry, TrialRecord
from whet.measure.device.names import Device

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
