"""Pruning by resources: a compiled kernel that the GPU has no room for is never launched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import PrunedError
from whet.compiler.target.gpu_limits import limits_of

if TYPE_CHECKING:
    from whet.compiler.abi.artifact import Artifact, Resources

SPILLS = 1024
"""Bytes of spilt registers a thread from which on a candidate is not worth a launch: they go
through the L1 cache with each use, and kernels that keep to their registers are in every space."""
GRANULE = 256
"""Registers are handed out to warps in such pieces."""


def check_resources(artifact: Artifact, resources: Mapping[str, Resources]) -> None:
    """Refuse kernels that cannot be launched, or that keep their values in memory.

    Args:
        artifact: its plans say how many threads each kernel has.
        resources: by kernel, from the compiler.

    Raises:
        PrunedError: a block has more registers than there are, or a thread spills too many.
    """
    for kernel, threads in block_threads(artifact).items():
        used = resources.get(kernel)
        if used is None:
            continue
        warps = -(-threads // 32)
        taken = -(-used.registers * 32 // GRANULE) * GRANULE * warps
        most = limits_of(str(artifact.target["arch"])).registers_block
        if taken > most:
            raise PrunedError(
                f"launch of {kernel} with {threads} threads of {used.registers} registers",
                f"a block would take {taken} registers, and there are {most}",
                "fewer threads, or smaller tiles a thread",
                "registers",
            )
        if used.spill_stores > SPILLS:
            raise PrunedError(
                f"code for {kernel} with {threads} threads",
                f"{used.spill_stores} bytes of a thread's values do not fit its "
                f"{used.registers} registers; {SPILLS} are the limit",
                "smaller tiles a thread, or fewer threads",
                "spills",
            )


def block_threads(artifact: Artifact) -> dict[str, int]:
    """Threads of a block by kernel, the most of all its launches; symbolic ones are left out."""
    most: dict[str, int] = {}
    for plan in artifact.plans:
        for launch in plan.launches:
            extents = [x for x in launch.block if isinstance(x, int)]
            if len(extents) == 3:
                threads = extents[0] * extents[1] * extents[2]
                most[launch.kernel] = max(most.get(launch.kernel, 0), threads)
    return most


def facts_of(resources: Mapping[str, Resources]) -> dict[str, Any]:
    """The facts of kernels for a record: the most of each resource."""
    every = list(resources.values())
    return {
        "registers": max((r.registers for r in every), default=0),
        "spilt_bytes": max((r.spill_stores for r in every), default=0),
    }
