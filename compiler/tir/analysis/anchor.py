"""The block of a module that matters most."""

from __future__ import annotations

from typing import Any

from whet.compiler.tir.blocks.paths import block_paths
from whet.compiler.tir.expr import ARITHMETIC, COMM_REDUCE, Call, IntImm
from whet.compiler.tir.function import IRModule, PrimFunc, functions_of
from whet.compiler.tir.stmt import Block
from whet.compiler.tir.visit.expect import FUNCTIONS, expect
from whet.compiler.tir.visit.rewrite import nodes


def find_anchor_block(mod: IRModule | PrimFunc) -> Block | None:
    """The reduction that does the most operations; None where no block is a reduction.

    Of a reduction that was decomposed it is the block that goes on adding.

    Raises:
        ArgumentError: for anything but a module or a function.
    """
    expect(mod, FUNCTIONS, "find_anchor_block(mod)")
    blocks = [b for f in functions_of(mod) for b, _ in block_paths(f.body).values()]
    reductions = [b for b in blocks if any(a.iter_type == COMM_REDUCE for a in b.iter_vars)]
    return max(reductions, key=_operations, default=None)


def _operations(block: Block) -> float:
    """The operations of all steps of a block; a symbol counts as a number that is large."""
    steps = 1.0
    for a in block.iter_vars:
        extent: Any = a.domain.extent
        steps *= extent.value if isinstance(extent, IntImm) else 1024
    inside = [n for n in nodes((block.body,)) if isinstance(n, (*ARITHMETIC, Call))]
    return steps * max(len([n for n in inside if n.dtype.startswith("float")]), 1)
