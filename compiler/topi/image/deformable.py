"""Convolutions whose windows take their pixels at places that are data."""

from __future__ import annotations

from collections.abc import Sequence
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
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
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
    n, ci = (static(d, request) for d in data.shape[:2])
    co, per, kh, kw = (static(d, request) for d in kernel.shape)
    oh, ow = (static(d, request) for d in offset.shape[2:])
    moved, parts = static(offset.shape[1], request), deformable_groups
    if ci != per * groups or co % groups or ci % parts or moved != parts * kh * kw * 2:
        raise ArgumentError(request, "the groups, the channels and the offsets do not fit")
    columns = _samples(
        data, offset, mask, (n, ci, kh, kw, oh, ow), ci // parts, strides, padding, dilation
    )
    result = out_dtype or data.dtype
    rc, ry, rx = (reduce_axis((0, e), name=f"r{k}") for k, e in zip("cyx", (per, kh, kw)))

    def element(b: Any, o: Any, y: Any, x: Any) -> Any:
        c = rc if groups == 1 else quotient(o, co // groups) * per + rc
        left = columns(b, c, ry, rx, y, x)
        return sum_of_products(result, left, kernel(o, rc, ry, rx), [rc, ry, rx])

    return stored(compute((n, co, oh, ow), element, "T_deformable_conv"), result)


def _samples(
    data: Tensor, offset: Tensor, mask: Tensor | None, shape: tuple[int, ...], per_group: int,
    strides: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
) -> Tensor:  # fmt: skip
    """The pixels (N, CI, KH, KW, OH, OW) that windows take, each between four."""
    size = [static(d, f"{data}") for d in data.shape[2:]]
    kh, kw = shape[2:4]

    def sample(b: Any, c: Any, u: Any, v: Any, y: Any, x: Any) -> Any:
        place = ((c // per_group) * kh + u) * kw + v
        at = []
        for d, (o, k) in enumerate(((y, u), (x, v))):
            begin = cast(data.dtype, o * strides[d] - padding[d] + k * dilation[d])
            moved = begin + cast(data.dtype, offset(b, place * 2 + d, y, x))
            last = const(size[d] + 4, data.dtype)  # all is 0 beyond, and an integer holds this
            at.append(maximum(minimum(moved, last), const(-5, data.dtype)))
        value = between(pixel_of(data, b, c, size), at, data.dtype)
        return value if mask is None else value * mask(b, place, y, x)

    return compute(shape, sample, "T_samples", INJECTIVE)
