"""Commands with an end: their output as it comes, and no waiting for what cannot be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Thread
from typing import IO

from check_report import Failed, tail

KILLED = 10.0
"""Seconds that a process may take to go when it is killed: one that a driver holds may never."""


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        code: its exit code, negative for a signal; None: it was killed when its time was over.
        out: what it wrote.
        err: what it wrote to standard error.
    """

    code: int | None
    out: str
    err: str


def ended(
    words: Sequence[str],
    seconds: float | None = None,
    environment: Mapping[str, str] | None = None,
    show: Callable[[str], object] = lambda line: None,
) -> Ended:
    """Run a command to its end, or kill it.

    Args:
        words: the command line.
        seconds: that it may take; None: as long as it likes.
        environment: its variables; None: this process's.
        show: is given each line that it writes, as it comes.

    Raises:
        Failed: it cannot be started.
    """
    lines: list[str] = []
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                env=environment, text=True, errors="replace", start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise Failed(f"{words[0]} cannot be started: {error}") from None
        assert process.stdout is not None
        reader = Thread(target=_read, args=(process.stdout, lines, show), daemon=True)
        reader.start()
        code = _waited(process, seconds)
        reader.join(KILLED)  # children of its own may keep what it wrote to open
        errors.seek(0)
        return Ended(code, "".join(lines), errors.read())


def said(
    words: Sequence[str],
    seconds: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """A command's output.

    Raises:
        Failed: it ended badly, or took longer than it may.
    """
    found = ended(words, seconds, environment)
    if found.code is None:
        raise Failed(f"{' '.join(words[:4])} was not done after {seconds:.0f} s\n{tail(found.err)}")
    if found.code:
        what = f"{' '.join(words[:4])} ended with {found.code}"
        raise Failed(f"{what}: {tail(found.err, 1)}\n{tail(found.err)}")
    return found.out


def _read(pipe: IO[str], lines: list[str], show: Callable[[str], object]) -> None:
    for line in pipe:
        lines.append(line)
        show(line.rstrip("\n"))


def _waited(process: subprocess.Popen[str], seconds: float | None) -> int | None:
    """The exit code; None where the process was killed, with what it has started."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            try:
                process.wait(KILLED)
            except subprocess.TimeoutExpired:
                print(f"process {process.pid} cannot be killed, and is left alone", flush=True)
