"""Scaling and shifting: by given numbers, and by those of the data itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute
from whet.compiler.tir import PrimExpr
from whet.compiler.tir.ops.mathematics import rsqrt
from whet.compiler.tir.ops.ops import cast, const
from whet.compiler.topi import reduction
from whet.compiler.topi.elementwise import at, divide, each_element, multiply, subtract
from whet.compiler.topi.half_precision import stored, widened
from whet.compiler.topi.shapes import one_axis, product
from whet.compiler.topi.tag import BROADCAST, ELEMWISE, INJECTIVE


def layer_norm(
    data: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    axis: int | Sequence[int],
    epsilon: float = 1e-5,
) -> Tensor:
    """``(data - mean) / sqrt(variance + epsilon) * gamma + beta``, over ``axis``.

    Args:
        data: floating point; half precision is computed in float32.
        gamma, beta: of the shape of the axes that are normalised; None for 1 and 0.
        axis: one or several.
        epsilon: keeps the divisor from 0.

    Raises:
        ArgumentError: shapes do not fit.
    """
    request = f"layer_norm({data}, {gamma}, {beta}, axis={axis})"
    over = _over(data, (gamma, beta), axis, request)
    dtype, data = data.dtype, widened(data)
    many = _elements(data, over)
    away = subtract(data, divide(reduction.sum(data, over, keepdims=True), many))
    variance = divide(reduction.sum(multiply(away, away), over, keepdims=True), many)

    def element(*i: Any) -> Any:
        out = away(*i) * rsqrt(at(variance, i) + const(epsilon, data.dtype))
        own = [i[k] for k in over]
        out = out if gamma is None else out * gamma(*own)
        return out if beta is None else out + beta(*own)

    out = compute(data.shape, element, "T_layer_norm", INJECTIVE)
    return stored(out, dtype)


def rms_norm(
    data: Tensor, weight: Tensor | None, axis: int | Sequence[int], epsilon: float = 1e-5
) -> Tensor:
    """``data / sqrt(mean(data * data) + epsilon) * weight``, over ``axis``.

    Args:
        data: floating point; half precision is computed in float32.
        weight: of the shape of the axes that are normalised; None for 1.
        axis: one or several.
        epsilon: keeps the divisor from 0.

    Raises:
        ArgumentError: shapes do not fit.
    """
    request = f"rms_norm({data}, {weight}, axis={axis})"
    over = _over(data, (weight,), axis, request)
    dtype, data = data.dtype, widened(data)
    many = _elements(data, over)
    squares = reduction.sum(multiply(data, data), over, keepdims=True)
    small = const(epsilon, data.dtype)
    scale = each_element(squares, lambda total: rsqrt(total / many + small), "T_rms")

    def element(*i: Any) -> Any:
        out = data(*i) * at(scale, i)
        return out if weight is None else out * weight(*[i[k] for k in over])

    out = compute(data.shape, element, "T_rms_norm", INJECTIVE)
    return stored(out, dtype)


def batch_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    moving_mean: Tensor,
    moving_var: Tensor,
    axis: int | None = None,
    epsilon: float | None = None,
    center: bool | None = None,
    scale: bool | None = None,
    training: bool | None = None,
    momentum: float | None = None,
) -> list[Tensor]:
    """``(data - moving_mean) / sqrt(moving_var + epsilon) * gamma + beta`` for each channel.

    Args:
        data: floating point.
        gamma, beta, moving_mean, moving_var: one number a channel.
        axis: of the channels; None for 1.
        epsilon: keeps the divisor from 0; None for 1e-5.
        center: whether ``beta`` is added; None for True.
        scale: whether it is multiplied by ``gamma``; None for True.
        training: statistics of the data itself; not here.
        momentum: of training; of no use without.

    Returns:
        The result, the mean and the variance; the latter as they were given.

    Raises:
        ArgumentError: shapes do not fit, or ``training``.
    """
    request = f"batch_norm({data}, axis={axis})"
    k = one_axis(1 if axis is None else axis, data.ndim, request)
    if training:
        why_not = "compute mean and variance with topi.sum"
        raise ArgumentError(request, "training is not here", why_not)
    for t in (gamma, beta, moving_mean, moving_var):
        if t.ndim != 1 or not t.shape[0] == data.shape[k]:
            raise ArgumentError(request, f"{t} has not one number for each of {data.shape[k]}")
    small = const(1e-5 if epsilon is None else epsilon, data.dtype)

    # Two numbers a channel are all that an element needs.
    def factor(c: Any) -> Any:
        inverse = rsqrt(moving_var(c) + small)
        return inverse * gamma(c) if scale is None or scale else inverse

    by = compute(moving_var.shape, factor, "T_scale", ELEMWISE)

    def offset(c: Any) -> Any:
        centre = beta(c) if center is None or center else const(0, data.dtype)
        return centre - moving_mean(c) * by(c)

    to = compute(moving_mean.shape, offset, "T_shift", ELEMWISE)
    out = compute(
        data.shape,
        lambda *i: data(*i) * by(i[k]) + to(i[k]),
        "T_batch_norm",
        BROADCAST,
    )
    return [out, moving_mean, moving_var]


def _over(
    data: Tensor, given: Sequence[Tensor | None], axis: int | Sequence[int], request: str
) -> list[int]:
    """The axes that are normalised, in order; tensors given for them have their shape."""
    axes = [axis] if isinstance(axis, int) else list(axis)
    over = sorted({one_axis(k, data.ndim, request) for k in axes})
    if not over:
        raise ArgumentError(request, "no axis is named", "axis=-1")
    for t in given:
        if t is not None and [str(d) for d in t.shape] != [str(data.shape[k]) for k in over]:
            raise ArgumentError(request, f"{t} has not the shape of the axes {over}")
    return over


def _elements(data: Tensor, over: Sequence[int]) -> PrimExpr:
    """How many elements one mean is of, as a number of ``data``'s type."""
    return cast(data.dtype, product([data.shape[k] for k in over]))


def scale_shift_nchw(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """Each channel of ``Input`` (N, C, H, W) times ``Scale[c]``, plus ``Shift[c]``.

    Raises:
        ArgumentError: ``Scale`` or ``Shift`` has not one number a channel.
    """
    request = f"scale_shift_nchw({Input}, {Scale}, {Shift})"
    if Input.ndim != 4 or Scale.ndim != 1 or Shift.ndim != 1:
        raise ArgumentError(request, "give four dimensions, one and one")
    if not Input.shape[1] == Scale.shape[0] or not Input.shape[1] == Shift.shape[0]:
        raise ArgumentError(request, "there must be one number for each channel")

    def element(b: Any, c: Any, y: Any, x: Any) -> Any:
        return Input(b, c, y, x) * Scale(c) + Shift(c)

    return compute(Input.shape, element, "ScaleShift", BROADCAST)
