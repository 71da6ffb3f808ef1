"""Checks of loop IR that was written by hand, before a pass relies on it.

Loop nests that come from a schedule have buffers that exist, integer indices and, by the range
check of te, reads inside their tensors. A function from ``ir_builder`` or made of nodes promises
nothing; one walk over it finds what is surely wrong.
"""

from __future__ import annotations

from typing import Any

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.errors import LowerError
from whet.compiler.passes.context import PassContext
from whet.compiler.passes.contract.uses import is_address
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import (
    And,
    BufferLoad,
    BufferView,
    Call,
    IntImm,
    Or,
    PrimExpr,
    Ramp,
    Select,
)
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.printer import expr_text
from whet.compiler.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    Stmt,
    While,
)
from whet.compiler.tir.visit.renew import defined_once
from whet.compiler.tir.visit.rewrite import LEAVES


def verified(func: PrimFunc, may_be_empty: bool = False) -> PrimFunc:
    """The function, each variable of which is defined once, if there is nothing surely wrong in it.

    Args:
        func: has not been lowered.
        may_be_empty: whether it may allocate no elements, as stages of nothing do.

    Raises:
        LowerError: for a buffer that nothing declares, an index that is no integer, an access that
            surely leaves its buffer (unless the bounds checker is to find it when it happens), and
            an allocation of no elements.
    """
    _Walk(func, 0 if may_be_empty else 1).statement(func.body, True)
    return defined_once(func)


