"""Vectors of indices: sums, products, quotients and comparisons of ramps and broadcasts.

ramp(x, 1, 4) + broadcast(y, 4)         ->  ramp(x + y, 1, 4)
ramp(x * 8, 4, 4) // broadcast(4, 4)    ->  ramp(x * 2, 1, 4)
ramp(x * 8, 1, 8) // broadcast(8, 8)    ->  broadcast(x, 8)
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from whet.compiler.arith.simplify import Simplifier
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    ARITHMETIC,
    COMPARISONS,
    EQ,
    LE,
    NE,
    Add,
    BinaryOp,
    Broadcast,
    Cast,
    CmpOp,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Ramp,
    Shuffle,
    Sub,
)
from whet.compiler.tir.ops import ops

if TYPE_CHECKING:
    from whet.compiler.arith.analyzer import Analyzer

_INDICES = ("int32", "int64")
_PLAIN = (Ramp, Broadcast)
_MAKERS: dict[type[BinaryOp], Callable[..., PrimExpr]] = {
    Add: ops.add,
    Sub: ops.subtract,
    Mul: ops.multiply,
    Div: ops.truncdiv,
    Mod: ops.truncmod,
    FloorDiv: ops.floordiv,
    FloorMod: ops.floormod,
    Min: ops.minimum,
    Max: ops.maximum,
}


class VectorSimplifier(Simplifier):
    """Simplifies vectors, too, where :class:`Simplifier` leaves them as they are."""

    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__(analyzer)
        for kind in (*ARITHMETIC, *COMPARISONS):
            self.rules[kind] = self._of_lanes
        self.rules[Shuffle] = self._shuffle
        self.rules[Cast] = self._cast
        self._scalar = Simplifier(analyzer)

    def _of_lanes(self, n: BinaryOp) -> PrimExpr:
        if dt.lanes(n.a.dtype) == 1:
            return self._compare(n) if isinstance(n, CmpOp) else self._integer(n)
        out = self.children(n)
        if isinstance(out, BinaryOp) and isinstance(out.a, _PLAIN) and isinstance(out.b, _PLAIN):
            made = self._vector(out)
            return out if made is None else made
        return out

    def _vector(self, n: BinaryOp) -> PrimExpr | None:
        a, b = n.a, n.b
        if isinstance(a, Broadcast) and isinstance(b, Broadcast):
            return self._spread(self._scalar(_made(type(n), a.value, b.value)), n)
        if dt.element(a.dtype) not in _INDICES:
            return None
        if isinstance(n, CmpOp):
            return self._decided(n)
        if isinstance(n, (Add, Sub)):
            sign = 1 if isinstance(n, Add) else -1
            return self._ramp(_first(a), _first(b), type(n), _step(a) + sign * _step(b), n)
        if isinstance(n, Mul):
            ramp, number = (a, b) if isinstance(a, Ramp) else (b, a)
            factor = _number(number)
            if factor is None or not isinstance(ramp, Ramp):
                return None
            return self._ramp(ramp.base, _first(number), Mul, ramp.stride * factor, n)
        if isinstance(n, (Min, Max)):
            below = self._decided(LE(a, b))
            if isinstance(below, Broadcast) and isinstance(below.value, IntImm):
                return a if bool(below.value) is isinstance(n, Min) else b
            return None
        return self._divided(n)

    def _divided(self, n: BinaryOp) -> PrimExpr | None:
        """A ramp divided by a positive number: steps that divide evenly, or one quotient."""
        c = _number(n.b)
        if not isinstance(n.a, Ramp) or c is None or c <= 0:
            return None
        base, step, lanes = n.a.base, n.a.stride, n.a.lanes
        ends = (base, self._scalar(base + step * (lanes - 1)))
        if isinstance(n, (Div, Mod)) and not all(self.analyzer.at_most(0 * x, x) for x in ends):
            return None  # what rounds towards zero is no ramp where the sign changes
        quotient = isinstance(n, (Div, FloorDiv))
        divisor = ops.const(c, base.dtype)
        if step % c == 0:
            kind = FloorDiv if quotient else FloorMod
            return self._ramp(base, divisor, kind, step // c if quotient else 0, n)
        first, last = (self._scalar(ops.floordiv(x, divisor)) for x in ends)
        if not self.analyzer.equal(first, last):
            return None
        if quotient:
            return self._spread(first, n)
        return self._ramp(base, first * divisor, Sub, step, n)

    def _decided(self, n: CmpOp) -> PrimExpr | None:
        """A comparison that is the same in all lanes."""
        if isinstance(n, (EQ, NE)):
            return None
        last = dt.lanes(n.a.dtype) - 1
        pairs = [[_first(x) + k * _step(x) for x in (n.a, n.b)] for k in (0, last)]
        said = {self.analyzer.compare(type(n)(a, b)) for a, b in pairs}
        known = said.pop() if len(said) == 1 else None
        return None if known is None else self._spread(ops.const(known), n)

    def _ramp(
        self, a: PrimExpr, b: PrimExpr, kind: type[BinaryOp], stride: int, n: PrimExpr
    ) -> PrimExpr:
        base = self._scalar(_made(kind, a, b))
        if not stride:
            return self._spread(base, n)
        lanes = dt.lanes(n.dtype)
        return Ramp(base, stride, lanes, dt.vector(base.dtype, lanes))

    def _spread(self, value: PrimExpr, n: PrimExpr) -> PrimExpr:
        lanes = dt.lanes(n.dtype)
        return Broadcast(value, lanes, dt.vector(value.dtype, lanes))

    def _cast(self, n: Cast) -> PrimExpr:
        out = self.children(n)
        if isinstance(out, Cast) and isinstance(out.value, Broadcast):
            return self._spread(ops.cast(dt.element(out.dtype), out.value.value), out)
        return out

    def _shuffle(self, n: Shuffle) -> PrimExpr:
        """Lanes of one vector: of a broadcast its value, of a ramp its numbers."""
        out = self.children(n)
        if not isinstance(out, Shuffle) or len(out.vectors) != 1 or not out.indices:
            return out
        vector, picked = out.vectors[0], out.indices
        steps = {j - i for i, j in pairwise(picked)} or {0}
        if not isinstance(vector, _PLAIN) or len(steps) > 1 or max(picked) >= vector.lanes:
            return out
        first = self._scalar(_first(vector) + picked[0] * _step(vector))
        if len(picked) == 1:
            return first
        return self._ramp(first, 0 * first, Add, steps.pop() * _step(vector), out)


def _made(kind: type[BinaryOp], a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The node of two operands, folded where they are numbers."""
    maker = _MAKERS.get(kind)
    return ops.compare(kind, a, b) if maker is None else maker(a, b)  # type: ignore[arg-type]


def _first(n: PrimExpr) -> PrimExpr:
    """The first lane of a ramp or a broadcast."""
    return n.base if isinstance(n, Ramp) else n.value  # type: ignore[attr-defined]


def _step(n: PrimExpr) -> int:
    return n.stride if isinstance(n, Ramp) else 0


def _number(n: PrimExpr) -> int | None:
    """The number in all lanes; None for another vector."""
    if isinstance(n, Broadcast) and isinstance(n.value, IntImm):
        return n.value.value
    return None
