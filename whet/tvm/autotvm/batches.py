"""The search of a user's own tuner: batches of its configs, measured one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from whet.measure.values import MeasureInput as Candidate
from whet.tvm.autotvm.batch_pool import MeasureBatch
from whet.tvm.autotvm.record import mean
from whet.tvm.autotvm.values import MeasureInput, MeasureResult, theirs

if TYPE_CHECKING:
    from whet.autotune.tasks.task import Task
    from whet.tvm.autotvm.options import MeasureOption
    from whet.tvm.autotvm.tuner import Tuner

Measure = Callable[[list[MeasureInput]], list[MeasureResult]]


class LocalBatch:
    """Measures lists of candidates in processes apart.

    Args:
        task: whose candidates they are.
        how: builders and options.
    """

    def __init__(self, task: Task, how: MeasureOption) -> None:
        self.task, self.how = task, how
        self.n_parallel = int(how.builder.n_parallel or 1)

    def __call__(self, measure_inputs: list[MeasureInput]) -> list[MeasureResult]:
        from whet.measure import open_pool

        ref, target = self.task.template.ref(), self.task.target.to_json()
        found: dict[int, MeasureResult] = {}
        on = self.how.runner.device or ("cuda:0" if self.task.target.kind.name == "cuda" else "cpu")
        with open_pool(self.n_parallel, options=self.how.options, device=on) as pool:
            tickets = [
                pool.submit(Candidate(self.task.workload, target, inp.config, ref))
                for inp in measure_inputs
            ]
            while len(found) < len(tickets):
                found |= {ticket: theirs(result) for ticket, result in pool.collect()}
        return [found[ticket] for ticket in tickets]


def create_measure_batch(task: Task, option: MeasureOption) -> Any:
    """A function from a list of :class:`MeasureInput` to their results.

    Args:
        task: whose candidates they are.
        option: from ``autotvm.measure_option``.
    """
    if option.isolated:
        return LocalBatch(task, option)
    return MeasureBatch(task, option.builder, option.runner)


def tune_by_batches(
    tuner: Tuner,
    n_trial: int,
    how: MeasureOption,
    early_stopping: int | None,
    callbacks: Sequence[Any],
) -> None:
    """Measure what a tuner's ``next_batch`` gives until its trials or its configs are used up.

    Args:
        tuner: ``update`` is told the results; it gets the best config.
        n_trial: the most trials.
        how: who builds and runs.
        early_stopping: trials without improvement that end the search; None: never.
        callbacks: functions of ``(tuner, inputs, results)``.
    """
    task = tuner.task
    measure = create_measure_batch(task, how)
    done = best_at = 0
    while done < n_trial and tuner.has_next():
        configs = tuner.next_batch(min(measure.n_parallel, n_trial - done))
        if not configs:
            break
        inputs = [MeasureInput(task.target, task, config) for config in configs]
        results = measure(inputs)
        for k, (inp, result) in enumerate(zip(inputs, results, strict=True)):
            flops = task.flop / mean(result) if result.error_no == 0 else 0.0
            if flops > tuner.best_flops:
                tuner.best_flops, tuner.best_config = flops, inp.config
                tuner.best_measure_pair, best_at = (inp, result), done + k
        done += len(configs)
        tuner.update(inputs, results)
        for callback in callbacks:
            callback(tuner, inputs, results)
        if early_stopping is not None and done - best_at > early_stopping:
            break
