"""LowerThreadAllreduce: a reduction over a block's threads by shuffles of its warps.

Before, in a kernel of 64 threads::

    red = allocate([64], "float32", "shared")
    red[threadIdx.x] = A[threadIdx.x]
    attr(red, "thread_allreduce", 64)
    if threadIdx.x < 32:
        red[threadIdx.x] = red[threadIdx.x] + red[threadIdx.x + 32]
    if threadIdx.x < 16:
        red[threadIdx.x] = red[threadIdx.x] + red[threadIdx.x + 16]
    ...

After::

    red = allocate([1], "float32", "local")
    warps = allocate([2], "float32", "shared")
    red[0] = A[threadIdx.x]
    other[0] = warp_shuffle_xor(red[0], 16)
    red[0] = red[0] + other[0]
    ...
    if threadIdx.x % 32 == 0:
        warps[threadIdx.x // 32] = red[0]
    red[0] = warps[threadIdx.x % 2]
    other[0] = warp_shuffle_xor(red[0], 1)
    red[0] = red[0] + other[0]

Every thread has the result. What is read elsewhere than at a thread's own part or at the result
keeps the parts in shared memory. A reduction over other than a power of two up to 32, or a multiple
of 32 threads, stays a tree; so does one that not all threads of a warp come by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.target import Target
from whet.compiler.te.lower.lower_allreduce import ALLREDUCE
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.renew import renewed
from whet.compiler.tir.visit.rewrite import TABLE, Rewriter, post_order_visit, variables

_WARP = 32
_ZERO = ops.const(0)


def lower_allreduces(mod: IRModule, target: Target) -> IRModule:
    """The module whose kernels reduce over threads by shuffles, where they can."""
    return mod.map(
        lambda f: lower_thread_allreduce(f) if "thread_extent" in f.attrs else f,
    )


def lower_thread_allreduce(func: PrimFunc) -> PrimFunc:
    """The kernel, its marked trees replaced."""
    lowering = _Lowering(func)
    body = lowering(func.body)
    for tree in lowering.trees:
        body = _in_registers(body, tree)
    return func.with_body(body)


@dataclass(frozen=True)
class _Tree:
    """A reduction over ``count`` threads along threadIdx.x.

    Attributes:
        thread: threadIdx.x.
        count: how many.
        combine: a step, which adds to each buffer's element ``own`` the one of another thread.
        buffers: where the parts are.
        own: the index of a thread's part, without its factor.
        there: the index of the other thread's part in ``combine``.
        symmetric: whether it does not matter which of two values comes first.
    """

    thread: e.Var
    count: int
    combine: s.Stmt
    buffers: tuple[Buffer, ...]
    own: Affine
    there: Affine
    symmetric: bool


class _Lowering(Rewriter):
    def __init__(self, func: PrimFunc) -> None:
        self.extents = func.attrs["thread_extent"]
        self.analyzer = Analyzer()
        self.threads: dict[str, e.Var] = {}
        self.tests: list[set[e.Var]] = []  # the variables of conditions and loops around
        self.derived: set[e.Var] = set()  # variables whose value a thread's coordinates are in
        self.trees: list[_Tree] = []
        super().__init__(
            {s.AttrStmt: self._attribute, s.IfThenElse: self._if, s.For: self._for,
             s.LetStmt: self._let, s.While: self._while}
        )  # fmt: skip

    def _attribute(self, n: s.AttrStmt) -> s.Stmt:
        if n.key == "thread_extent":
            self.threads[n.node.name] = n.node
            self.analyzer.bind_loop(n.node, _ZERO, n.value)
        if n.key != ALLREDUCE:
            return self.children(n)
        tree = self._tree(n)
        if tree is None:
            return n.body
        self.trees.append(tree)
        return _shuffles(tree)

    def _let(self, n: s.LetStmt) -> s.Stmt:
        if variables(n.value) & {*self.threads.values(), *self.derived}:
            self.derived.add(n.var)
        return self.children(n)

    def _if(self, n: s.IfThenElse) -> s.Stmt:
        return self._under(n, n.condition)

    def _while(self, n: s.While) -> s.Stmt:
        return self._under(n, n.condition)

    def _for(self, n: s.For) -> s.Stmt:
        self.analyzer.bind_loop(n.var, n.min, n.extent)
        return self._under(n, n.min, n.extent)

    def _under(self, n: s.Stmt, *tests: e.PrimExpr) -> s.Stmt:
        self.tests.append(set().union(*map(_read_by, tests)))
        out = self.children(n)
        self.tests.pop()
        return out

    def _tree(self, n: s.AttrStmt) -> _Tree | None:
        """What an attribute marks, where shuffles can do it."""
        assert isinstance(n.value, e.IntImm)
        count, thread = n.value.value, self.threads.get("threadIdx.x")
        span = self.extents.get("threadIdx.x")
        if thread is None or not isinstance(span, e.IntImm) or span.value != count:
            return None
        power = count & (count - 1) == 0
        if count < 4 or not (count % _WARP == 0 or (power and count < _WARP)):
            return None
        if not self._come_by(count):
            return None
        first = n.body.seq[0] if isinstance(n.body, s.SeqStmt) else n.body
        if not isinstance(first, s.IfThenElse) or first.else_case is not None:
            return None
        return self._read(first.then_case, thread, count)

    def _come_by(self, count: int) -> bool:
        """Whether all threads that shuffles and barriers need run this statement."""
        inside = set().union(*self.tests) if self.tests else set()
        if inside & self.derived or any(v.dtype == "handle" for v in inside):
            return False
        differ = {t for name, t in self.threads.items() if name.startswith("threadIdx")}
        if count == _WARP:  # a row of threads is a warp, and there is no barrier
            differ = {t for t in differ if t.name == "threadIdx.x"}
        return not inside & differ

    def _rows(self) -> set[e.Var]:
        """The other threads of the block: without parts of their own they have none at all."""
        other = {n: v for n, v in self.threads.items() if n in ("threadIdx.y", "threadIdx.z")}
        extents = {n: self.extents.get(n) for n in other}
        return {v for n, v in other.items() if getattr(extents[n], "value", 0) != 1}

    def _read(self, combine: s.Stmt, thread: e.Var, count: int) -> _Tree | None:
        stores: list[s.BufferStore] = []
        loads: list[e.BufferLoad] = []

        repeats = False

        def visit(n: object) -> None:
            nonlocal repeats
            repeats = repeats or isinstance(n, s.For)
            if isinstance(n, s.BufferStore):
                stores.append(n)
            elif isinstance(n, e.BufferLoad):
                loads.append(n)

        post_order_visit(combine, visit)
        if repeats:  # virtual threads, each with parts of its own
            return None
        affine = self.analyzer.affine
        buffers = tuple(dict.fromkeys(x.buffer for x in stores))
        own = affine(stores[0].indices[0])
        there = own.shifted(count // 2)
        if any(len(x.indices) != 1 or affine(x.indices[0]).key != own.key for x in stores):
            return None
        for x in loads:
            if x.buffer in buffers and affine(x.indices[0]).key not in (own.key, there.key):
                return None
        row = own - affine(thread)
        parts = [row.const, *(factor for _, factor in row.terms.values())]
        rest = variables(row.to_expr())
        if any(x % count for x in parts) or thread in rest or not self._rows() <= rest:
            return None
        return _Tree(thread, count, combine, buffers, own, there, _is_symmetric(combine))


def _read_by(test: e.PrimExpr) -> set[e.Var]:
    """The variables of a condition, and the addresses of what it loads."""
    found = variables(test)

    def visit(n: object) -> None:
        if isinstance(n, e.BufferLoad):
            found.add(n.buffer.data)

    post_order_visit(test, visit)
    return found


def _is_symmetric(combine: s.Stmt) -> bool:
    if not isinstance(combine, s.BufferStore):
        return False
    v = combine.value
    if isinstance(v, (e.Min, e.Max)) and dt.is_float(v.dtype) and dt.bits(v.dtype) == 16:
        return False  # where one is NaN, it is the second one
    plain = isinstance(v, (e.Add, e.Mul, e.Min, e.Max))
    return plain and isinstance(v.a, e.BufferLoad) and isinstance(v.b, e.BufferLoad)  # type: ignore[attr-defined]


def _shuffles(tree: _Tree) -> s.Stmt:
    """Each thread's part becomes the whole."""
    own = tree.own.to_expr()
    part = {b: _local(b, "part") for b in tree.buffers}
    other = {b: _local(b, "other") for b in tree.buffers}
    steps: list[s.Stmt] = [s.BufferStore(p, _load(b, own), (_ZERO,)) for b, p in part.items()]
    steps += _exchange(tree, part, other, min(tree.count, _WARP))
    made = [*part.values(), *other.values()]
    if tree.count > _WARP:
        warps = {b: _of_warps(b, tree.count) for b in tree.buffers}
        made += warps.values()
        steps += _across(tree, part, other, warps)
    steps += [s.BufferStore(b, _load(p, _ZERO), (own,)) for b, p in part.items()]
    out = s.seq(*steps)
    for b in reversed(made):
        out = s.Allocate(b, out)
    return out


