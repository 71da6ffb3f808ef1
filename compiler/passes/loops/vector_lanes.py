"""The inside of a vectorised loop: each statement and each value for all lanes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.passes.contract.uses import is_prefetch
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import (
    ARITHMETIC,
    COMPARISONS,
    DIVISIONS,
    GE,
    INDEX_ARITHMETIC,
    LE,
    And,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    IntImm,
    Let,
    Max,
    Min,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    SizeVar,
    Var,
)
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import (
    AssertStmt,
    AttrStmt,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    seq,
)
from whet.compiler.tir.visit.rewrite import LEAVES, conjuncts, nodes_of

#: Lanes at most so far apart are read as whole vectors by the generators.
MOST_APART = 4


class NotVectorizable(Exception):
    """The loop must stay a loop."""


@dataclass(eq=False)
class Lanes:
    """Rewrites a body for ``lanes`` consecutive values of ``var``, from ``base`` on.

    ``trusted`` is a guard that is known to hold for some lane: what it guards may read what is the
    same in all lanes. ``masked_loads``: whether the target has such instructions for lanes of 32
    and 64 bits.
    """

    var: Var
    base: PrimExpr
    lanes: int
    analyzer: Analyzer
    trusted: PrimExpr | None = None
    masked_loads: bool = False
    mask: PrimExpr | None = None
    some_lane: bool = True  # whether the mask surely holds for one of the lanes
    # variables that differ from lane to lane -> vectors
    lets: dict[Var, Var] = field(default_factory=dict)
    # node's id -> the node, which keeps the id its own, and whether it differs
    _known: dict[int, tuple[PrimExpr, bool]] = field(default_factory=dict)

    # statements

    def visit(self, n: Stmt) -> Stmt:
        """The statement for all lanes at once."""
        rule = _STATEMENTS.get(type(n))
        if rule is None:
            if is_prefetch(n) and not self._depends(n.value):  # type: ignore[attr-defined]
                return n  # once for all lanes
            raise NotVectorizable
        return rule(self, n)

    def _sequence(self, n: SeqStmt) -> Stmt:
        return seq(*map(self.visit, n.seq))

    def _loop(self, n: For) -> Stmt:
        if self._depends(n.min) or self._depends(n.extent):
            raise NotVectorizable
        with self.analyzer.inside(n.var, n.min, n.extent):
            return replace(n, body=self.visit(n.body))

    def _around(self, n: AttrStmt | LetStmt) -> Stmt:
        if not self._depends(n.value):
            self._check_shared(n.value)
            return replace(n, body=self.visit(n.body))
        if isinstance(n, AttrStmt):
            raise NotVectorizable
        value = self._all_lanes(n.value)
        return LetStmt(self._named(n.var, value), value, self.visit(n.body))

    def _assert(self, n: AssertStmt) -> Stmt:
        if self.mask is not None or any(self._depends(x) for x in (n.condition, *n.values)):
            raise NotVectorizable
        return replace(n, body=self.visit(n.body))

    def _store(self, n: BufferStore) -> Stmt:
        if not self._depends(n.indices[0]):
            raise NotVectorizable
        index = self.index(n.indices[0], n.buffer)
        if isinstance(index, Broadcast):
            raise NotVectorizable
        value = self._all_lanes(n.value)
        return BufferStore(n.buffer, value, (index,), self._merged(n.mask))

    def _branch(self, n: IfThenElse) -> Stmt:
        if not self._depends(n.condition):
            other = None if n.else_case is None else self.visit(n.else_case)
            return IfThenElse(n.condition, self.visit(n.then_case), other, n.likely)
        if n.else_case is not None:
            return seq(
                self._masked(n.condition, n.then_case),
                self._masked(ops.logical_not(n.condition), n.else_case),
            )
        scalar, vector = self._split(n.condition)
        masked = self._masked(vector, n.then_case, some_lane=n.condition is self.trusted)
        return masked if scalar is None else IfThenElse(scalar, masked, None, n.likely)

    def _split(self, condition: PrimExpr) -> tuple[PrimExpr | None, PrimExpr]:
        """The part of a condition that all lanes share, if there is one, and the lanes' own."""
        shared = [c for c in conjuncts(condition) if not self._depends(c)]
        own = [c for c in conjuncts(condition) if self._depends(c)]
        return (ops.all_of(*shared) if shared else None), ops.all_of(*own)

    def _masked(self, condition: PrimExpr, body: Stmt, some_lane: bool = False) -> Stmt:
        with self._where(self._all_lanes(condition), some_lane):
            return self.visit(body)

    def _merged(self, mask: PrimExpr | None, more: PrimExpr | None = None) -> PrimExpr | None:
        out = self.mask
        for m in (None if mask is None else self._all_lanes(mask), more):
            if m is not None:
                out = m if out is None else ops.logical_and(out, m)
        return out

    # expressions

    def _depends(self, n: PrimExpr) -> bool:
        """True if a value may differ from lane to lane."""
        kind = type(n)
        if kind in LEAVES:
            return n is self.var or n in self.lets
        known = self._known.get(id(n))
        if known is None:
            known = n, any(map(self._depends, n.parts))
            self._known[id(n)] = known
        return known[1]

    def _named(self, var: Var, value: PrimExpr) -> Var:
        """The variable that stands for a value of all lanes from here on."""
        self.lets[var] = Var(var.name, value.dtype)
        self._known.clear()
        return self.lets[var]

    def _wide(self, n: PrimExpr) -> PrimExpr:
        if dt.lanes(n.dtype) > 1:
            return n
        return Broadcast(n, self.lanes, self._of_type(n))

    def index(self, n: PrimExpr, buffer: Buffer) -> PrimExpr:
        """An index for all lanes: a ramp where the step between lanes is a number."""
        form = self.analyzer.affine(n)
        rest = form.without(self.var)
        if not any(map(self._depends, rest.atoms)):
            step = form.coefficient(self.var)
            start = rest.plus(self.analyzer.affine(self.base), step).to_expr(n.dtype)
            kind = dt.vector(start.dtype, self.lanes)
            if step == 0:
                return Broadcast(start, self.lanes, kind)
            return Ramp(start, step, self.lanes, kind)
        size = buffer.shape[0]
        if isinstance(size, IntImm) and size.value < 2**31:
            return self._all_lanes(n)
        return self._long(n)  # 32 bits a lane may not hold it

    def _long(self, n: PrimExpr) -> PrimExpr:
        """An integer for all lanes, computed in 64 bits."""
        kind = dt.vector("int64", self.lanes)
        if n is self.var:
            return Ramp(ops.cast("int64", self.base), 1, self.lanes, kind)
        if isinstance(n, INDEX_ARITHMETIC):
            return type(n)(self._long(n.a), self._long(n.b), kind)
        return self._wide(ops.cast("int64", self.value(n)))

    def value(self, n: PrimExpr) -> PrimExpr:
        """A value for all lanes; still a scalar where it is the same in each."""
        if not self._depends(n):
            self._check_shared(n)
            return n
        rule = _VALUES.get(type(n))
        if rule is None:
            raise NotVectorizable
        return rule(self, n)

    def _of_type(self, n: PrimExpr) -> str:
        return dt.vector(n.dtype, self.lanes)

    def _all_lanes(self, n: PrimExpr) -> PrimExpr:
        """A value as a vector."""
        return self._wide(self.value(n))

    def _var(self, n: Var) -> PrimExpr:
        own = self.lets.get(n)
        return Ramp(self.base, 1, self.lanes, self._of_type(n)) if own is None else own

    def _load(self, n: BufferLoad) -> PrimExpr:
        if (blended := self._blended(n)) is not None:
            return blended
        index = self.index(n.indices[0], n.buffer)
        if isinstance(index, Broadcast):
            shared = BufferLoad(n.buffer, (index.value,), n.dtype)
            self._check_shared(shared)
            return shared
        self._check_shared(index)
        return self._lanes_at(n, index)

    def _lanes_at(self, n: BufferLoad, index: PrimExpr) -> BufferLoad:
        mask = self._merged(n.mask)
        # a masked read of a local array would keep it out of registers
        if mask is not None and self._in_range(n.buffer, index):
            mask = None
        return BufferLoad(n.buffer, (index,), self._of_type(n), mask)

    def _logical(self, n: BinaryOp) -> PrimExpr:
        if not nodes_of(n.b, BufferLoad):
            return self._binary(n)
        # the left side guards what the right one reads
        both = isinstance(n, And)
        yes, no = (n.b, ops.const(False)) if both else (ops.const(True), n.b)
        return self._if_then_else(Call("bool", "if_then_else", (n.a, yes, no)))

    def _binary(self, n: BinaryOp) -> PrimExpr:
        a, b = self._all_lanes(n.a), self._all_lanes(n.b)
        if self.mask is not None and type(n) in DIVISIONS and not dt.is_float(n.dtype):
            # a lane that is off reads zeros, and dividing by them would trap
            one = self._wide(ops.const(1, dt.element(b.dtype)))
            b = Select(self.mask, b, one, b.dtype)
        return type(n)(a, b, self._of_type(n))

    def _each(self, n: PrimExpr) -> PrimExpr:
        """An operation on all lanes of its operands."""
        return replace(n.with_parts(tuple(map(self._all_lanes, n.parts))), dtype=self._of_type(n))

    def _select(self, n: Select) -> PrimExpr:
        return self._choose(*map(self.value, (n.condition, n.true_value, n.false_value)))

    def _let(self, n: Let) -> PrimExpr:
        value = self.value(n.value)
        var = self._named(n.var, value)
        body = self._all_lanes(n.body)
        return Let(var, value, body, body.dtype)

    def _call(self, n: Call) -> PrimExpr:
        if n.op.startswith("call_llvm_"):  # its name says how many lanes it takes
            raise NotVectorizable
        return self._if_then_else(n) if n.op == "if_then_else" else self._each(n)

    def _blended(self, n: BufferLoad) -> PrimExpr | None:
        """A load at ``rest + k * min(a, c)``, ``a`` growing by 1 from lane to lane; else None.

        Lanes where ``a <= c`` are read ``k`` apart, all others hold the element of the last lane.
        With a maximum, likewise, the first lane's. Nothing is gathered lane by lane.
        """
        form, dtype = self.analyzer.affine(n.indices[0]), n.indices[0].dtype
        moving = [(key, x, k) for key, (x, k) in form.terms.items() if self._depends(x)]
        if len(moving) != 1 or not 1 <= moving[0][2] <= MOST_APART or n.mask is not None:
            return None
        key, clamp, step = moving[0]
        if not isinstance(clamp, (Min, Max)):
            return None
        a, c = (clamp.a, clamp.b) if self._depends(clamp.a) else (clamp.b, clamp.a)
        if (start := self._first_lane(a)) is None or self._depends(c):
            return None
        least, rest, lanes = isinstance(clamp, Min), form.without(key), self.lanes
        end = start.shifted(lanes - 1) if least else start
        index = Ramp(rest.plus(start, step).to_expr(dtype), step, lanes, dt.vector(dtype, lanes))
        self._check_shared(index)
        over = (end - self.analyzer.affine(c)).scaled(1 if least else -1)
        if self.analyzer.at_most_zero(over):  # no lane is clamped here
            return self._lanes_at(n, index)
        if not self.masked_loads or dt.itemsize(n.dtype) not in (4, 8):
            return None
        edge = type(clamp)(end.to_expr(dtype), c, dtype)
        place = rest.plus(self.analyzer.affine(edge), step).to_expr(dtype)
        if self.mask is not None and not self._in_range(n.buffer, Ramp(place, 1, 1, dtype)):
            return None  # it is read where the lane that it stands for may be off
        test = self._wide(self.value(ops.compare(LE if least else GE, a, c)))
        one = BufferLoad(n.buffer, (place,), n.dtype)
        whole = BufferLoad(n.buffer, (index,), self._of_type(n), self._merged(None, test))
        return Select(test, whole, self._wide(one), whole.dtype)

    def _first_lane(self, n: PrimExpr) -> Affine | None:
        """The first lane of an index that grows by 1 from lane to lane; None for others."""
        form = self.analyzer.affine(n)
        start = form.without(self.var)
        if form.coefficient(self.var) != 1 or any(map(self._depends, start.atoms)):
            return None
        return start.plus(self.analyzer.affine(self.base), 1)

    def _check_shared(self, n: PrimExpr) -> None:
        """Reads of what all lanes share happen even where a mask is off: they must be in range."""
        if self.mask is None or self.some_lane:
            return
        for x in nodes_of(n, BufferLoad):
            if not self._in_range(x.buffer, Ramp(x.indices[0], 1, 1, x.indices[0].dtype)):
                raise NotVectorizable

    def _in_range(self, buffer: Buffer, index: PrimExpr) -> bool:
        """True if all lanes surely read inside the buffer."""
        if not isinstance(index, Ramp) or index.stride < 0:
            return False
        first, size = self.analyzer.affine(index.base), self.analyzer.affine(buffer.shape[0])
        last = first.shifted((index.lanes - 1) * index.stride)
        below = self.analyzer.at_most_zero(first.scaled(-1))
        return below and self.analyzer.at_most_zero((last - size).shifted(1))

    def _choose(self, c: PrimExpr, t: PrimExpr, f: PrimExpr) -> PrimExpr:
        if dt.lanes(c.dtype) == dt.lanes(t.dtype) == dt.lanes(f.dtype) == 1:
            return Select(c, t, f, t.dtype)
        t, f = self._wide(t), self._wide(f)
        return Select(self._wide(c), t, f, t.dtype)

    def _if_then_else(self, n: Call) -> PrimExpr:
        (condition, t, f), kind = n.args, self._of_type(n)
        if not self._depends(condition):
            with self.analyzer.assuming(condition):
                yes = self._all_lanes(t)
            return Call(kind, n.op, (condition, yes, self._all_lanes(f)))
        try:
            return self._masked_choice(condition, t, f)
        except NotVectorizable:
            shared, vector = self._split(condition)
            if shared is None:
                raise
        # what all lanes read may only be read where all of them may: that needs a branch
        with self.analyzer.assuming(shared):
            inner = self._wide(self._masked_choice(vector, t, f))
        return Call(kind, n.op, (shared, inner, self._all_lanes(f)))

    def _masked_choice(self, condition: PrimExpr, t: PrimExpr, f: PrimExpr) -> PrimExpr:
        test = self._all_lanes(condition)
        with self._where(test):
            yes = self.value(t)
        with self._where(Not(test, test.dtype)):
            no = self.value(f)
        return self._choose(test, yes, no)

    @contextmanager
    def _where(self, test: PrimExpr, some_lane: bool = False) -> Iterator[None]:
        """Within the block, only the lanes are on where ``test`` holds, too."""
        before = self.mask, self.some_lane
        self.mask, self.some_lane = self._merged(None, test), some_lane
        try:
            yield
        finally:
            self.mask, self.some_lane = before


_STATEMENTS: dict[type, Callable[[Lanes, Any], Stmt]] = {
    SeqStmt: Lanes._sequence,
    For: Lanes._loop,
    IfThenElse: Lanes._branch,
    BufferStore: Lanes._store,
    AttrStmt: Lanes._around,
    LetStmt: Lanes._around,
    AssertStmt: Lanes._assert,
}
_VALUES: dict[type, Callable[[Lanes, Any], PrimExpr]] = {
    Var: Lanes._var,
    SizeVar: Lanes._var,
    BufferLoad: Lanes._load,
    **dict.fromkeys((*ARITHMETIC, *COMPARISONS), Lanes._binary),
    And: Lanes._logical,
    Or: Lanes._logical,
    Cast: Lanes._each,
    Not: Lanes._each,
    Select: Lanes._select,
    Let: Lanes._let,
    Call: Lanes._call,
}
