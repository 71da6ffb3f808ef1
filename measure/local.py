"""The pool of one machine: killable builders, and one measurer on a core of its own."""

from __future__ import annotations

from whet.compiler.errors import MeasureError
from whet.measure import machine, stages
from whet.measure.engine import StagedPool
from whet.measure.pool import Known
from whet.measure.values import MeasureInput, MeasureOptions


class LocalPool(StagedPool):
    """Builds on all cores but the last, measures on the last.

    Args:
        workers: number of builders; None: one for each core that they may use, at most 8.
        options: how to measure.
        reference: a default config, whose numbers are taken for right; see
            :meth:`~whet.measure.pool.Pool.compare_with`.
        known: asked with a program's hash between build and run, from the pool's threads.
        device: names the lock that keeps unrelated runs apart.
        build_function: import path of the function that builds; replaced in tests.
        run_function: import path of the function that runs; replaced in tests.
        prepare_function: import path of the function that runs the reference.

    Raises:
        MeasureError: ``workers`` is below 1.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        options: MeasureOptions | None = None,
        reference: MeasureInput | None = None,
        known: Known | None = None,
        device: str = "cpu",
        build_function: str = stages.BUILD,
        run_function: str = stages.RUN,
        prepare_function: str = stages.PREPARE,
    ) -> None:
        count = min(len(machine.builder_cores()), 8) if workers is None else workers
        if count < 1:
            raise MeasureError(f"workers={workers}", "at least one builder is needed")
        chosen = options or MeasureOptions()
        super().__init__(
            [stages.BuildStage(chosen, build_function) for _ in range(count)],
            [stages.RunStage(chosen, device, run_function, prepare_function)],
            chosen,
            reference,
            known,
        )
