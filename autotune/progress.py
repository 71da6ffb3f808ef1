"""The progress of a search: a live line on a terminal, else a plain line every few seconds."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import IO, TYPE_CHECKING, Any

from whet.autotune.result import Trial, duration

if TYPE_CHECKING:
    from rich.progress import TaskID

PLAIN_EVERY = 5.0
"""Seconds between two plain lines."""


class Progress:
    """Says how far a search is; a context manager.

    Args:
        name: what is tuned.
        total: the number of trials in the end.
        peak: FLOP/s that one core can do; 0 when not known.
        enabled: False prints nothing at all.
        stream: where to; None: standard error.
    """

    def __init__(
        self,
        name: str,
        total: int,
        peak: float = 0.0,
        enabled: bool = True,
        stream: IO[str] | None = None,
    ) -> None:
        self.name = name
        self.total = total
        self.peak = peak
        self.enabled = enabled
        self.stream = sys.stderr if stream is None else stream
        self.best: Trial | None = None
        self.outcomes: Counter[str] = Counter()
        self.done = 0
        self.stage = ""
        self._measured = 0  # by this run: what the pace is made of
        self._first = 0.0  # when the first of them ended: workers take a while to start
        self._printed = time.monotonic()
        self._live: Any = None
        self._bar: TaskID | None = None

    def __enter__(self) -> Progress:
        if self.enabled and self.stream.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Live

            self._live = Live(
                BarColumn(bar_width=12),
                TextColumn("{task.completed}/{task.total}  {task.fields[said]}"),
                console=Console(file=self.stream),
                refresh_per_second=4,
                transient=False,
            )
            self._live.start()
            self._bar = self._live.add_task("", total=self.total, said="")
            self.say(self.name)  # once, above: the line itself has little room
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, text: str) -> None:
        """Print a line of its own."""
        if not self.enabled:
            return
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=self.stream, flush=True)

    def enter(self, stage: str) -> None:
        """Say what is being done, where it is not a trial."""
        self.stage = stage
        if self._live is None:
            self.say(f"{self.name}: {stage}")
        else:
            self._refresh()

    def resumed(self, trials: list[Trial]) -> None:
        """Count trials of earlier runs."""
        for trial in trials:
            self._count(trial)
        if trials:
            self.say(f"{self.name}: {len(trials)} of {self.total} trials are in the log already")

    def trial(self, trial: Trial) -> None:
        """Count a new trial."""
        self.stage = ""
        self._count(trial)
        self._measured += 1
        self._first = self._first or time.monotonic()
        self._refresh()

    def tick(self) -> None:
        """Time has passed, nothing else has happened."""
        self._refresh()

    def line(self) -> str:
        """The state in one line: best so far, outcomes, time left."""
        parts = []
        if self.best is not None:
            text = f"best {duration(self.best.cost)}"
            if self.best.flop:
                text += f" {self.best.gflops:.1f} GFLOP/s"
                if self.peak:
                    text += f" ({self.best.gflops * 1e9 / self.peak:.0%} of peak)"
            parts.append(text)
        if self.stage:
            parts.append(self.stage)
        elif left := self._left():
            parts.append(f"{left} left")
        parts += [f"{n} {status}" for status, n in self.outcomes.most_common()]
        return "  ".join(parts)

    def _count(self, trial: Trial) -> None:
        self.done += 1
        self.outcomes[trial.result.status] += 1
        if trial.result.ok and (self.best is None or trial.cost < self.best.cost):
            self.best = trial

    def _left(self) -> str:
        if self._measured < 2 or self.done >= self.total:
            return ""
        pace = (time.monotonic() - self._first) / (self._measured - 1)
        seconds = round(pace * (self.total - self.done))
        minutes, seconds = divmod(seconds, 60)
        return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"

    def _refresh(self) -> None:
        if self._live is not None:
            self._live.update(self._bar, completed=self.done, total=self.total, said=self.line())
            return
        now = time.monotonic()
        if now - self._printed >= PLAIN_EVERY:
            self._printed = now
            self.say(f"{self.name}: {self.done}/{self.total}  {self.line()}")
