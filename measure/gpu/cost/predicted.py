"""The static model's prediction for a lowered module: seconds a call, and their parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from whet.compiler.errors import PrunedError
from whet.compiler.passes import run_build_passes
from whet.measure.device.specs import VERSION, GpuSpec, spec_of
from whet.measure.gpu.cost.counts import work_of
from whet.measure.gpu.cost.model import LAUNCH_S, WARP, Prediction, Work, predict, resident_blocks
from whet.measure.values import Json

if TYPE_CHECKING:
    from whet.compiler.abi.artifact import Artifact, Resources
    from whet.compiler.target import Target
    from whet.compiler.tir.function import IRModule

DIGITS = 4


def predicted(
    module: IRModule,
    target: Target,
    artifact: Artifact,
    resources: Mapping[str, Resources],
) -> Json:
    """The model's prediction for one call of the module's entry function, as JSON-able data.

    Args:
        module: lowered, before the build's passes.
        target: a canonical CUDA target.
        artifact: made of it; its plans say how often each kernel is launched.
        resources: of the kernels, by a compiler; empty: registers are estimated.

    Returns:
        ``seconds``, ``gpu``, ``version``, ``instructions`` (of all threads, those that pack weights
        among them, which ``seconds`` has not: no call waits for these), and of the kernel that
        takes longest ``limited_by``, ``occupancy`` and ``waves``.

    Raises:
        PrunedError: a kernel cannot be launched there.
        MeasureError: the kernels depend on sizes that are no numbers.
        TargetError: no GPU of that architecture is modelled.
    """
    spec = spec_of(target)
    kernels = run_build_passes(module, target).functions

    def work(name: str) -> Work:
        used = resources.get(name)
        registers = used.registers if used else None
        spilt = used.spill_stores + used.spill_loads if used else 0
        return work_of(kernels[name], spec, registers, spilt)

    seconds = instructions = 0.0
    predictions = []
    for name in launched(artifact):
        needs = work(name)
        predictions.append(_fitting(spec, name, needs))
        seconds += float(predictions[-1].seconds)
        instructions += float(needs.instructions) * WARP
    if ahead := artifact.signatures[0].ahead:
        packing = launched(artifact, ahead.function)
        instructions += sum(float(work(name).instructions) * WARP for name in packing)
    facts = {
        "seconds": seconds or LAUNCH_S,  # a function that has nothing to do is called, too
        "gpu": spec.name,
        "version": VERSION,
        "instructions": instructions,
    }
    if predictions:
        slowest = max(predictions, key=lambda one: one.seconds)
        facts["limited_by"] = slowest.limited_by
        facts["occupancy"] = round(float(slowest.occupancy), DIGITS)
        facts["waves"] = int(slowest.waves)
    return facts


def _fitting(spec: GpuSpec, name: str, work: Work) -> Prediction:
    """The prediction for a kernel.

    Raises:
        PrunedError: it cannot be launched.
    """
    prediction = predict(spec, work)
    if prediction.resident:
        return prediction
    tightest = "threads"
    if resident_blocks(spec, work.threads, 0, work.shared_bytes):
        tightest = "registers"
    elif resident_blocks(spec, work.threads, 0, 0):
        tightest = "shared memory"
    raise PrunedError(
        f"launch of {name} on {spec.name}",
        f"not one block of {int(work.threads)} threads, {int(work.registers)} registers "
        f"each and {int(work.shared_bytes)} bytes of shared memory fits a multiprocessor",
        "fewer threads, smaller tiles",
        tightest,
    )


def launched(artifact: Artifact, function: str = "") -> list[str]:
    """The kernels that one call of a function launches, one entry a launch; "": of the entry."""
    function = function or artifact.signatures[0].name
    plans = [plan for plan in artifact.plans if plan.function == function]
    return [launch.kernel for plan in plans for launch in plan.launches]
