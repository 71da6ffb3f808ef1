"""Partial unrolling: a loop that CUDA's compiler unrolls by a factor, as two loops."""

from __future__ import annotations

from typing import Any

from whet.compiler.arith import Analyzer
from whet.compiler.passes.gpu.inject_double_buffer import UNROLL_FACTOR
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import Rewriter, keep, substitute


def unroll_partially(body: s.Stmt) -> s.Stmt:
    """A statement with all its loops :func:`unrolled_loop`; the same object where none is."""

    def loop(n: s.For) -> s.For:
        return unrolled_loop(rewrite.children(n))

    rewrite = Rewriter({s.For: loop, s.BufferStore: keep})
    out: s.Stmt = rewrite(body)
    return out


def unrolled_loop(n: s.For) -> s.For:
    """A loop over groups of iterations around an unrolled loop over the iterations of a group.

    Args:
        n: a loop; where it has no factor, or one that does not divide its extent, it is returned.
    """
    size = n.annotations.get(UNROLL_FACTOR, 1)
    if size < 2 or not isinstance(n.extent, e.IntImm) or n.extent.value % size:
        return n
    kind = n.var.dtype
    group, step = e.Var(n.var.name, kind), e.Var(f"{n.var.name}_of_group", kind)
    number = ops.add(ops.multiply(group, ops.const(size, kind)), step)
    analyzer = Analyzer()
    analyzer.bind_loop(step, ops.const(0, kind), ops.const(size, kind))

    def simplified(x: Any) -> e.PrimExpr:
        return analyzer.simplify(rewrite.children(x))

    rewrite = Rewriter({e.FloorDiv: simplified, e.FloorMod: simplified})
    body = rewrite(substitute(n.body, {n.var: ops.add(n.min, number)}))
    inner = s.For(step, ops.const(0, kind), ops.const(size, kind), s.UNROLLED, body)
    count = ops.const(n.extent.value // size, kind)
    return s.For(group, ops.const(0, kind), count, n.kind, inner)
