"""A pool that measures nothing: it answers from recorded results, at once and always the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

from whet.compiler.errors import MeasureError
from whet.measure.values import OK, MeasureInput, MeasureResult

Recorded = MeasureResult | float


class ReplayPool:
    """Answers each candidate with what is recorded for its config; for tests and for old logs.

    Args:
        costs: by ``config.key``: a whole result, or seconds per call; or a function from the
            candidate to one of these, for made-up landscapes.
        capacity: how many candidates its user may keep in flight.

    A config that nothing is recorded for fails with ``"infra_error"``.
    """

    def __init__(
        self,
        costs: Mapping[str, Recorded] | Callable[[MeasureInput], Recorded],
        capacity: int = 4,
    ) -> None:
        self.capacity = capacity
        self.best_cost: float | None = None
        self._costs = costs
        self._tickets = 0
        self._done: list[tuple[int, MeasureResult]] = []
        self._closed = False

    def submit(self, inp: MeasureInput) -> int:
        """Look a candidate up; its ticket, counted from 0."""
        self._check_open("submit")
        ticket, self._tickets = self._tickets, self._tickets + 1
        result = self._look_up(inp)
        if result.ok:
            self.best_cost = min(result.cost, self.best_cost or result.cost)
        self._done.append((ticket, result))
        return ticket

    def collect(self, timeout: float | None = None) -> list[tuple[int, MeasureResult]]:
        """What was submitted since the last call."""
        self._check_open("collect")
        done, self._done = self._done, []
        return done

    def remeasure(self, inputs: list[MeasureInput], repeats: int) -> list[MeasureResult]:
        """The recorded results, each cost ``repeats`` times over."""
        self._check_open("remeasure")
        found = [self._look_up(inp) for inp in inputs]
        return [replace(r, costs=(r.cost,) * repeats) if r.ok else r for r in found]

    def close(self) -> None:
        """Answer no more."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _look_up(self, inp: MeasureInput) -> MeasureResult:
        if callable(self._costs):
            recorded: Recorded | None = self._costs(inp)
        else:
            recorded = self._costs.get(inp.config.key)
        if recorded is None:
            text = f"nothing is recorded for the config {inp.config}"
            return MeasureResult("infra_error", error=text, stage="run", timestamp=time.time())
        if isinstance(recorded, MeasureResult):
            return recorded
        return MeasureResult(OK, (float(recorded),), timestamp=time.time())

    def _check_open(self, asked: str) -> None:
        if self._closed:
            raise MeasureError(f"{asked}()", "the pool is closed", "open another one")
