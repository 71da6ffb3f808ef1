"""Figures of a benchmark of logs, beside what they have to reach."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

GOALS: dict[str, tuple[str, float]] = {
    "rows written in batches of 1,000, SQLite": ("least", 5000),
    "rows written by 8 processes, PostgreSQL": ("least", 2000),
    "best record, new connection, of SQLite": ("most", 5),
    "best record, new connection, of PostgreSQL": ("most", 20),
    "fresh process to the best record, of SQLite": ("most", 200),
    "fresh process to the best config, of SQLite": ("most", 200),
}
"""Bounds of medians, in the figures' units."""


@dataclass(frozen=True)
class Figure:
    """One quantity that was measured.

    Attributes:
        name: of the quantity.
        unit: ``"ms"`` or ``"1/s"``.
        values: by the clock, as they came.
        cpu: the same by the processor's time, which other processes of the machine leave alone.
    """

    name: str
    unit: str
    values: list[float]
    cpu: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median of the values."""
        return statistics.median(self.values)

    def to_json(self) -> dict[str, object]:
        """The medians and the extremes, for the file of results."""
        cpu = {"cpu_median": statistics.median(self.cpu)} if self.cpu else {}
        ends = {"min": min(self.values), "max": max(self.values), "count": len(self.values)}
        return {"unit": self.unit, "median": self.median, **cpu, **ends}


class Stopwatch:
    """Seconds by the clock and by the processor, of this process or of its ended children."""

    def __init__(self, children: bool = False) -> None:
        self._who = resource.RUSAGE_CHILDREN if children else resource.RUSAGE_SELF
        self._wall, self._cpu = time.perf_counter(), self._used()

    def _used(self) -> float:
        used = resource.getrusage(self._who)
        return used.ru_utime + used.ru_stime

    def read(self) -> tuple[float, float]:
        """Seconds since it was made: by the clock, by the processor."""
        return time.perf_counter() - self._wall, self._used() - self._cpu


def timed(name: str, do: Callable[[], object], repeats: int, children: bool = False) -> Figure:
    """Milliseconds of some calls."""
    wall, cpu = [], []
    for _ in range(repeats):
        watch = Stopwatch(children)
        do()
        seconds, used = watch.read()
        wall.append(1e3 * seconds)
        cpu.append(1e3 * used)
    return Figure(name, "ms", wall, cpu)


def show(figure: Figure) -> str:
    """A figure in one line."""
    low, high = min(figure.values), max(figure.values)
    line = f"{figure.name}: {figure.median:,.1f} {figure.unit} ({low:,.1f} to {high:,.1f})"
    if figure.cpu:
        line += f", of the processor's time {statistics.median(figure.cpu):,.1f}"
    if figure.name not in GOALS:
        return line
    kind, bound = GOALS[figure.name]
    met = figure.median >= bound if kind == "least" else figure.median <= bound
    return f"{line}; goal at {kind} {bound:,g}: {'met' if met else 'MISSED'}"
