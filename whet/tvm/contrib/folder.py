"""``whet.contrib.utils``: a folder for the files of a test, gone when nobody has it."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref

__all__ = ["TempDirectory", "tempdir"]


class TempDirectory:
    """A new folder that is removed with :meth:`remove`, or with this object.

    Args:
        custom_path: a folder to use instead, which must not exist yet.

    Attributes:
        path: its path.
    """

    def __init__(self, custom_path: str | os.PathLike[str] | None = None) -> None:
        if custom_path is None:
            self.path = tempfile.mkdtemp(prefix="whet")
        else:
            self.path = os.fspath(custom_path)
            os.mkdir(self.path)
        self._cleanup = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def relpath(self, name: str) -> str:
        """The path of a file in it."""
        return os.path.join(self.path, name)

    def listdir(self) -> list[str]:
        """The names of what is in it."""
        return os.listdir(self.path)

    def remove(self) -> None:
        """Remove it with all that is in it; a second time does nothing."""
        self._cleanup()

    def __enter__(self) -> TempDirectory:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def tempdir(custom_path: str | os.PathLike[str] | None = None) -> TempDirectory:
    """A new folder (:class:`TempDirectory`)."""
    return TempDirectory(custom_path)