def _exchange(
    tree: _Tree, part: dict[Buffer, Buffer], other: dict[Buffer, Buffer], lanes: int
) -> list[s.Stmt]:
    """Reduce over groups of neighbouring lanes; every lane of a group has the result."""
    steps: list[s.Stmt] = []
    op = "warp_shuffle_xor" if tree.symmetric else "warp_shuffle_down"
    half = lanes // 2
    while half:
        for b, p in part.items():
            value = e.Call(b.dtype, op, (_load(p, _ZERO), ops.const(half)))
            steps.append(s.BufferStore(other[b], value, (_ZERO,)))
        steps.append(_combined(tree, part, {b: _load(x, _ZERO) for b, x in other.items()}))
        half //= 2
    if not tree.symmetric:  # the first lane has it
        for b, p in part.items():
            args = _load(p, _ZERO), _ZERO, ops.const(lanes)
            value = e.Call(b.dtype, "warp_shuffle", args)
            steps.append(s.BufferStore(p, value, (_ZERO,)))
    return steps


def _across(
    tree: _Tree,
    part: dict[Buffer, Buffer],
    other: dict[Buffer, Buffer],
    warps: dict[Buffer, Buffer],
) -> list[s.Stmt]:
    """Reduce over the warps of a row of threads, by way of shared memory."""
    number = tree.count // _WARP
    row = (tree.own - Analyzer().affine(tree.thread)).to_expr()
    first = ops.floordiv(row, _WARP)

    def of(warp: e.PrimExpr) -> e.PrimExpr:
        return ops.add(first, warp)

    leads = ops.compare(e.EQ, ops.floormod(tree.thread, _WARP), _ZERO)
    at = of(ops.floordiv(tree.thread, _WARP))
    stores = [s.BufferStore(w, _load(part[b], _ZERO), (at,)) for b, w in warps.items()]
    steps: list[s.Stmt] = [s.IfThenElse(leads, s.seq(*stores))]
    if tree.symmetric and number & (number - 1) == 0:
        mine = of(ops.floormod(tree.thread, number))
        steps += [s.BufferStore(part[b], _load(w, mine), (_ZERO,)) for b, w in warps.items()]
        return steps + _exchange(tree, part, other, number)
    steps += [s.BufferStore(part[b], _load(w, first), (_ZERO,)) for b, w in warps.items()]
    warp = e.Var("warp")
    step = _combined(tree, part, {b: _load(w, of(warp)) for b, w in warps.items()})
    steps.append(s.For(warp, ops.const(1), ops.const(number - 1), s.SERIAL, step))
    return steps


