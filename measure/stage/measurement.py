"""The measurement that a measuring stage is given."""

from __future__ import annotations

from dataclasses import dataclass

from whet.measure.stage.builder import Built
from whet.measure.values import MeasureOptions


@dataclass(frozen=True)
class Measurement:
    """One candidate to check and to time.

    Attributes:
        built: a candidate that was built.
        options: budgets, repeats and tolerance.
        reference: the default config's program, to check the numbers; None: unchecked.
        best_cost: seconds per call of the best so far.
    """

    built: Built
    options: MeasureOptions
    reference: Built | None = None
    best_cost: float | None = None
