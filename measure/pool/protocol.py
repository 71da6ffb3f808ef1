"""The protocols of all pools, and of the workers in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

from whet.measure.stage.builder import Built
from whet.measure.stage.runner import Measurement, RunReport
from whet.measure.values import MeasureInput, MeasureResult

Known = Callable[[str, str], MeasureResult | None]
"""An earlier result of a program, by its hash and the kind of device that its candidate names."""
Rounds = Callable[[list[list[float]]], Iterable[int]]
"""The candidates of the next round, by their places: a function of the costs of each one so far.
None of them: the measurement ends. It may keep account: each device has a copy of its own."""


@runtime_checkable
class Pool(Protocol):
    """Measures candidates of any workloads; each submitted one comes back exactly once.

    Pools of Whet have ``devices`` and ``notes()``, too: :class:`whet.measure.pool.base.PoolBase`.

    Attributes:
        capacity: how many candidates to keep in flight so that nothing waits; it changes where
            machines come and go during a search.
        best_costs: by ``workload.key`` (of candidates that name a kind of device, by
            :func:`whet.measure.pool.base.best_key`), seconds per call of the best so far; the pool
            lowers it, its user may set it (when a run is resumed). A slower candidate is timed
            less often.
        busy_s: seconds so far in which at least one candidate was being built or measured.
    """

    best_costs: dict[str, float]

    @property
    def capacity(self) -> int: ...

    @property
    def busy_s(self) -> float: ...

    def compare_with(self, reference: MeasureInput) -> None:
        """Take the numbers of a candidate for right, and check its workload's others by them.

        Args:
            reference: the reference config of a workload; the latest one of a workload counts.
        """

    def submit(self, inp: MeasureInput) -> int:
        """Queue a candidate; its ticket, counted from 0.

        Raises:
            MeasureError: the pool is closed, or has no device of the kind that it names.
        """

    def collect(self, timeout: float | None = None) -> list[tuple[int, MeasureResult]]:
        """Wait for at least one result.

        Args:
            timeout: seconds; None waits as long as anything is in flight.

        Returns: finished ``(ticket, result)`` pairs, each once, in the order in which they
        finished; empty when nothing is in flight or the time is up.

        Raises:
            MeasureError: the pool is closed, or nothing is left that can build or measure.
        """

    def remeasure(self, inputs: list[MeasureInput], rounds: int | Rounds) -> list[MeasureResult]:
        """Measure candidates in turns on one device, so that drift harms all alike.

        Args:
            inputs: the candidates.
            rounds: how many rounds, each of all of them; or a function that says before each round
                who takes part in it, from the costs so far. Who was left out stays out.

        Returns: one result an input, in order, with a cost for each round that it took part in.
        """

    def close(self) -> None:
        """End all workers at once; what is in flight is dropped. May be called again."""

    def __enter__(self) -> Pool: ...

    def __exit__(self, *exception: object) -> None: ...


def hear_notes(pool: Pool, say: Callable[[str], None]) -> None:
    """Have a pool's lines for the user said as they come; another pool has none.

    Args:
        say: called with each line by the thread that collects results.
    """
    if hasattr(pool, "say"):
        pool.say = say


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
