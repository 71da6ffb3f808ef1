"""Arithmetic of whole numbers as a compiler leaves it: conditions and addresses, each once.

What several indices have in common is one value, what a loop does not change is computed before it,
and a constant, or the step of a loop that is written out, stands in the instruction itself. What is
left are divisions, comparisons, and one base a buffer wherever its address moves.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from whet.compiler.arith import Analyzer
from whet.compiler.codegen.cuda.lanes import lane_form
from whet.compiler.tir import expr as e
from whet.compiler.tir.visit.rewrite import TABLE

LONG_DIVISION = 20.0
"""Instructions of a division by what is no constant."""
CONSTANT_DIVISION = 4.0
"""Instructions of a division by a constant: a multiplication, shifts, a correction."""
SUM = 1.0
"""Instructions of the sum under a division, or under another function of it."""
BASES = {"global": 3.0, "shared": 2.0}
"""Instructions of an address, once: 64 bits of memory, an offset into the shared arena."""
_DIVISIONS = (e.FloorDiv, e.FloorMod, e.Div, e.Mod)


@dataclass(frozen=True)
class Piece:
    """A value that is computed.

    Attributes:
        key: equal for equal values.
        parts: the expressions that it is made of: it is computed where they change.
        cost: instructions, besides those of other pieces.
    """

    key: Hashable
    parts: tuple[e.PrimExpr, ...]
    cost: float


def pieces(n: e.PrimExpr, analyzer: Analyzer) -> Iterator[Piece]:
    """What computing a condition or a number takes; some pieces occur more than once.

    Args:
        n: of integers or truth values; loads in it are left out.
        analyzer: finds affine forms.
    """
    if isinstance(n, e.CmpOp):
        a, b = _first(n.a), _first(n.b)
        if a is None or b is None or not _is_whole(n.a):
            yield Piece(id(n), (n,), 1.0)
            return
        form = analyzer.affine(a) - analyzer.affine(b)
        yield Piece((type(n), form.key), (n,), 1.0)
        for atom, _ in form.terms.values():
            yield from _atom(atom, analyzer)
    elif isinstance(n, (e.And, e.Or, e.Not)) or n.dtype == "bool":
        for x in TABLE[type(n)][0](n):
            yield from pieces(x, analyzer)
    elif _is_whole(n):
        first_lane = _first(n)
        for atom, _ in analyzer.affine(n if first_lane is None else first_lane).terms.values():
            yield from _atom(atom, analyzer)


def address(
    index: e.PrimExpr, written_out: frozenset[e.Var], analyzer: Analyzer
) -> tuple[Hashable, tuple[e.PrimExpr, ...]]:
    """The base of an access, which steps of loops that are written out do not move.

    Args:
        index: of the access.
        written_out: variables of such loops.
        analyzer: finds affine forms.

    Returns:
        A key, equal for equal bases, and what the base is made of.
    """
    first = _first(index)
    if first is None:
        return id(index), (index,)
    kept = {
        key: (atom, factor)
        for key, (atom, factor) in analyzer.affine(first).terms.items()
        if atom not in written_out
    }
    key = frozenset((key, factor) for key, (_, factor) in kept.items())
    return key, tuple(atom for atom, _ in kept.values())


def _atom(n: e.PrimExpr, analyzer: Analyzer) -> Iterator[Piece]:
    """What an atom of an affine form takes."""
    if isinstance(n, (e.Var, e.BufferLoad)):
        return
    parts = TABLE[type(n)][0](n)
    cost = SUM
    if isinstance(n, _DIVISIONS):
        cost += division(n.b)
        parts = (_under(parts[0], analyzer),) if isinstance(n, e.FloorDiv) else parts[:1]
    yield Piece((type(n), analyzer.affine(n).key), (n,), cost)
    for x in parts:
        if x.dtype != "handle":
            yield from pieces(x, analyzer)


def _under(n: e.PrimExpr, analyzer: Analyzer) -> e.PrimExpr:
    """What is divided: ``x // 3 // 8`` is one division of ``x``."""
    form = analyzer.affine(n)
    if len(form.terms) != 1 or form.const:
        return n
    ((atom, factor),) = form.terms.values()
    if factor != 1 or not isinstance(atom, e.FloorDiv) or not isinstance(atom.b, e.IntImm):
        return n
    return _under(atom.a, analyzer)


def division(by: e.PrimExpr) -> float:
    """Instructions of a division of integers: by a power of two it is a shift.

    Args:
        by: what divides.
    """
    value = by.value if isinstance(by, e.Broadcast) else by
    if not isinstance(value, e.IntImm):
        return LONG_DIVISION
    return 1.0 if value.value > 0 and value.value & (value.value - 1) == 0 else CONSTANT_DIVISION


def _first(n: e.PrimExpr) -> e.PrimExpr | None:
    """The first lane of a vector whose lanes are steps apart; a scalar itself."""
    form = lane_form(n)
    return None if form is None else form[0]


def _is_whole(n: e.PrimExpr) -> bool:
    return n.dtype.startswith(("int", "uint"))
