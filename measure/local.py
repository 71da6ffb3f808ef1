"""The pool of one machine: killable builders, and one measurer on a core or a GPU of its own."""

from __future__ import annotations

from collections.abc import Sequence

from whet.compiler.errors import MeasureError
from whet.compiler.runtime.device import Device
from whet.measure import machine, stages
from whet.measure.engine import Measurer, StagedPool
from whet.measure.gpu.identity import measured_device
from whet.measure.gpu.names import CPU, CUDA
from whet.measure.pool import Known
from whet.measure.values import MeasureInput, MeasureOptions


class LocalPool(StagedPool):
    """Builds on all cores but the last, measures on the last; or on a GPU, or in the emulator.

    Args:
        workers: number of builders; None: one for each core that they may use, at most 8.
        options: how to measure.
        reference: a default config, whose numbers are taken for right; see
            :meth:`~whet.measure.pool.Pool.compare_with`.
        known: asked with a program's hash between build and run, from the pool's threads.
        device: what candidates are measured on: ``"cpu"``, ``"cuda:0"``, ``"cuda-emulator"``;
            another word is a processor's, too, with a lock of that name.
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
        build_function: str | None = None,
        run_function: str | None = None,
        prepare_function: str | None = None,
    ) -> None:
        count = min(len(machine.builder_cores()), 8) if workers is None else workers
        if count < 1:
            raise MeasureError(f"workers={workers}", "at least one builder is needed")
        chosen = options or MeasureOptions()
        on = measured_device(device)
        build = build_function or build_function_of(on)
        super().__init__(
            [stages.BuildStage(chosen, build) for _ in range(count)],
            [measurer_of(on, device, chosen, run_function, prepare_function)],
            chosen,
            reference,
            known,
        )


def build_function_of(device: Device) -> str:
    """The import path of the function that builds for a device."""
    if device.type == CPU:
        return stages.BUILD
    from whet.measure.gpu import stage

    return stage.BUILD_CUDA if device.type == CUDA else stage.BUILD_EMULATED


def measurer_of(
    device: Device,
    lock: str,
    options: MeasureOptions,
    run_function: str | None = None,
    prepare_function: str | None = None,
    path: Sequence[str] | None = None,
) -> Measurer:
    """A measuring stage.

    Args:
        device: what it measures on.
        lock: names the lock of a processor.
        options: budgets and limits.
        run_function: replaced in tests, as is the next.
        prepare_function: import path of the function that runs the reference.
        path: the driver's ``sys.path``; None: this process's.
    """
    if device.type == CPU:
        run, prepare = run_function or stages.RUN, prepare_function or stages.PREPARE
        return stages.RunStage(options, lock, run, prepare, path)
    from whet.measure.gpu import stage

    run, prepare = run_function or stage.RUN, prepare_function or stage.PREPARE
    return stage.DeviceStage(options, device, run, prepare, path)
