"""One candidate of a search and its measurement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from whet.search_spaces.values.counted import duration

if TYPE_CHECKING:
    from whet.db.values.records import TrialRecord
    from whet.measure.values import MeasureResult
    from whet.search_spaces import Config


def rate_words(trial: Trial | TrialRecord, peak: float = 0.0) -> list[str]:
    """The rate of a success in words, and its share of a core's peak, as far as they are known.

    Args:
        trial: which.
        peak: FLOP/s that one core can do; 0 when not known.
    """
    if not trial.flop:
        return []
    rate = f"{trial.gflops:.1f} GFLOP/s"
    return [rate, f"{trial.gflops * 1e9 / peak:.0%} of one core's FMA peak"] if peak else [rate]


@dataclass(frozen=True)
class Trial:
    """One candidate and its measurement.

    Attributes:
        number: its place in the search; the default config is trial 0.
        config: the candidate.
        result: its measurement, or how it failed.
        flop: arithmetic operations of one call; 0 when unknown.
    """

    number: int
    config: Config
    result: MeasureResult
    flop: int = 0

    @property
    def cost(self) -> float:
        """Seconds per call; infinity for a failed candidate."""
        return self.result.cost

    @property
    def gflops(self) -> float:
        """10^9 arithmetic operations a second; 0 when unknown or failed."""
        return self.flop / self.cost * 1e-9 if self.result.ok and self.cost > 0 else 0.0

    @property
    def is_default(self) -> bool:
        """True for the default config's trial, which is number 0."""
        return self.number == 0

    @staticmethod
    def of(record: TrialRecord) -> Trial:
        """The trial of a log's record."""
        return Trial(record.number, record.config, record.result, int(record.flop))

    def __str__(self) -> str:
        if not self.result.ok:
            return f"trial {self.number}: {self.result.status}  {self.config}"
        words = "  ".join([duration(self.cost), *rate_words(self), str(self.config)])
        return f"trial {self.number}: {words}"
