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

from whet.compiler.passes.context import PassConfig
from whet.compiler.target import Target
from whet.compiler.te.lower.lower_allreduce import ALLREDUCE
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.analysis.effects import is_pure
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import TABLE, Rewriter, keep, post_order_visit

_TAGS = ("vthread", "cthread")
# as many copies of a statement as TVM makes before it writes a loop
_UNROLLED_BELOW = 16


def inject_virtual_thread(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function without loops over virtual threads."""

    def loop(n: s.For) -> s.Stmt:
        n = rewrite.children(n)
        return _injected(n) if n.thread.startswith(_TAGS) else n

    rewrite = Rewriter({s.For: loop, s.BufferStore: keep})
    return func.with_body(rewrite(func.body))


def _injected(n: s.For) -> s.Stmt:
    found: set[type] = set()
    post_order_visit(n.body, lambda x: found.add(type(x)))
    if not isinstance(n.extent, e.IntImm) or s.DeclBuffer in found:
        return s.For(n.var, n.min, n.extent, s.SERIAL, n.body, n.annotations)
    injector = _Injector(n)
    if injector.accumulates_outside(n.body, False):
        return s.For(n.var, n.min, n.extent, s.SERIAL, n.body, n.annotations)
    return injector.visit(n.body)


class _Touched:
    """Finds what depends on a virtual thread: variables, and buffers allocated in its loop."""

    def __init__(self, loop: s.For) -> None:
        self.variables: set[e.Var] = {loop.var}
        self.inside: set[Buffer] = set()
        self.buffers: set[Buffer] = set()
        post_order_visit(
            loop.body, lambda n: self.inside.add(n.buffer) if isinstance(n, s.Allocate) else None
        )
        before = -1
        while before != len(self.variables) + len(self.buffers):
            before = len(self.variables) + len(self.buffers)
            self._statement(loop.body, False)

    def depends(self, n: object) -> bool:
        """Whether an expression depends on the virtual thread."""
        if isinstance(n, e.Var):
            return n in self.variables
        if isinstance(n, (e.BufferLoad, e.BufferView)) and n.buffer in self.buffers:
            return True
        return any(self.depends(p) for p in TABLE[type(n)][0](n))

    def _statement(self, n: s.Stmt, around: bool) -> None:
        """Look at a statement that runs under something that depends on the thread, or not."""
        own = [p for p in TABLE[type(n)][0](n) if not isinstance(p, s.Stmt)]
        here = around or any(self.depends(p) for p in own)
        if isinstance(n, s.BufferStore) and here and n.buffer in self.inside:
            self.buffers.add(n.buffer)
        if isinstance(n, (s.For, s.LetStmt)) and here:
            self.variables.add(n.var)
        if isinstance(n, s.Evaluate) and not is_pure(n.value):
            post_order_visit(n.value, self._handed_over)
        for p in TABLE[type(n)][0](n):
            if isinstance(p, s.Stmt):
                self._statement(p, here)

    def _handed_over(self, n: object) -> None:
        """A buffer that a call may write is each thread's own."""
        if isinstance(n, (e.BufferLoad, e.BufferView)) and n.buffer in self.inside:
            self.buffers.add(n.buffer)


class _Injector:
    def __init__(self, loop: s.For) -> None:
        self.thread = loop
        self.touched = _Touched(loop)
        self.repeated: dict[Buffer, Buffer] = {}

    def accumulates_outside(self, n: s.Stmt, around: bool) -> bool:
        """Whether the same sum, into memory of others, is formed by each thread.

        How often it has to run then depends on where its first value is set.
        """
        parts = TABLE[type(n)][0](n)
        here = around or any(self.touched.depends(p) for p in parts if not isinstance(p, s.Stmt))
        if isinstance(n, s.BufferStore):
            outside = n.buffer not in self.touched.inside
            return outside and not here and _reads(n.value, n.buffer)
        return any(self.accumulates_outside(p, here) for p in parts if isinstance(p, s.Stmt))

    def visit(self, n: s.Stmt) -> s.Stmt:
        """The statement for all virtual threads."""
        if isinstance(n, s.SeqStmt):
            return s.seq(*[self.visit(x) for x in n.seq])
        if isinstance(n, s.Allocate):
            return self._allocate(n)
        parts = TABLE[type(n)][0](n)
        if self._separate(n, parts):
            return self._around(n)
        if any(isinstance(p, s.Stmt) for p in parts):
            new = tuple(self.visit(p) if isinstance(p, s.Stmt) else p for p in parts)
            return self._about(TABLE[type(n)][1](n, new))
        return n

    def _about(self, n: s.Stmt) -> s.Stmt:
        """The statement, which says something about a thread's own buffer where it did."""
        if not isinstance(n, s.AttrStmt) or n.node not in self.repeated:
            return n
        return replace(n, node=self.repeated[n.node])

    def _separate(self, n: s.Stmt, parts: tuple) -> bool:
        """Whether each thread must run a statement by itself."""
        depends = self.touched.depends
        if any(depends(p) for p in parts if not isinstance(p, s.Stmt)):
            return True
        if isinstance(n, s.BufferStore):
            return n.buffer in self.touched.buffers
        if isinstance(n, s.AttrStmt) and n.key == ALLREDUCE:
            # a tree as a whole: what its steps share are barriers and shuffles of one sum
            return n.node in self.touched.buffers
        if isinstance(n, s.For) and self._is_step_of_tree(n):
            return True
        return isinstance(n, s.Evaluate) and not is_pure(n.value)

    def _is_step_of_tree(self, n: s.Stmt) -> bool:
        """Whether some threads of a block add what others have to their own: barriers around it."""
        while isinstance(n, s.For) and n.thread.startswith("threadIdx"):
            n = n.body
        if not isinstance(n, s.IfThenElse) or n.else_case is not None:
            return False
        found: set[object] = set()

        def visit(x: object) -> None:
            found.add(type(x))
            if isinstance(x, s.BufferStore) and x.buffer in self.touched.buffers:
                found.add((s.BufferStore, x.buffer))
            elif isinstance(x, e.BufferLoad):
                found.add((e.BufferLoad, x.buffer))

        post_order_visit(n.then_case, visit)
        shared = [b for b in self.touched.buffers if b.storage_scope.startswith("shared")]
        sums = any({(s.BufferStore, b), (e.BufferLoad, b)} <= found for b in shared)
        return sums and not found & {s.For, s.Allocate, s.While}

    def _allocate(self, n: s.Allocate) -> s.Stmt:
        b = n.buffer
        if b not in self.touched.buffers:
            return s.Allocate(b, self.visit(n.body))
        new = replace(b, shape=(ops.multiply(b.shape[0], self.thread.extent),))
        self.repeated[b] = new
        return s.Allocate(new, self.visit(n.body))

    def _around(self, n: s.Stmt) -> s.Stmt:
        """The statement in a loop over the threads, each with its part of the buffers."""
        thread = self.thread
        var = e.Var(thread.var.name, thread.var.dtype)
        number = ops.subtract(var, thread.min)

        def shift(b: Buffer, index: e.PrimExpr) -> e.PrimExpr:
            by = ops.multiply(number, b.shape[0])
            if isinstance(index, e.Ramp):
                return replace(index, base=ops.add(by, index.base))
            return ops.add(by, index)

        def load(n: e.BufferLoad) -> e.BufferLoad:
            n = rewrite.children(n)
            new = self.repeated.get(n.buffer)
            if new is None:
                return n
            return e.BufferLoad(new, (shift(n.buffer, n.indices[0]),), n.dtype, n.mask)

        def store(n: s.BufferStore) -> s.BufferStore:
            n = rewrite.children(n)
            new = self.repeated.get(n.buffer)
            if new is None:
                return n
            return s.BufferStore(new, n.value, (shift(n.buffer, n.indices[0]),), n.mask)

        def view(n: e.BufferView) -> e.BufferView:
            n = rewrite.children(n)
            new = self.repeated.get(n.buffer)
            if new is None:
                return n
            offset = shift(n.buffer, n.offset)
            return e.BufferView(new, n.shape, n.strides, offset, n.dtype)

        rewrite = Rewriter(
            {
                e.Var: lambda v: var if v is thread.var else v,
                e.BufferLoad: load,
                e.BufferView: view,
                s.BufferStore: store,
                s.AttrStmt: lambda n: self._about(rewrite.children(n)),
            }
        )
        assert isinstance(thread.extent, e.IntImm)
        kind = s.UNROLLED if thread.extent.value < _UNROLLED_BELOW else s.SERIAL
        return s.For(var, thread.min, thread.extent, kind, rewrite(n))


def _reads(value: e.PrimExpr, buffer: Buffer) -> bool:
    found: list[object] = []
    post_order_visit(
        value,
        lambda n: found.append(n) if isinstance(n, e.BufferLoad) and n.buffer is buffer else None,
    )
    return bool(found)
