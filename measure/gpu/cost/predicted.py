"""The static model's opinion of a lowered module: seconds a call, and what they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import PrunedError
from whet.compiler.passes import run_build_passes
from whet.measure.device.specs import VERSION, GpuSpec, spec_of
from whet.measure.gpu.cost.counts import work_of
from whet.measure.gpu.cost.model import LAUNCH_S, WARP, Work, predict, resident_blocks

if TYPE_CHECKING:
    from whet.compiler.abi.artifact import Artifact
    from whet.compiler.codegen.cuda.cubin import Resources
    from whet.compiler.ir import IRModule
    from whet.compiler.target import Target

DIGITS = 4


def predicted(
    module: IRModule,
    target: Target,
    artifact: Artifact,
    resources: Mapping[str, Resources],
) -> dict[str, Any]:
    """What the model says of one call of the module's entry function, as JSON-able data.

    Args:
        module: lowered, before the build's passes.
        target: a canonical CUDA target.
        artifact: what was made of it; its plans say how often each kernel is launched.
        resources: what a compiler says of the kernels; empty: registers are estimated.

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
    seconds = instructions = slowest = 0.0
    said: dict[str, Any] = {}

    def work(name: str) -> Work:
        used = resources.get(name)
        registers = used.registers if used else None
        spilt = used.spill_stores + used.spill_loads if used else 0
        return work_of(kernels[name], spec, registers, spilt)

    for name in launched(artifact):
        needs = work(name)
        one = predict(spec, needs)
        if not float(one.resident):
            raise PrunedError(
                f"launch of {name} on {spec.name}",
                f"not one block of {int(needs.threads)} threads, {int(needs.registers)} registers "
                f"each and {int(needs.shared_bytes)} bytes of shared memory fits a multiprocessor",
                "fewer threads, smaller tiles",
                _tightest(spec, needs),
            )
        seconds += float(one.seconds)
        instructions += float(needs.instructions) * WARP
        if float(one.seconds) > slowest:
            slowest = float(one.seconds)
            said = {
                "limited_by": one.limited_by,
                "occupancy": round(float(one.occupancy), DIGITS),
                "waves": int(one.waves),
            }
    if ahead := artifact.signatures[0].ahead:
        packing = launched(artifact, ahead.function)
        instructions += sum(float(work(name).instructions) * WARP for name in packing)
    return {
        "seconds": seconds or LAUNCH_S,  # a function that has nothing to do is called, too
        "gpu": spec.name,
        "version": VERSION,
        "instructions": instructions,
        **said,
    }


def _tightest(spec: GpuSpec, work: Work) -> str:
    """What keeps a kernel's block off a multiprocessor."""
    if resident_blocks(spec, work.threads, 0, work.shared_bytes):
        return "registers"
    return "shared memory" if resident_blocks(spec, work.threads, 0, 0) else "threads"


def launched(artifact: Artifact, function: str = "") -> list[str]:
    """The kernels that one call of a function launches, one entry a launch; "": of the entry."""
    function = function or artifact.signatures[0].name
    plans = [plan for plan in artifact.plans if plan.function == function]
    return [launch.kernel for plan in plans for launch in plan.launches]
