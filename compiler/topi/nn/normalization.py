"""Scaling and shifting: by given numbers, and by those of the data itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, reduce_axis
from whet.compiler.tir import PrimExpr
from whet.compiler.tir.ops import reducers
from whet.compiler.tir.ops.mathematics import power, rsqrt
from whet.compiler.tir.ops.ops import cast, const, if_then_else, logical_and, maximum
from whet.compiler.topi import reduction
from whet.compiler.topi.elementwise import at, divide, each_element, multiply, subtract
from whet.compiler.topi.half_precision import stored, widened
from whet.compiler.topi.shapes import is_constant, one_axis, product, static, with_axis
from whet.compiler.topi.tag import BROADCAST, COMM_REDUCE, ELEMWISE, INJECTIVE
from whet.compiler.topi.transform import reshape


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


def instance_norm(
    data: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    axis: int | Sequence[int],
    epsilon: float = 1e-5,
    channel_axis: int = 1,
) -> Tensor:
    """``(data - mean) / sqrt(variance + epsilon)`` over ``axis``, scaled and shifted by channel.

    Args:
        data: floating point, e.g. (N, C, spatial ...).
        gamma, beta: one number a channel; None for 1 and 0.
        axis: those of an image.
        epsilon: keeps the divisor from 0.
        channel_axis: of the channels.

    Raises:
        ArgumentError: shapes do not fit.
    """
    request = f"instance_norm({data}, {gamma}, {beta}, axis={axis})"
    over = _over(data, (), axis, request)
    k = one_axis(channel_axis, data.ndim, request)
    return _by_channel(_normalized(data, over, epsilon), gamma, beta, k, request)


def group_norm(
    data: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    num_groups: int,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float = 1e-5,
) -> Tensor:
    """So many groups of channels, each normalised by itself; scaled and shifted by channel.

    Args:
        data: floating point, e.g. (N, C, spatial ...).
        gamma, beta: one number a channel; None for 1 and 0.
        num_groups: divides the channels.
        channel_axis: of the channels.
        axes: those of an image.
        epsilon: keeps the divisor from 0.

    Raises:
        ArgumentError: shapes do not fit.
    """
    request = f"group_norm({data}, {gamma}, {beta}, {num_groups}, axes={list(axes)})"
    k = one_axis(channel_axis, data.ndim, request)
    shape, channels = data.shape, static(data.shape[k], request)
    if num_groups < 1 or channels % num_groups:
        raise ArgumentError(request, f"{num_groups} groups do not divide {channels} channels")
    split = (*shape[:k], num_groups, channels // num_groups, *shape[k + 1 :])
    over = [one_axis(a, data.ndim, request) for a in axes]
    inner = [k + 1, *(a + 1 if a > k else a for a in over if a != k)]
    made = reshape(_normalized(reshape(data, split), sorted(inner), epsilon), shape)
    return _by_channel(made, gamma, beta, k, request)


def _normalized(x: Tensor, axes: list[int], epsilon: float) -> Tensor:
    """Elements less their mean over some axes, divided by their deviation."""
    sizes = [x.shape[a] for a in axes]
    if all(map(is_constant, sizes)):
        part = const(1 / max(math.prod(map(int, sizes)), 1), x.dtype)
    else:
        part = divide(const(1, x.dtype), cast(x.dtype, product(sizes)))
    mean = each_element(reduction.sum(x, axes, True), lambda v: v * part, "T_mean")
    centred = subtract(x, mean)
    squares = reduction.sum(multiply(centred, centred), axes, True)
    eps = const(epsilon, x.dtype)
    factor = each_element(squares, lambda v: rsqrt(v * part + eps), "T_factor")
    return multiply(centred, factor)


def _by_channel(
    x: Tensor, gamma: Tensor | None, beta: Tensor | None, axis: int, request: str
) -> Tensor:
    """Elements times their channel's scale, plus its shift."""
    for t in (gamma, beta):
        if t is not None and (t.ndim != 1 or not t.shape[0] == x.shape[axis]):
            raise ArgumentError(request, f"{t} has not one number for each of {x.shape[axis]}")

    def element(*i: Any) -> Any:
        out = x(*i) if gamma is None else x(*i) * gamma(i[axis])
        return out if beta is None else out + beta(i[axis])

    return compute(x.shape, element, "T_norm", BROADCAST)


