"""Scripts that are written for threads: one kernel, and where its threads keep what is local.

    total = allocate((1,), "float32", "local")        for tx in bind("threadIdx.x", 8):
    for tx in bind("threadIdx.x", 8):                     total = allocate(...)
        total[0] = a[tx]                       ->         total[0] = a[tx]
        c[tx] = total[0] * 2.0                            c[tx] = total[0] * 2.0

What is made outside a loop over threads, and used in it alone, each of them makes for itself. What
several such loops use is one array of the block: the threads meet in shared memory.
"""

from __future__ import annotations

from whet.compiler.te.hybrid.zero_fill import reads_early
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import THREAD_BINDING, Allocate, BufferStore, For, Stmt
from whet.compiler.tir.visit.buffers import replace_buffers
from whet.compiler.tir.visit.rewrite import Rewriter, changed, nodes_of


def for_threads(body: Stmt) -> Stmt:
    """A script as a kernel of a GPU; one without loops over threads stays as it is."""
    threads = [n for n in nodes_of(body, For) if n.kind == THREAD_BINDING]
    if not threads:
        return body
    body = _Local()(body)
    alone = isinstance(body, For) and body.kind == THREAD_BINDING
    if alone or any(n.thread.startswith("blockIdx") for n in threads):
        return body
    first, one = ops.const(0), ops.const(1)
    return For(Var("block"), first, one, THREAD_BINDING, body, {}, "blockIdx.x")


class _Local(Rewriter):
    """Puts local arrays where the threads are that use them."""

    def __init__(self) -> None:
        super().__init__({Allocate: self._allocate})

    def _allocate(self, s: Allocate) -> Stmt:
        if s.buffer.storage_scope != "local":
            return self.children(s)
        loops = [n for n in _outermost(s.body) if _uses(n, s.buffer)]
        inside = sum(_uses(n, s.buffer) for n in loops)
        if not loops:
            return self.children(s)
        if inside == _uses(s.body, s.buffer) and len(loops) == 1:
            (loop,) = loops
            if not reads_early(loop.body, s.buffer):
                sunk = changed(loop, body=Allocate(s.buffer, loop.body))
                return self(_swapped(s.body, loop, sunk))
        if not any(n.buffer is s.buffer for loop in loops for n in nodes_of(loop, BufferStore)):
            return self.children(s)
        b = s.buffer
        shared = Buffer(b.name, b.shape, b.dtype, "shared")
        return self(Allocate(shared, replace_buffers(s.body, {b: shared})))


def _swapped(body: Stmt, old: For, new: For) -> Stmt:
    rewrite: Rewriter = Rewriter({For: lambda n: new if n is old else rewrite.children(n)})
    return rewrite(body)


def _outermost(body: Stmt) -> list[For]:
    """The loops over threads that are inside no other."""
    loops = [n for n in nodes_of(body, For) if n.kind == THREAD_BINDING]
    inner = {id(m) for n in loops for m in nodes_of(n.body, For)}
    return [n for n in loops if id(n) not in inner]


def _uses(body: Stmt, buffer: Buffer) -> int:
    return sum(n.buffer is buffer for n in nodes_of(body, BufferLoad, BufferStore))
