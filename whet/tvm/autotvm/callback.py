"""``autotvm.callback``: where a tuner's trials are logged, and whether it shows its progress."""

from __future__ import annotations

from dataclasses import dataclass

from whet.compiler.errors import ArgumentError


@dataclass(frozen=True)
class LogToFile:
    """The result of :func:`log_to_file`."""

    file_out: str


@dataclass(frozen=True)
class ProgressBar:
    """The result of :func:`progress_bar`."""


def log_to_file(file_out: str, protocol: str = "json") -> LogToFile:
    """Write the trials to a log: ``log=`` of :func:`whet.tune`.

    The log is an SQLite database, whatever the file is called; ``whet log export`` writes JSON
    lines. A trial is in it before the next is proposed.

    Args:
        file_out: the file.
        protocol: ``"json"``.

    Raises:
        ArgumentError: another protocol, or no file's name.
    """
    if protocol != "json" or not isinstance(file_out, str):
        raise ArgumentError(
            f"log_to_file({file_out!r}, protocol={protocol!r})",
            "a log is a file that is read as data, and never a pickle",
            "give its name only",
        )
    return LogToFile(file_out)


def progress_bar(total: int, prefix: str = "", si_prefix: str = "G") -> ProgressBar:
    """Show a progress line: ``progress=True`` of :func:`whet.tune`, which knows the total.

    Args:
        total: the number of trials.
        prefix: text before the line.
        si_prefix: the unit of the speeds.
    """
    del total, prefix, si_prefix
    return ProgressBar()
