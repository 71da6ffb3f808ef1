"""Convolutions whose windows take their pixels at places that are data."""

from __future__ import annotations

from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, reduce_axis
from whet.compiler.tir.ops.ops import cast, const, maximum, minimum
from whet.compiler.topi.half_precision import stored, sum_of_products
from whet.compiler.topi.image.sampling import between, pixel_of
from whet.compiler.topi.shapes import quotient, static
from whet.compiler.topi.tag import INJECTIVE


def deformable_conv2d_nchw(
    data: Tensor,
    offset: Tensor,
    kernel: Tensor,
    strides: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
    deformable_groups: int = 1,
    groups: int = 1,
    out_dtype: str | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """A convolution whose window's elements are moved by offsets, pixels between four.

    Args:
        data: (N, CI, H, W).
        offset: (N, deformable_groups * KH * KW * 2, OH, OW): vertical, then horizontal.
        kernel: (CO, CI / groups, KH, KW).
        strides, dilation: (vertical, horizontal).
        padding: (top, left, bottom, right); outside is 0.
        deformable_groups: of channels that have offsets of their own.
        groups: of channels, each convolved by itself.
        out_dtype: what is summed up and returned; ``data``'s by default.
        mask: (N, deformable_groups * KH * KW, OH, OW), factors; None for 1.

    Returns:
        (N, CO, OH, OW).

    Raises:
        ArgumentError: shapes do not fit.
    """
    request = f"deformable_conv2d_nchw({data}, {offset}, {kernel})"
    n, ci, h, w = (static(d, request) for d in data.shape)
    co, per, kh, kw = (static(d, request) for d in kernel.shape)
    oh, ow = (static(d, request) for d in offset.shape[2:])
    moved, parts = static(offset.shape[1], request), deformable_groups
    if ci != per * groups or co % groups or ci % parts or moved != parts * kh * kw * 2:
        raise ArgumentError(request, "the groups, the channels and the offsets do not fit")
    size = [h, w]

    def sample(b: Any, c: Any, u: Any, v: Any, y: Any, x: Any) -> Any:
        group = c // (ci // parts)
        first = ((group * kh + u) * kw + v) * 2
        begin = [
            o * s - p + k * d for o, s, p, k, d in zip((y, x), strides, padding, (u, v), dilation)
        ]
        at = []
        for d in (0, 1):
            place = cast(data.dtype, begin[d]) + cast(data.dtype, offset(b, first + d, y, x))
            last = const(size[d] + 4, data.dtype)  # all is 0 beyond, and an integer holds this
            at.append(maximum(minimum(place, last), const(-5, data.dtype)))

        value = between(pixel_of(data, b, c, size), at, data.dtype)
        if mask is None:
            return value
        return value * mask(b, (group * kh + u) * kw + v, y, x)

    columns = compute((n, ci, kh, kw, oh, ow), sample, "T_samples", INJECTIVE)
    result = out_dtype or data.dtype
    rc, ry, rx = (reduce_axis((0, e), name=f"r{k}") for k, e in zip("cyx", (per, kh, kw)))

    def element(b: Any, o: Any, y: Any, x: Any) -> Any:
        c = rc if groups == 1 else quotient(o, co // groups) * per + rc
        left = columns(b, c, ry, rx, y, x)
        return sum_of_products(result, left, kernel(o, rc, ry, rx), [rc, ry, rx])

    return stored(compute((n, co, oh, ow), element, "T_deformable_conv"), result)
