"""The folder of a node's files: locked while its worker lives, removed with it or by the next."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX, OWNER = "whet-ray-", "owner"
"""The name of a folder for Ray's files, and of the file in it that its worker locks."""
LONGEST_PARENT = 24


@contextlib.contextmanager
def node_folder() -> Iterator[str]:
    """A folder for Ray's files with a short name: sockets' paths have at most 107 characters."""
    parent = tempfile.gettempdir()
    parent = parent if len(parent) <= LONGEST_PARENT else "/tmp"
    _remove_left_ones(Path(parent))
    folder = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
    with open(Path(folder, f"{OWNER}.new"), "w") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        os.rename(owner.name, Path(folder, OWNER))  # others find it locked
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _remove_left_ones(parent: Path) -> None:
    """Remove the folders of workers that were killed: nobody locks their owner's file."""
    for path in parent.glob(f"{PREFIX}*/{OWNER}"):
        with contextlib.suppress(OSError), open(path, "r+") as owner:  # another user's, or gone
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path.parent, ignore_errors=True)
