"""VerifyMemory: nothing outside kernels may touch the memory of a GPU.

for i in range(8):                               for i in thread_binding(8, "threadIdx.x"):
    B[i] = A[i]     (refused for a GPU)              B[i] = A[i]     (as it should be)
"""

from __future__ import annotations

from whet.compiler.errors import LowerError
from whet.compiler.passes.gpu.unify_threads import check_reductions
from whet.compiler.target import Target
from whet.compiler.tir.analysis.device_memory import host_accesses
from whet.compiler.tir.function import IRModule


def check_memory(mod: IRModule, target: Target) -> IRModule:
    """The module itself.

    Raises:
        LowerError: if code outside thread-bound loops reads or writes buffers, on a GPU target, or
            threads would reduce into one element.
    """
    for name, func in mod.functions.items():
        check_reductions(func.body)  # before what they begin with is blamed on the host
        touched = host_accesses(func, target)
        if touched:
            raise LowerError(
                f"build {name} for {target.kind}",
                f"{', '.join(touched)} would be read or written by the host, outside all threads",
                "bind loops: s[C].bind(axis, te.thread_axis('blockIdx.x')), or attach the stage in "
                "bound ones: s[S].compute_at(s[C], axis); did you forget it for a stage?",
            )
    return mod