def _combined(tree: _Tree, part: dict[Buffer, Buffer], others: dict[Buffer, e.PrimExpr]) -> s.Stmt:
    """A step of the tree on a thread's part and another value."""
    analyzer = Analyzer()

    def load(n: e.BufferLoad) -> e.PrimExpr:
        if n.buffer not in part:
            return rewrite.children(n)
        if analyzer.affine(n.indices[0]).key == tree.there.key:
            return others[n.buffer]
        return _load(part[n.buffer], _ZERO)

    def store(n: s.BufferStore) -> s.Stmt:
        return s.BufferStore(part[n.buffer], rewrite(n.value), (_ZERO,))

    rewrite = Rewriter({e.BufferLoad: load, s.BufferStore: store})
    return renewed(rewrite(tree.combine))


def _in_registers(body: s.Stmt, tree: _Tree) -> s.Stmt:
    """The kernel with the parts in registers, where only their own threads use them."""
    moved = {b.data: _local(b, "") for b in tree.buffers}
    if not _Uses(tree).alone(body, False):
        return body

    def load(n: e.BufferLoad) -> e.PrimExpr:
        new = moved.get(n.buffer.data)
        return rewrite.children(n) if new is None else _load(new, _ZERO)

    def store(n: s.BufferStore) -> s.Stmt:
        n = rewrite.children(n)
        new = moved.get(n.buffer.data)
        return n if new is None else s.BufferStore(new, n.value, (_ZERO,))

    def allocate(n: s.Allocate) -> s.Stmt:
        inside = rewrite(n.body)
        return s.Allocate(moved.get(n.buffer.data, n.buffer), inside)

    rewrite = Rewriter({e.BufferLoad: load, s.BufferStore: store, s.Allocate: allocate})
    return rewrite(body)


