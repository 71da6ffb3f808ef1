"""Users' builders and runners as a pool of :func:`whet.tune`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from whet.compiler.errors import ArgumentError
from whet.measure.values import MeasureInput as Candidate
from whet.measure.values import MeasureResult as Measured
from whet.tvm.autotvm.measure import Builder, Runner
from whet.tvm.autotvm.values import MeasureInput, MeasureResult, ours

if TYPE_CHECKING:
    from whet.autotune.tasks.task import Task

T = TypeVar("T")


class MeasureBatch:
    """Measures lists of candidates by a builder and a runner, one after the other.

    Args:
        task: whose candidates they are.
        builder: its ``build`` is called with a list of :class:`MeasureInput`.
        runner: its ``run`` is called with that list and what ``build`` returned.
    """

    def __init__(self, task: Task, builder: Builder, runner: Runner) -> None:
        self.task, self.builder, self.runner = task, builder, runner
        runner.set_task(task)
        builder.set_task(task, runner.get_build_kwargs())
        self.n_parallel = int(builder.n_parallel or 1)

    def __call__(self, measure_inputs: list[MeasureInput]) -> list[MeasureResult]:
        return self.run(measure_inputs, self.build(measure_inputs))

    def build(self, measure_inputs: list[MeasureInput]) -> list[Any]:
        """What the builder makes of each candidate."""
        built = list(self.builder.build(measure_inputs))
        _one_each(self.builder, "build", built, measure_inputs)
        return built

    def run(self, measure_inputs: list[MeasureInput], built: list[Any]) -> list[MeasureResult]:
        """What the runner says of each built candidate."""
        results = list(self.runner.run(measure_inputs, built))
        _one_each(self.runner, "run", results, measure_inputs)
        return results


def _one_each(of: Any, name: str, many: list[Any], inputs: list[MeasureInput]) -> None:
    if len(many) != len(inputs):
        raise ArgumentError(
            f"{type(of).__name__}.{name}",
            f"it returned {len(many)} results for {len(inputs)} candidates",
            "return one for each, a MeasureResult for one that failed",
        )


class BatchPool:
    """A pool whose candidates a :class:`MeasureBatch` measures in this process.

    The builder and the runner are the user's: what one raises ends the search.
    """

    def __init__(self, measure: MeasureBatch) -> None:
        self.best_costs: dict[str, float] = {}
        self.busy_s = 0.0
        self._measure = measure
        self._waiting: deque[tuple[int, Candidate]] = deque()
        self._tickets = 0

    @property
    def capacity(self) -> int:
        """Candidates of one call of the builder."""
        return self._measure.n_parallel

    def compare_with(self, reference: Candidate) -> None:
        """Numbers are the runner's own to check."""

    def submit(self, inp: Candidate) -> int:
        """Queue a candidate; its ticket."""
        self._waiting.append((self._tickets, inp))
        self._tickets += 1
        return self._tickets - 1

    def collect(self, timeout: float | None = None) -> list[tuple[int, Measured]]:
        """Measure the next batch; empty where nothing waits."""
        batch = [self._waiting.popleft() for _ in range(min(self.capacity, len(self._waiting)))]
        results = self._results([inp for _, inp in batch]) if batch else []
        for (_, inp), result in zip(batch, results, strict=True):
            key = inp.workload.key
            self.best_costs[key] = min(self.best_costs.get(key, result.cost), result.cost)
        return [(ticket, result) for (ticket, _), result in zip(batch, results, strict=True)]

    def remeasure(self, inputs: list[Candidate], rounds: Any) -> list[Measured]:
        """Measure candidates in turns: one result an input, a cost for each of its rounds.

        Each is built once, before the first round.
        """
        built = self._built(inputs)
        costs: list[list[float]] = [[] for _ in inputs]
        last: list[Measured | None] = [None] * len(inputs)
        done = 0
        while who := self._round(inputs, rounds, costs, done):
            done += 1
            for at, result in zip(who, self._run([built[i] for i in who]), strict=True):
                last[at] = result
                if result.ok:
                    costs[at].append(result.cost)
        out = []
        for found, ended in zip(costs, last):
            failed = ended is not None and not ended.ok
            if failed or not found:
                said = Measured("infra_error", (), "it was not measured again", "run")
                out.append(ended if ended is not None and failed else said)
            else:
                out.append(Measured("ok", tuple(found), timestamp=time.time()))
        return out

    @staticmethod
    def _round(inputs: list[Candidate], rounds: Any, costs: Any, done: int) -> list[int]:
        if isinstance(rounds, int):
            return list(range(len(inputs))) if done < rounds else []
        chosen: Iterable[int] = rounds(costs)
        return list(chosen)

    def _results(self, inputs: list[Candidate]) -> list[Measured]:
        """Candidates built and run batch by batch."""
        return [one for at in self._batches(inputs) for one in self._run(self._built(at))]

    def _built(self, inputs: list[Candidate]) -> list[tuple[MeasureInput, Any]]:
        task, start = self._measure.task, time.monotonic()
        given = [MeasureInput(task.target, task, inp.config) for inp in inputs]
        try:
            return [
                one
                for at in self._batches(given)
                for one in zip(at, self._measure.build(at), strict=True)
            ]
        finally:
            self.busy_s += time.monotonic() - start

    def _run(self, built: list[tuple[MeasureInput, Any]]) -> list[Measured]:
        start = time.monotonic()
        try:
            return [
                ours(MeasureResult(*one))
                for at in self._batches(built)
                for one in self._measure.run([inp for inp, _ in at], [made for _, made in at])
            ]
        finally:
            self.busy_s += time.monotonic() - start

    def _batches(self, items: list[T]) -> list[list[T]]:
        size = self.capacity
        return [items[at : at + size] for at in range(0, len(items), size)]

    def close(self) -> None:
        """Nothing is running between calls."""
        self._waiting.clear()

    def __enter__(self) -> BatchPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
