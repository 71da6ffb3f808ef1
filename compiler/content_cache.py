"""Files kept by the digest of what they were made from: compiled code, across processes.

A file is complete or not there: it is written beside its place and renamed. Several processes may
use one folder at the same time. When the files of a kind take more bytes than they may, those that
were not used for longest go. Where the folder cannot be written, nothing is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

from whet.compiler import settings

MEBIBYTE = 1 << 20
# What was begun so long ago and is not in its place, a process left behind that was killed.
_WRITING_SECONDS = 3600


def digest(*parts: str | bytes) -> str:
    """The name of what is made from these parts; their borders count."""
    out = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        out.update(len(data).to_bytes(8, "little"))
        out.update(data)
    return out.hexdigest()


class ContentCache:
    """Files of one kind in a folder of the cache.

    Args:
        kind: the folder's name, e.g. ``"cubin"``.
        limit_bytes: what all of its files may take together.
        root: the cache's folder; None: that of the settings.
    """

    def __init__(
        self, kind: str, limit_bytes: int = 256 * MEBIBYTE, root: Path | None = None
    ) -> None:
        self.kind = kind
        self.limit_bytes = limit_bytes
        self._root = root

    def _folder(self) -> Path | None:
        return settings.cache_dir() if self._root is None else self._root

    def path(self, name: str, suffix: str = "") -> Path | None:
        """Where the file of a digest stands or would stand; None where nothing is kept."""
        root = self._folder()
        return None if root is None else root / self.kind / name[:2] / (name + suffix)

    def find(self, name: str, suffix: str = "") -> Path | None:
        """Where the file of a digest stands, or None; it counts as used now."""
        path = self.path(name, suffix)
        if path is None or not path.exists():
            return None
        with contextlib.suppress(OSError):  # removed meanwhile, or somebody else's, to read only
            os.utime(path)
        return path

    def get(self, name: str, suffix: str = "") -> bytes | None:
        """The content kept under a digest, or None; it counts as used now."""
        path = self.find(name, suffix)
        if path is None:
            return None
        try:
            return path.read_bytes()
        except OSError:  # removed by another process meanwhile
            return None

    def put(self, name: str, data: bytes, suffix: str = "") -> Path | None:
        """Keep content under a digest; where it stands, or None where it could not be kept."""
        path = self.path(name, suffix)
        if path is None:
            return None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._write(path, [data])
            if name[0] == "0":  # one write in sixteen looks at the size of all
                self.prune()
        except OSError:
            return None
        return path

    def put_chunks(
        self, name: str, chunks: Iterable[bytes | memoryview], suffix: str = ""
    ) -> Path | None:
        """As :meth:`put`, of content that comes in pieces; the limit is looked at each time."""
        path = self.path(name, suffix)
        if path is None:
            return None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._write(path, chunks)
            self.prune()
        except OSError:
            return None
        return path

    def _write(self, path: Path, chunks: Iterable[bytes | memoryview]) -> None:
        import tempfile  # which reading does without

        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=".")
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines(chunks)
            os.replace(beside, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise

    def prune(self) -> int:
        """Remove what was not used for longest until the rest fits; the bytes that are left."""
        root = self._folder()
        if root is None:
            return 0
        found = []
        for path in (root / self.kind).glob("*/*"):
            with contextlib.suppress(OSError):  # another process may have removed it
                status = path.stat()
                if path.name.startswith(".") and time.time() - status.st_mtime < _WRITING_SECONDS:
                    continue  # another process is writing it
                found.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self.limit_bytes:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size
        return total
