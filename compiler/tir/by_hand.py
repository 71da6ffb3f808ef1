"""What a node's constructor fills in when it is written by hand, without a dtype.

The compiler's own code gives every field, and pays for nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt


def operands(node: type, a: Any, b: Any) -> tuple[Any, Any, str]:
    """Both operands of a binary node as expressions of one type, and the type of the result."""
    from whet.compiler.tir import expr as e
    from whet.compiler.tir import ops

    a, b = ops._match(a, b)
    if a.dtype != b.dtype:
        raise ArgumentError(
            f"{node.__name__}({a.dtype}, {b.dtype})", "the types of the operands differ", "cast one"
        )
    if issubclass(node, (e.CmpOp, e.And, e.Or)):
        return a, b, dt.vector("bool", dt.lanes(a.dtype))
    return a, b, a.dtype


def access(element: str, indices: Any) -> tuple[tuple[Any, ...], str]:
    """The indices of an access as expressions, and the type of what is read."""
    from whet.compiler.tir import ops

    given = indices if isinstance(indices, Sequence) else (indices,)
    at = tuple(ops.convert(i) for i in given)
    lanes = max((dt.lanes(i.dtype) for i in at), default=1)
    return at, dt.vector(element, lanes)


def stored(element: str, value: Any, indices: Any) -> tuple[Any, tuple[Any, ...]]:
    """The value and the indices of a store as expressions."""
    from whet.compiler.tir import ops

    at, kind = access(element, indices)
    return (ops.const(value, kind) if isinstance(value, (int, float)) else ops.convert(value)), at


def ramp(base: Any, stride: Any, lanes: int) -> tuple[Any, int, str]:
    """The base and the stride of a ramp, and its type."""
    from whet.compiler.tir import ops

    first = ops.convert(base)
    try:
        return first, int(stride), dt.vector(first.dtype, lanes)
    except (TypeError, ArgumentError):
        raise ArgumentError(
            f"Ramp(stride={stride!r})", "the stride is a number that is known now"
        ) from None


def vector_of(value: Any, lanes: int) -> tuple[Any, str]:
    """The value of a broadcast, and its type."""
    from whet.compiler.tir import ops

    one = ops.convert(value)
    return one, dt.vector(one.dtype, lanes)


def shuffle(vectors: Any, indices: Any) -> tuple[tuple[Any, ...], tuple[int, ...], str]:
    """The vectors and the lane numbers of a shuffle, and its type."""
    from whet.compiler.tir import ops

    parts = tuple(ops.convert(v) for v in vectors)
    at = tuple(int(i) for i in indices)
    return parts, at, dt.vector(dt.element(parts[0].dtype), len(at))


def bounds(var: Any, first: Any, extent: Any) -> tuple[Any, Any]:
    """The bounds of a loop as expressions of its variable's type."""
    from whet.compiler.tir import ops

    return ops.cast(var.dtype, first), ops.cast(var.dtype, extent)
