"""Candidates whose unrolled loops NVIDIA's compiler takes longer for than a search waits.

    for i in unrolled(64):
        for j in unrolled(64):
            C[i * 64 + j] = ...    # 4096 stores: refused in a search, built by ``whet.build``

What the default config unrolls is the template's own choice: no config is refused for as much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whet.compiler.errors import PrunedError
from whet.compiler.passes.gpu.verify_gpu_code import stores_written_out
from whet.measure.gpu.default_program import of_default

if TYPE_CHECKING:
    from whet.compiler.target import Target
    from whet.compiler.tir.function import IRModule
    from whet.measure.values import MeasureInput

UNROLLED = 2048
"""Stores, unrolled loops written out, up to which a candidate is compiled. Of a 3x3 convolution's
candidates in TVM's schedule with virtual threads, NVRTC 13.0 took 4.5 seconds of a Zen 4 core in
the median for 13 with more (1.7 to 14; 11 of them spilt 2.5 KB or more a thread), and 0.7 for 71
with fewer. A search waits for 10, beside others on the same cores. The spaces that come with Whet
have up to 1,400."""


def check_unrolled(inp: MeasureInput, module: IRModule) -> None:
    """Refuse a candidate that is too large to be compiled in a search.

    Args:
        inp: the candidate.
        module: its program, lowered.

    Raises:
        PrunedError: it has more than :data:`UNROLLED` stores, and more than the default config's.
    """
    stores = _stores(module, None)
    if stores <= UNROLLED:
        return
    default = of_default(inp, _stores)
    if default is None or stores <= default:
        return
    raise PrunedError(
        f"a kernel of {inp.workload.template} for {inp.target.get('arch', 'a GPU')}",
        f"its unrolled loops make {stores} stores; a search compiles up to {UNROLLED}, as "
        "NVIDIA's compiler takes seconds for more",
        "unroll fewer or shorter loops; whet.build compiles it all the same",
        "unrolled",
    )


def _stores(module: IRModule, target: Target | None) -> int:
    return sum(stores_written_out(func.body) for func in module.functions.values())
