"""One loop of a stage as loop IR: its kind, its thread, and what pragmas say of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whet.compiler.errors import LowerError
from whet.compiler.tir.expr import COMM_REDUCE, IterVar, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import (
    GRAIN,
    PARALLEL,
    THREAD_BINDING,
    UNROLLED,
    VECTORIZED,
    AttrStmt,
    For,
    Stmt,
    nothing,
)
from whet.compiler.tir.visit.rewrite import Rewriter

if TYPE_CHECKING:
    from whet.compiler.te.bounds.infer_bound import StageBounds
    from whet.compiler.te.stage import Stage

#: what holds for the loops that set a reduction's first values, too
_UNROLLING = ("auto_unroll_max_step", "unroll_explicit")


def loop(
    stage: Stage,
    b: StageBounds,
    leaf: IterVar,
    body: Stmt,
    first_values: bool = False,
    apart: bool = False,
) -> Stmt:
    """The loop ``leaf`` around ``body``.

    Args:
        first_values: whether it sets what a reduction begins with.
        apart: whether the threads of a reduction each have a part of their own.

    Raises:
        LowerError: for a vectorised or unrolled loop whose extent is not a constant.
    """
    attr = stage.attr(leaf)
    kind = attr.kind
    extent = b.lengths.get(leaf) or b.limits.get(leaf, b.extents[leaf])
    if kind in (VECTORIZED, UNROLLED) and not extent.is_const:
        from whet.compiler.tir.printer import expr_text

        primitive = "vectorize" if kind == VECTORIZED else "unroll"
        raise LowerError(
            f"{primitive}({stage.op.name}, {leaf.var.name})",
            f"its extent, {expr_text(extent.to_expr())}, is not a constant",
            "split the loop first and take the inner one",
        )
    if "debug_skip_region" in attr.pragma_keys:
        return nothing()
    thread = attr.thread_tag
    racing = thread and leaf.iter_type == COMM_REDUCE and not apart
    notes: dict[str, Any] = {"reduction": True} if racing else {}
    if kind == PARALLEL and attr.grain:
        notes[GRAIN] = attr.grain
    out: Stmt = For(leaf.var, ops.const(0), extent.to_expr(leaf.dtype), kind, body, notes, thread)
    for key, value in zip(reversed(attr.pragma_keys), reversed(attr.pragma_values)):
        if not first_values or key in _UNROLLING:
            said = value if value is not None else ops.const(1)
            out = AttrStmt(leaf.var, f"pragma_{key}", said, out)
    return out


def launched(stage: Stage, b: StageBounds, nest: Stmt) -> Stmt:
    """The whole stage in the threads of ``env_threads``."""
    for t in reversed(stage.launch_threads):
        nest = For(
            b.launched[t], ops.const(0), t.domain.extent, THREAD_BINDING, nest, {}, t.thread_tag
        )
    return nest


def renamed(body: Stmt, fresh: dict[Var, Var]) -> Stmt:
    """The statement with loops over other variables."""
    if not fresh:
        return body

    def loop(n: For) -> Stmt:
        n = rewrite.children(n)
        return For(
            fresh.get(n.var, n.var), n.min, n.extent, n.kind, n.body, n.annotations, n.thread
        )

    def attr(n: AttrStmt) -> Stmt:
        n = rewrite.children(n)
        node = fresh.get(n.node, n.node) if isinstance(n.node, Var) else n.node
        return AttrStmt(node, n.key, n.value, n.body)

    rewrite = Rewriter({For: loop, AttrStmt: attr, Var: lambda v: fresh.get(v, v)})
    return rewrite(body)
