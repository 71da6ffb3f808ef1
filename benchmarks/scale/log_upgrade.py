"""The upgrade of a long log that the version before wrote."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from log_figures import Figure, Stopwatch

from whet.db import TuningLog
from whet.db.quick.place import VERSION_TABLE

ADDED = ("config_digest", "told", "withdrawn")
TASK = "workload_id, target_id, device_id, space_fingerprint"


def as_before(path: Path) -> None:
    """Take from a log's file what revision 0003 added."""
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("PRAGMA foreign_keys=OFF")
    raw.execute("PRAGMA synchronous=OFF")
    raw.execute("BEGIN")
    for index in ("ix_trial_best", "ix_trial_task", "ix_trial_config", "ix_run_task"):
        raw.execute(f"DROP INDEX {index}")
    for table in ("claim", "session", "task"):
        raw.execute(f"DROP TABLE {table}")
    for column in ADDED:
        raw.execute(f"ALTER TABLE trial DROP COLUMN {column}")
    columns = f"{TASK}, cost, id, status"
    raw.execute(f"CREATE INDEX ix_trial_best ON trial ({columns}) WHERE status = 'ok'")
    raw.execute(f"CREATE INDEX ix_trial_task ON trial ({TASK})")
    raw.execute(f"UPDATE {VERSION_TABLE} SET version_num = '0002'")
    raw.execute("COMMIT")
    raw.close()


def time_upgrade(path: Path, old: Path) -> Iterator[Figure]:
    """Copy a log, take it back to revision 0002, and open it; the copies are removed.

    Args:
        path: the log.
        old: where the copy may stand.
    """
    shutil.copyfile(path, old)
    as_before(old)
    with TuningLog(path, write=False) as log:
        totals = sum(counts.trials for _, counts in log.tasks())
    watch, said, longest = Stopwatch(), time.perf_counter(), 0.0

    def note(line: str) -> None:
        nonlocal said, longest
        now = time.perf_counter()
        longest, said = max(longest, now - said), now
        print(f"  {line}", flush=True)

    with TuningLog(old, waiting=note) as log:
        spent, cpu = watch.read()
        longest = max(longest, time.perf_counter() - said)
        assert sum(counts.trials for _, counts in log.tasks()) == totals
    for left in old.parent.glob(f"{old.name}*"):
        left.unlink()
    yield Figure("upgrade of revision 0002, its copy included", "ms", [1e3 * spent], [1e3 * cpu])
    yield Figure("the longest silence of the upgrade", "ms", [1e3 * longest])
