"""Integer instructions after a compiler's optimisation: conditions and addresses, each once.

A common part of several indices is one value, a loop-invariant one is hoisted, and a constant, or
the iteration of an unrolled loop, is an immediate of the instruction. Divisions, comparisons, and
one base a buffer wherever its address moves are left.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from whet.compiler.arith import Analyzer
from whet.compiler.codegen.cuda.lanes import lane_form
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    And,
    Broadcast,
    BufferLoad,
    CmpOp,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Not,
    Or,
    PrimExpr,
    Var,
)

LONG_DIVISION = 20.0
"""Instructions of a division by a variable."""
CONSTANT_DIVISION = 4.0
"""Instructions of a division by a constant: a multiplication, shifts, a correction."""
SUM = 1.0
"""Instructions of the sum under a division, or under another function of it."""
BASES = {"global": 3.0, "shared": 2.0}
"""Instructions of an address, once: 64 bits of memory, an offset into the shared arena."""
_DIVISIONS = (FloorDiv, FloorMod, Div, Mod)


@dataclass(frozen=True)
class IntegerOp:
    """An integer operation.

    Attributes:
        key: equal for equal values.
        parts: its operands: it is computed where they change.
        cost: instructions, besides those of other operations.
    """

    key: Hashable
    parts: tuple[PrimExpr, ...]
    cost: float


def integer_ops(n: PrimExpr, analyzer: Analyzer) -> Iterator[IntegerOp]:
    """The operations of a condition or a number; some occur more than once.

    Args:
        n: of integers or truth values; loads in it are left out.
        analyzer: finds affine forms.
    """
    if isinstance(n, CmpOp):
        a, b = _first(n.a), _first(n.b)
        if a is None or b is None or not dt.is_int(n.a.dtype):
            yield IntegerOp(id(n), (n,), 1.0)
            return
        form = analyzer.affine(a) - analyzer.affine(b)
        yield IntegerOp((type(n), form.key), (n,), 1.0)
        for atom, _ in form.terms.values():
            yield from _atom(atom, analyzer)
    elif isinstance(n, (And, Or, Not)) or n.dtype == "bool":
        for x in n.parts:
            yield from integer_ops(x, analyzer)
    elif dt.is_int(n.dtype):
        first_lane = _first(n)
        for atom, _ in analyzer.affine(n if first_lane is None else first_lane).terms.values():
            yield from _atom(atom, analyzer)


def address(
    index: PrimExpr, unrolled: frozenset[Var], analyzer: Analyzer
) -> tuple[Hashable, tuple[PrimExpr, ...]]:
    """The base of an access, which iterations of unrolled loops do not move.

    Args:
        index: of the access.
        unrolled: variables of such loops.
        analyzer: finds affine forms.

    Returns:
        A key, equal for equal bases, and the parts of the base.
    """
    first = _first(index)
    if first is None:
        return id(index), (index,)
    kept = {
        key: (atom, factor)
        for key, (atom, factor) in analyzer.affine(first).terms.items()
        if atom not in unrolled
    }
    key = frozenset((key, factor) for key, (_, factor) in kept.items())
    return key, tuple(atom for atom, _ in kept.values())


def _atom(n: PrimExpr, analyzer: Analyzer) -> Iterator[IntegerOp]:
    """The operations of an atom of an affine form."""
    if isinstance(n, (Var, BufferLoad)):
        return
    parts = n.parts
    cost = SUM
    if isinstance(n, _DIVISIONS):
        cost += division_cost(n.b)
        parts = (_under(parts[0], analyzer),) if isinstance(n, FloorDiv) else parts[:1]
    yield IntegerOp((type(n), analyzer.affine(n).key), (n,), cost)
    for x in parts:
        if x.dtype != "handle":
            yield from integer_ops(x, analyzer)


def _under(n: PrimExpr, analyzer: Analyzer) -> PrimExpr:
    """The dividend: ``x // 3 // 8`` is one division of ``x``."""
    form = analyzer.affine(n)
    if len(form.terms) != 1 or form.const:
        return n
    ((atom, factor),) = form.terms.values()
    if factor != 1 or not isinstance(atom, FloorDiv) or not isinstance(atom.b, IntImm):
        return n
    return _under(atom.a, analyzer)


def division_cost(by: PrimExpr) -> float:
    """Instructions of a division of integers: by a power of two it is a shift.

    Args:
        by: the divisor.
    """
    value = by.value if isinstance(by, Broadcast) else by
    if not isinstance(value, IntImm):
        return LONG_DIVISION
    return 1.0 if value.value > 0 and value.value & (value.value - 1) == 0 else CONSTANT_DIVISION


def _first(n: PrimExpr) -> PrimExpr | None:
    """The first lane of a vector whose lanes are steps apart; a scalar itself."""
    form = lane_form(n)
    return None if form is None else form[0]
