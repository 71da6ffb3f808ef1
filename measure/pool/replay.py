"""A pool that measures nothing: it answers from recorded results, at once and always the same."""

from __future__ import annotations

import numbers
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from whet.compiler.errors import MeasureError
from whet.measure.pool.base import PoolBase, turns
from whet.measure.pool.protocol import Rounds
from whet.measure.values import OK, MeasureInput, MeasureResult

Recorded = MeasureResult | float


class ReplayPool(PoolBase):
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
        super().__init__(capacity)
        self.busy_s = 0.0
        if callable(costs):
            self._costs: Callable[[MeasureInput], Recorded | None] = costs
            self._known = "the pool's function returned None; costs are given"
        else:
            self._costs = lambda inp: costs.get(inp.config.key)
            self._known = f"the pool has {len(costs)} costs"

    def compare_with(self, reference: MeasureInput) -> None:
        """Nothing is run, hence nothing to compare."""
        self._check_open("compare_with")

    def submit(self, inp: MeasureInput) -> int:
        """Look a candidate up; its ticket, counted from 0."""
        ticket = self._next_ticket()
        self._finished(ticket, inp, self._look_up(inp))
        return ticket

    def collect(self, timeout: float | None = None) -> list[tuple[int, MeasureResult]]:
        """The results of the candidates since the last call."""
        self._check_open("collect")
        return self._take_finished()

    def remeasure(self, inputs: list[MeasureInput], rounds: int | Rounds) -> list[MeasureResult]:
        """The recorded results, each cost as many times over as there are rounds for it."""
        self._check_open("remeasure")
        results = [self._look_up(inp) for inp in inputs]
        costs: list[list[float]] = [[] for _ in results]
        for places in turns(rounds, costs):
            for i in places:
                costs[i] += [results[i].cost] if results[i].ok else []
        return [replace(r, costs=tuple(c)) if r.ok else r for r, c in zip(results, costs)]

    def _look_up(self, inp: MeasureInput) -> MeasureResult:
        recorded = self._costs(inp)
        if recorded is None:
            text = (
                f"nothing is recorded for the config {inp.config}\n"
                f"{self._known} by config.key: record every config that may be asked for, or "
                "give a function from the candidate to its cost"
            )
            return MeasureResult("infra_error", error=text, stage="run", timestamp=time.time())
        if isinstance(recorded, MeasureResult):
            return recorded
        if isinstance(recorded, bool) or not isinstance(recorded, numbers.Real):
            raise MeasureError(
                f"ReplayPool: the cost of {inp.config}",
                f"{recorded!r} was recorded for it, a {type(recorded).__name__}",
                "record seconds per call, e.g. 1.5e-3, or a MeasureResult",
            )
        return MeasureResult(OK, (float(recorded),), timestamp=time.time())
