"""Arrays begin with zeros, as they do where a script runs as Python; set only where that is seen.

An array that a script reads somewhere before it surely wrote that element is set to 0 first. No
read needs it whose element, written the same way, is stored before it in the same steps, nor one
after loops that store every element:

    c[i, j] = 0.0                       for i in range(n):
    for k in range(m):                      t[i] = a[i]
        c[i, j] += a[i, k] * b[k, j]    for i in range(n): ...
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from whet.compiler.arith.keys import structural_key
from whet.compiler.te.lower.lower_hybrid import ZERO_FILL
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, Var, int_value, is_int
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import (
    SERIAL,
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)
from whet.compiler.tir.visit.rewrite import nodes_of

_ALL = "all"
Known = set[Any]


def zeros(buffer: Buffer) -> Stmt:
    """Loops that set every element to 0."""
    loops = [Var(f"z{k}", d.dtype) for k, d in enumerate(buffer.shape)]
    out: Stmt = BufferStore(buffer, ops.const(0, buffer.dtype), tuple(loops))
    for v, d in zip(reversed(loops), reversed(buffer.shape)):
        out = For(v, ops.const(0, v.dtype), d, SERIAL, out, {ZERO_FILL: True})
    return out


def reads_early(body: Stmt, buffer: Buffer) -> bool:
    """True if a statement may read an element of an array before it stored it."""
    walk = _Walk(buffer, {n.buffer for n in nodes_of(body, BufferStore)})
    walk.visit(body, set(), ())
    return walk.early


class _Walk:
    """Goes through statements in order, with the elements that are surely written."""

    def __init__(self, buffer: Buffer, stored: set[Buffer]) -> None:
        self.buffer = buffer
        self.stored = stored
        self.early = False

    def visit(self, s: Any, known: Known, loops: tuple[For, ...] | None) -> None:
        """Add to ``known``; ``loops``: those around, None inside a condition."""
        if isinstance(s, SeqStmt):
            for part in s.seq:
                self.visit(part, known, loops)
        elif isinstance(s, For):
            self._read(s.extent, known)
            inside = set(known)
            self.visit(s.body, inside, None if loops is None else (*loops, s))
            if (_ALL, id(s)) in inside:
                known.add(_ALL)
            if (int_value(s.extent) or 0) > 0:  # it has surely been run
                known |= {x for x in inside if x == _ALL or x[:1] == (_ALL,)}
        elif isinstance(s, IfThenElse):
            self._read(s.condition, known)
            one, other = set(known), set(known)
            self.visit(s.then_case, one, None)
            if s.else_case is not None:
                self.visit(s.else_case, other, None)
            known |= one & other
        elif isinstance(s, BufferStore):
            self._read(s, known)
            if s.buffer is self.buffer:
                known |= {key} if (key := self._key(s)) is not None else set()
                known |= self._whole(s, loops)
        elif isinstance(s, (LetStmt, AttrStmt, AssertStmt)):
            self._read(s.condition if isinstance(s, AssertStmt) else s.value, known)
            self.visit(s.body, known, loops)
        elif isinstance(s, Allocate):
            self.visit(s.body, known, loops)
        elif isinstance(s, Evaluate):
            self._read(s.value, known)
        else:
            self.early = self.early or any(n.buffer is self.buffer for n in nodes_of(s, BufferLoad))

    def _read(self, x: Any, known: Known) -> None:
        if _ALL in known:
            return
        for n in nodes_of(x, BufferLoad):
            if n.buffer is self.buffer and self._key(n) not in known:
                self.early = True

    def _whole(self, s: BufferStore, loops: tuple[For, ...] | None) -> Known:
        """That all is written once the outermost of some loops is done, where a store says so."""
        if loops is None or len(loops) < len(s.indices):
            return set()
        own = loops[len(loops) - len(s.indices) :]
        by_var = {n.var: n for n in own}
        for i, d in zip(s.indices, self.buffer.shape):
            n = by_var.pop(i, None) if isinstance(i, Var) else None
            if n is None or structural_key(n.extent) != structural_key(d):
                return set()
        return {(_ALL, id(own[0]))} if own and is_int(own[0].min, 0) else set()

    def _key(self, n: BufferLoad | BufferStore) -> tuple[Hashable, ...] | None:
        """The index of the element; None where an index reads what may have changed in between."""
        if any(x.buffer in self.stored for i in n.indices for x in nodes_of(i, BufferLoad)):
            return None
        return tuple(structural_key(i) for i in n.indices)
