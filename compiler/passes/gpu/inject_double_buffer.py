"""InjectDoubleBuffer: the next step's tile is fetched while this step's is used.

Before, in a kernel::

    for k in range(4):
        S = allocate([64], "float32", "shared")
        attr(S, "double_buffer_scope", 1)
        S[threadIdx.x] = A[k * 64 + threadIdx.x]
        C[threadIdx.x] = C[threadIdx.x] + S[63 - threadIdx.x]

After::

    S = allocate([128], "float32", "shared")
    S[threadIdx.x] = A[threadIdx.x]
    for k in range(4):
        next = allocate([1], "float32", "local")
        if k + 1 < 4:
            next[0] = A[(k + 1) * 64 + threadIdx.x]
        C[threadIdx.x] = C[threadIdx.x] + S[k % 2 * 64 + 63 - threadIdx.x]
        if k + 1 < 4:
            attr(S, "double_buffer_write", k)
            S[(k + 1) % 2 * 64 + threadIdx.x] = next[0]

Reads of memory begin before the tile is used and are waited for behind it; one barrier a step is
left. A stage that reads what its loop computes, or that is not attached at a loop, has one buffer.
A loop of many steps is unrolled by two: then ``k % 2`` is a constant in each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from whet.compiler.arith import Analyzer
from whet.compiler.passes.contract.bottom_up import bottom_up
from whet.compiler.passes.threads.accesses import SECOND_HALF
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import LT, BufferLoad, BufferView, IntImm, PrimExpr, Ramp, Var
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import (
    SERIAL,
    UNROLLED,
    Allocate,
    AttrStmt,
    BufferStore,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    nothing,
    seq,
)
from whet.compiler.tir.visit.buffers import BufferRewriter, at_base
from whet.compiler.tir.visit.renew import renewed
from whet.compiler.tir.visit.rewrite import Rewriter, nodes_of, statements_of, substitute

DOUBLE_BUFFER = "double_buffer_scope"
"""Key of the attribute around the loops that fill a buffer of which there are to be two."""
UNROLL_FACTOR = "unroll_factor"
"""Key of a loop's annotation: the factor by which CUDA's compiler unrolls it."""

_ALIGNMENT = 16  # bytes of the widest access: both halves begin at one
# Elements that a thread holds of the next tile: more would take the registers that sums need.
_MOST_HELD = 64
# Steps from which a loop is unrolled by two. Of the instructions of a step of 512 multiply-adds a
# twentieth then falls away (0.871 of them are multiply-adds, and 0.909; SASS of sm_90).
_MANY = 8


def inject_double_buffer(func: PrimFunc) -> PrimFunc:
    """The kernel with two buffers in turns."""

    def loop(n: For) -> Stmt:
        return n if n.kind not in (SERIAL, UNROLLED) else _doubled(n)

    def mark(n: AttrStmt) -> Stmt:
        return n.body if n.key == DOUBLE_BUFFER else n

    doubled = bottom_up(func.body, {For: loop})
    return func.with_body(bottom_up(doubled, {AttrStmt: mark}))


@dataclass(frozen=True)
class _Stage:
    """A stage with two buffers: its old buffer, the new one, and how far apart the halves are."""

    old: Buffer
    new: Buffer
    half: int


def _doubled(loop: For) -> Stmt:
    """A loop whose body fills buffers that are to be doubled; itself where there are none."""
    made: list[Allocate] = []
    body = loop.body
    while isinstance(body, Allocate):
        made.append(body)
        body = body.body
    steps = body.seq if isinstance(body, SeqStmt) else (body,)
    filled = [(n, _stage(n, made, body)) for n in steps]
    stages = {stage.old.data: stage for _, stage in filled if stage is not None}
    if not stages or (isinstance(loop.extent, IntImm) and loop.extent.value < 2):
        return loop
    kept = [x.buffer for x in made if x.buffer.data not in stages]
    return _Doubling(loop, stages).run(filled, kept)


def _stage(n: Stmt, made: list[Allocate], body: Stmt) -> _Stage | None:
    """The stage that a marked statement fills; None where there cannot be two of it."""
    if not (isinstance(n, AttrStmt) and n.key == DOUBLE_BUFFER):
        return None
    own = _memory(n.body, Allocate)
    stored = _memory(n.body, BufferStore) - own
    read = _memory(n.body, BufferLoad, BufferView) - own
    found = [x.buffer for x in made if x.buffer.data in stored]
    if len(found) != 1 or len(stored) != 1 or not _is_plain(n.body):
        return None
    b = found[0]
    if len(b.shape) != 1 or not isinstance(b.shape[0], IntImm):
        return None
    if not b.storage_scope.startswith("shared") or read & _memory(body, BufferStore):
        return None
    unit = max(1, _ALIGNMENT // dt.itemsize(b.dtype))
    half = -(-b.shape[0].value // unit) * unit
    new = replace(b, shape=(ops.const(2 * half),), data=Var(b.data.name, "handle"))
    return _Stage(b, new, half)


def _is_plain(n: Stmt) -> bool:
    """True if a statement is loops, conditions and a thread's own buffers around stores."""
    match n:
        case AttrStmt():
            plain = n.key.startswith("pragma_")
        case Allocate():
            plain = n.buffer.storage_scope == "local"
        case IfThenElse():
            plain = n.else_case is None
        case _:
            plain = isinstance(n, (SeqStmt, For, BufferStore))
    return plain and all(map(_is_plain, statements_of(n)))


