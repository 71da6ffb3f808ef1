"""A computation over sizes and indices of another integer type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te.lang.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from whet.compiler.tir.expr import (
    BINARY,
    And,
    Call,
    CmpOp,
    IterVar,
    Or,
    PrimExpr,
    ProducerLoad,
    Range,
    Reduce,
    Select,
    SizeVar,
    Var,
    is_choice,
)
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import Rewriter, changed


def with_index_type(args: Sequence[Any], dtype: str) -> list[Any]:
    """The tensors and scalars of a function, with sizes and indices of type ``dtype``.

    Raises:
        ArgumentError: for another type than int32 and int64, and for an extern operation.
    """
    if dtype not in ("int32", "int64"):
        raise ArgumentError(
            f"create_prim_func(index_dtype_override={dtype!r})",
            "an index is int32 or int64",
            'index_dtype_override="int64"',
        )
    retyped = _Retyped(dtype)
    return [retyped.tensor(x) if isinstance(x, Tensor) else retyped.scalar(x) for x in args]


class _Retyped:
    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.made: dict[Operation, Operation] = {}
        self.vars: dict[Var, Var] = {}
        self.axes: dict[IterVar, IterVar] = {}
        binary: dict[type, Any] = dict.fromkeys(BINARY, self._binary)
        self.rewrite = Rewriter({
            **binary, Var: self._var, SizeVar: self._var, ProducerLoad: self._load,
            Select: self._select, Reduce: self._reduce, Call: self._call,
        }, once=True)  # fmt: skip

    def scalar(self, v: Var) -> Var:
        """A scalar parameter: a size has the new type, any other its own."""
        return self._var(v)

    def tensor(self, t: Tensor) -> Tensor:
        """The same tensor over other indices."""
        new = self.made.get(t.op)
        if new is None:
            new = self.made[t.op] = self._operation(t.op)
        return Tensor(new, t.value_index)

    def _operation(self, op: Operation) -> Operation:
        if isinstance(op, PlaceholderOp):
            return replace(op, shape=tuple(map(self._index, op.shape)))
        if not isinstance(op, ComputeOp):
            raise ArgumentError(
                "create_prim_func(index_dtype_override=...)",
                f"{op.name} is a statement as a whole, whose indices are its own",
                "leave index_dtype_override out",
            )
        axis, reduced = (tuple(map(self._axis, many)) for many in (op.axis, op.reduce_axis))
        around = self.axes  # a tensor that a body reads is made while that body is
        self.axes = dict(zip((*op.axis, *op.reduce_axis), (*axis, *reduced)))
        body = tuple(ops.cast(x.dtype, self.rewrite(x)) if not isinstance(x, Reduce)
                     else self.rewrite(x) for x in op.body)  # fmt: skip
        self.axes = around
        return ComputeOp(op.name, axis, reduced, body, op.tag, op.attrs)

    def _axis(self, a: IterVar) -> IterVar:
        dom = Range.from_min_extent(self._index(a.domain.min), self._index(a.domain.extent))
        return IterVar(dom, self._var(a.var), a.iter_type)

    def _index(self, x: PrimExpr) -> PrimExpr:
        return ops.cast(self.dtype, self.rewrite(x))

    def _var(self, v: Var) -> Var:
        if v.dtype not in ("int32", "int64") or v.dtype == self.dtype:
            return v
        if v not in self.vars:
            self.vars[v] = type(v)(v.name, self.dtype)
        return self.vars[v]

    def _load(self, n: ProducerLoad) -> PrimExpr:
        return ProducerLoad(self.tensor(n.producer), tuple(map(self._index, n.indices)), n.dtype)

    def _binary(self, n: Any) -> PrimExpr:
        a, b = self.rewrite(n.a), self.rewrite(n.b)
        if a is n.a and b is n.b:
            return n
        if a.dtype != b.dtype:
            a, b = ops.cast(self.dtype, a), ops.cast(self.dtype, b)
        condition = isinstance(n, (CmpOp, And, Or))
        return type(n)(a, b, n.dtype if condition else a.dtype)

    def _select(self, n: Select) -> PrimExpr:
        parts = (n.condition, n.true_value, n.false_value)
        c, a, b = (self.rewrite(x) for x in parts)
        return ops.select(c, ops.cast(n.dtype, a), ops.cast(n.dtype, b))

    def _call(self, n: Any) -> PrimExpr:
        new = tuple(map(self.rewrite, n.args))
        kept = [x if old.dtype == x.dtype else ops.cast(old.dtype, x)
                for old, x in zip(n.args, new)]  # fmt: skip
        if is_choice(n) or any(a is not b for a, b in zip(kept, n.args)):
            return changed(n, args=tuple(kept))
        return n

    def _reduce(self, n: Reduce) -> PrimExpr:
        source = tuple(ops.cast(x.dtype, self.rewrite(x)) for x in n.source)
        init = tuple(ops.cast(x.dtype, self.rewrite(x)) for x in n.init)
        axis = tuple(self.axes[a] for a in n.axis)
        return changed(n, source=source, init=init, axis=axis, condition=self.rewrite(n.condition))
