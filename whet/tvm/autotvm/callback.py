"""``autotvm.callback``: where a tuner's trials are logged, and whether it shows its progress."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.tvm.autotvm.values import MeasureInput, MeasureResult


def is_database(location: str) -> bool:
    """True for a log of :func:`whet.tune`: a URL, ``*.db``, or a file that is one already."""
    if "://" in location or location.endswith((".db", ".sqlite")):
        return True
    try:
        with open(location, "rb") as file:
            return file.read(6) == b"SQLite"
    except OSError:
        return False


@dataclass(frozen=True)
class LogToFile:
    """The result of :func:`log_to_file`; a callback that adds a line for each trial."""

    file_out: str

    @property
    def is_database(self) -> bool:
        """Whether :func:`whet.tune` keeps it, and no line is written."""
        return is_database(self.file_out)

    def __call__(
        self, tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
    ) -> None:
        from whet.tvm.autotvm.record import encode

        with open(self.file_out, "a", encoding="utf-8") as file:
            file.writelines(encode(*one) + "\n" for one in zip(inputs, results, strict=True))


@dataclass(frozen=True)
class ProgressBar:
    """The result of :func:`progress_bar`."""

    def __call__(self, tuner: Any, inputs: Any, results: Any) -> None:
        """:func:`whet.tune` shows its own line."""


def log_to_file(file_out: str | os.PathLike[str], protocol: str = "json") -> LogToFile:
    """Write the trials to a file.

    A name that ends in ``.db``, a URL and what is a log already are ``log=`` of :func:`whet.tune`:
    a database. To any other file each trial adds a line of AutoTVM's format, version 0.2.

    Args:
        file_out: the file.
        protocol: ``"json"``.

    Raises:
        ArgumentError: another protocol, or no file's name.
    """
    if protocol != "json" or not isinstance(file_out, str | Path):
        raise ArgumentError(
            f"log_to_file({file_out!r}, protocol={protocol!r})",
            "a log is a file that is read as data, and never a pickle",
            "give its name only",
        )
    return LogToFile(os.fspath(file_out))


def progress_bar(total: int, prefix: str = "", si_prefix: str = "G") -> ProgressBar:
    """Show a progress line: ``progress=True`` of :func:`whet.tune`, which knows the total.

    Args:
        total: the number of trials.
        prefix: text before the line.
        si_prefix: the unit of the speeds.
    """
    del total, prefix, si_prefix
    return ProgressBar()
