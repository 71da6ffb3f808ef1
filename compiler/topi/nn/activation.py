"""Rectifiers, and what is smooth in their place."""

from __future__ import annotations

import math
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, select
from whet.compiler.tir.ops.mathematics import erf, sigmoid
from whet.compiler.tir.ops.ops import const, maximum
from whet.compiler.topi.elementwise import each_element, unary
from whet.compiler.topi.shapes import one_axis
from whet.compiler.topi.tag import BROADCAST


def rectified(x: Any) -> Any:
    """relu of one element."""
    return maximum(x, const(0, x.dtype))


def gelu_of(x: Any) -> Any:
    """gelu of one element, exact."""
    half = const(0.5, x.dtype)
    return x * (half + half * erf(x * const(0.5**0.5, x.dtype)))


def silu_of(x: Any) -> Any:
    """silu of one element."""
    return x * sigmoid(x)


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """Each element, and ``alpha`` times a negative one."""
    slope = const(alpha, x.dtype)
    return each_element(x, lambda one: select(one > 0, one, one * slope), "T_leaky_relu")


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """Each element, and a negative one times the slope of its place along ``axis``.

    Raises:
        ArgumentError: there is not one slope a place.
    """
    request = f"prelu({x}, {slope}, axis={axis})"
    k = one_axis(axis, x.ndim, request)
    if slope.ndim != 1 or not slope.shape[0] == x.shape[k]:
        raise ArgumentError(request, f"there must be one slope for each of {x.shape[k]}")

    def element(*i: Any) -> Any:
        one = x(*i)
        return select(one > 0, one, one * slope(i[k]))

    return compute(x.shape, element, "T_prelu", BROADCAST)


def _gelu_tanh_of(x: Any) -> Any:
    """gelu_tanh of one element: ``(1 + tanh(y)) / 2`` is ``sigmoid(2 * y)``."""
    twice = 2 * math.sqrt(2 / math.pi)
    cubic = const(twice * 0.044715, x.dtype) * x * x
    return x * sigmoid(x * (const(twice, x.dtype) + cubic))


relu = unary("relu", rectified, "Each element, and 0 for a negative one.")
gelu = unary("gelu", gelu_of, "``x * (1 + erf(x / sqrt(2))) / 2``.")
gelu_tanh = unary(
    "gelu_tanh",
    _gelu_tanh_of,
    "gelu with ``tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))`` for the error function.",
)
silu = unary("silu", silu_of, "``x * sigmoid(x)``.")
