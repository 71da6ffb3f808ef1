"""Images and their channels: blocks of pixels as channels, windows put back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, reduce_axis
from whet.compiler.tir.ops.ops import all_of, cast, const, floordiv, floormod, if_then_else
from whet.compiler.topi.half_precision import stored, summed_in
from whet.compiler.topi.shapes import static
from whet.compiler.topi.transform import reshape, transpose


def depth_to_space(
    data: Tensor, block_size: int, layout: str = "NCHW", mode: str = "DCR"
) -> Tensor:
    """Channels put into blocks of pixels.

    Args:
        data: (N, C, H, W), or (N, H, W, C).
        block_size: pixels of a block in each dimension; its square divides C.
        layout: ``"NCHW"`` or ``"NHWC"``.
        mode: ``"DCR"``: the place in a block is outside of the channel; ``"CRD"``: inside.

    Returns:
        (N, C / block ** 2, H * block, W * block), or in the other layout.

    Raises:
        ArgumentError: the block does not divide the channels, or there is no such layout or mode.
    """
    request = f"depth_to_space({data}, {block_size}, {layout!r}, {mode!r})"
    n, c, h, w = _sizes(data, layout, request)
    if mode not in ("DCR", "CRD") or block_size < 1 or c % (block_size * block_size):
        raise ArgumentError(request, "mode is 'DCR' or 'CRD', the block's square divides C")
    b, c = block_size, c // (block_size * block_size)
    if layout == "NCHW":
        parts = (n, b, b, c, h, w) if mode == "DCR" else (n, c, b, b, h, w)
        order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
        return reshape(transpose(reshape(data, parts), order), (n, c, h * b, w * b))
    parts = (n, h, w, b, b, c) if mode == "DCR" else (n, h, w, c, b, b)
    order = (0, 1, 3, 2, 4, 5) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    return reshape(transpose(reshape(data, parts), order), (n, h * b, w * b, c))


def space_to_depth(data: Tensor, block_size: int, layout: str = "NCHW") -> Tensor:
    """Blocks of pixels put into channels: the inverse of :func:`depth_to_space` of mode DCR.

    Raises:
        ArgumentError: the block does not divide the image, or there is no such layout.
    """
    request = f"space_to_depth({data}, {block_size}, {layout!r})"
    n, c, h, w = _sizes(data, layout, request)
    b = block_size
    if b < 1 or h % b or w % b:
        raise ArgumentError(request, "the block does not divide the image")
    if layout == "NCHW":
        parts = reshape(data, (n, c, h // b, b, w // b, b))
        return reshape(transpose(parts, (0, 3, 5, 1, 2, 4)), (n, c * b * b, h // b, w // b))
    parts = reshape(data, (n, h // b, b, w // b, b, c))
    return reshape(transpose(parts, (0, 1, 3, 2, 4, 5)), (n, h // b, w // b, c * b * b))


def _sizes(data: Tensor, layout: str, request: str) -> list[int]:
    """N, C, H and W."""
    if layout not in ("NCHW", "NHWC") or data.ndim != 4:
        raise ArgumentError(request, "images are NCHW or NHWC")
    return [static(data.shape[layout.index(x)], request) for x in "NCHW"]


def col2im(
    data: Tensor,
    image_shape: Sequence[int],
    block_shape: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """Windows put back into images, where they meet summed up: the transpose of im2col.

    Args:
        data: (N, C * elements of a window, windows).
        image_shape, block_shape: extents of the image and of a window, of any rank.
        strides, dilation: one for each dimension.
        padding: those in front, then those behind.

    Returns:
        (N, C, image ...).

    Raises:
        ArgumentError: shapes do not fit.
    """
    request = f"col2im({data}, {list(image_shape)}, {list(block_shape)})"
    n, planes, windows = (static(d, request) for d in data.shape)
    rank, before = len(image_shape), padding[: len(image_shape)]
    room = [d + b + a for d, b, a in zip(image_shape, before, padding[rank:])]
    counts = [
        (r - d * (k - 1) - 1) // s + 1 for r, k, s, d in zip(room, block_shape, strides, dilation)
    ]
    size, many = 1, 1
    for k, count in zip(block_shape, counts):
        size, many = size * k, many * count
    if planes % size or windows != many or min(counts) < 1:
        raise ArgumentError(request, f"there would be {many} windows of {size} elements")
    parts = reshape(data, (n, planes // size, *block_shape, *counts))
    axes, wide = [reduce_axis((0, k), name="rk") for k in block_shape], summed_in(data.dtype)

    def element(b: Any, c: Any, *index: Any) -> Any:
        offset = [i + p - k * d for i, p, k, d in zip(index, before, axes, dilation)]
        tests = [t for o, w, s in zip(offset, counts, strides) for t in (o >= 0, o < w * s)]
        tests += [floormod(o, s).equal(0) for o, s in zip(offset, strides) if s > 1]
        one = parts(b, c, *axes, *(floordiv(o, s) for o, s in zip(offset, strides)))
        return te.sum(
            cast(wide, if_then_else(all_of(*tests), one, const(0, data.dtype))), axis=axes
        )

    made = compute((n, planes // size, *image_shape), element, "T_col2im")
    return stored(made, data.dtype)
