"""HoistIfThenElse: a condition that is the same in each step of a loop is tested once.

    for i in range(n):            if m > 4:
        if m > 4:          ->         for i in range(n):
            C[i] = A[i]                   C[i] = A[i]

The condition must not read what the loop writes. It leaves all loops that it is the whole body of,
innermost first; those bound to GPU threads only with ``support_block_scope_hosting``.

Statements in a row share a test, as those of an unrolled loop do:

    if m > 4 and n > 0:           if m > 4:
        C[0] = A[0]                   if n > 0:
    if m > 4:              ->             C[0] = A[0]
        C[1] = A[1]                   C[1] = A[1]

Not where loops are GPU threads: a barrier between two statements must not come under a condition.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from whet.compiler.arith.keys import structural_key
from whet.compiler.passes.contract.bottom_up import bottom_up
from whet.compiler.passes.contract.option import PassConfig
from whet.compiler.target import Target
from whet.compiler.tir.analysis.effects import is_pure
from whet.compiler.tir.expr import DIVISIONS, BufferLoad, IntImm, PrimExpr
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import (
    PARALLEL,
    THREAD_BINDING,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    seq,
)
from whet.compiler.tir.visit.renew import renewed
from whet.compiler.tir.visit.rewrite import conjuncts, nodes_of, variables


def hoist_if_then_else(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function with invariant conditions outside their loops."""
    threads = config["tir.HoistIfThenElse"]["support_block_scope_hosting"]

    def loop(n: For) -> Stmt:
        body = n.body
        if not isinstance(body, IfThenElse) or not _invariant(n, body.condition):
            return n
        if n.kind == THREAD_BINDING and not threads:
            return n
        if body.else_case is not None and n.kind in (PARALLEL, THREAD_BINDING):
            return n  # the loop would stand there twice
        return moved_out(n, body)

    def sequence(n: Stmt) -> Stmt:
        return _sharing(n) if isinstance(n, SeqStmt) and not on_threads else n

    on_threads = any(n.kind == THREAD_BINDING for n in nodes_of(func.body, For))
    return func.with_body(bottom_up(func.body, {For: loop, SeqStmt: sequence}))


def moved_out(loop: For, branch: IfThenElse) -> IfThenElse:
    """The branch that a loop's body is, around the loop: its else case has a loop of its own."""
    other = None if branch.else_case is None else renewed(replace(loop, body=branch.else_case))
    return replace(branch, then_case=replace(loop, body=branch.then_case), else_case=other)


def _sharing(n: SeqStmt) -> Stmt:
    """The statements, those in a row with a condition in common under one test of it."""
    out: list[Stmt] = []
    row: list[IfThenElse] = []
    common: set[Hashable] = set()

    def close() -> None:
        if len(row) < 2:
            out.extend(row)
        else:
            out.append(_under_one(row, common))
        row.clear()

    for part in n.seq:
        keys = _testable(part)
        if not row or not common & keys:
            close()
            common = keys
        common = common & keys
        if isinstance(part, IfThenElse) and keys:
            row.append(part)
        else:
            out.append(part)
    close()
    return n if len(out) == len(n.seq) else seq(*out)


def _testable(n: Stmt) -> set[Hashable]:
    """The conditions, all of which a branch asks for, that no statement can change."""
    if not isinstance(n, IfThenElse) or n.else_case is not None:
        return set()
    return {structural_key(c) for c in conjuncts(n.condition) if _is_constant(c)}


def _is_constant(c: PrimExpr) -> bool:
    """True where no statement changes a condition, which may be tested before those beside it."""
    divides = any(not isinstance(n.b, IntImm) for n in nodes_of(c, *DIVISIONS))
    return not divides and not nodes_of(c, BufferLoad) and is_pure(c)


def _under_one(row: list[IfThenElse], common: set[Hashable]) -> Stmt:
    shared = [c for c in conjuncts(row[0].condition) if structural_key(c) in common]
    bodies: list[Stmt] = []
    for n in row:
        left = [c for c in conjuncts(n.condition) if structural_key(c) not in common]
        own = IfThenElse(ops.all_of(*left), n.then_case, None, n.likely) if left else n.then_case
        bodies.append(own)
    return IfThenElse(ops.all_of(*shared), seq(*bodies), None, all(n.likely for n in row))


def _invariant(loop: For, condition: PrimExpr) -> bool:
    if loop.var in variables(condition) or not is_pure(condition):
        return False
    reads = {n.buffer.data for n in nodes_of(condition, BufferLoad)}
    if not reads:
        return True
    if not (isinstance(loop.extent, IntImm) and loop.extent.value > 0):
        return False  # in no step at all, nothing may be read
    if any(not is_pure(n.value) for n in nodes_of(loop.body, Evaluate)):
        return False
    return reads.isdisjoint(n.buffer.data for n in nodes_of(loop.body, BufferStore))
