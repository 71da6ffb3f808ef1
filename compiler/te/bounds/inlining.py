"""Reads of inlined stages, with what these compute in their place.

    B[i] = A[i] + 1; C[i] = B[i] * 2   ->   C[i] = (A[i] + 1) * 2

Each element of an inlined stage is expanded once, in terms of the stage that needs it: a chain of n
stages is n small substitutions, and what two ways lead to is one expression. Elements wait on a
stack, not in Python's calls: chains may be long.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whet.compiler.arith.keys import structural_key
from whet.compiler.te.lang.relations import INLINE
from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.tir.expr import PrimExpr, ProducerLoad
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import Rewriter, nodes, substitute

if TYPE_CHECKING:
    from whet.compiler.te.lang.tensor import Operation
    from whet.compiler.te.schedule import Schedule


@dataclass(slots=True, eq=False)
class _Element:
    """An element of an inlined stage.

    Attributes:
        load: a read of it, which keeps its indices, and so the ids in its key.
        body: what the stage computes there, with its own reads as they are.
        value: the body without reads of inlined stages, once it is known.
        entered: True once the elements that it reads were put before it.
    """

    load: ProducerLoad | None
    body: PrimExpr
    value: PrimExpr | None = None
    entered: bool = False


class _MissingError(Exception):
    """An element has to be expanded before the one at hand."""


def inlined_in(schedule: Schedule) -> Callable[[Operation], Operation | None]:
    """From an operation to what its stage computes now, if a schedule inlines it; else to None."""

    def computed(op: Operation) -> Operation | None:
        stage = schedule.stage_map[op]
        return stage.op if stage.attach_type == INLINE else None

    return computed


class Inlining:
    """Puts what inlined operations compute where it is read.

    Args:
        computed: from an operation to what it computes where it is inlined; else to None.
    """

    def __init__(self, computed: Callable[[Operation], Operation | None]) -> None:
        self._computed = computed
        self._elements: dict[tuple[Hashable, ...], _Element] = {}
        self._rewrite = Rewriter({ProducerLoad: self._replaced}, once=True)

    def expanded(self, body: PrimExpr) -> PrimExpr:
        """An expression in which no inlined stage is read."""
        first = _Element(None, body)
        stack = [first]
        while stack:
            element = stack[-1]
            if element.value is None and not element.entered:
                element.entered = True
                stack += self._read_by(element.body)
                continue
            if element.value is None:
                try:
                    element.value = self._rewrite(element.body)
                except _MissingError as missing:
                    stack.append(missing.args[0])
                    continue
            stack.pop()
        assert first.value is not None
        return first.value

    def _read_by(self, body: PrimExpr) -> list[_Element]:
        """The elements that an expression reads at places which read none themselves."""
        loads = [n for n in nodes((body,)) if type(n) is ProducerLoad and self._is_inlined(n)]
        plain = (n for n in loads if not any(type(x) is ProducerLoad for x in nodes(n.indices)))
        return [x for x in map(self._element, plain) if x.value is None]

    def _is_inlined(self, n: ProducerLoad) -> bool:
        return self._computed(n.producer.op) is not None

    def _replaced(self, n: ProducerLoad) -> PrimExpr:
        n = self._rewrite.children(n)
        if not self._is_inlined(n):
            return n
        element = self._element(n)
        if element.value is None:
            raise _MissingError(element)
        return element.value

    def _element(self, n: ProducerLoad) -> _Element:
        op = self._computed(n.producer.op)
        key = (op, n.producer.value_index, *(_place_key(i) for i in n.indices))
        known = self._elements.get(key)
        if known is None:
            assert isinstance(op, ComputeOp)
            places = {a.var: ops.cast(a.dtype, i) for a, i in zip(op.axis, n.indices)}
            body = substitute(op.body[n.producer.value_index], places)
            known = self._elements[key] = _Element(n, body)
        return known


def _place_key(index: PrimExpr) -> Hashable:
    """Equal for indices that are written the same; a large one is only equal to itself."""
    return structural_key(index) if len(nodes((index,))) < 100 else id(index)
