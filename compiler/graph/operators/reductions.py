"""Operators over whole axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler import te, topi
from whet.compiler.te import Tensor, const
from whet.compiler.tir.expr import IntImm
from whet.compiler.topi.elementwise import each_element

Axes = Sequence[int]


def _reduce(combine: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def operator(x: Tensor, axes: Axes, keepdims: bool = True) -> Tensor:
        return combine(x, list(axes), keepdims)

    return operator


def mean(x: Tensor, axes: Axes, keepdims: bool = True) -> Tensor:
    total = topi.sum(x, list(axes), keepdims)
    many: Any = 1
    for a in axes:
        many = many * x.shape[a]
    if not isinstance(many, int | IntImm):  # of a symbol: its reciprocal is no constant
        return each_element(total, lambda v: v / te.cast(v.dtype, many), "T_mean")
    many = int(many)
    if not str(x.dtype).startswith(("float", "bfloat")):
        return each_element(total, lambda v: te.truncdiv(v, const(many, v.dtype)), "T_mean")
    return each_element(total, lambda v: v * const(1 / many, v.dtype), "T_mean")


def _position(find: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def operator(x: Tensor, axis: int, keepdims: bool = True, last: bool = False) -> Tensor:
        return topi.cast(find(x, axis, keepdims, last), "int64")

    return operator


def _cumulative(scan: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def operator(x: Tensor, axis: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
        source = topi.flip(x, axis) if reverse else x
        made = scan(source, axis, x.dtype, exclusive)
        return topi.flip(made, axis) if reverse else made

    return operator


OPERATORS: dict[str, Callable[..., Any]] = {
    "argmax": _position(topi.argmax),
    "argmin": _position(topi.argmin),
    "cumprod": _cumulative(topi.cumprod),
    "cumsum": _cumulative(topi.cumsum),
    "max": _reduce(topi.max),
    "mean": mean,
    "min": _reduce(topi.min),
    "prod": _reduce(topi.prod),
    "sum": _reduce(topi.sum),
}
"""Name -> function."""