class _Uses:
    """Finds whether a thread's part is used by this thread only, and the result by any."""

    def __init__(self, tree: _Tree) -> None:
        self.analyzer = Analyzer()
        self.thread = tree.thread
        self.parts = {b.data for b in tree.buffers}
        self.own = tree.own.key
        self.first = (tree.own - self.analyzer.affine(tree.thread)).key

    def alone(self, n: Any, leads: bool) -> bool:
        """Look at a node, which only the first thread runs if ``leads``."""
        if isinstance(n, s.IfThenElse):
            inside = leads or self._leads(n.condition)
            cases = self.alone(n.condition, leads) and self.alone(n.then_case, inside)
            return cases and (n.else_case is None or self.alone(n.else_case, leads))
        if isinstance(n, e.Var):
            return n not in self.parts  # an address
        if isinstance(n, e.BufferView) and n.buffer.data in self.parts:
            return False
        if isinstance(n, (e.BufferLoad, s.BufferStore)) and n.buffer.data in self.parts:
            at = self.analyzer.affine(n.indices[0]).key if len(n.indices) == 1 else None
            result = at == self.first and (leads or isinstance(n, e.BufferLoad))
            if at != self.own and not result:
                return False
        if isinstance(n, e.Call) and n.op in ("address_of", "tvm_access_ptr"):
            first = n.args[0]
            if isinstance(first, e.BufferLoad) and first.buffer.data in self.parts:
                return False
        return all(self.alone(x, leads) for x in TABLE[type(n)][0](n))

    def _leads(self, condition: e.PrimExpr) -> bool:
        """Whether a condition lets the first thread through alone, whose part is the result."""
        if isinstance(condition, e.And):
            return self._leads(condition.a) or self._leads(condition.b)
        least = isinstance(condition, e.LT) and condition.a is self.thread
        return least and isinstance(condition.b, e.IntImm) and condition.b.value == 1  # type: ignore[attr-defined]


def _load(b: Buffer, index: e.PrimExpr) -> e.PrimExpr:
    return e.BufferLoad(b, (index,), b.dtype)


def _local(b: Buffer, what: str) -> Buffer:
    name = f"{b.name}.{what}" if what else b.name
    return Buffer(name, (ops.const(1),), b.dtype, "local")


def _of_warps(b: Buffer, count: int) -> Buffer:
    """Shared memory for a value of each warp of all rows."""
    (size,) = b.shape
    return Buffer(f"{b.name}.warps", (ops.floordiv(size, _WARP),), b.dtype, "shared")
