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
from whet.compiler.passes.contract.uses import handed_on, is_address
from whet.compiler.passes.threads.guards import used_by
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import (
    EQ,
    LT,
    Add,
    BufferLoad,
    BufferView,
    Call,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Var,
    is_int,
)
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import (
    ALLREDUCE,
    SERIAL,
    Allocate,
    AttrStmt,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    seq,
)
from whet.compiler.tir.visit.buffers import BufferRewriter
from whet.compiler.tir.visit.renew import renewed
from whet.compiler.tir.visit.rewrite import Rewriter, conjuncts, nodes_of, variables

_WARP = 32
_ZERO = ops.const(0)


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

    thread: Var
    count: int
    combine: Stmt
    buffers: tuple[Buffer, ...]
    own: Affine
    there: Affine
    symmetric: bool


class _Lowering(Rewriter):
    def __init__(self, func: PrimFunc) -> None:
        self.extents = func.attrs["thread_extent"]
        self.analyzer = Analyzer()
        self.threads: dict[str, Var] = {}
        self.tests: list[set[Var]] = []  # the variables of conditions and loops around
        self.derived: set[Var] = set()  # variables whose value a thread's coordinates are in
        self.trees: list[_Tree] = []
        super().__init__(
            {AttrStmt: self._attribute, IfThenElse: self._test, For: self._for,
             LetStmt: self._let, While: self._test}
        )  # fmt: skip

    def _attribute(self, n: AttrStmt) -> Stmt:
        if n.key == "thread_extent":
            self.threads[n.node.name] = n.node
            self.analyzer.bind_loop(n.node, _ZERO, n.value)
        if n.key != ALLREDUCE:
            return self.children(n)
        tree = self._tree(n)
        if tree is None:
            return n.body
        self.trees.append(tree)
        return _Shuffles(tree).lowered()

    def _let(self, n: LetStmt) -> Stmt:
        if variables(n.value) & {*self.threads.values(), *self.derived}:
            self.derived.add(n.var)
        return self.children(n)

    def _test(self, n: IfThenElse | While) -> Stmt:
        return self._under(n, n.condition)

    def _for(self, n: For) -> Stmt:
        self.analyzer.bind_loop(n.var, n.min, n.extent)
        return self._under(n, n.min, n.extent)

    def _under(self, n: Stmt, *tests: PrimExpr) -> Stmt:
        self.tests.append(set().union(*map(used_by, tests)))
        out = self.children(n)
        self.tests.pop()
        return out

    def _tree(self, n: AttrStmt) -> _Tree | None:
        """The tree that an attribute marks; None where shuffles cannot reduce it."""
        assert isinstance(n.value, IntImm)
        count, thread = n.value.value, self.threads.get("threadIdx.x")
        span = self.extents.get("threadIdx.x")
        if thread is None or not isinstance(span, IntImm) or span.value != count:
            return None
        power = count & (count - 1) == 0
        if count < 4 or not (count % _WARP == 0 or (power and count < _WARP)):
            return None
        first = n.body.seq[0] if isinstance(n.body, SeqStmt) else n.body
        if not isinstance(first, IfThenElse) or first.else_case is not None:
            return None
        return self._read(first.then_case, thread, count) if self._come_by(count) else None

    def _come_by(self, count: int) -> bool:
        """True if all threads that shuffles and barriers need run this statement."""
        inside = set().union(*self.tests)
        if inside & self.derived or any(v.dtype == "handle" for v in inside):
            return False
        differ = {t for name, t in self.threads.items() if name.startswith("threadIdx")}
        if count == _WARP:  # a row of threads is a warp, and there is no barrier
            differ = {t for t in differ if t.name == "threadIdx.x"}
        return not inside & differ

    def _rows(self) -> set[Var]:
        """The other threads of the block: without parts of their own they have none at all."""
        others = [n for n in ("threadIdx.y", "threadIdx.z") if n in self.threads]
        return {self.threads[n] for n in others if not is_int(self.extents.get(n), 1)}

    def _read(self, combine: Stmt, thread: Var, count: int) -> _Tree | None:
        if nodes_of(combine, For):  # virtual threads, each with parts of its own
            return None
        stores, loads = nodes_of(combine, BufferStore), nodes_of(combine, BufferLoad)
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


def _is_symmetric(combine: Stmt) -> bool:
    if not isinstance(combine, BufferStore):
        return False
    v = combine.value
    if isinstance(v, (Min, Max)) and dt.is_float(v.dtype) and dt.bits(v.dtype) == 16:
        return False  # where one is NaN, it is the second one
    plain = isinstance(v, (Add, Mul, Min, Max))
    return plain and isinstance(v.a, BufferLoad) and isinstance(v.b, BufferLoad)  # type: ignore[attr-defined]


