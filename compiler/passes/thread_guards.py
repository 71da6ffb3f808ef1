"""Loops over threads one inside the other: which threads run what stands between them."""

from __future__ import annotations

from dataclasses import replace

from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.analysis.effects import is_pure
from whet.compiler.tir.rewrite import TABLE, Rewriter, post_order_visit, variables

HARDWARE = (
    *("blockIdx.x", "blockIdx.y", "blockIdx.z"),
    *("threadIdx.x", "threadIdx.y", "threadIdx.z"),
)
"""Tags that the hardware counts, in the order of a kernel's prologue; others stay loops."""


ByOne = dict[int, tuple[s.IfThenElse, tuple[str, ...]]]
"""The ids of conditions that let one thread through -> the condition, the tags that it is about."""


def is_thread_loop(node: object) -> bool:
    """Whether a statement is a loop over threads that the hardware counts."""
    return isinstance(node, s.For) and node.kind == s.THREAD_BINDING and node.thread in HARDWARE


def guarded(n: s.Stmt, condition: e.PrimExpr, tag: str, var: e.Var | None) -> s.Stmt:
    """A loop's body for some of its threads.

    A loop of the same tag within is for its own threads, which fill memory that all of them read:
    the guard goes around what stands beside it, but not around what fills registers for them, which
    is the same in all steps of the loop over ``var``.
    """
    if isinstance(n, s.For) and n.thread == tag:
        return n
    if not has_loop_over(n, tag):
        return s.IfThenElse(condition, n)
    if isinstance(n, s.SeqStmt):
        return s.SeqStmt(
            tuple(x if is_own(x, var) else guarded(x, condition, tag, var) for x in n.seq)
        )
    if isinstance(n, s.IfThenElse):
        other = None if n.else_case is None else guarded(n.else_case, condition, tag, var)
        then = guarded(n.then_case, condition, tag, var)
        return s.IfThenElse(n.condition, then, other, n.likely)
    return replace(n, body=guarded(n.body, condition, tag, var))  # type: ignore[type-var,attr-defined]


def is_own(n: s.Stmt, var: e.Var | None) -> bool:
    """Whether a statement fills a thread's own memory alone, with the same for each ``var``."""
    if var is None or is_thread_loop(n) or var in variables(n):
        return False
    alone = True

    def visit(x: object) -> None:
        nonlocal alone
        if isinstance(x, s.BufferStore):
            alone = alone and x.buffer.storage_scope == "local"
        elif isinstance(x, s.Evaluate):
            alone = alone and is_pure(x.value)
        elif isinstance(x, s.For):
            alone = alone and not is_thread_loop(x)

    post_order_visit(n, visit)
    return alone


def has_loop_over(node: s.Stmt, tag: str) -> bool:
    """Whether a loop over the threads of a tag stands in a statement."""
    found = False

    def visit(n: object) -> None:
        nonlocal found
        found = found or (isinstance(n, s.For) and n.thread == tag)

    post_order_visit(node, visit)
    return found


def without_condition(n: s.Stmt) -> s.Stmt:
    """Statements under one condition, without it."""
    parts = n.seq if isinstance(n, s.SeqStmt) else (n,)
    return s.seq(*(x.then_case for x in parts if isinstance(x, s.IfThenElse)))


def region_of_one(
    before: s.Stmt, after: s.Stmt, by_one: ByOne
) -> tuple[e.PrimExpr, tuple[str, ...], s.Stmt] | None:
    """A statement all of which one thread may run, since it alone stores: others would only read.

    Args:
        before: the statement with its loops over threads.
        after: the same without them.
        by_one: the conditions that were set around its stores.

    Returns:
        The condition, its tags, and the statement without it inside; None where there is no such.
    """
    held: list[s.IfThenElse] = []
    found: set[tuple[str, ...]] = set()
    stack: list[s.Stmt] = [after]
    while stack:
        n = stack.pop()
        if id(n) in by_one:
            held.append(by_one[id(n)][0])
            found.add(by_one[id(n)][1])
            continue
        if isinstance(n, s.BufferStore) and n.buffer.storage_scope != "local":
            return None
        if isinstance(n, s.Allocate) and n.buffer.storage_scope != "local":
            return None
        if isinstance(n, s.Evaluate) and not is_pure(n.value):
            return None
        stack.extend(x for x in TABLE[type(n)][0](n) if isinstance(x, s.Stmt))
    if len(found) != 1 or any(has_loop_over(before, tag) for tag in HARDWARE):
        return None
    inner = {id(x) for x in held}
    strip = Rewriter({s.IfThenElse: lambda n: n.then_case if id(n) in inner else strip.children(n)})
    return held[0].condition, found.pop(), strip(after)
