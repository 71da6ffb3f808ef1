"""Integers as bits and as fixed-point numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.ops import bits
from whet.compiler.tir.ops import mathematics as m
from whet.compiler.tir.ops.ops import cast, const, convert
from whet.compiler.topi.elementwise import each_element
from whet.compiler.topi.shapes import check_integers, one_axis
from whet.compiler.topi.tag import ELEMWISE


def reinterpret(x: Tensor, dtype: str) -> Tensor:
    """The bits of each element as a type of the same size.

    Raises:
        ArgumentError: the sizes differ.
    """
    return each_element(x, lambda one: bits.reinterpret(dtype, one), "T_reinterpret")


def ceil_log2(x: Any) -> Any:
    """The least integer whose power of two is at least ``x``, in the type of ``x``.

    Args:
        x: a tensor, an expression or a number, at least 1.
    """

    def exponent(one: Any) -> Any:
        if dt.is_float(one.dtype):
            return m.ceil(m.log2(one))
        return cast(one.dtype, const(dt.bits(one.dtype)) - m.clz(one - const(1, one.dtype)))

    if isinstance(x, Tensor):
        return each_element(x, exponent, "T_ceil_log2")
    return exponent(convert(x))


def _scaled(x: Any, by: Any, left: Any, right: Any) -> Any:
    """``x << left`` times ``by``, shifted by ``right``; halves are rounded up."""
    wide = bits.shift_left(cast("int64", x), cast("int64", left)) * cast("int64", by)
    behind = cast("int64", right)
    half = bits.shift_left(const(1, "int64"), behind - const(1, "int64"))
    return cast("int32", bits.shift_right(wide + half, behind))


def fixed_point_multiply(x: Tensor, multiplier: int, shift: int) -> Tensor:
    """``round(x * multiplier / 2**31 * 2**shift)`` of int32, halves rounded up.

    Args:
        x: int32.
        multiplier: a fraction, times ``2**31``.
        shift: the power of two; negative to the right.

    Raises:
        ArgumentError: ``x`` is not int32.
    """
    if x.dtype != "int32":
        raise ArgumentError(f"fixed_point_multiply({x})", f"the numbers are {x.dtype}", "int32")
    left, right = const(max(shift, 0)), const(31 + max(-shift, 0))
    by = const(multiplier, "int64")
    return each_element(x, lambda one: _scaled(one, by, left, right), "T_fixed_point_multiply")


def fixed_point_multiply_per_axis(
    x: Tensor,
    y: Tensor,
    lshift: Tensor,
    rshift: Tensor,
    is_lshift_required: int,
    is_rshift_required: int,
    axes: Sequence[int],
) -> Tensor:
    """:func:`fixed_point_multiply` with a multiplier and shifts for each place along ``axes``.

    Args:
        x: int32.
        y: int32, fractions times ``2**31``, of the extents of ``axes``.
        lshift, rshift: int32, of the same shape: to the left first, to the right afterwards.
        is_lshift_required, is_rshift_required: false: those shifts are not read, and none.
        axes: of ``x``.

    Raises:
        ArgumentError: shapes or types do not fit.
    """
    request = f"fixed_point_multiply_per_axis({x}, {y}, {list(axes)})"
    along = [one_axis(k, x.ndim, request) for k in axes]
    for t in (y, lshift, rshift):
        check_integers(t, request)
        if t.ndim != len(along):
            raise ArgumentError(request, f"{t.ndim} dimensions for {len(along)} axes")
    if x.dtype != "int32":
        raise ArgumentError(request, f"the numbers are {x.dtype}", "int32")

    def element(*i: Any) -> Any:
        own = [i[k] for k in along]
        left = lshift(*own) if is_lshift_required else const(0)
        right = const(31) + (rshift(*own) if is_rshift_required else const(0))
        return _scaled(x(*i), y(*own), left, right)

    return compute(x.shape, element, "T_fixed_point_multiply_per_axis", ELEMWISE)