class _Shuffles:
    """Each thread's part becomes the whole.

    Attributes:
        part: of each buffer, the thread's part.
        other: another thread's.
    """

    def __init__(self, tree: _Tree) -> None:
        self.tree = tree
        self.part = {b: _local(b, "part") for b in tree.buffers}
        self.other = {b: _local(b, "other") for b in tree.buffers}

    def lowered(self) -> Stmt:
        """The statements in place of the tree."""
        tree, own = self.tree, self.tree.own.to_expr()
        steps: list[Stmt] = [_store(p, _load(b, own)) for b, p in self.part.items()]
        steps += self._exchange(min(tree.count, _WARP))
        made = [*self.part.values(), *self.other.values()]
        if tree.count > _WARP:
            warps = {b: _of_warps(b, tree.count) for b in tree.buffers}
            made += warps.values()
            steps += self._across(warps)
        steps += [_store(b, _load(p), own) for b, p in self.part.items()]
        out = seq(*steps)
        for b in reversed(made):
            out = Allocate(b, out)
        return out

    def _exchange(self, lanes: int) -> list[Stmt]:
        """Reduce over groups of neighbouring lanes; every lane of a group has the result."""
        steps: list[Stmt] = []
        symmetric = self.tree.symmetric
        op = "warp_shuffle_xor" if symmetric else "warp_shuffle_down"
        half = lanes // 2
        while half:
            for b, p in self.part.items():
                steps.append(_store(self.other[b], Call(b.dtype, op, (_load(p), ops.const(half)))))
            steps.append(self._combined({b: _load(x) for b, x in self.other.items()}))
            half //= 2
        if not symmetric:  # the first lane has it
            for b, p in self.part.items():
                first = Call(b.dtype, "warp_shuffle", (_load(p), _ZERO, ops.const(lanes)))
                steps.append(_store(p, first))
        return steps

    def _across(self, warps: dict[Buffer, Buffer]) -> list[Stmt]:
        """Reduce over the warps of a row of threads, by way of shared memory."""
        tree, part = self.tree, self.part
        number = tree.count // _WARP
        first = (tree.own - Analyzer().affine(tree.thread)).to_expr() // _WARP
        leads = ops.compare(EQ, tree.thread % _WARP, _ZERO)
        at = first + tree.thread // _WARP
        stores = [_store(w, _load(part[b]), at) for b, w in warps.items()]
        steps: list[Stmt] = [IfThenElse(leads, seq(*stores))]
        if tree.symmetric and number & (number - 1) == 0:
            mine = first + tree.thread % number
            steps += [_store(part[b], _load(w, mine)) for b, w in warps.items()]
            return steps + self._exchange(number)
        steps += [_store(part[b], _load(w, first)) for b, w in warps.items()]
        warp = Var("warp")
        step = self._combined({b: _load(w, first + warp) for b, w in warps.items()})
        steps.append(For(warp, ops.const(1), ops.const(number - 1), SERIAL, step))
        return steps

    def _combined(self, others: dict[Buffer, PrimExpr]) -> Stmt:
        """A step of the tree on a thread's part and another value."""
        analyzer = Analyzer()

        def load(n: BufferLoad) -> PrimExpr:
            if n.buffer not in self.part:
                return rewrite.children(n)
            if analyzer.affine(n.indices[0]).key == self.tree.there.key:
                return others[n.buffer]
            return _load(self.part[n.buffer])

        def store(n: BufferStore) -> Stmt:
            return _store(self.part[n.buffer], rewrite(n.value))

        rewrite = Rewriter({BufferLoad: load, BufferStore: store})
        return renewed(rewrite(self.tree.combine))


def _in_registers(body: Stmt, tree: _Tree) -> Stmt:
    """The kernel with the parts in registers, where only their own threads use them."""
    moved = {b.data: _local(b, "") for b in tree.buffers}
    if not _Uses(tree).alone(body, False):
        return body

    return BufferRewriter(lambda b: moved.get(b.data, b), lambda b, indices: (_ZERO,))(body)


class _Uses:
    """Looks for uses of a thread's part by other threads; the result is for all of them."""

    def __init__(self, tree: _Tree) -> None:
        self.analyzer = Analyzer()
        self.thread = tree.thread
        self.parts = {b.data for b in tree.buffers}
        self.own = tree.own.key
        self.first = (tree.own - self.analyzer.affine(tree.thread)).key

    def alone(self, n: Any, leads: bool) -> bool:
        """True for a node without such uses, which only the first thread runs if ``leads``."""
        if isinstance(n, IfThenElse):
            inside = leads or self._leads(n.condition)
            cases = self.alone(n.condition, leads) and self.alone(n.then_case, inside)
            return cases and (n.else_case is None or self.alone(n.else_case, leads))
        if isinstance(n, Var):
            return n not in self.parts  # an address
        if is_address(n):
            held = handed_on(n)
            own = held is None or held.data not in self.parts
        else:
            access = isinstance(n, (BufferView, BufferLoad, BufferStore))
            own = not access or n.buffer.data not in self.parts or self._is_own(n, leads)
        return own and all(self.alone(x, leads) for x in n.parts)

    def _is_own(self, n: BufferView | BufferLoad | BufferStore, leads: bool) -> bool:
        """True for an access to the thread's own part, or to the result by one who may."""
        if isinstance(n, BufferView) or len(n.indices) != 1:
            return False
        at = self.analyzer.affine(n.indices[0]).key
        return at == self.own or (at == self.first and (leads or isinstance(n, BufferLoad)))

    def _leads(self, condition: PrimExpr) -> bool:
        """True where a condition lets only the first thread through, whose part is the result."""
        return any(
            isinstance(c, LT) and c.a is self.thread and is_int(c.b, 1)
            for c in conjuncts(condition)
        )


def _load(b: Buffer, index: PrimExpr = _ZERO) -> PrimExpr:
    return BufferLoad(b, (index,), b.dtype)


def _store(b: Buffer, value: PrimExpr, index: PrimExpr = _ZERO) -> BufferStore:
    return BufferStore(b, value, (index,))


def _local(b: Buffer, what: str) -> Buffer:
    name = f"{b.name}.{what}" if what else b.name
    return Buffer(name, (ops.const(1),), b.dtype, "local")


def _of_warps(b: Buffer, count: int) -> Buffer:
    """Shared memory for a value of each warp of all rows."""
    (size,) = b.shape
    return Buffer(f"{b.name}.warps", (size // _WARP,), b.dtype, "shared")
