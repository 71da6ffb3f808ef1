"""ThreadSync: barriers where a thread reads shared memory that another one has written.

Before, in a kernel::

    for k in range(4):
        S[threadIdx.x] = A[k * 8 + threadIdx.x]
        B[threadIdx.x] = B[threadIdx.x] + S[7 - threadIdx.x]

After::

    for k in range(4):
        S[threadIdx.x] = A[k * 8 + threadIdx.x]
        tvm_storage_sync("shared")
        B[threadIdx.x] = B[threadIdx.x] + S[7 - threadIdx.x]
        tvm_storage_sync("shared")

Two accesses to the same index need no barrier where it names every thread of the block: they are
one thread's, or a kernel would not have passed UnifyThreads. A barrier that only some threads would
reach is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from whet.compiler.errors import LowerError
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.printer import Printer
from whet.compiler.tir.rewrite import TABLE, variables

_ANY = "*"  # an index that is another one each time


@dataclass(frozen=True)
class _Access:
    buffer: int
    index: str
    used: frozenset[e.Var]
    write: bool
    text: str  # the index as it is written

    def conflicts(self, other: _Access) -> bool:
        if self.buffer != other.buffer or not (self.write or other.write):
            return False
        if self.write and other.write and self.text == other.text:
            return False  # a stage's steps write an element each
        return self.index != other.index or self.index == _ANY


@dataclass
class _Part:
    """A statement and what it accesses before its first barrier and after its last."""

    stmt: s.Stmt
    before: list[_Access] = field(default_factory=list)
    after: list[_Access] = field(default_factory=list)
    barrier: bool = False


def thread_sync(body: s.Stmt) -> s.Stmt:
    """A kernel's body with its barriers.

    Raises:
        LowerError: if a barrier is needed where not all threads of a block come by.
    """
    return _Sync().visit(body).stmt


def barrier() -> s.Stmt:
    """The statement that makes the threads of a block wait for each other."""
    return s.Evaluate(e.Call("int32", "tvm_storage_sync", (e.StringImm("shared"),)))


class _Sync:
    def __init__(self) -> None:
        self.printer = Printer()
        self.threads: set[e.Var] = set()  # what differs between the threads of a block
        self.block: set[e.Var] = set()  # the variables that tell its threads apart
        self.divergent: list[str] = []

    def visit(self, n: s.Stmt) -> _Part:
        if isinstance(n, s.SeqStmt):
            return self._sequence(n)
        if isinstance(n, (s.For, s.While)):
            return self._loop(n)
        if isinstance(n, s.IfThenElse):
            return self._if(n)
        if isinstance(n, s.AttrStmt) and n.key == "thread_extent" and "threadIdx" in n.node.name:
            self.threads.add(n.node)
            if not (isinstance(n.value, e.IntImm) and n.value.value == 1):
                self.block.add(n.node)
        if isinstance(n, s.LetStmt) and self._differs(n.value):
            self.threads.add(n.var)
        if hasattr(n, "body"):
            own = self._accesses(n, skip=n.body)
            inner = self.visit(n.body)
            stmt = n if inner.stmt is n.body else replace(n, body=inner.stmt)  # type: ignore[type-var]
            return self._joined([_Part(s.nothing(), own, own), inner], stmt)
        found = self._accesses(n)
        return _Part(n, found, found)

    def _sequence(self, n: s.SeqStmt) -> _Part:
        parts = [self.visit(x) for x in n.seq]
        out: list[_Part] = []
        pending: list[_Access] = []
        for p in parts:
            if _conflict(pending, p.before):
                self._allowed()
                out.append(_Part(barrier(), barrier=True))
                pending = []
            out.append(p)
            pending = p.after if p.barrier else pending + p.after
        changed = len(out) != len(parts) or any(p.stmt is not x for p, x in zip(parts, n.seq))
        return self._joined(out, s.seq(*(p.stmt for p in out)) if changed else n)

    def _loop(self, n: s.For | s.While) -> _Part:
        span = self._accesses(n, skip=n.body)
        differs = (
            self._differs(n.condition)
            if isinstance(n, s.While)
            else self._differs(n.extent) or self._differs(n.min)
        )
        with_name = "a loop whose length differs between threads" if differs else ""
        if with_name:
            self.divergent.append(with_name)
        body = self.visit(n.body)
        var = n.var if isinstance(n, s.For) else None
        begin, end = _each_time(body.before, var), _each_time(body.after, var)
        stmt = body.stmt
        if _conflict(end, begin):  # the next step meets what this one left
            self._allowed()
            stmt, body = s.seq(stmt, barrier()), replace(body, barrier=True)
            end = []
        if with_name:
            self.divergent.pop()
        new = n if stmt is n.body else replace(n, body=stmt)
        return _Part(new, span + begin, span + (end if body.barrier else begin), body.barrier)

    def _if(self, n: s.IfThenElse) -> _Part:
        test = self._accesses(n, skip=n)
        differs = self._differs(n.condition)
        if differs:
            self.divergent.append(f"`if {self.printer.expr(n.condition)}`")
        then = self.visit(n.then_case)
        other = None if n.else_case is None else self.visit(n.else_case)
        if differs:
            self.divergent.pop()
        cases = [then] if other is None else [then, other]
        stmt: s.Stmt = n
        if then.stmt is not n.then_case or (other is not None and other.stmt is not n.else_case):
            otherwise = None if other is None else other.stmt
            stmt = s.IfThenElse(n.condition, then.stmt, otherwise, n.likely)
        found = test + [a for c in cases for a in c.before]
        # a barrier in one branch counts for nothing: the other may have been taken
        return _Part(stmt, found, test + [a for c in cases for a in (*c.before, *c.after)])

    def _joined(self, parts: list[_Part], stmt: s.Stmt) -> _Part:
        before: list[_Access] = []
        after: list[_Access] = []
        seen = False
        for p in parts:
            if not seen:
                before += p.before
            after = list(p.after) if p.barrier else after + p.after
            seen = seen or p.barrier
        return _Part(stmt, before, after, seen)

    def _allowed(self) -> None:
        if self.divergent:
            raise LowerError(
                "a kernel whose threads share memory",
                f"a barrier is needed inside {self.divergent[-1]}, where not all threads come by",
                "choose factors that divide the extents, or compute the shared stage further out",
            )

    def _differs(self, node: e.PrimExpr) -> bool:
        return bool(self.threads & variables(node))

    def _accesses(self, node: object, skip: object = None) -> list[_Access]:
        """The accesses to shared memory of a node, without those below ``skip``."""
        found: list[_Access] = []
        stack: list[object] = [node]
        if isinstance(node, s.IfThenElse):
            stack = [node.condition]
        while stack:
            n = stack.pop()
            if n is skip and n is not node:
                continue
            if isinstance(n, (e.BufferLoad, s.BufferStore)) and _shared(n):
                used = frozenset(v for i in n.indices for v in variables(i))
                one = self.block <= used
                at = ", ".join(self.printer.expr(i) for i in n.indices) if one else _ANY
                write = isinstance(n, s.BufferStore)
                found.append(_Access(id(n.buffer.data), at, used, write, at))
            stack.extend(TABLE[type(n)][0](n))
        return found


def _shared(n: e.BufferLoad | s.BufferStore) -> bool:
    return n.buffer.storage_scope.startswith("shared")


def _conflict(first: Iterable[_Access], second: Iterable[_Access]) -> bool:
    return any(a.conflicts(b) for a in first for b in second)


def _each_time(accesses: list[_Access], var: e.Var | None) -> list[_Access]:
    """Accesses of a loop's body as those of all its steps."""
    return [replace(a, index=_ANY) if var is None or var in a.used else a for a in accesses]
