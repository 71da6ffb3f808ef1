"""Scaling and shifting: by given numbers, and by those of the data itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.tir import mathematics as m
from whet.compiler.tir import ops
from whet.compiler.topi import broadcast, reduction, tag
from whet.compiler.topi.shapes import one_axis, product


def layer_norm(
    data: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    axis: int | Sequence[int],
    epsilon: float = 1e-5,
) -> Tensor:
    """``(data - mean) / sqrt(variance + epsilon) * gamma + beta``, over ``axis``.

    Args:
        data: floating point.
        gamma, beta: of the shape of the axes that are normalised; None for 1 and 0.
        axis: one or several.
        epsilon: keeps the divisor from 0.

    Raises:
        ArgumentError: shapes do not fit.
    """
    asked = f"layer_norm({data}, {gamma}, {beta}, axis={axis})"
    axes = [axis] if isinstance(axis, int) else list(axis)
    over = sorted({one_axis(k, data.ndim, asked) for k in axes})
    for t in (gamma, beta):
        if t is not None and [str(d) for d in t.shape] != [str(data.shape[k]) for k in over]:
            raise ArgumentError(asked, f"{t} has not the shape of the axes {over}")
    many = ops.cast(data.dtype, product([data.shape[k] for k in over]))
    mean = broadcast.divide(reduction.sum(data, over, keepdims=True), many)
    away = broadcast.subtract(data, mean)
    spread = broadcast.divide(
        reduction.sum(broadcast.multiply(away, away), over, keepdims=True), many
    )

    def element(*i: Any) -> Any:
        small = te.const(epsilon, data.dtype)
        out = away(*i) * m.rsqrt(broadcast.at(spread, i) + small)
        own = [i[k] for k in over]
        out = out if gamma is None else out * gamma(*own)
        return out if beta is None else out + beta(*own)

    return te.compute(data.shape, element, name="T_layer_norm", tag=tag.INJECTIVE)


def scale_shift_nchw(data: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Each channel of ``data`` (N, C, H, W) times ``scale[c]``, plus ``shift[c]``.

    Raises:
        ArgumentError: ``scale`` or ``shift`` has not one number a channel.
    """
    asked = f"scale_shift_nchw({data}, {scale}, {shift})"
    if data.ndim != 4 or scale.ndim != 1 or shift.ndim != 1:
        raise ArgumentError(asked, "give four dimensions, one and one")
    if not data.shape[1] == scale.shape[0] or not data.shape[1] == shift.shape[0]:
        raise ArgumentError(asked, "there must be one number for each channel")

    def element(b: Any, c: Any, y: Any, x: Any) -> Any:
        return data(b, c, y, x) * scale(c) + shift(c)

    return te.compute(data.shape, element, name="ScaleShift", tag=tag.BROADCAST)