def lrn(
    data: Tensor,
    size: int,
    axis: int = 1,
    alpha: float = 0.0001,
    beta: float = 0.75,
    bias: float = 2,
) -> Tensor:
    """Each element over ``(bias + alpha / size * squares) ** beta`` of those around it.

    Args:
        data: floating point, e.g. (N, C, H, W).
        size: elements whose squares are summed up, (size - 1) // 2 of them in front.
        axis: along which.

    Raises:
        ArgumentError: there is no such axis, or the size is below 1.
    """
    request = f"lrn({data}, {size}, axis={axis})"
    k, before = one_axis(axis, data.ndim, request), (size - 1) // 2
    if size < 1:
        raise ArgumentError(request, "the size is below 1")
    r, extent, zero = reduce_axis((0, size), name="r"), data.shape[k], const(0, data.dtype)

    def square(*i: Any) -> Any:
        at = i[k] + r - before
        inside = logical_and(at >= 0, at < extent)
        value = if_then_else(inside, data(*with_axis(i, k, at)), zero)
        return reducers.sum(value * value, axis=r)

    squares = compute(data.shape, square, "T_squares", COMM_REDUCE)
    factor, start, exponent = (const(v, data.dtype) for v in (alpha / size, bias, -beta))
    return compute(
        data.shape,
        lambda *i: data(*i) * power(start + factor * squares(*i), exponent),
        "T_lrn",
        ELEMWISE,
    )


def l2_normalize(data: Tensor, eps: float, axis: int | Sequence[int] | None = None) -> Tensor:
    """``data / sqrt(max(sum(data * data), eps))``, over ``axis``; over all of them for None.

    Raises:
        ArgumentError: there is no such axis.
    """
    over = _over(
        data, (), list(range(data.ndim)) if axis is None else axis, f"l2_normalize({data}, {axis})"
    )
    squares = reduction.sum(multiply(data, data), over, keepdims=True)
    least = const(eps, data.dtype)
    factor = each_element(squares, lambda v: rsqrt(maximum(v, least)), "T_norm")
    return multiply(data, factor)


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


def scale_shift_nhwc(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """:func:`scale_shift_nchw` of (N, H, W, C).

    Raises:
        ArgumentError: ``Scale`` or ``Shift`` has not one number a channel.
    """
    request = f"scale_shift_nhwc({Input}, {Scale}, {Shift})"
    if Input.ndim != 4 or any(
        t.ndim != 1 or not Input.shape[3] == t.shape[0] for t in (Scale, Shift)
    ):
        raise ArgumentError(request, "there must be one number for each channel")

    def element(b: Any, y: Any, x: Any, c: Any) -> Any:
        return Input(b, y, x, c) * Scale(c) + Shift(c)

    return compute(Input.shape, element, "ScaleShift", BROADCAST)


def scale_shift_nchwc(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """:func:`scale_shift_nchw` of (N, C, H, W, c), numbers (C, c).

    Raises:
        ArgumentError: ``Scale`` or ``Shift`` has not one number a channel.
    """
    request = f"scale_shift_nchwc({Input}, {Scale}, {Shift})"
    if Input.ndim != 5 or Scale.ndim != 2 or Shift.ndim != 2:
        raise ArgumentError(request, "give five dimensions, two and two")

    def element(b: Any, c: Any, y: Any, x: Any, k: Any) -> Any:
        return Input(b, c, y, x, k) * Scale(c, k) + Shift(c, k)

    return compute(Input.shape, element, "ScaleShift", BROADCAST)
