"""What VectorizeLoop does inside a loop: each statement and each value for all lanes at once."""

from __future__ import annotations

from dataclasses import replace

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import LEAVES, TABLE, post_order_visit

_DIVISIONS = (e.Div, e.Mod, e.FloorDiv, e.FloorMod)


class NotVectorizable(Exception):
    """The loop must stay a loop."""


class Lanes:
    """Rewrites a body for ``lanes`` consecutive values of ``var``, from ``base`` on.

    ``trusted`` is a guard that is known to hold for some lane: what it guards may read what is the
    same in all lanes. ``masked_loads``: whether the target has such instructions for lanes of 32
    and 64 bits.
    """

    def __init__(
        self,
        var: e.Var,
        base: e.PrimExpr,
        lanes: int,
        analyzer: Analyzer,
        trusted: e.PrimExpr | None = None,
        masked_loads: bool = False,
    ) -> None:
        self.var = var
        self.base = base
        self.lanes = lanes
        self.mask: e.PrimExpr | None = None
        self.analyzer = analyzer
        self.trusted = trusted
        self.masked_loads = masked_loads
        self.some_lane = True  # whether the mask surely holds for one of the lanes
        self.lets: dict[e.Var, e.Var] = {}  # variables that differ from lane to lane -> vectors
        # node's id -> the node, which keeps the id its own, and whether it differs
        self._known: dict[int, tuple[e.PrimExpr, bool]] = {}

    # statements

    def visit(self, n: s.Stmt) -> s.Stmt:
        """The statement for all lanes at once."""
        if isinstance(n, s.SeqStmt):
            return s.seq(*[self.visit(x) for x in n.seq])
        if isinstance(n, s.For):
            if self._depends(n.min) or self._depends(n.extent):
                raise NotVectorizable
            self.analyzer.bind_loop(n.var, n.min, n.extent)
            body = self.visit(n.body)
            del self.analyzer.ranges[n.var]
            return s.For(n.var, n.min, n.extent, n.kind, body, n.annotations, n.thread)
        if isinstance(n, s.IfThenElse):
            return self._branch(n)
        if isinstance(n, s.BufferStore):
            return self._store(n)
        if isinstance(n, (s.AttrStmt, s.LetStmt)) and not self._depends(n.value):
            self._check_shared(n.value)
            return replace(n, body=self.visit(n.body))
        if isinstance(n, s.LetStmt):
            value = self._wide(self.value(n.value))
            return s.LetStmt(self._named(n.var, value), value, self.visit(n.body))
        if isinstance(n, s.AssertStmt) and self.mask is None and not self._asserts_lanes(n):
            return replace(n, body=self.visit(n.body))
        raise NotVectorizable

    def _asserts_lanes(self, n: s.AssertStmt) -> bool:
        return any(self._depends(x) for x in (n.condition, *n.values))

    def _store(self, n: s.BufferStore) -> s.Stmt:
        if not self._depends(n.indices[0]):
            raise NotVectorizable
        index = self.index(n.indices[0], n.buffer)
        if isinstance(index, e.Broadcast):
            raise NotVectorizable
        value = self._wide(self.value(n.value))
        return s.BufferStore(n.buffer, value, (index,), self._merged(n.mask))

    def _branch(self, n: s.IfThenElse) -> s.Stmt:
        if not self._depends(n.condition):
            other = None if n.else_case is None else self.visit(n.else_case)
            return s.IfThenElse(n.condition, self.visit(n.then_case), other, n.likely)
        if n.else_case is not None:
            return s.seq(
                self._masked(n.condition, n.then_case),
                self._masked(ops.logical_not(n.condition), n.else_case),
            )
        scalar = [c for c in conjuncts(n.condition) if not self._depends(c)]
        vector = [c for c in conjuncts(n.condition) if self._depends(c)]
        masked = self._masked(
            ops.all_of(*vector), n.then_case, some_lane=n.condition is self.trusted
        )
        if scalar:
            return s.IfThenElse(ops.all_of(*scalar), masked, None, n.likely)
        return masked

    def _masked(self, condition: e.PrimExpr, body: s.Stmt, some_lane: bool = False) -> s.Stmt:
        before = self.mask, self.some_lane
        self.mask = self._merged(None, self._wide(self.value(condition)))
        self.some_lane = some_lane
        out = self.visit(body)
        self.mask, self.some_lane = before
        return out

    def _merged(self, mask: e.PrimExpr | None, more: e.PrimExpr | None = None) -> e.PrimExpr | None:
        out = self.mask
        for m in (None if mask is None else self._wide(self.value(mask)), more):
            if m is not None:
                out = m if out is None else ops.logical_and(out, m)
        return out

    # expressions

    def _depends(self, n: e.PrimExpr) -> bool:
        """Whether a value may differ from lane to lane."""
        kind = type(n)
        if kind in LEAVES:
            return n is self.var or n in self.lets
        known = self._known.get(id(n))
        if known is None:
            known = n, any(self._depends(p) for p in TABLE[kind][0](n))
            self._known[id(n)] = known
        return known[1]

    def _named(self, var: e.Var, value: e.PrimExpr) -> e.Var:
        """The variable that stands for a value of all lanes from here on."""
        self.lets[var] = e.Var(var.name, value.dtype)
        self._known.clear()
        return self.lets[var]

    def _wide(self, n: e.PrimExpr) -> e.PrimExpr:
        if dt.lanes(n.dtype) > 1:
            return n
        return e.Broadcast(n, self.lanes, dt.vector(n.dtype, self.lanes))

    def index(self, n: e.PrimExpr, buffer: Buffer) -> e.PrimExpr:
        """An index for all lanes: a ramp where the step between lanes is a number."""
        form = self.analyzer.affine(n)
        rest = form.without(self.var)
        if not any(self._depends(atom) for atom, _ in rest.terms.values()):
            step = form.terms[self.var][1] if self.var in form.terms else 0
            start = rest.plus(self.analyzer.affine(self.base), step).to_expr(n.dtype)
            kind = dt.vector(start.dtype, self.lanes)
            if step == 0:
                return e.Broadcast(start, self.lanes, kind)
            return e.Ramp(start, step, self.lanes, kind)
        size = buffer.shape[0]
        if isinstance(size, e.IntImm) and size.value < 2**31:
            return self._wide(self.value(n))
        return self._long(n)  # 32 bits a lane may not hold it

    def _long(self, n: e.PrimExpr) -> e.PrimExpr:
        """An integer for all lanes, computed in 64 bits."""
        kind = dt.vector("int64", self.lanes)
        if n is self.var:
            return e.Ramp(ops.cast("int64", self.base), 1, self.lanes, kind)
        if isinstance(n, (e.Add, e.Sub, e.Mul, e.FloorDiv, e.FloorMod, e.Min, e.Max)):
            return type(n)(self._long(n.a), self._long(n.b), kind)
        return self._wide(ops.cast("int64", self.value(n)))

    def value(self, n: e.PrimExpr) -> e.PrimExpr:
        """A value for all lanes; still a scalar where it is the same in each."""
        if not self._depends(n):
            self._check_shared(n)
            return n
        kind = type(n)
        if isinstance(n, e.Var) and n in self.lets:
            return self.lets[n]
        if kind is e.Var:
            return e.Ramp(self.base, 1, self.lanes, dt.vector(n.dtype, self.lanes))
        if isinstance(n, e.BufferLoad):
            blended = self._blended(n)
            if blended is not None:
                return blended
            index = self.index(n.indices[0], n.buffer)
            if isinstance(index, e.Broadcast):
                shared = e.BufferLoad(n.buffer, (index.value,), n.dtype)
                self._check_shared(shared)
                return shared
            self._check_shared(index)
            lanes = dt.vector(n.dtype, self.lanes)
            mask = self._merged(n.mask)
            # a masked read of a local array would keep it out of registers
            if mask is not None and self._in_range(n.buffer, index):
                mask = None
            return e.BufferLoad(n.buffer, (index,), lanes, mask)
        if isinstance(n, (e.And, e.Or)) and _loads(
            n.b
        ):  # the left side guards what the right one reads
            yes, no = (n.b, ops.const(False)) if kind is e.And else (ops.const(True), n.b)
            return self._if_then_else(e.Call("bool", "if_then_else", (n.a, yes, no)))
        if isinstance(n, e.BinaryOp):
            a, b = self._wide(self.value(n.a)), self._wide(self.value(n.b))
            if self.mask is not None and kind in _DIVISIONS and not dt.is_float(n.dtype):
                # a lane that is off reads zeros, and dividing by them would trap
                one = self._wide(ops.const(1, dt.element(b.dtype)))
                b = e.Select(self.mask, b, one, b.dtype)
            return type(n)(a, b, dt.vector(n.dtype, self.lanes))
        if isinstance(n, e.Cast):
            return e.Cast(dt.vector(n.dtype, self.lanes), self._wide(self.value(n.value)))
        if isinstance(n, e.Not):
            return e.Not(self._wide(self.value(n.a)), dt.vector("bool", self.lanes))
        if isinstance(n, e.Select):
            return self._choose(
                self.value(n.condition), self.value(n.true_value), self.value(n.false_value)
            )
        if isinstance(n, e.Let):
            stands_for = self.value(n.value)
            var = self._named(n.var, stands_for)
            body = self._wide(self.value(n.body))
            return e.Let(var, stands_for, body, body.dtype)
        if isinstance(n, e.Call):
            if n.op == "if_then_else":
                return self._if_then_else(n)
            args = tuple(self._wide(self.value(a)) for a in n.args)
            return e.Call(dt.vector(n.dtype, self.lanes), n.op, args)
        raise NotVectorizable

    def _blended(self, n: e.BufferLoad) -> e.PrimExpr | None:
        """A load at ``rest + min(a, c)``, ``a`` growing by 1 from lane to lane; None for others.

        Lanes where ``a <= c`` are read side by side, all others hold the element of the last lane.
        With a maximum, likewise, the first lane's. Nothing is gathered lane by lane.
        """
        if not self.masked_loads or self.mask is not None or n.mask is not None:
            return None
        form, dtype = self.analyzer.affine(n.indices[0]), n.indices[0].dtype
        moving = [(key, x, k) for key, (x, k) in form.terms.items() if self._depends(x)]
        if len(moving) != 1 or moving[0][2] != 1 or dt.itemsize(n.dtype) not in (4, 8):
            return None
        key, clamp, _ = moving[0]
        if not isinstance(clamp, (e.Min, e.Max)):
            return None
        a, c = (clamp.a, clamp.b) if self._depends(clamp.a) else (clamp.b, clamp.a)
        start = self._first_lane(a)
        if start is None or self._depends(c):
            return None
        least, rest, lanes = isinstance(clamp, e.Min), form.without(key), self.lanes
        end = start.shifted(lanes - 1) if least else start
        index = e.Ramp(rest.plus(start, 1).to_expr(dtype), 1, lanes, dt.vector(dtype, lanes))
        edge = ops.add(rest.to_expr(dtype), type(clamp)(end.to_expr(dtype), c, dtype))
        test = self._wide(self.value(ops.compare(e.LE if least else e.GE, a, c)))
        whole = e.BufferLoad(n.buffer, (index,), dt.vector(n.dtype, lanes), test)
        one = e.BufferLoad(n.buffer, (edge,), n.dtype)
        return e.Select(test, whole, self._wide(one), whole.dtype)

    def _first_lane(self, n: e.PrimExpr) -> Affine | None:
        """What an index that grows by 1 from lane to lane is in the first one; None for others."""
        form = self.analyzer.affine(n)
        start = form.without(self.var)
        if self.var not in form.terms or form.terms[self.var][1] != 1:
            return None
        if any(self._depends(x) for x, _ in start.terms.values()):
            return None
        return start.plus(self.analyzer.affine(self.base), 1)

    def _check_shared(self, n: e.PrimExpr) -> None:
        """Reads of what all lanes share happen even where a mask is off: they must be in range."""
        if self.mask is None or self.some_lane:
            return

        def visit(x: object) -> None:
            if isinstance(x, e.BufferLoad) and not self._in_range(
                x.buffer, e.Ramp(x.indices[0], 1, 1, x.indices[0].dtype)
            ):
                raise NotVectorizable

        post_order_visit(n, visit)

    def _in_range(self, buffer: Buffer, index: e.PrimExpr) -> bool:
        """Whether all lanes surely read inside the buffer."""
        if not isinstance(index, e.Ramp) or index.stride < 0:
            return False
        first, size = self.analyzer.affine(index.base), self.analyzer.affine(buffer.shape[0])
        last = first.shifted((index.lanes - 1) * index.stride)
        below = self.analyzer.at_most_zero(first.scaled(-1))
        return below and self.analyzer.at_most_zero((last - size).shifted(1))

    def _choose(self, c: e.PrimExpr, t: e.PrimExpr, f: e.PrimExpr) -> e.PrimExpr:
        if dt.lanes(c.dtype) == dt.lanes(t.dtype) == dt.lanes(f.dtype) == 1:
            return e.Select(c, t, f, t.dtype)
        t, f = self._wide(t), self._wide(f)
        return e.Select(self._wide(c), t, f, t.dtype)

    def _if_then_else(self, n: e.Call) -> e.PrimExpr:
        condition, t, f = n.args
        kind = dt.vector(n.dtype, self.lanes)
        if not self._depends(condition):
            with self.analyzer.assuming(condition):
                yes = self._wide(self.value(t))
            return e.Call(kind, n.op, (condition, yes, self._wide(self.value(f))))
        try:
            return self._masked_choice(condition, t, f)
        except NotVectorizable:
            scalar = [c for c in conjuncts(condition) if not self._depends(c)]
            if not scalar:
                raise
        # what all lanes read may only be read where all of them may: that needs a branch
        vector = ops.all_of(*[c for c in conjuncts(condition) if self._depends(c)])
        shared = ops.all_of(*scalar)
        with self.analyzer.assuming(shared):
            inner = self._wide(self._masked_choice(vector, t, f))
        return e.Call(kind, n.op, (shared, inner, self._wide(self.value(f))))

    def _masked_choice(self, condition: e.PrimExpr, t: e.PrimExpr, f: e.PrimExpr) -> e.PrimExpr:
        test = self._wide(self.value(condition))
        mask, some_lane = self.mask, self.some_lane
        self.some_lane = False
        try:
            self.mask = self._merged(None, test)
            yes = self.value(t)
            self.mask = mask
            self.mask = self._merged(None, e.Not(test, test.dtype))
            no = self.value(f)
        finally:
            self.mask, self.some_lane = mask, some_lane
        return self._choose(test, yes, no)


def conjuncts(c: e.PrimExpr) -> list[e.PrimExpr]:
    """The conditions that a condition is all of."""
    return [*conjuncts(c.a), *conjuncts(c.b)] if isinstance(c, e.And) else [c]


def _loads(n: e.PrimExpr) -> bool:
    return isinstance(n, e.BufferLoad) or any(_loads(p) for p in TABLE[type(n)][0](n))
