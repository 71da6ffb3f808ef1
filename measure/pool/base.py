"""The common part of all pools: tickets, the best costs, an end."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Self

from whet.compiler.errors import MeasureError
from whet.measure.pool.protocol import Rounds
from whet.measure.values import MeasureInput, MeasureResult


class PoolBase:
    """Counts tickets and keeps the best costs; subclasses measure.

    Args:
        capacity: the number of candidates to keep in flight.

    Attributes:
        say: called with each line for the user while results are collected; None: :meth:`notes`
            gives them.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self.best_costs: dict[str, float] = {}
        self.say: Callable[[str], None] | None = None
        self._tickets = 0
        self._done: list[tuple[int, MeasureResult]] = []
        self._closed = False

    @property
    def capacity(self) -> int:
        """Candidates to keep in flight so that nothing waits; it may change."""
        return self._capacity

    @property
    def devices(self) -> dict[str, int]:
        """The devices that measure, counted by kind; none where nothing is measured."""
        return {}

    def notes(self) -> list[str]:
        """Lines for the user since the last call: machines that came, left, were lost."""
        return []

    def _say_notes(self) -> None:
        if self.say is not None:
            for line in self.notes():
                self.say(line)

    def close(self) -> None:
        """Take no more candidates."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _next_ticket(self) -> int:
        self._check_open("submit")
        self._tickets += 1
        return self._tickets - 1

    def _finished(self, ticket: int, inp: MeasureInput, result: MeasureResult) -> None:
        """Hand a result to the next :meth:`collect`."""
        if result.ok:
            key = best_key(inp)
            self.best_costs[key] = min(result.cost, self.best_costs.get(key, result.cost))
        self._done.append((ticket, result))

    def _take_finished(self) -> list[tuple[int, MeasureResult]]:
        finished, self._done = self._done, []
        return finished

    def _check_open(self, method: str) -> None:
        if self._closed:
            raise MeasureError(f"{method}()", "the pool is closed", "open another one")


def best_key(inp: MeasureInput) -> str:
    """The name of a candidate's best cost: its workload's, with the kind of device it names."""
    return f"{inp.workload.key} on {inp.device}" if inp.device else inp.workload.key


def check_count(workers: int | None) -> None:
    """Refuse a number of builders below 1.

    Raises:
        MeasureError: so it is.
    """
    if workers is not None and workers < 1:
        raise MeasureError(f"workers={workers}", "at least one builder is needed")


def turns(rounds: int | Rounds, costs: list[list[float]]) -> Iterator[list[int]]:
    """The candidates of each round, by their places, as long as there are any.

    Args:
        rounds: as of :meth:`whet.measure.pool.protocol.Pool.remeasure`.
        costs: of each candidate so far; who measures adds to them.
    """
    if callable(rounds):
        while places := list(rounds(costs)):
            yield places
    else:
        yield from itertools.repeat(list(range(len(costs))), rounds)