def _memory(n: Stmt, *kinds: type) -> set[Var]:
    """The memory that nodes of some classes make or access in a statement."""
    return {x.buffer.data for x in nodes_of(n, *kinds)}


class _Doubling:
    """Rewrites one loop."""

    def __init__(self, loop: For, stages: dict[Var, _Stage]) -> None:
        self.loop = loop
        self.stages = stages
        self.analyzer = Analyzer()
        self.analyzer.bind_loop(loop.var, loop.min, loop.extent)
        self.one = ops.const(1, loop.var.dtype)
        self.number = loop.var - loop.min  # of this step
        self.more = self.number + self.one < loop.extent
        self.first: list[Stmt] = []  # in front of the loop
        self.begin: list[Stmt] = []  # in front of the tile's use
        self.use: list[Stmt] = []
        self.end: list[Stmt] = []  # behind it
        self.held: list[Buffer] = []

    def run(self, steps: list[tuple[Stmt, _Stage | None]], kept: list[Buffer]) -> Stmt:
        """The whole statement, of the steps of the loop's body and the buffers that stay in it."""
        for n, stage in steps:
            if stage is None:
                self.use.append(self._in_half(n, self.number))
            else:
                self._fill(n.body, stage)  # type: ignore[attr-defined]
        return self._joined(kept)

    def _joined(self, kept: list[Buffer]) -> Stmt:
        loop = self.loop
        body = seq(
            *(IfThenElse(self.more, x) for x in self.begin),
            *self.use,
            *(IfThenElse(self.more, x) for x in self.end),
        )
        for b in [*kept, *self.held]:
            body = Allocate(b, body)
        first = seq(*self.first)
        if not isinstance(loop.extent, IntImm):
            first = IfThenElse(ops.compare(LT, 0, loop.extent), first)
        notes = dict(loop.annotations)
        if isinstance(loop.extent, IntImm) and loop.extent.value >= _MANY:
            notes[UNROLL_FACTOR] = 2
        out = seq(first, For(loop.var, loop.min, loop.extent, loop.kind, body, notes))
        for x in self.stages.values():
            out = Allocate(x.new, out)
        return out

    def _fill(self, fill: Stmt, stage: _Stage) -> None:
        begin = substitute(fill, {self.loop.var: self.loop.min})
        self.first.append(renewed(self._in_half(begin, ops.const(0, self.loop.var.dtype))))
        following = substitute(fill, {self.loop.var: self.loop.var + self.one})
        later = self._simplified(renewed(following))
        number = self.number + self.one
        parts = _Held(stage.old)
        if not 0 < parts.count(later) <= _MOST_HELD:
            self.end.append(self._marked(self._in_half(later, number), stage))
            return
        self.begin.append(renewed(parts.fetched(later)))
        self.end.append(self._marked(self._in_half(parts.stored(later), number), stage))
        self.held.append(parts.held)

    def _marked(self, store: Stmt, stage: _Stage) -> Stmt:
        return AttrStmt(stage.new, SECOND_HALF, self.loop.var, store)

    def _simplified(self, n: Stmt) -> Stmt:
        def load(x: BufferLoad) -> PrimExpr:
            indices = tuple(at_base(i, self.analyzer.simplify) for i in x.indices)
            return replace(rewrite.children(x), indices=indices)

        rewrite = Rewriter({BufferLoad: load})
        return rewrite(n)

    def _in_half(self, n: Stmt, number: PrimExpr) -> Stmt:
        """The statement on the half of each buffer that a step has."""
        turn = self.analyzer.simplify(number % ops.const(2, number.dtype))

        def index(b: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr]:
            return (at_base(indices[0], lambda i: turn * self.stages[b.data].half + i),)

        new = {x.old.data: x.new for x in self.stages.values()}
        return BufferRewriter(lambda b: new.get(b.data, b), index)(n)


