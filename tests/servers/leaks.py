"""What a search may leave behind: processes, segments, temporary files, locks, connections."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa

GONE_S = 10.0
"""Seconds in which everything of a search that has ended is gone."""
KEPT = (".lock", ".queue")
"""Ends of the names of files that stay: nobody holds them, and the next search takes them."""


def children(pid: int) -> set[int]:
    """A process's children; theirs, where they outlive them, are :func:`started_with`'s."""
    found: set[int] = set()
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            found.update(map(int, path.read_text().split()))
    return found


def started_with(temporary: Path) -> set[int]:
    """Processes that were started with this temporary folder or one in it, and what they forked."""
    mark, found = f"TMPDIR={temporary}".encode(), set()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if int(path.name) != os.getpid() and mark in (path / "environ").read_bytes():
                found.add(int(path.name))
    return found


def segments() -> set[str]:
    """Files in shared memory, as Whet and Python name them; others have theirs there, too."""
    return {name for name in os.listdir("/dev/shm") if name.startswith(("whet", "psm_"))}


def below(folder: Path) -> list[Path]:
    """Files and folders in a folder, while others remove some of them."""
    # Path.rglob raises where a folder goes away while it is read.
    return [Path(at, name) for at, folders, files in os.walk(folder) for name in folders + files]


def locks(folder: Path) -> list[str]:
    """Locks that somebody holds on files of a folder."""
    inodes = {}
    for path in below(folder):
        with suppress(OSError):  # it has gone
            inodes[path.stat().st_ino] = path.name
    held = []
    for line in Path("/proc/locks").read_text().splitlines():
        where = next((word for word in line.split() if word.count(":") == 2), "::0")
        if (inode := int(where.split(":")[2])) in inodes:
            held.append(f"{inodes[inode]}: {line}")
    return held


def open_files(folder: Path) -> list[str]:
    """Files of a folder that this process holds open."""
    found = []
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            target = os.readlink(path)
            if target.startswith(f"{folder}/"):
                found.append(target)
    return found


def threads() -> set[str]:
    """Names of the threads of sessions and pools."""
    mine = threading.main_thread()
    return {f"{t.name} {t.ident}" for t in threading.enumerate() if t is not mine}


def connections(url: str, name: str) -> int:
    """Connections to a server of those who call themselves by a name."""
    engine = sa.create_engine(sa.make_url(url).set(drivername="postgresql+psycopg"))
    try:
        with engine.connect() as connection:
            query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = :name"
            query += " AND pid <> pg_backend_pid()"
            return int(connection.execute(sa.text(query), {"name": name}).scalar_one())
    finally:
        engine.dispose()


class Leaks:
    """What was there before a search, to be compared with what is there after it.

    Args:
        temporary: the temporary folder of the search and all its processes.
        folder: of its log.

    Attributes:
        servers: URLs of servers, each with the name under which a search is connected.
    """

    def __init__(self, temporary: Path, folder: Path) -> None:
        self.temporary, self.folder = temporary, folder
        self.servers: list[tuple[str, str]] = []
        self._before = children(os.getpid()), segments(), threads()

    def found(self) -> dict[str, Any]:
        """What is left now; empty: nothing is."""
        processes, shared, running = self._before
        temporary = [p.name for p in below(self.temporary) if p.suffix not in KEPT]
        beside = [p.name for p in self.folder.iterdir() if p.name.endswith(("-journal", ".part"))]
        every = {
            "children": children(os.getpid()) - processes,
            "processes": started_with(self.temporary) - processes,
            "segments": segments() - shared,
            "threads": threads() - running,
            "temporary files": temporary,
            "files beside the log": beside,
            "open files": open_files(self.folder),
            "locks": [*locks(self.temporary), *locks(self.folder)],
            "connections": sum(connections(*server) for server in self.servers),
        }
        return {name: left for name, left in every.items() if left}

    def check(self) -> None:
        """Wait until nothing is left.

        Raises:
            AssertionError: something is.
        """
        until = time.monotonic() + GONE_S
        while left := self.found():
            assert time.monotonic() < until, f"left after {GONE_S:.0f} s: {left}"
            time.sleep(0.05)


@contextmanager
def nothing_left(folder: Path, monkeypatch: Any) -> Iterator[Leaks]:
    """Give a test a temporary folder of its own, and check in the end what is left.

    Args:
        folder: of the test, empty; its logs are there.
        monkeypatch: pytest's.
    """
    temporary = folder / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    leaks = Leaks(temporary, folder)
    yield leaks
    leaks.check()
