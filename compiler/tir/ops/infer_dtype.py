"""What a node's constructor fills in when it is written by hand, without a dtype.

The compiler's own code gives every field, and pays for nothing here.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt


def operands(node: type, a: Any, b: Any) -> tuple[Any, Any, str]:
    """Both operands of a binary node as expressions of one type, and the type of the result."""
    from whet.compiler.tir import expr as e
    from whet.compiler.tir.ops import ops

    a, b = ops._match(a, b)
    if a.dtype != b.dtype:
        raise ArgumentError(
            f"{node.__name__}({a.dtype}, {b.dtype})", "the types of the operands differ", "cast one"
        )
    if issubclass(node, (e.CmpOp, e.And, e.Or)):
        return a, b, dt.vector("bool", dt.lanes(a.dtype))
    return a, b, a.dtype


def expression(value: Any, kind: str | None = None) -> Any:
    """A value as an expression; a number has the type ``kind``, where one is given."""
    from whet.compiler.tir.expr import PrimExpr
    from whet.compiler.tir.ops import ops

    if isinstance(value, PrimExpr):
        return value
    return ops.const(value, kind) if kind and ops.is_number(value) else ops.convert(value)


def expressions(values: Any) -> tuple[Any, ...]:
    """Values as a tuple of expressions; the tuple itself where they are."""
    from whet.compiler.tir.expr import PrimExpr

    for x in values:
        if not isinstance(x, PrimExpr):
            break
    else:
        if type(values) is tuple:
            return values
    from whet.compiler.tir.ops import ops

    return tuple(ops.convert(x) for x in values)


def typed(like: Any, values: Any) -> tuple[Any, ...]:
    """A value for each variable; a number gets the variable's type."""
    from whet.compiler.tir.ops import ops

    if len(like) != len(values):
        return expressions(values)
    return tuple(
        ops.const(x, v.dtype) if ops.is_number(x) else ops.convert(x) for v, x in zip(like, values)
    )


def integer(kind: Any, value: Any) -> tuple[str, Any]:
    """The type and the value of an integer constant.

    Raises:
        ArgumentError: for what is no integer type or no whole number.
    """
    from whet.compiler.tir.tracing.traced import TracedInt

    name = dt.check(kind)
    if name not in dt.INTEGERS:
        raise ArgumentError(
            f"IntImm({name!r}, {value!r})",
            f"{name} is no type of integers",
            "tir.const(value, dtype)",
        )
    if isinstance(value, TracedInt):
        return name, value
    try:
        return name, int(value) if isinstance(value, float) else operator.index(value)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(
            f"IntImm({name!r}, {value!r})", "it is no whole number", "tir.const(value, dtype)"
        ) from None


def floating(kind: Any, value: Any) -> tuple[str, float]:
    """The type and the value of a float constant.

    Raises:
        ArgumentError: for what is no type of floats or no number.
    """
    name = dt.check(kind)
    try:
        if name in dt.FLOATS:
            return name, float(value)
    except (TypeError, ValueError):
        pass
    raise ArgumentError(
        f"FloatImm({name!r}, {value!r})",
        f"{name} is no type of floats" if name not in dt.FLOATS else "it is no number",
        "tir.const(value, dtype)",
    )


def element_of(holder: Any, asked: str, what: str) -> str:
    """The element type of the buffer or tensor that is read or written."""
    if not hasattr(holder, "dtype") or not hasattr(holder, "shape"):
        raise ArgumentError(
            f"{asked}({type(holder).__name__}, ...)",
            f"it is no {what}",
            "decl_buffer makes a buffer, te.placeholder and te.compute tensors",
        )
    return str(holder.dtype)


def access(element: str, indices: Any) -> tuple[tuple[Any, ...], str]:
    """The indices of an access as expressions, and the type of what is read."""
    from whet.compiler.tir.ops import ops

    given = indices if isinstance(indices, Sequence) else (indices,)
    at = tuple(ops.convert(i) for i in given)
    check_indices(at)
    lanes = max((dt.lanes(i.dtype) for i in at), default=1)
    return at, dt.vector(element, lanes)


def check_indices(indices: Sequence[Any], of: str = "a buffer") -> None:
    """Refuse indices that are no integers.

    Raises:
        ArgumentError: naming the index and its type.
    """
    for i in indices:
        if dt.is_float(i.dtype) or i.dtype == "handle":
            raise ArgumentError(
                f"{of}[{i!r}]",
                f"the index is a {i.dtype}",
                'an index is an integer: index.astype("int32")',
            )


