"""Goals, and whether they are reached: a figure beside what was measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import geometric_mean

from whet.bench.comparison import Comparison

Rows = dict[str, Comparison]  # by the work's name


@dataclass(frozen=True)
class Verdict:
    """One figure: what it is, what was measured, what it must be at least, and what falls short."""

    what: str
    measured: float
    least: float
    short: tuple[str, ...] = ()

    @property
    def reached(self) -> bool:
        """True if the goal is reached."""
        return self.measured >= self.least

    def markdown(self) -> str:
        """A row of a table."""
        return f"| {self.what} | {self.measured:.2f} | {self.least:g} |"

    def __str__(self) -> str:
        word = "reached    " if self.reached else "NOT REACHED"
        names = f": {', '.join(self.short)}" if self.short else ""
        return f"{word} {self.measured:6.3f} (at least {self.least:g})  {self.what}{names}"


def against(row: Comparison, library: str = "torch") -> float | None:
    """How many times faster than a library's fastest way; None where it has none."""
    peer = row.peer(library)
    return None if peer is None else row.ratio(peer).best


def ratios_of(rows: Rows, library: str = "torch") -> list[float]:
    """Those of all works that the library can do."""
    return [r for row in rows.values() if (r := against(row, library)) is not None]


def geomean(values: Iterable[float | None]) -> float | None:
    """The geometric mean of those that are there."""
    kept = [v for v in values if v is not None]
    return geometric_mean(kept) if kept else None
