"""Ratios of paired times with their uncertainty, and the verdict of one beside an A/A run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

Groups = Sequence[Sequence[float]]

RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Ratio:
    """The median of ratios of rounds, and a bootstrap interval that holds the true one.

    Attributes:
        median: over the rounds.
        low: the interval's lower end.
        high: its upper end.
    """

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Row:
    """One work of two trees.

    Attributes:
        work: its name.
        seconds: the old tree's median.
        ratio: seconds of the new tree over those of the old one.
        again: the same of a second checkout of the old tree: the noise.
        same: True if both trees make the same of it: the same program, the same search.
        quality: of a search: cost of the best config over the goal, old and new; else empty.
    """

    work: str
    seconds: float
    ratio: Ratio
    again: Ratio
    same: bool
    quality: tuple[float, ...] = ()

    @property
    def verdict(self) -> str:
        """``slower`` or ``faster`` if the interval lies outside that of the A/A run, else empty."""
        if self.ratio.low > self.again.high:
            return "slower"
        return "faster" if self.ratio.high < self.again.low else ""

    def line(self) -> str:
        """The row for people."""
        what = "same" if self.same else "OTHER"
        best = "".join(f", best {q:.3f}" for q in self.quality)
        return (
            f"{self.work:36s} {1e6 * self.seconds:12.2f} us  new/old {self.ratio}  "
            f"A/A {self.again}  {what}{best}  {self.verdict}"
        ).rstrip()

    def to_json(self) -> dict[str, Any]:
        """Its figures as plain data."""
        return asdict(self) | {"verdict": self.verdict}


def ratio(new: Groups, old: Groups, seed: int = 0) -> Ratio:
    """The ratio of two series of times.

    Processes are resampled, and rounds within them, not single times: what strikes a round strikes
    both of its times, and where code and arrays lie in memory strikes all rounds of a process.

    Args:
        new: seconds, one of each round, in a group for each process.
        old: seconds of the same rounds.
        seed: what the resampling draws from.
    """
    rng = random.Random(seed)
    groups = [[a / b for a, b in zip(*pair, strict=True)] for pair in zip(new, old, strict=True)]
    drawn = sorted(
        median(r for group in rng.choices(groups, k=len(groups)) for r in _redrawn(rng, group))
        for _ in range(RESAMPLES)
    )
    out = round((1 - CONFIDENCE) / 2 * RESAMPLES)
    return Ratio(median(r for group in groups for r in group), drawn[out], drawn[-1 - out])


def _redrawn(rng: random.Random, group: list[float]) -> list[float]:
    return rng.choices(group, k=len(group))
