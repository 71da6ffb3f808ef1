"""The file that a module was loaded from: its machine code is linked there, and nowhere else."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whet.compiler.runtime.module import Module


@dataclass(frozen=True)
class Origin:
    """A file as it was when a module was loaded from it.

    Attributes:
        path: where.
        suffix: what it is: ``".so"``, ``".o"``, ``".tar"``.
        seen: what the system said of it.
        modules: how many were in it.
    """

    path: Path
    suffix: str
    seen: tuple[int, int, int]
    modules: int

    @staticmethod
    def of(path: Path, suffix: str, module: Module) -> Origin:
        """The origin of a module that was just loaded."""
        return Origin(path.absolute(), suffix, _seen(path), len(module._all()))

    def holds(self, module: Module) -> bool:
        """True where the file is still that one, and has all of the module."""
        try:
            return _seen(self.path) == self.seen and len(module._all()) == self.modules
        except OSError:
            return False


def _seen(path: Path) -> tuple[int, int, int]:
    about = os.stat(path)
    return about.st_ino, about.st_mtime_ns, about.st_size
