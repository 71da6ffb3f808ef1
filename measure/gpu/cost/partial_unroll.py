"""Partial unrolling: a loop that CUDA's compiler unrolls by a factor, as two loops."""

from __future__ import annotations

from typing import Any

from whet.compiler.arith import Analyzer
from whet.compiler.passes.gpu.inject_double_buffer import UNROLL_FACTOR
from whet.compiler.tir.expr import FloorDiv, FloorMod, IntImm, PrimExpr, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import UNROLLED, BufferStore, For, Stmt
from whet.compiler.tir.visit.rewrite import Rewriter, keep, substitute


def unroll_partially(body: Stmt) -> Stmt:
    """A statement with all its loops :func:`unrolled_loop`; the same object where none is."""

    def loop(n: For) -> For:
        return unrolled_loop(rewrite.children(n))

    rewrite = Rewriter({For: loop, BufferStore: keep})
    out: Stmt = rewrite(body)
    return out


def unrolled_loop(n: For) -> For:
    """A loop over groups of iterations around an unrolled loop over the iterations of a group.

    Args:
        n: a loop; where it has no factor, or one that does not divide its extent, it is returned.
    """
    size = n.annotations.get(UNROLL_FACTOR, 1)
    if size < 2 or not isinstance(n.extent, IntImm) or n.extent.value % size:
        return n
    kind = n.var.dtype
    group, step = Var(n.var.name, kind), Var(f"{n.var.name}_of_group", kind)
    number = ops.add(ops.multiply(group, ops.const(size, kind)), step)
    analyzer = Analyzer()
    analyzer.bind_loop(step, ops.const(0, kind), ops.const(size, kind))

    def simplified(x: Any) -> PrimExpr:
        return analyzer.simplify(rewrite.children(x))

    rewrite = Rewriter({FloorDiv: simplified, FloorMod: simplified})
    body = rewrite(substitute(n.body, {n.var: ops.add(n.min, number)}))
    inner = For(step, ops.const(0, kind), ops.const(size, kind), UNROLLED, body)
    count = ops.const(n.extent.value // size, kind)
    return For(group, ops.const(0, kind), count, n.kind, inner)
