"""Sizes that a caller gives to a primitive: positive integers, or symbolic expressions of them."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

from whet.compiler.errors import ScheduleError, Text
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    BinaryOp,
    Call,
    Cast,
    FloatImm,
    IntImm,
    Not,
    PrimExpr,
    Select,
    StringImm,
    Var,
    is_choice,
)
from whet.compiler.tir.ops import ops
from whet.compiler.tir.tracing.traced import TracedInt, shown, whole
from whet.compiler.tir.visit.rewrite import nodes


def as_size(value: Any, name: str, request: Text, loops: Callable[[], str]) -> PrimExpr:
    """A size as an expression.

    Raises:
        ScheduleError: for anything but an integer of at least 1, or an integer expression.
    """
    kind = type(value)
    if kind is int or kind is TracedInt:
        value = ops.const(value)
    elif isinstance(value, numbers.Integral) and kind is not bool:
        value = ops.const(whole(value))
    if not isinstance(value, PrimExpr) or not dt.is_int(value.dtype):
        raise ScheduleError(request, f"the size must be an integer, not {size_text(value)}", loops)
    if isinstance(value, IntImm):
        if value.value < 1:
            raise ScheduleError(request, f"{name} must be at least 1", loops)
        return value
    return plain(value, request)


_PLAIN = (Var, IntImm, FloatImm, StringImm, BinaryOp, Not, Cast, Select)


def plain(value: PrimExpr, request: Text) -> PrimExpr:
    """The expression, if it is known before any tensor is: then the trace can write it down.

    Raises:
        ScheduleError: for one that reads a tensor or calls a function.
    """
    for n in nodes([value]):
        if not isinstance(n, _PLAIN) and not is_choice(n):
            what = f"calls {n.op}" if isinstance(n, Call) else f"holds a {type(n).__name__}"
            raise ScheduleError(
                request,
                f"the expression {what}",
                "use numbers, axes, sizes, arithmetic and comparisons",
            )
    return value


def as_int(value: Any, name: str, least: int, request: Text) -> int:
    """A number that must be known now.

    Raises:
        ScheduleError: for anything but an integer of at least ``least``.
    """
    if isinstance(value, IntImm) and value.dtype != "bool":
        value = value.value
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise ScheduleError(request, f"{name} must be an integer, not {size_text(value)}")
    if value < least:
        raise ScheduleError(request, f"{name} must be at least {least}")
    return whole(value)


def size_text(value: Any) -> str:
    """A size as an error shows it."""
    from whet.compiler.tir.printer import expr_text

    if isinstance(value, (IntImm, FloatImm)):
        return shown(value.value)
    if isinstance(value, PrimExpr):
        return expr_text(value)
    return shown(value) if isinstance(value, numbers.Number) else repr(value)
