"""The statements of the loop IR: one small immutable node class each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import IntImm, PrimExpr, Var

SERIAL, PARALLEL, VECTORIZED, UNROLLED = "serial", "parallel", "vectorized", "unrolled"


class Stmt:
    """Anything that is executed for what it does."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class For(Stmt):
    """``for var in range(min, min + extent): body``, run as ``kind`` says."""

    var: Var
    min: PrimExpr
    extent: PrimExpr
    kind: str
    body: Stmt
    annotations: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class BufferStore(Stmt):
    """``buffer[indices] = value``; lanes where ``mask`` is false are not written."""

    buffer: Buffer
    value: PrimExpr
    indices: tuple[PrimExpr, ...]
    mask: PrimExpr | None = None


@dataclass(slots=True, eq=False)
class SeqStmt(Stmt):
    """Statements one after the other."""

    seq: tuple[Stmt, ...]


@dataclass(slots=True, eq=False)
class IfThenElse(Stmt):
    """``if condition: then_case else: else_case``; ``likely`` marks the guard of a loop's tail."""

    condition: PrimExpr
    then_case: Stmt
    else_case: Stmt | None = None
    likely: bool = False


@dataclass(slots=True, eq=False)
class Allocate(Stmt):
    """``buffer`` exists, uninitialised, while ``body`` runs."""

    buffer: Buffer
    body: Stmt


@dataclass(slots=True, eq=False)
class Evaluate(Stmt):
    """``value`` computed for its side effect; a constant stands for doing nothing."""

    value: PrimExpr


def nothing() -> Stmt:
    """The statement that does nothing."""
    return Evaluate(IntImm("int32", 0))


def is_nothing(stmt: Stmt) -> bool:
    """Whether a statement does nothing, to see at once."""
    return isinstance(stmt, Evaluate) and isinstance(stmt.value, IntImm)


def seq(*stmts: Stmt) -> Stmt:
    """Statements in order, nested sequences flattened and those that do nothing left out."""
    flat: list[Stmt] = []
    for s in stmts:
        if isinstance(s, SeqStmt):
            flat.extend(s.seq)
        elif not is_nothing(s):
            flat.append(s)
    if not flat:
        return nothing()
    return flat[0] if len(flat) == 1 else SeqStmt(tuple(flat))
