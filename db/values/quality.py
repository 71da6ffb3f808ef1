"""The quality of a record in words: the one place that says so, for whoever shows a cost.

The log, ``whet best``, the report, the progress line and a search's summary call this, so that one
record is described by the same words everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from whet.db.values.decision import median_interval
from whet.measure.stage.load import UPPER, busy_words, is_busy, quiet_words
from whet.measure.stage.timing import spread
from whet.measure.values import MeasureResult
from whet.search_spaces.values.counted import counted, duration


@dataclass(frozen=True)
class Quality:
    """The quality of the cost of a success.

    Attributes:
        compared: True if it was measured in turns with the default config.
        repeats: how often it was measured.
        spread: of the repeats, interquartile range over median; None: unknown, it has one repeat.
        interval: seconds per call within which the median lies with at least 95 % confidence; None:
            fewer than six repeats do not say.
        busy: True if others used the machine meanwhile; None: unknown.
        load: the words for that.
        predicted: the GPU whose model predicted the cost; "" where it was measured.
    """

    compared: bool
    repeats: int
    spread: float | None
    interval: tuple[float, float] | None
    busy: bool | None
    load: str
    predicted: str = ""

    def __str__(self) -> str:
        if self.predicted:
            return f"predicted by a model of {self.predicted}, not measured"
        said = "unknown" if self.spread is None else f"{100 * self.spread:.1f} %"
        words = [
            "compared in turns" if self.compared else "not compared in turns",
            counted(self.repeats, "repeat"),
            f"spread {said}",
        ]
        if self.interval is not None:
            low, high = map(duration, self.interval)
            words.append(f"95 % interval {low} to {high}")
        return ", ".join([*words, self.load])


def quality_of(result: MeasureResult, compared: bool) -> Quality | None:
    """The quality of a result; None for a failure, which has no cost.

    Args:
        result: what came of a candidate.
        compared: True if it was measured in turns with the default config.
    """
    if not result.ok:
        return None
    costs = result.costs
    rounds = costs if compared else ()
    busy = is_busy(result.environment, rounds)
    words = {
        None: "machine load unknown",
        False: "" if busy is None else quiet_words(result.environment),
        True: f"{busy_words(result.environment, rounds)}: {UPPER}",
    }
    return Quality(
        compared=compared,
        repeats=len(costs),
        spread=spread(costs),
        interval=median_interval(costs),
        busy=busy,
        load=words[busy],
        predicted=result.predicted,
    )


def quality_words(result: MeasureResult, compared: bool) -> str:
    """:func:`quality_of` in words; "" for a failure."""
    return str(quality_of(result, compared) or "")
