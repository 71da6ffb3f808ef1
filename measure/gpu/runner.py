"""A GPU's worker: the runner on a device's memory and clock, and the device's health."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whet.measure.device.identity import describe, named_device
from whet.measure.gpu.processor import GpuProcessor
from whet.measure.stage.runner import Kernel, Runner, RunReport
from whet.measure.values import Json, MeasureOptions
from whet.measure.worker.error_text import error_text

if TYPE_CHECKING:
    from whet.compiler.abi.artifact import Artifact
    from whet.compiler.runtime.gpu.driver.interface import Context

RUNNER = Runner(2 << 30)


def describe_device(name: str, target: Json) -> Json:
    """The description of a device of this process, as a log keeps it.

    Args:
        name: such as ``"cuda:0"``.
        target: the canonical target as JSON.
    """
    device = named_device(name)
    assert device is not None
    return describe(device, target)


def wake(device: str) -> None:
    """Make the context of a device, and use it: a GPU that fell from its bus says so here.

    Args:
        device: such as ``"cuda:0"``.

    Raises:
        TargetError: there is no such device, or its context cannot be made.
        KernelError: it does not work.
    """
    _use(GpuProcessor(device).context)


def prepare_reference(
    key: str, artifact: Artifact, options: MeasureOptions, device: str
) -> tuple[str, ...]:
    """:func:`whet.measure.stage.runner.prepare_reference` on a device.

    Args:
        key: names the reference in later calls of :func:`run_candidate`.
        artifact: the reference's compiled kernels.
        options: seed and tolerance.
        device: such as ``"cuda:0"``.

    Returns:
        The keys of all references that the worker has now.
    """
    return RUNNER.prepare(key, Kernel.load(artifact, GpuProcessor(device)), options)


def run_candidate(
    artifact: Artifact,
    options: MeasureOptions,
    reference: str | None,
    best_cost: float | None,
    device: str,
) -> RunReport:
    """Check and time one artifact; an error that leaves the device unusable is marked.

    Args:
        artifact: the candidate's compiled kernels.
        options: repeats, time and tolerance.
        reference: key of a prepared reference; None: the numbers are not checked.
        best_cost: seconds per call of the best so far; a far slower candidate is timed once.
        device: such as ``"cuda:0"``.
    """
    processor = GpuProcessor(device)
    kernel = Kernel.load(artifact, processor)
    try:
        return RUNNER.measure(kernel, options, reference, best_cost)
    except MemoryError:
        raise
    except Exception:
        RUNNER.drop_arguments()
        facts, lost = processor.environment(), is_lost(processor.context)
        return RunReport("run_error", (), error_text(), facts, lost=lost)


def is_lost(context: Context) -> bool:
    """True for an unusable context: after an illegal address, every later call fails."""
    try:
        context.synchronize()
        _use(context)
    except Exception:  # whatever a poisoned driver raises
        return True
    return False


def _use(context: Context) -> None:
    """Let the device write a little memory."""
    address = context.alloc(256)
    context.fill(address, 0, 256)
    context.synchronize()
    context.free(address)