class _Walk:
    """Walks statements with the buffers that exist and the loops of constant length around them."""

    def __init__(self, func: PrimFunc, least: int) -> None:
        self.least = least
        self.name = str(func.attrs.get("global_symbol", "main"))
        self.buffers = {id(p) for p in func.params if isinstance(p, Buffer)}
        self.ranges: dict[Any, tuple[int, int]] = {}
        self.analyzer = Analyzer()
        self.seen: set[tuple[int, bool]] = set()
        self.checked_later = PassContext.current().config["tir.instrument_bound_checkers"]

    def statement(self, n: Stmt, sure: bool) -> None:
        """Look at a statement; ``sure`` says that it runs whenever the function does."""
        kind = type(n)
        if kind is BufferStore:
            self._access("writes", n, n.buffer, n.indices, sure and n.mask is None)  # type: ignore[attr-defined]
        elif kind is For:
            self._loop(n, sure)  # type: ignore[arg-type]
            return
        elif kind in (Allocate, AllocateConst, DeclBuffer):
            self._holder(n, sure)
            return
        certain = sure and kind not in (IfThenElse, While, AssertStmt)
        for p in n.parts:
            if isinstance(p, Stmt):
                self.statement(p, certain)
            else:
                self.expression(p, certain)

    def _loop(self, n: For, sure: bool) -> None:
        self.expression(n.min, sure)
        self.expression(n.extent, sure)
        outer = self.ranges.pop(n.var, None)
        if isinstance(n.extent, IntImm):
            sure = sure and n.extent.value > 0
            if isinstance(n.min, IntImm):
                self.ranges[n.var] = n.min.value, n.min.value + n.extent.value - 1
        self.statement(n.body, sure)
        self.ranges.pop(n.var, None)
        if outer is not None:
            self.ranges[n.var] = outer

    def _holder(self, n: Any, sure: bool) -> None:
        """A statement in which a buffer exists."""
        b = n.buffer
        if isinstance(n, Allocate):
            for d, size in enumerate(b.shape):
                if isinstance(size, IntImm) and size.value < self.least:
                    raise LowerError(
                        f"lower: {self.name} allocates {b.name}",
                        f"dimension {d} is {size.value}",
                        "a dimension is at least 1",
                    )
        new = id(b) not in self.buffers
        self.buffers.add(id(b))
        self.statement(n.body, sure)
        if new:
            self.buffers.discard(id(b))

    def expression(self, n: PrimExpr, sure: bool) -> None:
        """Look at what an expression reads; ``sure`` says that it is computed in any case."""
        stack = [(n, sure)]
        while stack:
            n, sure = stack.pop()
            kind = type(n)
            if kind in LEAVES or (id(n), sure) in self.seen:
                continue
            self.seen.add((id(n), sure))
            parts = n.parts
            if kind is BufferLoad:
                self._access("reads", n, n.buffer, n.indices, sure and n.mask is None)  # type: ignore[attr-defined]
            elif kind is BufferView:
                self._declared("hands on", n.buffer)  # type: ignore[attr-defined]
            elif is_address(n):
                stack += [(p, False) for p in parts]  # an address may lie behind the last element
                continue
            elif kind in (Select, And, Or) or (
                kind is Call and n.op == "if_then_else"  # type: ignore[attr-defined]
            ):
                stack += [(parts[0], sure), *((p, False) for p in parts[1:])]
                continue
            stack += [(p, sure) for p in parts]

    def _declared(self, does: str, b: Buffer) -> None:
        if id(b) not in self.buffers:
            raise LowerError(
                f"lower: the body {does} {b.name}",
                "it is neither an argument nor allocated there",
                "pass it as an argument, allocate it, or declare it over the data of another one",
            )

    def _access(
        self, does: str, n: Any, b: Buffer, indices: tuple[PrimExpr, ...], sure: bool
    ) -> None:
        self._declared(does, b)
        for i in indices:
            if dt.is_float(i.dtype) or i.dtype == "handle":
                raise LowerError(
                    f"lower: {self.name} {does} {_text(b, indices)}",
                    f"the index {expr_text(i)} is a {i.dtype}",
                    'an index is an integer: index.astype("int32")',
                )
        if sure and not self.checked_later:
            self._check_inside(does, b, indices)

    def _check_inside(self, does: str, b: Buffer, indices: tuple[PrimExpr, ...]) -> None:
        if b.strides or not (isinstance(b.elem_offset, IntImm) and not b.elem_offset.value):
            return
        written, last = indices, indices[-1] if indices else None
        lanes = (0, 0)
        if isinstance(last, Ramp):
            ends = (0, int(last.stride) * (last.lanes - 1))
            lanes = min(ends), max(ends)
            indices = (*indices[:-1], last.base)
        if any(dt.lanes(i.dtype) > 1 for i in indices) or len(indices) != len(b.shape):
            return
        at, size = Affine.constant(0), Affine.constant(1)
        for i, d in zip(indices, b.shape):
            extent = self.analyzer.affine(d)
            if len(b.shape) > 1 and not extent.is_const:
                return
            scale = extent.const if extent.is_const else 1
            at = at.scaled(scale) + self.analyzer.affine(i)
            size = size.scaled(scale) if extent.is_const else extent
        reached = self._extremes(at)
        if reached is not None and reached[0] + lanes[0] < 0:
            self._refuse(does, b, written, Affine.constant(reached[0] + lanes[0]), size)
        beyond = self._extremes(at - size)
        if beyond is not None and beyond[1] + lanes[1] >= 0:
            self._refuse(does, b, written, size.shifted(beyond[1] + lanes[1]), size)

    def _extremes(self, form: Affine) -> tuple[int, int] | None:
        """The least and the greatest value over the loops around; None if that is not known."""
        low = high = form.const
        for key, (_, coef) in form.terms.items():
            span = self.ranges.get(key)
            if span is None:
                return None
            ends = coef * span[0], coef * span[1]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def _refuse(
        self, does: str, b: Buffer, indices: tuple[PrimExpr, ...], at: Affine, size: Affine
    ) -> None:
        raise LowerError(
            f"lower: {self.name} {does} {_text(b, indices)}",
            f"it goes to element {expr_text(at.to_expr())}, and {b.name} has "
            f"{expr_text(size.to_expr())}, counted from 0",
            "make the buffer larger, or guard the access with a condition",
        )


def _text(b: Buffer, indices: tuple[PrimExpr, ...]) -> str:
    return f"{b.name}[{', '.join(expr_text(i) for i in indices)}]"
