"""Loops over threads one inside the other: which threads run what stands between them."""

from __future__ import annotations

from dataclasses import replace

from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.analysis.effects import is_pure
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.visit.rewrite import TABLE, Rewriter, post_order_visit, variables

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


def guarded(n: s.Stmt, condition: e.PrimExpr, tag: str, own: set[e.Var] | None) -> s.Stmt:
    """A loop's body for some of its threads.

    A loop of the same tag within is for its own threads, which fill memory that all of them read:
    the guard goes around what stands beside it, but not around what fills registers for them, which
    is the same in all steps of the loop.

    Args:
        n: the body.
        condition: what the loop's threads fulfil.
        tag: the threads' tag.
        own: what differs between the loop's steps (:func:`differing`); None where it may have none.
    """
    if isinstance(n, s.For) and n.thread == tag:
        return n
    if not has_loop_over(n, tag):
        return s.IfThenElse(condition, n)
    if isinstance(n, s.SeqStmt):
        return s.SeqStmt(
            tuple(x if is_alike(x, own) else guarded(x, condition, tag, own) for x in n.seq)
        )
    if isinstance(n, s.IfThenElse):
        other = None if n.else_case is None else guarded(n.else_case, condition, tag, own)
        then = guarded(n.then_case, condition, tag, own)
        return s.IfThenElse(n.condition, then, other, n.likely)
    return replace(n, body=guarded(n.body, condition, tag, own))  # type: ignore[type-var,attr-defined]


def is_alike(n: s.Stmt, own: set[e.Var] | None) -> bool:
    """Whether a statement fills a thread's own memory alone, with the same in all threads."""
    if own is None or is_thread_loop(n) or own & _used(n):
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


def differing(body: s.Stmt, var: e.Var) -> set[e.Var]:
    """What has another value in each step of a loop: ``var``, and what is computed from it.

    Variables and the pointers of buffers in threads' own memory, by way of others, too. Where the
    step is a thread beyond the loop's last, nothing of this has a value.
    """
    made = _made_in(body)
    found = {var}
    while _spread(body, found, made):
        pass
    return found


def _spread(n: s.Stmt, found: set[e.Var], made: set[e.Var], under: bool = False) -> bool:
    """Add what statements compute from what ``found`` holds; whether there was anything new."""
    new: set[e.Var] = set()
    if isinstance(n, s.BufferStore):
        b = n.buffer
        shared = b.storage_scope != "local" and (b.storage_scope != "global" or b.data not in made)
        if not shared and (under or found & _used(n)):
            new = {b.data}
    elif isinstance(n, s.LetStmt) and found & _used(n.value):
        new = {n.var}
    elif isinstance(n, s.For) and found & (_used(n.min) | _used(n.extent)):
        new, under = {n.var}, True
    elif isinstance(n, (s.IfThenElse, s.While)):
        under = under or bool(found & _used(n.condition))
    grown = not new <= found
    found |= new
    for x in TABLE[type(n)][0](n):
        if isinstance(x, s.Stmt):
            grown = _spread(x, found, made, under) or grown
    return grown


def _used(n: s.Stmt | e.PrimExpr) -> set[e.Var]:
    """The variables of a tree, and the pointers of the buffers that it loads."""
    out = variables(n)

    def visit(x: object) -> None:
        if isinstance(x, e.BufferLoad):
            out.add(x.buffer.data)

    post_order_visit(n, visit)
    return out


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


def _made_in(n: s.Stmt) -> set[e.Var]:
    """The pointers of the buffers that a statement allocates."""
    found: set[e.Var] = set()

    def visit(x: object) -> None:
        if isinstance(x, s.Allocate):
            found.add(x.buffer.data)

    post_order_visit(n, visit)
    return found


def region_of_one(
    buffer: Buffer, before: s.Stmt, after: s.Stmt, by_one: ByOne
) -> tuple[e.PrimExpr, tuple[str, ...], s.Stmt] | None:
    """A statement all of which one thread may run, since it alone stores: others would only read.

    What is stored in a thread's own memory that outlives the statement is not for one thread: each
    of the others has that memory, too, and may read it later.

    Args:
        buffer: in a thread's own memory, made for the statement.
        before: the statement with its loops over threads.
        after: the same without them.
        by_one: the conditions that were set around its stores.

    Returns:
        The condition, its tags, and the statement without it inside; None where there is no such.
    """
    held: list[s.IfThenElse] = []
    found: set[tuple[str, ...]] = set()
    stack: list[s.Stmt] = [after]
    made = {buffer.data}
    while stack:
        n = stack.pop()
        if id(n) in by_one:
            held.append(by_one[id(n)][0])
            found.add(by_one[id(n)][1])
            continue
        if isinstance(n, s.BufferStore) and n.buffer.data not in made:
            return None
        if isinstance(n, s.Allocate):
            if n.buffer.storage_scope != "local":
                return None
            made.add(n.buffer.data)
        if isinstance(n, s.Evaluate) and not is_pure(n.value):
            return None
        stack.extend(x for x in TABLE[type(n)][0](n) if isinstance(x, s.Stmt))
    if len(found) != 1 or any(has_loop_over(before, tag) for tag in HARDWARE):
        return None
    inner = {id(x) for x in held}
    strip = Rewriter({s.IfThenElse: lambda n: n.then_case if id(n) in inner else strip.children(n)})
    return held[0].condition, found.pop(), strip(after)
