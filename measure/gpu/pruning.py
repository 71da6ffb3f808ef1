"""Pruning before a launch: kernels the GPU has no room for, and configs far worse than the default.

    for i in unrolled(64):
        for j in unrolled(64):
            C[i * 64 + j] = ...    # 4096 stores: refused in a search, built by ``whet.build``

    for x in vectorized(4):  C[row * 1001 + i * 4 + x] = ...    # rows of 1001: no row is aligned

The generator writes such a vector element by element: right, and slower than what the space has
with narrower vectors. What the template unrolls or vectorises by hand, the default config has, too:
that is its author's choice, and no config is refused for as much.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from whet.compiler.errors import PrunedError, WhetError
from whet.compiler.passes.gpu.verify_gpu_code import unrolled_stores
from whet.compiler.target.gpu_limits import limits_of
from whet.measure.values import Json

if TYPE_CHECKING:
    from whet.compiler.abi.artifact import Artifact, Resources
    from whet.compiler.target import Target
    from whet.compiler.tir.function import IRModule
    from whet.measure.values import MeasureInput
    from whet.search_spaces import TemplateRef, Workload

T = TypeVar("T", int, frozenset[str])
Look = Callable[["IRModule", "Target"], T]

UNROLLED = 2048
"""Stores, with loops unrolled, up to which a candidate is compiled. Of a 3x3 convolution's
candidates in TVM's schedule with virtual threads, NVRTC 13.0 took 4.5 seconds of a Zen 4 core in
the median for 13 with more (1.7 to 14; 11 of them spilt 2.5 KB or more a thread), and 0.7 for 71
with fewer. A search waits for 10, beside others on the same cores. The spaces that come with Whet
have up to 1,400."""
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
    for launch in (launch for plan in artifact.plans for launch in plan.launches):
        extents = [x for x in launch.block if isinstance(x, int)]
        if len(extents) == 3:
            most[launch.kernel] = max(most.get(launch.kernel, 0), math.prod(extents))
    return most


def facts_of(resources: Mapping[str, Resources]) -> Json:
    """The facts of kernels for a record: the most of each resource."""
    every = list(resources.values())
    return {
        "registers": max((r.registers for r in every), default=0),
        "spilt_bytes": max((r.spill_stores for r in every), default=0),
    }


def check_unrolled(inp: MeasureInput, module: IRModule) -> None:
    """Refuse a candidate that is too large to be compiled in a search.

    Args:
        inp: the candidate.
        module: its program, lowered.

    Raises:
        PrunedError: it has more than :data:`UNROLLED` stores, and more than the default config's.
    """
    stores = _stores(module, None)
    if stores <= UNROLLED or _default_surpassed(inp, _stores, stores) is None:
        return
    raise PrunedError(
        _kernel_text(inp),
        f"its unrolled loops make {stores} stores; a search compiles up to {UNROLLED}, as "
        "NVIDIA's compiler takes seconds for more",
        "unroll fewer or shorter loops; whet.build compiles it all the same",
        "unrolled",
    )


def check_alignment(inp: MeasureInput, artifact: Artifact) -> None:
    """Refuse a candidate whose config makes vectors that go element by element.

    Args:
        inp: the candidate.
        artifact: compiled from it.

    Raises:
        PrunedError: it stores, or copies, neighbours of an array as vectors that are nowhere
            aligned, and the default config does not.
    """
    scattered = frozenset(artifact.scattered)
    if not scattered or (default := _default_surpassed(inp, _scattered, scattered)) is None:
        return
    vectors = " and ".join(sorted(scattered - default))
    raise PrunedError(
        _kernel_text(inp),
        f"it {vectors} in vectors whose addresses are multiples of no two elements",
        "vectors that divide the extents, or none",
        "alignment",
    )


def _kernel_text(inp: MeasureInput) -> str:
    return f"a kernel of {inp.workload.template} for {inp.target.get('arch', 'a GPU')}"


def _stores(module: IRModule, target: Target | None) -> int:
    return sum(unrolled_stores(func.body) for func in module.functions.values())


def _scattered(module: IRModule, target: Target) -> frozenset[str]:
    from whet.compiler import driver

    return frozenset(driver.compile_module(module, target).scattered)


def _default_surpassed(inp: MeasureInput, look: Look[T], value: T) -> T | None:
    """A property of the default config's program; None where a candidate's has no more of it.

    Args:
        inp: the candidate.
        look: computes the property, once for all candidates.
        value: of the candidate.
    """
    target = json.dumps(inp.target, sort_keys=True)
    default: T | None = _of_default(look, inp.template, inp.workload, target)
    return None if default is None or value <= default else default


@functools.lru_cache(maxsize=32)
def _of_default(look: Any, template: TemplateRef, workload: Workload, target: str) -> Any:
    """A property of the default config's program; None where that cannot be made."""
    from whet.compiler import driver
    from whet.compiler.target import Target
    from whet.search_spaces import resolve

    compiled_for, resolved = Target(json.loads(target)), resolve(template)
    try:
        with compiled_for:
            default = resolved.space(workload).default
            module = driver.lower(*resolved.instantiate(workload, default))
        return look(module, compiled_for)
    except WhetError:
        return None
