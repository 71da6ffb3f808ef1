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
A loop of many steps is to be written out two steps at a time: then ``k % 2`` is a constant in each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from whet.compiler.arith import Analyzer
from whet.compiler.passes.gpu.thread_accesses import SECOND_HALF
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.renew import renewed
from whet.compiler.tir.visit.rewrite import Rewriter, keep, post_order_visit, substitute

DOUBLE_BUFFER = "double_buffer_scope"
"""Key of the attribute around the loops that fill a buffer of which there are to be two."""
UNROLL_FACTOR = "unroll_factor"
"""Key of a loop's annotation: how many of its steps CUDA's compiler writes out at a time."""

_ALIGNMENT = 16  # bytes of the widest access: both halves begin at one
# Elements that a thread holds of the next tile: more would take the registers that sums need.
_MOST_HELD = 64
# Steps of a loop that is written out in pairs. Of the instructions of a step of 512 multiply-adds a
# twentieth then falls away (0.871 of them are multiply-adds, and 0.909; SASS of sm_90).
_MANY = 8


def double_buffers(mod: IRModule, target: Target) -> IRModule:
    """The module whose kernels have two of each buffer that asks for it."""
    return mod.map(lambda f: inject_double_buffer(f) if "thread_extent" in f.attrs else f)


def inject_double_buffer(func: PrimFunc) -> PrimFunc:
    """The kernel with two buffers in turns."""

    def loop(n: s.For) -> s.Stmt:
        n = rewrite.children(n)
        return n if n.kind not in (s.SERIAL, s.UNROLLED) else _doubled(n)

    rewrite = Rewriter({s.For: loop, s.BufferStore: keep})
    body = rewrite(func.body)
    left = Rewriter({s.AttrStmt: lambda n: _without_mark(n, left), s.BufferStore: keep})
    return func.with_body(left(body))


def _without_mark(n: s.AttrStmt, rewrite: Rewriter) -> s.Stmt:
    return rewrite(n.body) if n.key == DOUBLE_BUFFER else rewrite.children(n)


@dataclass(frozen=True)
class _Stage:
    """A stage with two buffers: its old buffer, the new one, and how far apart the halves are."""

    old: Buffer
    new: Buffer
    half: int


def _doubled(loop: s.For) -> s.Stmt:
    """A loop whose body fills buffers that are to be doubled; itself where there are none."""
    made: list[s.Allocate] = []
    body = loop.body
    while isinstance(body, s.Allocate):
        made.append(body)
        body = body.body
    steps = body.seq if isinstance(body, s.SeqStmt) else (body,)
    stages: dict[e.Var, _Stage] = {}
    for n in steps:
        stage = _stage(n, made, body)
        if stage is not None:
            stages[stage.old.data] = stage
    if not stages or (isinstance(loop.extent, e.IntImm) and loop.extent.value < 2):
        return loop
    kept = [x.buffer for x in made if x.buffer.data not in stages]
    return _Doubling(loop, stages).run(steps, kept)