class _Held:
    """A thread's part of the next tile in registers, filled and stored by the same loops.

    Args:
        tile: the shared buffer; what else the loops store is the thread's own.
    """

    def __init__(self, tile: Buffer) -> None:
        self.tile = tile
        self.held = tile

    def count(self, n: Stmt) -> int:
        """How many elements of the tile a thread stores; very many where that is not known."""
        if isinstance(n, BufferStore):
            return dt.lanes(n.value.dtype) if n.buffer.data is self.tile.data else 0
        inside = sum(map(self.count, statements_of(n)))
        if not isinstance(n, For):
            return inside
        return inside * (n.extent.value if isinstance(n.extent, IntImm) else _MOST_HELD + 1)

    def fetched(self, n: Stmt) -> Stmt:
        """The loops that fill the registers."""
        size = (ops.const(self.count(n)),)
        self.held = Buffer(f"{self.tile.name}.next", size, self.tile.dtype, "local")
        return self._walk(n, lambda x, at: BufferStore(self.held, x.value, (at,)), True)

    def stored(self, n: Stmt) -> Stmt:
        """The loops that store what they hold."""

        def store(x: BufferStore, at: PrimExpr) -> Stmt:
            value = BufferLoad(self.held, (at,), x.value.dtype)
            return BufferStore(x.buffer, value, x.indices, x.mask)

        return self._walk(n, store, False)

    def _walk(self, root: Stmt, store: Callable[[BufferStore, PrimExpr], Stmt], own: bool) -> Stmt:
        """The loops with other stores; those to the thread's own buffers stay if ``own``."""

        def walk(n: Stmt, first: PrimExpr) -> Stmt:
            inside = self.count(n)
            if not inside and (isinstance(n, BufferStore) or not own):
                return n if own else nothing()
            if isinstance(n, BufferStore):
                lanes = Ramp(first, 1, inside, dt.vector("int32", inside))
                return store(n, first if inside == 1 else lanes)
            if isinstance(n, SeqStmt):
                out = []
                for x in n.seq:
                    out.append(walk(x, first))
                    first += ops.const(self.count(x))
                return seq(*out)
            if isinstance(n, For):
                each = ops.cast("int32", n.var - n.min) * self.count(n.body)
                kind = UNROLLED if inside else n.kind
                return replace(n, kind=kind, body=walk(n.body, first + each))
            if isinstance(n, IfThenElse):
                return IfThenElse(n.condition, walk(n.then_case, first), None, n.likely)
            body = walk(n.body, first)  # type: ignore[attr-defined]
            return Allocate(n.buffer, body) if own and isinstance(n, Allocate) else body

        return walk(root, ops.const(0))
