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
from whet.compiler.tir.analysis.conditions import pinned
from whet.compiler.tir.expr import LT, BufferLoad, Call, IntImm, PrimExpr, StringImm, Var
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.stmt import (
    OWN_STEPS,
    Allocate,
    AttrStmt,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    nothing,
    seq,
)
from whet.compiler.tir.visit.rewrite import changed, conjuncts, nodes_of, variables


def sync_kernel(func: PrimFunc) -> PrimFunc:
    """The kernel with its barriers.

    Raises:
        LowerError: as :func:`thread_sync`.
    """
    return func.with_body(thread_sync(func.body))


def thread_sync(body: Stmt) -> Stmt:
    """A kernel's body with its barriers.

    Raises:
        LowerError: if a barrier is needed where not all threads of a block come by.
    """
    return _Sync(body).visit(body).stmt


def barrier() -> Stmt:
    """The statement that makes the threads of a block wait for each other."""
    return Evaluate(Call("int32", "tvm_storage_sync", (StringImm("shared"),)))


def is_barrier(n: Stmt) -> bool:
    """True if a statement is one of :func:`barrier`."""
    call = n.value if isinstance(n, Evaluate) else None
    return (
        isinstance(call, Call)
        and call.op.removeprefix("tir.") == "tvm_storage_sync"
        and isinstance(call.args[0], StringImm)
        and call.args[0].value.startswith("shared")
    )


@dataclass
class _Part:
    """A statement and what it accesses before its first barrier and after its last."""

    stmt: Stmt
    before: list[Access] = field(default_factory=list)
    after: list[Access] = field(default_factory=list)
    barrier: bool = False


class _Sync:
    def __init__(self, body: Stmt) -> None:
        self.accesses = Accesses(body)
        self.threads: set[Var] = set()  # what differs between the threads of a block
        self.private: set[Var] = set()  # memory that each thread has of its own
        self.divergent: list[str] = []

    def visit(self, n: Stmt) -> _Part:
        if isinstance(n, SeqStmt):
            return self._sequence(n)
        if isinstance(n, (For, While)):
            return self._loop(n)
        if isinstance(n, IfThenElse):
            return self._if(n)
        if is_barrier(n):
            return _Part(n, barrier=True)
        self.accesses.enter(n)
        if isinstance(n, AttrStmt) and n.key == "thread_extent" and "threadIdx" in n.node.name:
            self.threads.add(n.node)
        if isinstance(n, Allocate) and not n.buffer.storage_scope.startswith("shared"):
            self.private.add(n.buffer.data)
        if isinstance(n, LetStmt) and self._differs(n.value):
            self.threads.add(n.var)
        if not hasattr(n, "body"):
            found = self.accesses.of(n)
            return _Part(n, found, found)
        own = self.accesses.of(n, skip=n.body)
        inner = self.visit(n.body)
        self.accesses.leave(n)
        stmt = changed(n, body=inner.stmt)
        return self._joined([_Part(nothing(), own, own), inner], stmt)

    def _sequence(self, n: SeqStmt) -> _Part:
        parts = [self.visit(x) for x in n.seq]
        out: list[_Part] = []
        pending: list[Access] = []
        for p in parts:
            if self._conflict(pending, p.before):
                out.append(_Part(barrier(), barrier=True))
                pending = []
            out.append(p)
            pending = p.after if p.barrier else pending + p.after
        same = len(out) == len(parts) and all(p.stmt is x for p, x in zip(parts, n.seq))
        return self._joined(out, n if same else seq(*(p.stmt for p in out)))

    def _loop(self, n: For | While) -> _Part:
        span = self.accesses.of(n, skip=n.body)
        length = [n.condition] if isinstance(n, While) else [n.extent, n.min]
        differs = any(map(self._differs, length))
        if differs:
            self.divergent.append("a loop whose length differs between threads")
        self.accesses.enter(n)
        body = self.visit(n.body)
        self.accesses.leave(n)
        var = n.var if isinstance(n, For) else None
        each = {id(a): a.each_time(var) for a in (*body.before, *body.after)}
        begin, end = [each[id(a)] for a in body.before], [each[id(a)] for a in body.after]
        stmt = body.stmt
        if isinstance(n, For) and n.annotations.get(OWN_STEPS):
            met = [
                [a for a in part if a.buffer.storage_scope.startswith("shared")]
                for part in (end, begin)
            ]
        else:
            met = [end, begin]
        if self._conflict(*met):  # the next step meets what this one left
            stmt, body = seq(stmt, barrier()), replace(body, barrier=True)
            end = []
        if differs:
            self.divergent.pop()
        new = changed(n, body=stmt)
        before, after = span + begin, span + (end if body.barrier else _both(begin, end))
        # a barrier in a loop counts for nothing where the loop may have no steps
        return _Part(new, before, after, body.barrier and self._has_steps(n))

    def _if(self, n: IfThenElse) -> _Part:
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
        stmt = changed(n, then_case=then.stmt, else_case=other and other.stmt)
        found = test + [a for c in cases for a in c.before]
        # a barrier in one branch counts for nothing: the other may have been taken
        left = [a for c in cases for a in (c.after if c.barrier else _both(c.before, c.after))]
        return _Part(stmt, found, test + left)

    def _joined(self, parts: list[_Part], stmt: Stmt) -> _Part:
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

    def _differs(self, node: PrimExpr) -> bool:
        """True for a value that may be another one in each thread of a block."""
        if self.threads & variables(node):
            return True
        return any(n.buffer.data in self.private for n in nodes_of(node, BufferLoad))

    def _has_steps(self, n: For | While) -> bool:
        """True if a loop surely has at least one step."""
        known = self.accesses.analyzer
        return isinstance(n, For) and known.positive(known.affine(n.extent))


def _narrowed(condition: PrimExpr, block: dict[Var, int | None]) -> dict[Var, int | None]:
    """How many threads come further: of ``threadIdx.x < 11`` eleven."""
    block = dict(block)
    for c in conjuncts(condition):
        if isinstance(c, LT) and isinstance(c.a, Var) and isinstance(c.b, IntImm):
            known = block.get(c.a)
            if c.a in block and (known is None or known > c.b.value):
                block[c.a] = c.b.value
    return block


def _both(first: list[Access], second: list[Access]) -> list[Access]:
    """The accesses of two lists, each once."""
    return list({id(a): a for a in (*first, *second)}.values())
