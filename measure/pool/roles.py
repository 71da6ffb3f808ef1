"""The two roles in a pool, here or on another machine: builder and measurer."""

from __future__ import annotations

from typing import Protocol

from whet.measure.stage.builder import Built
from whet.measure.stage.measurement import Measurement
from whet.measure.stage.runner import RunReport
from whet.measure.values import MeasureInput


class Builder(Protocol):
    """A build stage, here or elsewhere."""

    def start(self) -> str: ...
    def build(self, inp: MeasureInput) -> Built: ...
    def close(self) -> None: ...


class Measurer(Protocol):
    """A run stage, here or elsewhere."""

    def start(self) -> str: ...
    def overlaps_builds(self) -> bool: ...
    def run(self, measurement: Measurement) -> RunReport: ...
    def close(self) -> None: ...