def _stage(n: s.Stmt, made: list[s.Allocate], body: s.Stmt) -> _Stage | None:
    """What a marked statement fills, where there can be two of it."""
    if not (isinstance(n, s.AttrStmt) and n.key == DOUBLE_BUFFER):
        return None
    own = _own(n.body)
    stored, read = _stored(n.body) - own, _read(n.body) - own
    found = [x.buffer for x in made if x.buffer.data in stored]
    if len(found) != 1 or len(stored) != 1 or not _is_plain(n.body):
        return None
    b = found[0]
    if len(b.shape) != 1 or not isinstance(b.shape[0], e.IntImm):
        return None
    if not b.storage_scope.startswith("shared") or read & _stored(body):
        return None
    unit = max(1, _ALIGNMENT // dt.itemsize(b.dtype))
    half = -(-b.shape[0].value // unit) * unit
    new = replace(b, shape=(ops.const(2 * half),), data=e.Var(b.data.name, "handle"))
    return _Stage(b, new, half)


def _is_plain(n: s.Stmt) -> bool:
    """Whether a statement is loops, conditions and a thread's own buffers around stores."""
    if isinstance(n, s.SeqStmt):
        return all(map(_is_plain, n.seq))
    if isinstance(n, s.For):
        return _is_plain(n.body)
    if isinstance(n, s.AttrStmt):
        return n.key.startswith("pragma_") and _is_plain(n.body)
    if isinstance(n, s.Allocate):
        return n.buffer.storage_scope == "local" and _is_plain(n.body)
    if isinstance(n, s.IfThenElse):
        return n.else_case is None and _is_plain(n.then_case)
    return isinstance(n, s.BufferStore)


def _own(n: s.Stmt) -> set[e.Var]:
    """The buffers that a statement has for itself."""
    found: set[e.Var] = set()
    post_order_visit(n, lambda x: found.add(x.buffer.data) if isinstance(x, s.Allocate) else None)
    return found


def _stored(n: s.Stmt) -> set[e.Var]:
    found: set[e.Var] = set()
    post_order_visit(
        n, lambda x: found.add(x.buffer.data) if isinstance(x, s.BufferStore) else None
    )
    return found


def _read(n: s.Stmt) -> set[e.Var]:
    found: set[e.Var] = set()
    post_order_visit(
        n,
        lambda x: found.add(x.buffer.data) if isinstance(x, (e.BufferLoad, e.BufferView)) else None,
    )
    return found


class _Doubling:
    """Rewrites one loop."""

    def __init__(self, loop: s.For, stages: dict[e.Var, _Stage]) -> None:
        self.loop = loop
        self.stages = stages
        self.analyzer = Analyzer()
        self.analyzer.bind_loop(loop.var, loop.min, loop.extent)
        var = loop.var
        one = ops.const(1, var.dtype)
        self.number = ops.subtract(var, loop.min)  # of this step
        self.next = ops.add(var, one)
        self.more = ops.compare(e.LT, ops.add(self.number, one), loop.extent)
        self.first: list[s.Stmt] = []  # in front of the loop
        self.begin: list[s.Stmt] = []  # in front of the tile's use
        self.use: list[s.Stmt] = []
        self.end: list[s.Stmt] = []  # behind it
        self.held: list[Buffer] = []

    def run(self, steps: tuple[s.Stmt, ...], kept: list[Buffer]) -> s.Stmt:
        """The whole statement, of the steps of the loop's body and the buffers that stay in it."""
        for n in steps:
            filled = self._filled(n)
            if filled is None:
                self.use.append(self._in_half(n, self.number))
            else:
                self._fill(n.body, filled)  # type: ignore[attr-defined]
        return self._joined(kept)

    def _filled(self, n: s.Stmt) -> _Stage | None:
        if not (isinstance(n, s.AttrStmt) and n.key == DOUBLE_BUFFER):
            return None
        return next((x for data, x in self.stages.items() if data in _stored(n.body)), None)

    def _joined(self, kept: list[Buffer]) -> s.Stmt:
        loop = self.loop
        body = s.seq(
            *(s.IfThenElse(self.more, x) for x in self.begin),
            *self.use,
            *(s.IfThenElse(self.more, x) for x in self.end),
        )
        for b in [*kept, *self.held]:
            body = s.Allocate(b, body)
        first = s.seq(*self.first)
        if not isinstance(loop.extent, e.IntImm):
            first = s.IfThenElse(ops.compare(e.LT, 0, loop.extent), first)
        notes = dict(loop.annotations)
        if isinstance(loop.extent, e.IntImm) and loop.extent.value >= _MANY:
            notes[UNROLL_FACTOR] = 2
        out = s.seq(first, s.For(loop.var, loop.min, loop.extent, loop.kind, body, notes))
        for x in self.stages.values():
            out = s.Allocate(x.new, out)
        return out

    def _fill(self, fill: s.Stmt, stage: _Stage) -> None:
        begin = substitute(fill, {self.loop.var: self.loop.min})
        self.first.append(renewed(self._in_half(begin, ops.const(0, self.loop.var.dtype))))
        later = self._simplified(renewed(substitute(fill, {self.loop.var: self.next})))
        number = ops.add(self.number, ops.const(1, self.loop.var.dtype))
        parts = _Held(stage.old)
        if (parts.count(later) or _MOST_HELD + 1) > _MOST_HELD:
            self.end.append(self._marked(self._in_half(later, number), stage))
            return
        self.begin.append(renewed(parts.fetched(later)))
        self.end.append(self._marked(self._in_half(parts.stored(later), number), stage))
        self.held.append(parts.held)

    def _marked(self, store: s.Stmt, stage: _Stage) -> s.Stmt:
        return s.AttrStmt(stage.new, SECOND_HALF, self.loop.var, store)

    def _simplified(self, n: s.Stmt) -> s.Stmt:
        def index(x: e.PrimExpr) -> e.PrimExpr:
            if isinstance(x, e.Ramp):
                return replace(x, base=self.analyzer.simplify(x.base))
            return self.analyzer.simplify(x)

        def load(x: e.BufferLoad) -> e.PrimExpr:
            return replace(rewrite.children(x), indices=tuple(map(index, x.indices)))

        rewrite = Rewriter({e.BufferLoad: load})
        return rewrite(n)

    def _in_half(self, n: s.Stmt, number: e.PrimExpr) -> s.Stmt:
        """The statement on the half of each buffer that a step has."""
        turn = self.analyzer.simplify(ops.floormod(number, ops.const(2, number.dtype)))

        def at(stage: _Stage, index: e.PrimExpr) -> e.PrimExpr:
            by = ops.multiply(turn, stage.half)
            if isinstance(index, e.Ramp):
                return replace(index, base=ops.add(by, index.base))
            return ops.add(by, index)

        def load(x: e.BufferLoad) -> e.PrimExpr:
            x = rewrite.children(x)
            stage = self.stages.get(x.buffer.data)
            if stage is None:
                return x
            return e.BufferLoad(stage.new, (at(stage, x.indices[0]),), x.dtype, x.mask)

        def store(x: s.BufferStore) -> s.Stmt:
            x = rewrite.children(x)
            stage = self.stages.get(x.buffer.data)
            if stage is None:
                return x
            return s.BufferStore(stage.new, x.value, (at(stage, x.indices[0]),), x.mask)

        rewrite = Rewriter({e.BufferLoad: load, s.BufferStore: store})
        return rewrite(n)


Store = Callable[[s.BufferStore, e.PrimExpr], s.Stmt]


class _Held:
    """A thread's part of the next tile in registers, filled and stored by the same loops.

    Args:
        tile: the shared buffer; what else the loops store is the thread's own.
    """

    def __init__(self, tile: Buffer) -> None:
        self.tile = tile
        self.held = tile

    def count(self, n: s.Stmt) -> int | None:
        """How many elements of the tile a thread stores, None where that is not known."""
        if isinstance(n, s.BufferStore):
            return dt.lanes(n.value.dtype) if n.buffer.data is self.tile.data else 0
        if isinstance(n, s.SeqStmt):
            counts = [self.count(x) for x in n.seq]
            return None if None in counts else sum(counts)  # type: ignore[arg-type]
        if isinstance(n, s.IfThenElse):
            return self.count(n.then_case)
        inside = self.count(n.body)  # type: ignore[attr-defined]
        if not isinstance(n, s.For) or not inside:
            return inside
        return n.extent.value * inside if isinstance(n.extent, e.IntImm) else None

    def fetched(self, n: s.Stmt) -> s.Stmt:
        """The loops that fill the registers."""
        size = (ops.const(self.count(n) or 0),)
        self.held = Buffer(f"{self.tile.name}.next", size, self.tile.dtype, "local")

        def store(x: s.BufferStore, at: e.PrimExpr) -> s.Stmt:
            return s.BufferStore(self.held, x.value, (at,))

        return self._walk(n, ops.const(0), store, True)

    def stored(self, n: s.Stmt) -> s.Stmt:
        """The loops that store what they hold."""

        def store(x: s.BufferStore, at: e.PrimExpr) -> s.Stmt:
            value = e.BufferLoad(self.held, (at,), x.value.dtype)
            return s.BufferStore(x.buffer, value, x.indices, x.mask)

        return self._walk(n, ops.const(0), store, False)

    def _walk(self, n: s.Stmt, first: e.PrimExpr, store: Store, own: bool) -> s.Stmt:
        """The loops with other stores; those to the thread's own buffers stay if ``own``."""
        inside = self.count(n) or 0
        if isinstance(n, s.BufferStore):
            if not inside:
                return n if own else s.nothing()
            at = first if inside == 1 else e.Ramp(first, 1, inside, dt.vector("int32", inside))
            return store(n, at)
        if not inside and not own:
            return s.nothing()
        if isinstance(n, s.SeqStmt):
            out = []
            for x in n.seq:
                out.append(self._walk(x, first, store, own))
                first = ops.add(first, ops.const(self.count(x) or 0))
            return s.seq(*out)
        if isinstance(n, s.For):
            step = ops.cast("int32", ops.subtract(n.var, n.min))
            each = ops.multiply(step, self.count(n.body) or 0)
            body = self._walk(n.body, ops.add(first, each), store, own)
            kind = s.UNROLLED if inside else n.kind
            return s.For(n.var, n.min, n.extent, kind, body, n.annotations)
        if isinstance(n, s.IfThenElse):
            then = self._walk(n.then_case, first, store, own)
            return s.IfThenElse(n.condition, then, None, n.likely)
        body = self._walk(n.body, first, store, own)  # type: ignore[attr-defined]
        if isinstance(n, s.Allocate):
            return s.Allocate(n.buffer, body) if own else body
        return body  # a pragma
