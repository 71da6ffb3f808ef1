"""ThreadSync: barriers where a thread needs what another one has written to shared memory.

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

Shared buffers that stand in the same bytes, and arrays of the device that a kernel writes in one
place and reads in another, are ordered the same way. No barrier is needed where both accesses are
one thread's (``threads/accesses.py``). A barrier that only some threads would reach is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from whet.compiler.errors import LowerError
from whet.compiler.passes.threads.accesses import Access, Accesses
from whet.compiler.passes.threads.kernels import map_kernels
from whet.compiler.target import Target
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.analysis.conditions import pinned
from whet.compiler.tir.function import IRModule
from whet.compiler.tir.visit.rewrite import nodes_of, variables


def sync_module(mod: IRModule, target: Target) -> IRModule:
    """The module whose kernels have their barriers.

    Raises:
        LowerError: as :func:`thread_sync`.
    """
    return map_kernels(mod, lambda f: f.with_body(thread_sync(f.body)))


def thread_sync(body: s.Stmt) -> s.Stmt:
    """A kernel's body with its barriers.

    Raises:
        LowerError: if a barrier is needed where not all threads of a block come by.
    """
    return _Sync(body).visit(body).stmt


def barrier() -> s.Stmt:
    """The statement that makes the threads of a block wait for each other."""
    return s.Evaluate(e.Call("int32", "tvm_storage_sync", (e.StringImm("shared"),)))


def is_barrier(n: s.Stmt) -> bool:
    """True if a statement is one of :func:`barrier`."""
    call = n.value if isinstance(n, s.Evaluate) else None
    return (
        isinstance(call, e.Call)
        and call.op.removeprefix("tir.") == "tvm_storage_sync"
        and isinstance(call.args[0], e.StringImm)
        and call.args[0].value.startswith("shared")
    )


@dataclass
class _Part:
    """A statement and what it accesses before its first barrier and after its last."""

    stmt: s.Stmt
    before: list[Access] = field(default_factory=list)
    after: list[Access] = field(default_factory=list)
    barrier: bool = False


class _Sync:
    def __init__(self, body: s.Stmt) -> None:
        self.accesses = Accesses(body)
        self.threads: set[e.Var] = set()  # what differs between the threads of a block
        self.private: set[e.Var] = set()  # memory that each thread has of its own
        self.divergent: list[str] = []

    def visit(self, n: s.Stmt) -> _Part:
        if isinstance(n, s.SeqStmt):
            return self._sequence(n)
        if isinstance(n, (s.For, s.While)):
            return self._loop(n)
        if isinstance(n, s.IfThenElse):
            return self._if(n)
        if is_barrier(n):
            return _Part(n, barrier=True)
        self.accesses.enter(n)
        if isinstance(n, s.AttrStmt) and n.key == "thread_extent" and "threadIdx" in n.node.name:
            self.threads.add(n.node)
        if isinstance(n, s.Allocate) and not n.buffer.storage_scope.startswith("shared"):
            self.private.add(n.buffer.data)
        if isinstance(n, s.LetStmt) and self._differs(n.value):
            self.threads.add(n.var)
        if not hasattr(n, "body"):
            found = self.accesses.of(n)
            return _Part(n, found, found)
        own = self.accesses.of(n, skip=n.body)
        inner = self.visit(n.body)
        self.accesses.leave(n)
        stmt = n if inner.stmt is n.body else replace(n, body=inner.stmt)
        return self._joined([_Part(s.nothing(), own, own), inner], stmt)

    def _sequence(self, n: s.SeqStmt) -> _Part:
        parts = [self.visit(x) for x in n.seq]
        out: list[_Part] = []
        pending: list[Access] = []
        for p in parts:
            if self._conflict(pending, p.before):
                out.append(_Part(barrier(), barrier=True))
                pending = []
            out.append(p)
            pending = p.after if p.barrier else pending + p.after
        changed = len(out) != len(parts) or any(p.stmt is not x for p, x in zip(parts, n.seq))
        return self._joined(out, s.seq(*(p.stmt for p in out)) if changed else n)

    def _loop(self, n: s.For | s.While) -> _Part:
        span = self.accesses.of(n, skip=n.body)
        differs = (
            self._differs(n.condition)
            if isinstance(n, s.While)
            else self._differs(n.extent) or self._differs(n.min)
        )
        with_name = "a loop whose length differs between threads" if differs else ""
        if with_name:
            self.divergent.append(with_name)
        self.accesses.enter(n)
        body = self.visit(n.body)
        self.accesses.leave(n)
        var = n.var if isinstance(n, s.For) else None
        each = {id(a): a.each_time(var) for a in (*body.before, *body.after)}
        begin, end = [each[id(a)] for a in body.before], [each[id(a)] for a in body.after]
        stmt = body.stmt
        if self._conflict(end, begin):  # the next step meets what this one left
            stmt, body = s.seq(stmt, barrier()), replace(body, barrier=True)
            end = []
        if with_name:
            self.divergent.pop()
        new = n if stmt is n.body else replace(n, body=stmt)
        before, after = span + begin, span + (end if body.barrier else _both(begin, end))
        # a barrier in a loop counts for nothing where the loop may have no steps
        return _Part(new, before, after, body.barrier and self._has_steps(n))

    def _if(self, n: s.IfThenElse) -> _Part:
        test = self.accesses.of(n, skip=n)
        differs = self._differs(n.condition)
        if differs:
            self.divergent.append(f"`if {self.accesses.printer.expr(n.condition)}`")
        everyone, block = self.accesses.alone, self.accesses.block
        one = pinned(n.condition, block)
        self.accesses.alone = everyone | frozenset(one.items())
        self.accesses.block = _narrowed(n.condition, block)
        then = self.visit(n.then_case)
        self.accesses.alone, self.accesses.block = everyone, block
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
        left = [a for c in cases for a in (c.after if c.barrier else _both(c.before, c.after))]
        return _Part(stmt, found, test + left)

    def _joined(self, parts: list[_Part], stmt: s.Stmt) -> _Part:
        before: list[Access] = []
        after: list[Access] = []
        seen = False
        for p in parts:
            if not seen:
                before += p.before
            after = list(p.after) if p.barrier else after + p.after
            seen = seen or p.barrier
        return _Part(stmt, before, after, seen)

    def _conflict(self, first: Sequence[Access], second: Sequence[Access]) -> bool:
        """True if a barrier is needed between two groups of accesses, where one may stand."""
        written = [b for b in second if b.write]
        pairs = ((a, b) for a in first for b in (second if a.write else written))
        found = next(((a, b) for a, b in pairs if self.accesses.conflict(a, b)), None)
        if found is not None and self.divergent:
            raise LowerError(
                "a kernel whose threads share memory",
                f"a barrier is needed inside {self.divergent[-1]}, where not all threads come by: "
                f"{found[0].what()}, and {found[1].what()}",
                "choose factors that divide the extents, or compute the shared stage further out",
            )
        return found is not None

    def _differs(self, node: e.PrimExpr) -> bool:
        """True for a value that may be another one in each thread of a block."""
        if self.threads & variables(node):
            return True
        return any(n.buffer.data in self.private for n in nodes_of(node, e.BufferLoad))

    def _has_steps(self, n: s.For | s.While) -> bool:
        """True if a loop surely has at least one step."""
        known = self.accesses.analyzer
        return isinstance(n, s.For) and known.positive(known.affine(n.extent))


def _narrowed(condition: e.PrimExpr, block: dict[e.Var, int | None]) -> dict[e.Var, int | None]:
    """How many threads come further: of ``threadIdx.x < 11`` eleven."""
    if isinstance(condition, e.And):
        return _narrowed(condition.b, _narrowed(condition.a, block))
    if not isinstance(condition, e.LT) or condition.a not in block:
        return block
    known, most = block[condition.a], condition.b  # type: ignore[index]
    if not isinstance(most, e.IntImm) or (known is not None and known <= most.value):
        return block
    return {**block, condition.a: most.value}  # type: ignore[dict-item]


def _both(first: list[Access], second: list[Access]) -> list[Access]:
    """The accesses of two lists, each once."""
    return list({id(a): a for a in (*first, *second)}.values())
