"""PlanSharedMemory: where in a block's shared memory each buffer of a kernel stands.

TVM's name for it is MergeDynamicSharedMemoryAllocations.

Before, in a kernel::

    S = allocate([1024], "float32", "shared")
    T = allocate([1024], "float32", "shared")
    U = allocate([1024], "float32", "shared")
    S = ... ;  T = ... S ... ;  U = ... T ...

After, with 8192 bytes in all::

    attr(S, "shared_offset", 0)
    S = allocate([1024], "float32", "shared")
    attr(T, "shared_offset", 4096)
    T = allocate([1024], "float32", "shared")
    attr(U, "shared_offset", 0)
    U = allocate([1024], "float32", "shared")
    S = ... ;  T = ... S ... ;  U = ... T ...

One arena, whose size the launch gives, so that a block can have all that the device has. Buffers
that are never needed at the same time share bytes; ThreadSync makes threads agree on when.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from whet.compiler.arith import Analyzer
from whet.compiler.passes.contract.bottom_up import bottom_up
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, BufferView, IntImm, PrimExpr, Var, int_value
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import SHARED_OFFSET, Allocate, AttrStmt, BufferStore, For, Stmt, While
from whet.compiler.tir.visit.rewrite import nodes_of, statements_of

_ALIGNMENT = 16  # bytes of the widest access
# Sharing saves memory and may cost a barrier: less than this is not worth one.
_WORTH = 512


@dataclass
class _Held:
    """A shared buffer: its bytes, and when they are needed.

    Attributes:
        depth: how many loops stand around its allocation.
        first, last: the places of its first and last use, whole loops where these repeat it.
    """

    buffer: Buffer
    size: PrimExpr
    depth: int
    first: int
    last: int
    offset: PrimExpr = field(default_factory=lambda: ops.const(0))

    def meets(self, other: _Held) -> bool:
        """True if the two cannot have the same bytes."""
        if min(_bytes(self.size), _bytes(other.size)) < _WORTH:
            return True
        return self.first <= other.last and other.first <= self.last


def plan_shared_memory(func: PrimFunc) -> PrimFunc:
    """A kernel with offsets of its shared buffers, and their sum: the attribute ``shared_bytes``.

    A buffer whose size is a scalar's business stands behind those of constant size.
    """
    if "shared_bytes" in func.attrs:
        return func
    held = _Lives(func.body).held
    total = _place(list(held.values()))

    def allocate(n: Allocate) -> Stmt:
        found = held.get(n.buffer.data)
        return n if found is None else AttrStmt(found.buffer, SHARED_OFFSET, found.offset, n)

    return func.with_body(bottom_up(func.body, {Allocate: allocate})).with_attr(
        "shared_bytes", total
    )


class _Lives:
    """When each shared buffer of a kernel is needed, in the order of its statements."""

    def __init__(self, body: Stmt) -> None:
        self.held: dict[Var, _Held] = {}
        self.now = 0
        self.depth = 0
        self._statement(body)

    def _statement(self, n: Stmt) -> set[Var]:
        """The shared memory that a statement uses, after taking note of it."""
        if isinstance(n, Allocate) and n.buffer.storage_scope.startswith("shared"):
            self.now += 1
            self.held[n.buffer.data] = _Held(
                n.buffer, _size(n.buffer), self.depth, self.now, self.now - 1
            )
            return self._statement(n.body)
        begin = self.now + 1
        loop = isinstance(n, (For, While))
        self.depth += loop
        used = self._own(n)
        for x in statements_of(n):
            used |= self._statement(x)
        self.depth -= loop
        if loop:
            self.now += 1
            for data in used:
                if self.held[data].depth <= self.depth:
                    self._needed(data, begin, self.now)
        return used

    def _own(self, n: Stmt) -> set[Var]:
        used = {n.buffer.data} if isinstance(n, BufferStore) else set()
        for part in n.parts:
            if not isinstance(part, Stmt):
                for x in nodes_of(part, BufferLoad, BufferView, Var):
                    used.add(x if isinstance(x, Var) else x.buffer.data)
        used &= self.held.keys()
        self.now += 1
        for data in used:
            self._needed(data, self.now, self.now)
        return used

    def _needed(self, data: Var, first: int, last: int) -> None:
        x = self.held[data]
        never = x.last < x.first
        x.first = first if never else min(x.first, first)
        x.last = max(x.last, last)


def _size(b: Buffer) -> PrimExpr:
    (count,) = b.get_flattened_buffer().shape
    if not isinstance(count, IntImm) and Analyzer().affine(count).const < 0:
        count = ops.maximum(count, 0)  # of no rows: the last one's padding is taken off
    return count * dt.itemsize(b.dtype)


def _bytes(size: PrimExpr) -> int:
    """A constant size; that of a buffer which shares with none, where it is not known."""
    return int_value(size) or 0


def _place(held: list[_Held]) -> PrimExpr:
    """Give each buffer its offset, the largest first; the size of the arena."""
    placed: list[tuple[_Held, int]] = []
    total = 0
    known = [x for x in held if isinstance(x.size, IntImm)]
    for x in sorted(known, key=lambda x: -_bytes(x.size)):
        around = [(at, at + _bytes(y.size)) for y, at in placed if x.meets(y)]
        at = 0
        for begin, behind in sorted(around):
            if at + _bytes(x.size) <= begin:
                break
            at = max(at, _rounded(behind))
        x.offset = ops.const(at)
        total = max(total, at + _bytes(x.size))
        placed.append((x, at))
    end: PrimExpr = ops.const(total)
    for x in held:
        if not isinstance(x.size, IntImm):
            x.offset = _rounded(end)
            end = x.offset + x.size
    return end


def _rounded(size: Any) -> Any:
    return (size + (_ALIGNMENT - 1)) // _ALIGNMENT * _ALIGNMENT
