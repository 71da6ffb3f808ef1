"""The static model's opinion of a lowered module: seconds a call, and what they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import PrunedError
from whet.compiler.passes import run_build_passes
from whet.measure.gpu.counts import work_of
from whet.measure.gpu.model import LAUNCH_S, VERSION, Work, predict, resident_blocks
from whet.measure.gpu.specs import GpuSpec, spec_of

if TYPE_CHECKING:
    from whet.compiler.codegen.cuda.cubin import Resources
    from whet.compiler.ir import IRModule
    from whet.compiler.runtime.artifact import Artifact
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
        ``seconds``, ``gpu``, ``version``, ``instructions`` (of all threads), and of the kernel
        that takes longest ``limited_by``, ``occupancy`` and ``waves``.

    Raises:
        PrunedError: a kernel cannot be launched there.
        MeasureError: the kernels depend on sizes that are no numbers.
        TargetError: no GPU of that architecture is modelled.
    """
    spec = spec_of(target)
    kernels = run_build_passes(module, target).functions
    seconds = instructions = slowest = 0.0
    said: dict[str, Any] = {}
    for name in launched(artifact):
        used = resources.get(name)
        registers = used.registers if used else None
        work = work_of(kernels[name], spec, registers, used.spill_stores if used else 0)
        one = predict(spec, work)
        if not float(one.resident):
            raise PrunedError(
                f"launch of {name} on {spec.name}",
                f"not one block of {int(work.threads)} threads, {int(work.registers)} registers "
                f"each and {int(work.shared_bytes)} bytes of shared memory fits a multiprocessor",
                "fewer threads, smaller tiles",
                _tightest(spec, work),
            )
        seconds += float(one.seconds)
        instructions += float(work.instructions) * 32
        if float(one.seconds) > slowest:
            slowest = float(one.seconds)
            said = {
                "limited_by": one.limited_by,
                "occupancy": round(float(one.occupancy), DIGITS),
                "waves": int(one.waves),
            }
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


def launched(artifact: Artifact) -> list[str]:
    """The kernels that one call of the entry function launches, one entry a launch."""
    entry = artifact.signatures[0].name
    plans = [plan for plan in artifact.plans if plan.function == entry]
    return [launch.kernel for plan in plans for launch in plan.launches]