def stored(element: str, value: Any, indices: Any) -> tuple[Any, tuple[Any, ...]]:
    """The value and the indices of a store as expressions."""
    from whet.compiler.tir.ops import ops

    at, kind = access(element, indices)
    return (ops.const(value, kind) if ops.is_number(value) else ops.convert(value)), at


def ramp(base: Any, stride: Any, lanes: int) -> tuple[Any, int, str]:
    """The base and the stride of a ramp, and its type."""
    from whet.compiler.tir.ops import ops

    first = ops.convert(base)
    try:
        return first, int(stride), dt.vector(first.dtype, lanes)
    except (TypeError, ArgumentError):
        raise ArgumentError(
            f"Ramp(stride={stride!r})", "the stride is a number that is known now"
        ) from None


def vector_of(value: Any, lanes: int) -> tuple[Any, str]:
    """The value of a broadcast, and its type."""
    from whet.compiler.tir.ops import ops

    one = ops.convert(value)
    return one, dt.vector(one.dtype, lanes)


def shuffle(vectors: Any, indices: Any) -> tuple[tuple[Any, ...], tuple[int, ...], str]:
    """The vectors and the lane numbers of a shuffle, and its type."""
    from whet.compiler.tir.ops import ops

    asked = f"Shuffle({type(vectors).__name__}, {type(indices).__name__})"
    if not isinstance(vectors, (list, tuple)) or not vectors:
        raise ArgumentError(asked, "the vectors are a list", "Shuffle([a, b], [0, 5])")
    if not isinstance(indices, (list, tuple)):
        raise ArgumentError(asked, "the lanes are a list of numbers", "Shuffle([a, b], [0, 5])")
    parts = tuple(ops.convert(v) for v in vectors)
    try:
        at = tuple(int(i) for i in indices)
    except (TypeError, ValueError):
        raise ArgumentError(
            asked, f"{indices!r}: a lane is a number that is known now", "Shuffle([a, b], [0, 5])"
        ) from None
    return parts, at, dt.vector(dt.element(parts[0].dtype), len(at))


def span(begin: Any, end: Any) -> tuple[Any, Any]:
    """The first integer and the number of integers from ``begin`` to before ``end``."""
    from whet.compiler.tir import expr as e
    from whet.compiler.tir.ops import ops

    asked = f"Range({begin})" if end is None else f"Range({begin}, {end})"
    first, last = (ops.const(0), begin) if end is None else (ops.convert(begin), end)
    last = ops.convert(last)
    for x in (first, last):
        if not dt.is_int(x.dtype) or dt.lanes(x.dtype) > 1:
            raise ArgumentError(asked, f"a bound is a {x.dtype}, not an integer", "Range(0, n)")
    extent = ops.subtract(last, first)
    if isinstance(extent, e.IntImm) and extent.value < 0:
        raise ArgumentError(
            asked, f"it ends {-extent.value} before it begins", "Range.from_min_extent(min, extent)"
        )
    return (ops.cast(extent.dtype, first) if isinstance(first, e.IntImm) else first), extent


def text(node: Any) -> str:
    """An expression or a statement as the printer shows it."""
    from whet.compiler.tir import printer
    from whet.compiler.tir.stmt import Stmt

    return printer.stmt_text(node) if isinstance(node, Stmt) else printer.expr_text(node)


def loop(var: Any, body: Any, thread: Any, annotations: Any, binding: Any) -> tuple[Any, Any]:
    """The thread tag and the annotations of a loop, from the places where TVM has them."""
    if var is None or body is None:
        raise ArgumentError("For(...)", "a loop needs a variable and a body", "loop_var=, body=")
    if type(thread) is not str:  # TVM's order: the thread axis, then the annotations
        binding = binding if annotations is None else annotations
        annotations, thread = thread, ""
    elif annotations is not None and type(annotations) is not dict:
        binding, annotations = annotations, None
    return getattr(binding, "thread_tag", thread), annotations or {}


def bounds(var: Any, first: Any, extent: Any) -> tuple[Any, Any]:
    """The bounds of a loop as expressions of its variable's type."""
    from whet.compiler.tir.ops import ops

    return ops.cast(var.dtype, first), ops.cast(var.dtype, extent)
