"""The buffers that a loop's body touches, and the body's size."""

from __future__ import annotations

from whet.compiler.codegen.outside import handed_buffer
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, BufferView, Call, IntImm
from whet.compiler.tir.stmt import (
    UNROLLED,
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)
from whet.compiler.tir.visit.rewrite import nodes_of

_HOLDERS = (
    Allocate,
    AllocateConst,
    DeclBuffer,
    LetStmt,
    AssertStmt,
    AttrStmt,
    While,
)


def buffers_of(body: Stmt) -> list[Buffer]:
    """The buffers that a body reads or writes, in the order of first use."""
    users = nodes_of(body, BufferLoad, BufferStore, BufferView, DeclBuffer)
    return list({id(n.buffer): n.buffer for n in users}.values())


class Written:
    """The buffers that bodies write; each statement is visited once."""

    def __init__(self) -> None:
        # id -> the statement, which keeps the id its own, and its buffers by their ids
        self._known: dict[int, tuple[Stmt, dict[int, Buffer]]] = {}

    def by(self, body: Stmt) -> list[Buffer]:
        """The buffers that a body writes, or hands to a call, in the order of first use."""
        return list(self._of(body).values())

    def _of(self, n: Stmt) -> dict[int, Buffer]:
        known = self._known.get(id(n))
        if known is not None:
            return known[1]
        written: dict[int, Buffer] = {}
        for part in n.parts:
            if isinstance(part, Stmt):
                written.update(self._of(part))
                continue
            handed = map(handed_buffer, nodes_of(part, BufferView, Call))
            written.update({id(b): b for b in handed if b is not None})
        if isinstance(n, BufferStore):
            written.setdefault(id(n.buffer), n.buffer)
        self._known[id(n)] = n, written
        return written


def statements(n: Stmt) -> int:
    """The number of statements of a body when its unrolled loops are unrolled."""
    if isinstance(n, SeqStmt):
        return sum(statements(x) for x in n.seq)
    if isinstance(n, For):
        times = n.extent.value if n.kind == UNROLLED and isinstance(n.extent, IntImm) else 1
        return times * statements(n.body)
    if isinstance(n, IfThenElse):
        return statements(n.then_case) + (0 if n.else_case is None else statements(n.else_case))
    if isinstance(n, _HOLDERS):
        return statements(n.body) + (0 if isinstance(n, Allocate) else 1)
    return 1
