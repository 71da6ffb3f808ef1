"""Logs in and out: as text, put together, cut down, and described.

Each function takes an open :class:`~whet.db.TuningLog`. All that they read is data: nothing is
evaluated or unpickled.
"""

from whet.db.exchange.distill import distill_log
from whet.db.exchange.lines import Broken, Skipped
from whet.db.exchange.prune import Pruned, prune_log
from whet.db.exchange.stats import LogStats, log_stats
from whet.db.exchange.transfer import export_log, import_log, merge_logs
from whet.db.exchange.write import Taken

__all__ = [
    "Broken",
    "LogStats",
    "Pruned",
    "Skipped",
    "Taken",
    "distill_log",
    "export_log",
    "import_log",
    "log_stats",
    "merge_logs",
    "prune_log",
]
