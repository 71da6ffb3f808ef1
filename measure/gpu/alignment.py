"""Vectors that a config asks for where no address is a multiple of anything: refused, not compiled.

    for x in vectorized(4):  C[row * 1001 + i * 4 + x] = ...    # rows of 1001: no row is aligned

The generator writes such a vector element by element: right, and slower than what the space has
with narrower vectors. What the template vectorises by hand, the default config has, too: that is
its author's affair, and no config is refused for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whet.compiler.errors import PrunedError
from whet.measure.gpu.default_program import of_default

if TYPE_CHECKING:
    from whet.compiler.abi.artifact import Artifact
    from whet.compiler.target import Target
    from whet.compiler.tir.function import IRModule
    from whet.measure.values import MeasureInput


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
    if not scattered:
        return
    default = of_default(inp, _scattered)
    if default is None or scattered <= default:
        return
    which = " and ".join(sorted(scattered - default))
    raise PrunedError(
        f"a kernel of {inp.workload.template} for {inp.target.get('arch', 'a GPU')}",
        f"it {which} in vectors whose addresses are multiples of no two elements",
        "vectors that divide the extents, or none",
        "alignment",
    )


def _scattered(module: IRModule, target: Target) -> frozenset[str]:
    from whet.compiler import driver

    return frozenset(driver.compile_module(module, target).scattered)
