"""The rules that complete nodes made by hand: values become expressions, dtypes are inferred.

A constructor calls its class's rule, ``node.infer()``, where a field is missing or is no expression
yet. The compiler's own code gives every field, and pays for nothing here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import check_indices
from whet.compiler.tir.expr import (
    And,
    BinaryOp,
    Broadcast,
    BufferLoad,
    BufferView,
    Call,
    Cast,
    CmpOp,
    CommReducer,
    FloatImm,
    IntImm,
    Let,
    Not,
    Or,
    PrimExpr,
    ProducerLoad,
    Ramp,
    Range,
    Reduce,
    Select,
    Shuffle,
)
from whet.compiler.tir.node import Node
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import (
    AssertStmt,
    AttrStmt,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    While,
)
from whet.compiler.tir.tracing.traced import TracedInt

_WAY_OUT = "tir.const(value, dtype)"


def expressions(values: Any) -> tuple[PrimExpr, ...]:
    """Values as a tuple of expressions."""
    return tuple(map(ops.convert, values))


def typed(value: Any, dtype: str) -> PrimExpr:
    """A value as an expression; a number has the type ``dtype``."""
    return ops.const(value, dtype) if ops.is_number(value) else ops.convert(value)


def _indices(given: Any, element: str) -> tuple[tuple[PrimExpr, ...], str]:
    """The indices of an access as expressions, and the dtype of what is accessed."""
    indices = expressions(given if isinstance(given, Sequence) else (given,))
    check_indices(indices)
    lanes = max((dt.lanes(i.dtype) for i in indices), default=1)
    return indices, dt.vector(element, lanes)


def _binary(n: BinaryOp) -> None:
    n.a, n.b = ops.same_type(n.a, n.b)
    if n.a.dtype != n.b.dtype:
        raise ArgumentError(
            f"{type(n).__name__}({n.a.dtype}, {n.b.dtype})",
            "the types of the operands differ",
            "cast one",
        )
    condition = isinstance(n, (CmpOp, And, Or))
    n.dtype = dt.vector("bool", dt.lanes(n.a.dtype)) if condition else n.a.dtype


def _integer(n: IntImm) -> None:
    n.dtype = dt.check(n.dtype)
    known = n.dtype in dt.INTEGERS
    if known and type(n.value) is TracedInt:
        return  # an error's text would ask for its value
    request = f"IntImm({n.dtype!r}, {n.value!r})"
    if not known:
        raise ArgumentError(request, f"{n.dtype} is no type of integers", _WAY_OUT)
    try:
        n.value = int(n.value) if isinstance(n.value, float) else operator.index(n.value)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(request, "it is no integer", _WAY_OUT) from None


def _float(n: FloatImm) -> None:
    n.dtype = dt.check(n.dtype)
    try:
        if n.dtype in dt.FLOATS:
            n.value = float(n.value)
            return
    except (TypeError, ValueError):
        pass
    raise ArgumentError(
        f"FloatImm({n.dtype!r}, {n.value!r})",
        f"{n.dtype} is no type of floats" if n.dtype not in dt.FLOATS else "it is no number",
        _WAY_OUT,
    )


def _select(n: Select) -> None:
    n.condition = ops.convert(n.condition)
    n.true_value, n.false_value = ops.same_type(n.true_value, n.false_value)
    n.dtype = n.true_value.dtype


def _load(n: BufferLoad | ProducerLoad) -> None:
    what, holder = ("buffer", n.buffer) if isinstance(n, BufferLoad) else ("tensor", n.producer)
    if not hasattr(holder, "dtype") or not hasattr(holder, "shape"):
        raise ArgumentError(
            f"{type(n).__name__}({type(holder).__name__}, ...)",
            f"it is no {what}",
            "decl_buffer makes a buffer, te.placeholder and te.compute tensors",
        )
    n.indices, n.dtype = _indices(n.indices, str(holder.dtype))


def _store(n: BufferStore) -> None:
    n.indices, dtype = _indices(n.indices, n.buffer.dtype)
    n.value = typed(n.value, dtype)


def _ramp(n: Ramp) -> None:
    n.base = ops.convert(n.base)
    try:
        n.stride, n.dtype = int(n.stride), dt.vector(n.base.dtype, n.lanes)
    except (TypeError, ArgumentError):
        raise ArgumentError(
            f"Ramp(stride={n.stride!r})", "the stride is a number that is known now"
        ) from None


def _broadcast(n: Broadcast) -> None:
    n.value = ops.convert(n.value)
    n.dtype = dt.vector(n.value.dtype, n.lanes)


def _shuffle(n: Shuffle) -> None:
    request = f"Shuffle({type(n.vectors).__name__}, {type(n.indices).__name__})"
    way_out = "Shuffle([a, b], [0, 5])"
    if not isinstance(n.vectors, (list, tuple)) or not n.vectors:
        raise ArgumentError(request, "the vectors are a list", way_out)
    if not isinstance(n.indices, (list, tuple)):
        raise ArgumentError(request, "the lanes are a list of numbers", way_out)
    n.vectors = expressions(n.vectors)
    try:
        n.indices = tuple(int(i) for i in n.indices)
    except (TypeError, ValueError):
        raise ArgumentError(
            request, f"{n.indices!r}: a lane is a number that is known now", way_out
        ) from None
    n.dtype = dt.vector(dt.element(n.vectors[0].dtype), len(n.indices))


def _let(n: Let) -> None:
    n.value, n.body = ops.cast(n.var.dtype, n.value), ops.convert(n.body)
    n.dtype = n.body.dtype


def _reducer(n: CommReducer) -> None:
    for field in ("result", "identity"):
        values = getattr(n, field)
        one_each = len(n.lhs) == len(values)
        parts = (typed(x, v.dtype) for v, x in zip(n.lhs, values))
        setattr(n, field, tuple(parts) if one_each else expressions(values))


def _range(n: Range, of_extent: bool = False) -> None:
    """From the begin and the end, or the begin and the extent, to expressions of these two."""
    if of_extent:
        n.min, n.extent = ops.convert(n.min), ops.convert(n.extent)
        return
    begin, end = n.min, n.extent
    request = f"Range({begin})" if end is None else f"Range({begin}, {end})"
    first, last = (ops.const(0), begin) if end is None else (ops.convert(begin), end)
    last = ops.convert(last)
    for x in (first, last):
        if not dt.is_int(x.dtype) or dt.lanes(x.dtype) > 1:
            raise ArgumentError(request, f"a bound is a {x.dtype}, not an integer", "Range(0, n)")
    n.extent = ops.subtract(last, first)
    if isinstance(n.extent, IntImm) and n.extent.value < 0:
        raise ArgumentError(
            request,
            f"it ends {-n.extent.value} before it begins",
            "Range.from_min_extent(min, extent)",
        )
    n.min = ops.cast(n.extent.dtype, first) if isinstance(first, IntImm) else first


def _loop(n: For, binding: Any = None) -> None:
    """The bounds in the variable's type; the thread tag and annotations from TVM's places."""
    if n.var is None or n.body is None:
        raise ArgumentError("For(...)", "a loop needs a variable and a body", "loop_var=, body=")
    thread: Any = n.thread
    annotations: Any = n.annotations
    if type(thread) is not str:  # TVM's order: the thread axis, then the annotations
        binding = binding if annotations is None else annotations
        annotations, thread = thread, ""
    elif annotations is not None and type(annotations) is not dict:
        binding, annotations = annotations, None
    n.thread, n.annotations = getattr(binding, "thread_tag", thread), annotations or {}
    if not (isinstance(n.min, PrimExpr) and isinstance(n.extent, PrimExpr)):
        n.min, n.extent = ops.cast(n.var.dtype, n.min), ops.cast(n.var.dtype, n.extent)


def _converted(*fields: str) -> Callable[[Any], None]:
    """The rule that converts fields: values, and tuples of them."""

    def rule(n: Any) -> None:
        for field in fields:
            value = getattr(n, field)
            many = isinstance(value, (tuple, list))
            setattr(n, field, expressions(value) if many else ops.convert(value))

    return rule


def _let_stmt(n: LetStmt) -> None:
    n.value = typed(n.value, n.var.dtype)


def _realize(n: BlockRealize) -> None:
    """A value for each axis of the block; a condition."""
    n.iter_values, n.predicate = expressions(n.iter_values), ops.convert(n.predicate)
    axes = len(n.block.iter_vars)
    if len(n.iter_values) != axes:
        raise ArgumentError(
            f"BlockRealize({len(n.iter_values)} values, {n.block.name_hint})",
            f"the block has {axes} axes",
            "give a value for each",
        )


_RULES: dict[type[Node], Callable[..., None]] = {
    BinaryOp: _binary,
    IntImm: _integer,
    FloatImm: _float,
    Select: _select,
    BufferLoad: _load,
    ProducerLoad: _load,
    Ramp: _ramp,
    Broadcast: _broadcast,
    Shuffle: _shuffle,
    Let: _let,
    CommReducer: _reducer,
    Range: _range,
    Cast: _converted("value"),
    Not: _converted("a"),
    BufferView: _converted("shape", "strides", "offset"),
    Call: _converted("args"),
    Reduce: _converted("source", "init", "condition"),
    For: _loop,
    BlockRealize: _realize,
    BufferStore: _store,
    LetStmt: _let_stmt,
    IfThenElse: _converted("condition"),
    While: _converted("condition"),
    AssertStmt: _converted("condition", "values"),
    AttrStmt: _converted("value"),
    Evaluate: _converted("value"),
}
for _kind, _rule in _RULES.items():
    _kind.infer = _rule
