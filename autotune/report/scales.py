"""Scales: where a value stands on an axis, and the ticks and words that say so."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from whet.search_spaces.values.counted import duration

Words = Callable[[float], str]


def number(value: float) -> str:
    """A number for people: ``12``, ``0.25``, ``1.5k``, ``3M``."""
    if value == 0:
        return "0"
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= factor:
            return f"{value / (factor if unit != 'k' else 1e3):.4g}{unit}"
    return f"{value:.4g}"


@dataclass(frozen=True)
class Linear:
    """An axis whose steps are equal.

    Args:
        low, high: its ends; widened where they are equal.
        words: how a tick's value is said.
        wanted: about how many ticks.
        whole: True if only integers mean anything on it.
    """

    low: float
    high: float
    words: Words = number
    wanted: int = 6
    whole: bool = False

    def __post_init__(self) -> None:
        if not self.high > self.low:
            object.__setattr__(self, "high", self.low + (abs(self.low) or 1.0))

    def place(self, value: float) -> float:
        """Where a value stands: 0 at the axis' beginning, 1 at its end."""
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """Places of the ticks with their words; some have none."""
        values = _even(self.low, self.high, self.wanted, 1.0 if self.whole else 0.0)
        return [(self.place(v), self.words(v)) for v in values]


@dataclass(frozen=True)
class Logarithmic:
    """An axis whose steps are factors; both ends are above 0.

    Args:
        low, high: the least and the largest value; the axis goes a little beyond both.
        words: how a tick's value is said.
    """

    low: float
    high: float
    words: Words = number

    def __post_init__(self) -> None:
        # A margin, so that the best point does not lie on the frame; at least a third of a
        # decade, so that noise between equal programs does not fill the plot.
        begin, end = math.log10(self.low), math.log10(self.high)
        margin = max(0.04 * (end - begin), (0.3 - (end - begin)) / 2, 0.01)
        object.__setattr__(self, "low", 10 ** (begin - margin))
        object.__setattr__(self, "high", 10 ** (end + margin))

    def place(self, value: float) -> float:
        return math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self) -> list[tuple[float, str]]:
        decades = math.log10(self.high / self.low)
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        if decades < 0.7:
            return [(self.place(v), self.words(v)) for v in _even(self.low, self.high, 5)]
        digits: Sequence[int] = (1, 2, 5) if decades <= 3 else (1,)
        skip = max(1, math.ceil(decades / 8))
        marks = []
        for power in range(first, last + 1):
            for digit in digits:
                value = float(f"{digit}e{power}")
                if self.low <= value <= self.high:
                    said = self.words(value) if power % skip == 0 else ""
                    marks.append((self.place(value), said))
        return marks


@dataclass(frozen=True)
class Categories:
    """An axis of words, one slot each.

    Args:
        names: the words in order.
    """

    names: Sequence[str]

    def place(self, value: float) -> float:
        """Where the middle of slot ``value`` is; fractions are beside the middle."""
        return (value + 0.5) / max(len(self.names), 1)

    def ticks(self) -> list[tuple[float, str]]:
        return [(self.place(i), name) for i, name in enumerate(self.names)]


Scale = Linear | Logarithmic | Categories
"""One axis: values to ``0..1``, and its ticks."""


def seconds(value: float) -> str:
    """A duration as a tick says it: ``0.5 ms``; zero is zero."""
    return duration(value) if value > 0 else "0"


def _even(low: float, high: float, wanted: int, least: float = 0.0) -> list[float]:
    """Round values between two ends, at equal steps of at least ``least``."""
    step = max(_step((high - low) / wanted), least)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    # Whole multiples: a sum of steps would drift to 0.30000000000000004.
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def _step(rough: float) -> float:
    """The next of 1, 2, 5 times a power of ten that is not below ``rough``."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(d * power for d in (1, 2, 5, 10) if d * power >= rough * (1 - 1e-9))
