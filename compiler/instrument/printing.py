"""Instruments that print the module: before or after passes, what changed, or into files."""

from __future__ import annotations

import difflib
import sys
import time
from pathlib import Path
from typing import TextIO

from whet.compiler.instrument.base import PassInstrument
from whet.compiler.passes.names import PassInfo
from whet.compiler.tir.function import IRModule


class _Printer(PassInstrument):
    """Prints to a file, by default to what is standard output then."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.file = file

    def show(self, *lines: str) -> None:
        """Print lines."""
        print(*lines, sep="\n", file=self.file or sys.stdout)


class PrintBeforeAll(_Printer):
    """Prints the module before every pass."""

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Print it."""
        self.show(f"# before {info.name}", mod.script(), "")


class PrintAfterAll(_Printer):
    """Prints the module after every pass."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Print it."""
        self.show(f"# after {info.name}", mod.script(), "")


class PrintChanged(_Printer):
    """Prints what each pass changed, as a difference, and how long it took; no more.

    Args:
        file: where to; standard output by default.
        context: unchanged lines to print around a change.
        times: whether to print milliseconds; without them the text is the same in each run.
    """

    def __init__(self, file: TextIO | None = None, context: int = 2, times: bool = True) -> None:
        super().__init__(file)
        self.context = context
        self.times = times
        self._open: list[tuple[IRModule, float]] = []

    def enter_pass_ctx(self) -> None:
        """Forget what an error may have left open."""
        self._open.clear()

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Remember the module."""
        self._open.append((mod, time.perf_counter()))

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Print the difference."""
        end = time.perf_counter()
        before, begin = self._open.pop()
        spent = f" ({(end - begin) * 1e3:.2f} ms)" if self.times else ""
        if before is mod:
            return
        old, new = before.script().splitlines(), mod.script().splitlines()
        lines = list(difflib.unified_diff(old, new, lineterm="", n=self.context))[2:]
        if lines:
            self.show(f"# {info.name}{spent}", *lines, "")


class DumpToFolder(PassInstrument):
    """Writes the module after every pass that changed it into a numbered file.

    Args:
        path: the folder; made where it does not exist. ``000_input.txt`` is what came in.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.count = 0
        self._last: IRModule | None = None

    def enter_pass_ctx(self) -> None:
        """Make the folder, and begin to count."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.count, self._last = 0, None

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Write what came in."""
        if self._last is None:
            self._write("input", mod)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Write what came out; passes are counted whether they changed anything or not."""
        self.count += 1
        if mod is not self._last:
            self._write(info.name, mod)

    def _write(self, name: str, mod: IRModule) -> None:
        self._last = mod
        text = f"# {name}\n{mod.script()}\n"
        (self.path / f"{self.count:03d}_{name}.txt").write_text(text)
