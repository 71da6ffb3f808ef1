"""InjectVirtualThread: virtual threads become loops around the statements that depend on them.

    for v in thread_binding(2, "vthread"):          B = allocate([8])
        B = allocate([4])                           for i in range(4):
        for i in range(4):                  ->          for v in unrolled(2):
            B[i] = A[v * 4 + i]                             B[v * 4 + i] = A[v * 4 + i]
        for i in range(4):                          for i in range(4):
            C[v * 4 + i] = B[i]                         for v in unrolled(2):
                                                            C[v * 4 + i] = B[v * 4 + i]

What does not depend on the virtual thread is done once for all of them. A buffer whose contents
depend on it is repeated for each. Up to 15 virtual threads are unrolled, more are a serial loop.
"""

from __future__ import annotations

from dataclasses import replace

from whet.compiler.passes.contract.bottom_up import bottom_up
from whet.compiler.passes.contract.option import PassConfig
from whet.compiler.target import Target
from whet.compiler.tir.analysis.effects import is_pure
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, BufferView, IntImm, PrimExpr, Var
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.stmt import (
    ALLREDUCE,
    SERIAL,
    UNROLLED,
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    seq,
)
from whet.compiler.tir.visit.buffers import BufferRewriter, at_base
from whet.compiler.tir.visit.rewrite import TABLE, nodes_of, statements_of

_TAGS = ("vthread", "cthread")
# as many copies of a statement as TVM makes before it writes a loop
_UNROLLED_BELOW = 16


def inject_virtual_thread(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function without loops over virtual threads."""

    def loop(n: For) -> Stmt:
        return _injected(n) if n.thread.startswith(_TAGS) else n

    return func.with_body(bottom_up(func.body, {For: loop}))


def _injected(n: For) -> Stmt:
    serial = replace(n, kind=SERIAL, thread="")
    if not isinstance(n.extent, IntImm) or nodes_of(n.body, DeclBuffer):
        return serial
    injector = _Injector(n)
    return serial if injector.accumulates_outside(n.body, False) else injector.visit(n.body)


class _Touched:
    """Finds what depends on a virtual thread: variables, and buffers allocated in its loop."""

    def __init__(self, loop: For) -> None:
        self.variables: set[Var] = {loop.var}
        self.inside: set[Buffer] = {n.buffer for n in nodes_of(loop.body, Allocate)}
        self.buffers: set[Buffer] = set()
        before = -1
        while before != len(self.variables) + len(self.buffers):
            before = len(self.variables) + len(self.buffers)
            self._statement(loop.body, False)

    def depends(self, n: PrimExpr) -> bool:
        """True for an expression that depends on the virtual thread."""
        if isinstance(n, Var):
            return n in self.variables
        if isinstance(n, (BufferLoad, BufferView)) and n.buffer in self.buffers:
            return True
        return any(self.depends(p) for p in n.parts)

    def decided(self, n: Stmt) -> bool:
        """True for a statement with an expression of its own that depends on the thread."""
        return any(self.depends(p) for p in n.parts if not isinstance(p, Stmt))

    def _statement(self, n: Stmt, around: bool) -> None:
        """Look at a statement that runs under something that depends on the thread, or not."""
        here = around or self.decided(n)
        if isinstance(n, BufferStore) and here and n.buffer in self.inside:
            self.buffers.add(n.buffer)
        if isinstance(n, (For, LetStmt)) and here:
            self.variables.add(n.var)
        if isinstance(n, Evaluate) and not is_pure(n.value):
            # a buffer that a call may write is each thread's own
            handed_over = nodes_of(n.value, BufferLoad, BufferView)
            self.buffers.update(x.buffer for x in handed_over if x.buffer in self.inside)
        for p in statements_of(n):
            self._statement(p, here)


class _Injector:
    def __init__(self, loop: For) -> None:
        self.thread = loop
        self.touched = _Touched(loop)
        self.repeated: dict[Buffer, Buffer] = {}

    def accumulates_outside(self, n: Stmt, around: bool) -> bool:
        """True where the same sum, into memory of others, is formed by each thread.

        How often it has to run then depends on where its first value is set.
        """
        here = around or self.touched.decided(n)
        if isinstance(n, BufferStore):
            outside = n.buffer not in self.touched.inside
            reads = [x.buffer for x in nodes_of(n.value, BufferLoad)]
            return outside and not here and n.buffer in reads
        return any(self.accumulates_outside(p, here) for p in statements_of(n))

    def visit(self, n: Stmt) -> Stmt:
        """The statement for all virtual threads."""
        if isinstance(n, SeqStmt):
            return seq(*[self.visit(x) for x in n.seq])
        if isinstance(n, Allocate):
            return self._allocate(n)
        if self._separate(n):
            return self._around(n)
        parts = [self.visit(p) if isinstance(p, Stmt) else p for p in n.parts]
        out = TABLE[type(n)][1](n, tuple(parts))
        if isinstance(n, AttrStmt) and n.node in self.repeated:
            return replace(out, node=self.repeated[n.node])
        return out

    def _separate(self, n: Stmt) -> bool:
        """True for a statement that each thread must run by itself."""
        if self.touched.decided(n):
            return True
        if isinstance(n, BufferStore):
            return n.buffer in self.touched.buffers
        if isinstance(n, AttrStmt) and n.key == ALLREDUCE:
            # a tree as a whole: what its steps share are barriers and shuffles of one sum
            return n.node in self.touched.buffers
        if isinstance(n, For) and self._is_step_of_tree(n):
            return True
        return isinstance(n, Evaluate) and not is_pure(n.value)

    def _is_step_of_tree(self, n: Stmt) -> bool:
        """True where some threads add what others have to their own, between barriers."""
        while isinstance(n, For) and n.thread.startswith("threadIdx"):
            n = n.body
        if not isinstance(n, IfThenElse) or n.else_case is not None:
            return False
        if nodes_of(n.then_case, For, Allocate, While):
            return False
        stored = {x.buffer for x in nodes_of(n.then_case, BufferStore)}
        loaded = {x.buffer for x in nodes_of(n.then_case, BufferLoad)}
        both = stored & loaded & self.touched.buffers
        return any(b.storage_scope.startswith("shared") for b in both)

    def _allocate(self, n: Allocate) -> Stmt:
        b = n.buffer
        if b not in self.touched.buffers:
            return Allocate(b, self.visit(n.body))
        new = replace(b, shape=(b.shape[0] * self.thread.extent,))
        self.repeated[b] = new
        return Allocate(new, self.visit(n.body))

    def _around(self, n: Stmt) -> Stmt:
        """The statement in a loop over the threads, each with its part of the buffers."""
        thread = self.thread
        var = Var(thread.var.name, thread.var.dtype)
        number = var - thread.min

        rewrite = BufferRewriter(
            lambda b: self.repeated.get(b, b),
            lambda b, indices: (at_base(indices[0], lambda i: number * b.shape[0] + i),),
            {Var: lambda v: var if v is thread.var else v},
        )
        assert isinstance(thread.extent, IntImm)
        kind = UNROLLED if thread.extent.value < _UNROLLED_BELOW else SERIAL
        return For(var, thread.min, thread.extent, kind, rewrite(n))
