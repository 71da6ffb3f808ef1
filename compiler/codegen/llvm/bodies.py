"""The buffers that a loop's body touches, and the body's size."""

from __future__ import annotations

from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.visit.rewrite import post_order_visit

ADDRESS_OPS = ("address_of", "tvm_access_ptr")
_HOLDERS = (
    s.Allocate,
    s.AllocateConst,
    s.DeclBuffer,
    s.LetStmt,
    s.AssertStmt,
    s.AttrStmt,
    s.While,
)


def buffers_of(body: s.Stmt) -> list[Buffer]:
    """The buffers that a body reads or writes, in the order of first use."""
    found: dict[int, Buffer] = {}

    def visit(n: object) -> None:
        if isinstance(n, (e.BufferLoad, s.BufferStore, e.BufferView, s.DeclBuffer)):
            found.setdefault(id(n.buffer), n.buffer)

    post_order_visit(body, visit)
    return list(found.values())


class Written:
    """The buffers that bodies write; each statement is visited once."""

    def __init__(self) -> None:
        # id -> the statement, which keeps the id its own, and its buffers by their ids
        self._known: dict[int, tuple[s.Stmt, dict[int, Buffer]]] = {}

    def by(self, body: s.Stmt) -> list[Buffer]:
        """The buffers that a body writes, or hands to a call, in the order of first use."""
        return list(self._of(body).values())

    def _of(self, n: s.Stmt) -> dict[int, Buffer]:
        known = self._known.get(id(n))
        if known is not None:
            return known[1]
        found: dict[int, Buffer] = {}
        for part in n.parts:
            if isinstance(part, s.Stmt):
                found.update(self._of(part))
            else:
                post_order_visit(part, lambda x: _note_handed_out(x, found))
        if isinstance(n, s.BufferStore):
            found.setdefault(id(n.buffer), n.buffer)
        self._known[id(n)] = n, found
        return found


def _note_handed_out(n: object, found: dict[int, Buffer]) -> None:
    if isinstance(n, e.BufferView):
        found.setdefault(id(n.buffer), n.buffer)
    elif isinstance(n, e.Call) and n.op in ADDRESS_OPS:
        for a in n.args:
            if isinstance(a, e.BufferLoad):
                found.setdefault(id(a.buffer), a.buffer)


def statements(n: s.Stmt) -> int:
    """How many statements a body becomes when its unrolled loops are written out."""
    if isinstance(n, s.SeqStmt):
        return sum(statements(x) for x in n.seq)
    if isinstance(n, s.For):
        times = n.extent.value if n.kind == s.UNROLLED and isinstance(n.extent, e.IntImm) else 1
        return times * statements(n.body)
    if isinstance(n, s.IfThenElse):
        return statements(n.then_case) + (0 if n.else_case is None else statements(n.else_case))
    if isinstance(n, _HOLDERS):
        return statements(n.body) + (0 if isinstance(n, s.Allocate) else 1)
    return 1
