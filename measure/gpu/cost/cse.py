"""Common subexpressions of a value: equal ones count once, those that loops rule out not at all.

    T[u] = if_then_else(u == 0, a, if_then_else(u == 1, a + b, b))     # u is unrolled

Compilers know ``u`` in each copy, so that of three copies one adds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whet.compiler.arith import Analyzer
from whet.compiler.codegen.cuda.dot_product import PACK, word_of
from whet.compiler.codegen.cuda.lanes import choice_of
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    Add,
    BufferLoad,
    BufferView,
    Call,
    FloatImm,
    IntImm,
    Mul,
    PrimExpr,
    Ramp,
    Shuffle,
    StringImm,
    Sub,
    Var,
)

Decider = Callable[[PrimExpr], "np.ndarray | None"]
"""The iterations of the unrolled loops in which a condition holds, (iterations,); None where they
alone do not decide."""
_SUMS = (Add, Sub)
_ALWAYS = np.ones((), bool)


@dataclass
class Subexpressions:
    """The distinct parts of one value; a share is the part of unrolled iterations that compute it.

    Attributes:
        nodes: operations and their shares; products that are part of a fused multiply-add are left
            out.
        integers: integers and conditions that loops and threads alone decide: compilers hoist them
            out of the loops that do not change them.
        loads: loads and their shares; of indices, too.
    """

    nodes: list[tuple[PrimExpr, float]] = field(default_factory=list)
    integers: list[PrimExpr] = field(default_factory=list)
    loads: list[tuple[BufferLoad, float]] = field(default_factory=list)


def eliminate_common(root: PrimExpr, decide: Decider = lambda condition: None) -> Subexpressions:
    """The distinct parts of a value.

    Args:
        root: the value of a store.
        decide: decides conditions by the iterations of unrolled loops.
    """
    parts, names = Subexpressions(), _Names()
    seen: dict[tuple[int, bool], np.ndarray] = {}
    stack: list[tuple[Any, np.ndarray, bool]] = [(root, _ALWAYS, False)]
    while stack:
        n, where, in_index = stack.pop()
        key = names.of(n), in_index
        before = seen.get(key)
        if before is _ALWAYS:
            continue
        new = where if before is None else where & ~before
        if new is not _ALWAYS and not new.any():
            continue
        seen[key] = where if before is None else where | before
        share = 1.0 if new is _ALWAYS else float(new.mean())
        if isinstance(n, BufferLoad):
            parts.loads.append((n, share))
        if in_index or isinstance(n, BufferLoad):
            stack += [(x, new, True) for x in n.parts]
        elif _is_integer(n):
            parts.integers.append(n)
        else:
            stack += _inside(n, share, new, decide, parts)
    return parts


def _inside(
    n: Any, share: float, where: np.ndarray, decide: Decider, subexpressions: Subexpressions
) -> list[tuple[Any, np.ndarray, bool]]:
    """An operation's own parts, and where each is computed."""
    parts = n.parts
    if choice := choice_of(n):
        holds = decide(choice[0])
        if holds is not None:
            return [(choice[1], where & holds, False), (choice[2], where & ~holds, False)]
    if isinstance(n, Call) and n.op == PACK and word_of(n, Analyzer()) is not None:
        return [(parts[0], where, False)]
    subexpressions.nodes.append((n, share))
    product = _product(n)
    if product is not None:
        parts = tuple(p for x in (n.a, n.b) for p in ((x.a, x.b) if x is product else (x,)))
    return [(x, where, False) for x in parts]


def _product(n: Any) -> Any:
    """The product in a fused multiply-add; None where there is none."""
    if not isinstance(n, _SUMS) or not dt.is_float(n.dtype):
        return None
    return next((x for x in (n.b, n.a) if isinstance(x, Mul)), None)


def _is_integer(n: Any) -> bool:
    """True for an expression of integers or truth values that loads nothing."""
    trivial = isinstance(n, (IntImm, Var, StringImm)) or n.dtype == "handle"
    return not trivial and _is_free_of_data(n)


def _is_free_of_data(n: Any) -> bool:
    if isinstance(n, BufferLoad) or dt.is_float(n.dtype):
        return False
    return all(map(_is_free_of_data, n.parts))


class _Names:
    """A number for each expression: equal ones have the same."""

    def __init__(self) -> None:
        self._of: dict[int, int] = {}
        self._table: dict[tuple, int] = {}

    def of(self, root: Any) -> int:
        """The number of an expression, which has to live as long as this."""
        stack = [root]
        while stack:
            n = stack[-1]
            parts = n.parts
            missing = [x for x in parts if id(x) not in self._of]
            if missing and id(n) not in self._of:
                stack += missing
                continue
            stack.pop()
            if id(n) not in self._of:
                key = type(n), n.dtype, _own(n), tuple(self._of[id(x)] for x in parts)
                self._of[id(n)] = self._table.setdefault(key, len(self._table))
        return self._of[id(root)]


def _own(n: Any) -> Any:
    """The own fields of a node, which tell it from others of its type with the same parts."""
    if isinstance(n, (IntImm, FloatImm, StringImm)):
        return repr(n.value)
    if isinstance(n, Var):
        return id(n)
    if isinstance(n, (BufferLoad, BufferView)):
        return id(n.buffer)
    if isinstance(n, Call):
        return n.op
    if isinstance(n, Ramp):
        return n.stride, n.lanes
    return n.indices if isinstance(n, Shuffle) else None
