"""The progress of a search: a live line on a terminal, else a plain line every few seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from whet.autotune.results.trial import Trial
from whet.autotune.results.unchecked import is_unchecked
from whet.db.values.quality import quality_words
from whet.search_spaces.values.counted import counted, duration

if TYPE_CHECKING:
    from rich.progress import TaskID

PLAIN_EVERY = 2.0
"""Seconds between the first plain lines; a long search says less and less often."""
PLAIN_SHARE, PLAIN_AT_MOST = 0.05, 60.0
"""The pause grows to this share of the time that has passed, and to this many seconds at most."""

SAME_EVERY = 30.0
"""Seconds after which a plain line is repeated where nothing has changed but the time left."""


@dataclass
class _Goal:
    """How far one task is."""

    name: str
    peak: float
    best: Trial | None = None
    done: int = 0


class Progress:
    """Says how far a search is; a context manager.

    Args:
        name: what is tuned.
        total: the number of trials in the end, of all tasks together.
        peak: FLOP/s that one core can do; 0 when not known.
        enabled: False prints nothing at all.
        stream: where to; None: standard error.
        timeout: seconds from now after which the search ends anyway; None: it does not.
    """

    def __init__(
        self,
        name: str,
        total: int,
        peak: float = 0.0,
        enabled: bool = True,
        stream: IO[str] | None = None,
        timeout: float | None = None,
    ) -> None:
        self.name = name
        self.total = total
        self.enabled = enabled
        self.stream = sys.stderr if stream is None else stream
        self.outcomes: Counter[str] = Counter()
        self.done = 0
        self._unchecked = self._others = 0
        self.stage = ""
        self._goals = {name: _Goal(name, peak)}
        self._goal = self._goals[name]
        self._measured = 0  # by this run: what the pace is made of
        self._first = 0.0  # when the first of them ended: workers take a while to start
        self._began = self._printed = time.monotonic()
        self._deadline = None if timeout is None else self._began + timeout
        self._live: Any = None
        self._bar: TaskID | None = None
        self._printing = threading.Lock()
        self._shown: tuple[object, ...] = ()
        self._entered = ("", "")
        self._ended = threading.Event()
        self._clock: threading.Thread | None = None

    def __enter__(self) -> Progress:
        if self.enabled and self.stream.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Live

            self._live = Live(
                BarColumn(bar_width=12),
                # Names and stages may hold brackets, which are not meant as markup.
                TextColumn("{task.completed}/{task.total}  {task.fields[said]}", markup=False),
                console=Console(file=self.stream),
                refresh_per_second=4,
                transient=False,
            )
            self._live.start()
            self._bar = self._live.add_task("", total=self.total, said="")
            self.say(self.name)  # once, above: the line itself has little room
        elif self.enabled:
            # Whatever the search waits for, lines come: a terminal's are drawn by a thread, too.
            self._clock = threading.Thread(target=self._tick_on, daemon=True)
            self._clock.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._clock is not None:
            self._ended.set()
            self._clock.join()
            self._clock = None

    def _tick_on(self) -> None:
        while not self._ended.wait(0.25):
            self.tick()

    def at(self, name: str, peak: float | None = None) -> None:
        """Say which of many tasks the following calls are about.

        Args:
            name: the task's; each keeps its own best and its own count.
            peak: FLOP/s that one core can do at its dtype; None: as it was, 0 at first.
        """
        self._goal = self._goals.setdefault(name, _Goal(name, 0.0))
        if peak is not None:
            self._goal.peak = peak

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
        again, self._entered = self._entered == (self._goal.name, stage), (self._goal.name, stage)
        self.stage = stage
        if self._live is None and not again:
            self.say(f"{self._goal.name}: {stage}")
        else:
            self.tick()

    def resumed(self, outcomes: Mapping[str, int], best: Trial | None, unchecked: int = 0) -> None:
        """Count trials of earlier runs.

        Args:
            outcomes: how many ended with each status.
            best: the fastest of them.
            unchecked: how many had their numbers compared with nothing.
        """
        self._unchecked += unchecked
        trials = sum(outcomes.values())
        self.done += trials
        self._goal.done += trials
        self.outcomes.update(outcomes)
        if best is not None and (self._goal.best is None or best.cost < self._goal.best.cost):
            self._goal.best = best
        if trials:
            known = counted(trials, "trial")
            if not self._many:
                known = f"{trials} of {counted(self.total, 'trial')}"
            are = "is" if trials == 1 else "are"
            self.say(f"{self._goal.name}: {known} {are} in the log already")

    def trial(self, trial: Trial, own: bool = True) -> None:
        """Count a new trial.

        Args:
            trial: with its result.
            own: False: another search on the same log measured it.
        """
        self.stage = ""
        self._count(trial)
        self._others += not own
        self._measured += 1
        self._first = self._first or time.monotonic()
        self.tick()

    def line(self) -> str:
        """The state in one line: which task, its best so far and how good that is, time left,
        outcomes."""
        return self._line(f", {self._quality}" if self._quality else "")

    @property
    def _quality(self) -> str:
        """How good the best cost so far is: a search compares nothing in turns before its end."""
        return quality_words(self._goal.best.result, False) if self._goal.best is not None else ""

    def _line(self, quality: str) -> str:
        parts = []
        if self._many:
            share = f" ({self._goal.done / self.done:.0%} of the trials)" if self.done else ""
            parts.append(f"{self._goal.name}{share}")
        if self._goal.best is not None:
            text = f"best {duration(self._goal.best.cost)}"
            if self._goal.best.flop:
                text += f" {self._goal.best.gflops:.1f} GFLOP/s"
                if self._goal.peak:
                    text += f" ({self._goal.best.gflops * 1e9 / self._goal.peak:.0%} of peak)"
            parts.append(text + quality)
        if self.stage:
            parts.append(self.stage)
        elif left := self._left():
            parts.append(f"{left} left")
        parts += [f"{n} {status}" for status, n in self.outcomes.most_common()]
        if self._others:
            parts.append(f"{self._others} by other searches")
        if self._unchecked:
            parts.append(f"{self._unchecked} with unchecked numbers")
        return "  ".join(parts)

    @property
    def _many(self) -> bool:
        """True if there are several tasks; the search itself counts only if it had trials."""
        return len([g for g in list(self._goals.values()) if g.name != self.name or g.done]) > 1

    def _count(self, trial: Trial) -> None:
        self.done += 1
        goal = self._goal
        goal.done += 1
        self.outcomes[trial.result.status] += 1
        self._unchecked += is_unchecked(trial.result)
        if trial.result.ok and (goal.best is None or trial.cost < goal.best.cost):
            goal.best = trial

    def _left(self) -> str:
        """The time left: what the pace says, and never more than the deadline allows."""
        if self.done >= self.total:
            return ""
        now = time.monotonic()
        bounds = []
        if self._measured >= 2:
            pace = (now - self._first) / (self._measured - 1)
            bounds.append(pace * (self.total - self.done))
        if self._deadline is not None:
            bounds.append(max(self._deadline - now, 0.0))
        return clock(min(bounds)) if bounds else ""

    def tick(self) -> None:
        """Show the state where it is due: time has passed, or a trial has ended."""
        if self._live is not None:
            # Below the line: a terminal that is narrow cuts off what stands at the end.
            said = f"{self._line('')}\n{self._quality}"
            self._live.update(self._bar, completed=self.done, total=self.total, said=said)
            return
        now = time.monotonic()
        pause = min(max(PLAIN_EVERY, PLAIN_SHARE * (now - self._began)), PLAIN_AT_MOST)
        with self._printing:
            best = None if self._goal.best is None else self._goal.best.cost
            state = (self.done, self.stage, self._goal.name, best)
            due = now - self._printed >= (pause if state != self._shown else max(pause, SAME_EVERY))
            if due:
                self._printed, self._shown = now, state
        if due:
            self.say(f"{self.name}: {self.done}/{self.total}  {self.line()}")


def clock(seconds: float) -> str:
    """A time to wait, for people: ``14 s``, ``2 min 24 s``, ``3 h 5 min``."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
