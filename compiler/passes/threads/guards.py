"""Loops over threads one inside the other: which threads run what stands between them."""

from __future__ import annotations

from dataclasses import replace

from whet.compiler.tir.analysis.effects import is_pure
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, PrimExpr, Var
from whet.compiler.tir.stmt import (
    THREAD_BINDING,
    Allocate,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    seq,
)
from whet.compiler.tir.visit.rewrite import Rewriter, nodes_of, statements_of, variables

HARDWARE = (
    *("blockIdx.x", "blockIdx.y", "blockIdx.z"),
    *("threadIdx.x", "threadIdx.y", "threadIdx.z"),
)
"""Tags that the hardware counts, in the order of a kernel's prologue; others stay loops."""


ByOne = dict[int, tuple[IfThenElse, tuple[str, ...]]]
"""The ids of conditions that let one thread through -> the condition, the tags that it is about."""


def is_thread_loop(node: object) -> bool:
    """True for a loop over threads that the hardware counts."""
    return isinstance(node, For) and node.kind == THREAD_BINDING and node.thread in HARDWARE


def guarded(n: Stmt, condition: PrimExpr, tag: str, own: set[Var] | None) -> Stmt:
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
    if isinstance(n, For) and n.thread == tag:
        return n
    if not has_loop_over(n, tag):
        return IfThenElse(condition, n)
    if isinstance(n, SeqStmt):
        return SeqStmt(
            tuple(x if is_alike(x, own) else guarded(x, condition, tag, own) for x in n.seq)
        )
    if isinstance(n, IfThenElse):
        other = None if n.else_case is None else guarded(n.else_case, condition, tag, own)
        then = guarded(n.then_case, condition, tag, own)
        return IfThenElse(n.condition, then, other, n.likely)
    return replace(n, body=guarded(n.body, condition, tag, own))  # type: ignore[attr-defined]


def is_alike(n: Stmt, own: set[Var] | None) -> bool:
    """True where a statement fills a thread's own memory alone, with the same in all threads."""
    if own is None or own & used_by(n) or any(map(is_thread_loop, nodes_of(n, For))):
        return False
    if any(x.buffer.storage_scope != "local" for x in nodes_of(n, BufferStore)):
        return False
    return all(is_pure(x.value) for x in nodes_of(n, Evaluate))


def differing(body: Stmt, var: Var) -> set[Var]:
    """The values that differ between the steps of a loop: ``var``, and all computed from it.

    Variables and the pointers of buffers in threads' own memory, by way of others, too. Where the
    step is a thread beyond the loop's last, nothing of this has a value.
    """
    made = {n.buffer.data for n in nodes_of(body, Allocate)}
    found = {var}
    while _spread(body, found, made):
        pass
    return found


def _spread(n: Stmt, found: set[Var], made: set[Var], under: bool = False) -> bool:
    """Add what statements compute from what ``found`` holds; whether there was anything new."""
    new: set[Var] = set()
    if isinstance(n, BufferStore):
        b = n.buffer
        shared = b.storage_scope != "local" and (b.storage_scope != "global" or b.data not in made)
        if not shared and (under or found & used_by(n)):
            new = {b.data}
    elif isinstance(n, LetStmt) and found & used_by(n.value):
        new = {n.var}
    elif isinstance(n, For) and found & (used_by(n.min) | used_by(n.extent)):
        new, under = {n.var}, True
    elif isinstance(n, (IfThenElse, While)):
        under = under or bool(found & used_by(n.condition))
    grown = not new <= found
    found |= new
    for x in statements_of(n):
        grown = _spread(x, found, made, under) or grown
    return grown


def used_by(n: Stmt | PrimExpr) -> set[Var]:
    """The variables of a tree, and the pointers of the buffers that it loads."""
    return variables(n) | {x.buffer.data for x in nodes_of(n, BufferLoad)}


def has_loop_over(node: Stmt, tag: str) -> bool:
    """True for a statement with a loop over the threads of a tag."""
    return any(n.thread == tag for n in nodes_of(node, For))


def without_condition(n: Stmt) -> Stmt:
    """Statements under one condition, without it."""
    parts = n.seq if isinstance(n, SeqStmt) else (n,)
    return seq(*(x.then_case for x in parts if isinstance(x, IfThenElse)))


def region_of_one(
    buffer: Buffer, before: Stmt, after: Stmt, by_one: ByOne
) -> tuple[PrimExpr, tuple[str, ...], Stmt] | None:
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
    held: list[IfThenElse] = []
    found: set[tuple[str, ...]] = set()
    stack: list[Stmt] = [after]
    made = {buffer.data}
    while stack:
        n = stack.pop()
        if id(n) in by_one:
            held.append(by_one[id(n)][0])
            found.add(by_one[id(n)][1])
            continue
        if isinstance(n, BufferStore) and n.buffer.data not in made:
            return None
        if isinstance(n, Allocate):
            if n.buffer.storage_scope != "local":
                return None
            made.add(n.buffer.data)
        if isinstance(n, Evaluate) and not is_pure(n.value):
            return None
        stack.extend(statements_of(n))
    if len(found) != 1 or any(has_loop_over(before, tag) for tag in HARDWARE):
        return None
    inner = {id(x) for x in held}
    strip = Rewriter({IfThenElse: lambda n: n.then_case if id(n) in inner else strip.children(n)})
    return held[0].condition, found.pop(), strip(after)
