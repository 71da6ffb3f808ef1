"""A copy of a log's file, made before its tables are changed."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from whet.compiler.errors import LogError
from whet.db.store.patience import Pace

ROOM = 3
"""Times a log's size that an upgrade needs on its disk: the copy, SQLite's journal, new columns."""
PAGES = 4096
"""Pages that are copied at a time."""


def back_up(
    path: Path,
    version: str,
    before: str = "its tables are upgraded",
    progress: Callable[[str], Any] | None = None,
) -> Path:
    """Copy a log's file beside it, as ``<name>.v<version>.bak``; return the copy's path.

    The copy is of one state of the log, whoever writes to it meanwhile. A copy that is there
    already is kept; the new one then has a number in its name.

    Args:
        path: the SQLite file.
        version: of its tables.
        before: what follows, for errors.
        progress: is given a line now and then, where it takes long.

    Raises:
        LogError: the disk has no room for that, or the copy cannot be written.
    """
    request = f"copy {path} before {before}"
    copy, number = path.with_name(f"{path.name}.v{version}.bak"), 1
    while copy.exists():
        number += 1
        copy = path.with_name(f"{path.name}.v{version}.{number}.bak")
    pace = Pace(progress)

    def tell(status: int, left: int, pages: int) -> None:
        pace.at(f"copying the log before {before}: {pages - left:,} of {pages:,} pages")

    draft = copy.with_name(f"{copy.name}.{os.getpid()}.part")
    try:
        size, free = path.stat().st_size, shutil.disk_usage(path.parent).free
        if free < ROOM * size:
            why = f"that takes {ROOM * size / 1e6:,.0f} MB, and {free / 1e6:,.0f} MB are free"
            out = "free some space; nothing was changed"
            raise LogError(request, why, out)
        uri = f"file:{quote(os.path.abspath(path))}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as log, closing(sqlite3.connect(draft)) as new:
            log.backup(new, pages=PAGES, progress=tell)
        shutil.copymode(path, draft)
        with open(draft, "rb") as file:
            os.fsync(file.fileno())
        os.replace(draft, copy)
    except (OSError, sqlite3.Error) as error:
        raise LogError(request, str(error), "nothing was changed") from error
    finally:
        draft.unlink(missing_ok=True)
    return copy
