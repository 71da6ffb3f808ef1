"""Rectifiers, and what is smooth in their place."""

from __future__ import annotations

import math
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, select
from whet.compiler.tir.ops.mathematics import abs as absolute
from whet.compiler.tir.ops.mathematics import erf, exp, expm1, log1p, sigmoid, tanh
from whet.compiler.tir.ops.ops import const, maximum, minimum
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


def softplus_of(x: Any) -> Any:
    """softplus of one element, without overflow."""
    return maximum(x, const(0, x.dtype)) + log1p(exp(-absolute(x)))


def _hard_of(x: Any, alpha: float, beta: float) -> Any:
    """A line from 0 to 1."""
    line = x * const(alpha, x.dtype) + const(beta, x.dtype)
    return maximum(minimum(line, const(1, x.dtype)), const(0, x.dtype))


softplus = unary("softplus", softplus_of, "``log(1 + exp(x))``.")
softsign = unary("softsign", lambda x: x / (const(1, x.dtype) + absolute(x)), "``x / (1 + |x|)``.")
mish = unary("mish", lambda x: x * tanh(softplus_of(x)), "``x * tanh(softplus(x))``.")
hardswish = unary("hardswish", lambda x: x * _hard_of(x, 1 / 6, 0.5), "``x * hardsigmoid(x)``.")


def hardsigmoid(x: Tensor, alpha: float = 1 / 6, beta: float = 0.5) -> Tensor:
    """``alpha * x + beta``, within 0 and 1; PyTorch's by default, ONNX's ``alpha`` is 0.2."""
    return each_element(x, lambda v: _hard_of(v, alpha, beta), "T_hardsigmoid")


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Each element, and ``alpha * (exp(x) - 1)`` for a negative one."""
    by = const(alpha, x.dtype)
    return each_element(x, lambda v: select(v >= 0, v, expm1(v) * by), "T_elu")


def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Each element, and ``alpha * (exp(x / alpha) - 1)`` for a negative one."""
    by = const(alpha, x.dtype)
    return each_element(x, lambda v: select(v >= 0, v, expm1(v / by) * by), "T_celu")


def selu(
    x: Tensor,
    alpha: float = 1.67326319217681884765625,
    gamma: float = 1.05070102214813232421875,
) -> Tensor:
    """``gamma`` times :func:`elu`."""
    a, g = const(alpha, x.dtype), const(gamma, x.dtype)
    return each_element(x, lambda v: select(v > 0, v, a * expm1(v)) * g, "T_selu")


def swish(x: Tensor, alpha: float = 1.0) -> Tensor:
    """``x * sigmoid(alpha * x)``."""
    by = const(alpha, x.dtype)
    return each_element(x, lambda v: v * sigmoid(v * by), "T_swish")


def thresholded_relu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Each element above ``alpha``, and 0 for another."""
    zero, least = const(0, x.dtype), const(alpha, x.dtype)
    return each_element(x, lambda v: select(v > least, v, zero), "T_thresholded_relu")


def shrink(x: Tensor, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """Elements beyond ``lambd`` from 0, nearer to it by ``bias``; 0 for others."""
    low, zero, by = (const(v, x.dtype) for v in (lambd, 0, bias))
    return each_element(
        x,
        lambda v: select(v < -low, v + by, select(v > low, v - by, zero)),
        "T_shrink",
    )
