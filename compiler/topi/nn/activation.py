"""Rectifiers, and what is smooth in their place."""

from __future__ import annotations

import math
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.tir.ops import mathematics as m
from whet.compiler.tir.ops import ops
from whet.compiler.topi import tag
from whet.compiler.topi.shapes import one_axis


def rectified(x: Any) -> Any:
    """relu of one element."""
    return ops.maximum(x, te.const(0, x.dtype))


def gelu_of(x: Any) -> Any:
    """gelu of one element, exact."""
    half = te.const(0.5, x.dtype)
    return x * (half + half * m.erf(x * te.const(0.5**0.5, x.dtype)))


def silu_of(x: Any) -> Any:
    """silu of one element."""
    return x * m.sigmoid(x)


def relu(x: Tensor) -> Tensor:
    """Each element, and 0 for a negative one."""
    return te.compute(x.shape, lambda *i: rectified(x(*i)), name="T_relu", tag=tag.ELEMWISE)


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """Each element, and ``alpha`` times a negative one."""

    def element(*i: Any) -> Any:
        one = x(*i)
        return te.select(one > 0, one, one * te.const(alpha, x.dtype))

    return te.compute(x.shape, element, name="T_leaky_relu", tag=tag.ELEMWISE)


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """Each element, and a negative one times the slope of its place along ``axis``.

    Raises:
        ArgumentError: there is not one slope a place.
    """
    asked = f"prelu({x}, {slope}, axis={axis})"
    k = one_axis(axis, x.ndim, asked)
    if slope.ndim != 1 or not slope.shape[0] == x.shape[k]:
        raise ArgumentError(asked, f"there must be one slope for each of {x.shape[k]}")

    def element(*i: Any) -> Any:
        one = x(*i)
        return te.select(one > 0, one, one * slope(i[k]))

    return te.compute(x.shape, element, name="T_prelu", tag=tag.BROADCAST)


def gelu(x: Tensor) -> Tensor:
    """``x * (1 + erf(x / sqrt(2))) / 2``."""
    return te.compute(x.shape, lambda *i: gelu_of(x(*i)), name="T_gelu", tag=tag.ELEMWISE)


def gelu_tanh(x: Tensor) -> Tensor:
    """gelu with ``tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))`` for the error function."""

    def element(*i: Any) -> Any:
        # (1 + tanh(y)) / 2 is sigmoid(2 * y)
        one, twice = x(*i), 2 * math.sqrt(2 / math.pi)
        cubic = te.const(twice * 0.044715, x.dtype) * one * one
        return one * m.sigmoid(one * (te.const(twice, x.dtype) + cubic))

    return te.compute(x.shape, element, name="T_gelu_tanh", tag=tag.ELEMWISE)


def silu(x: Tensor) -> Tensor:
    """``x * sigmoid(x)``."""
    return te.compute(x.shape, lambda *i: silu_of(x(*i)), name="T_silu", tag=tag.ELEMWISE)
