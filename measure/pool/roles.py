"""The two roles in a pool, here or on another machine: who builds, and who measures."""

from __future__ import annotations

from typing import Protocol

from whet.measure.stage.builder import Built
from whet.measure.stage.runner import RunReport
from whet.measure.values import MeasureInput, MeasureOptions


class Builder(Protocol):
    """A build stage, here or elsewhere."""

    def start(self) -> str: ...
    def build(self, inp: MeasureInput) -> Built: ...
    def close(self) -> None: ...


class Measurer(Protocol):
    """A run stage, here or elsewhere."""

    def start(self) -> str: ...
    def overlaps_builds(self) -> bool: ...
    def run(
        self,
        built: Built,
        options: MeasureOptions,
        reference: Built | None = None,
        best_cost: float | None = None,
    ) -> RunReport: ...
    def close(self) -> None: ...
