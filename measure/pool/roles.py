"""The two roles in a pool, here or on another machine: builder and measurer."""

from __future__ import annotations

from typing import Protocol

from whet.measure.stage.builder import Built
from whet.measure.stage.runner import Measurement, RunReport
from whet.measure.values import MeasureInput


class Stage(Protocol):
    """A worker, here or elsewhere."""

    def start(self) -> str: ...
    def close(self) -> None: ...


class Builder(Stage, Protocol):
    """A build stage."""

    def build(self, inp: MeasureInput) -> Built: ...


class Measurer(Stage, Protocol):
    """A run stage."""

    def overlaps_builds(self) -> bool: ...
    def run(self, measurement: Measurement) -> RunReport: ...
