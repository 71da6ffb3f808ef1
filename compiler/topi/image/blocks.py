"""Images and their channels: blocks of pixels as channels, windows put back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, reduce_axis
from whet.compiler.tir.ops.ops import all_of, cast, const, floordiv, floormod, if_then_else
from whet.compiler.topi.half_precision import stored, summed_in
from whet.compiler.topi.shapes import is_multiple, quotient_of, static
from whet.compiler.topi.tag import INJECTIVE
from whet.compiler.topi.transform import reshape


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
    b, channels = block_size, static(c, request)
    if mode not in ("DCR", "CRD") or b < 1 or channels % (b * b):
        raise ArgumentError(request, "mode is 'DCR' or 'CRD', the block's square divides C")
    c = channels // (b * b)

    def element(image: Any, channel: Any, y: Any, x: Any) -> Any:
        place = floormod(y, b) * b + floormod(x, b)
        source = place * c + channel if mode == "DCR" else channel * (b * b) + place
        return _at(data, layout, image, source, floordiv(y, b), floordiv(x, b))

    return _images((n, c, h * b, w * b), element, layout, "T_depth_to_space")


def space_to_depth(data: Tensor, block_size: int, layout: str = "NCHW") -> Tensor:
    """Blocks of pixels put into channels: the inverse of :func:`depth_to_space` of mode DCR.

    Raises:
        ArgumentError: the block does not divide the image, or there is no such layout.
    """
    request = f"space_to_depth({data}, {block_size}, {layout!r})"
    n, c, h, w = _sizes(data, layout, request)
    b = block_size
    if b < 1 or not is_multiple(h, b) or not is_multiple(w, b):
        raise ArgumentError(request, "the block does not divide the image")

    def element(image: Any, channel: Any, y: Any, x: Any) -> Any:
        place = floordiv(channel, c)
        row, column = y * b + floordiv(place, b), x * b + floormod(place, b)
        return _at(data, layout, image, floormod(channel, c), row, column)

    shape = (n, c * (b * b), quotient_of(h, 0, b), quotient_of(w, 0, b))
    return _images(shape, element, layout, "T_space_to_depth")


def image_tiles(
    data: Tensor, size: int, step: int, before: Sequence[int], after: Sequence[int]
) -> Tensor:
    """Squares of pixels that overlap, which cover padded images.

    Args:
        data: (N, H, W, C).
        size: pixels of a square in each direction. step: from one to the next.
        before, after: rows and columns of zeros in front of and behind the image; behind them there
            are as many more as the last squares need.

    Returns:
        (N, rows of squares, columns of squares, size, size, C).

    Raises:
        ArgumentError: the images have no channels, or a square does not reach the next one.
    """
    request = f"image_tiles({data}, {size}, {step})"
    if data.ndim != 4 or not 1 <= step <= size:
        raise ArgumentError(request, "images are (N, H, W, C), a step is from 1 to the size")
    n, *image, c = data.shape
    many = [
        quotient_of(d, b + a - (size - step) + step - 1, step)
        for d, b, a in zip(image, before, after)
    ]

    def element(i: Any, ty: Any, tx: Any, y: Any, x: Any, k: Any) -> Any:
        at = [t * step + p - b for t, p, b in zip((ty, tx), (y, x), before)]
        inside = [t for p, d in zip(at, image) for t in (p >= 0, p < d)]
        return if_then_else(all_of(*inside), data(i, *at, k), const(0, data.dtype))

    return compute((n, *many, size, size, c), element, "T_image_tiles", INJECTIVE)


def tiles_image(tiles: Tensor, height: Any, width: Any) -> Tensor:
    """Images put together of squares that lie side by side; what hangs over is left out.

    Args:
        tiles: (N, rows of squares, columns of squares, size, size, C).
        height, width: of the images, which the squares cover.

    Returns:
        (N, height, width, C).
    """
    n, _, _, size, _, c = tiles.shape

    def element(i: Any, y: Any, x: Any, k: Any) -> Any:
        row, column = floordiv(y, size), floordiv(x, size)
        return tiles(i, row, column, floormod(y, size), floormod(x, size), k)

    return compute((n, height, width, c), element, "T_tiles_image", INJECTIVE)


def _sizes(data: Tensor, layout: str, request: str) -> list[Any]:
    """N, C, H and W."""
    if layout not in ("NCHW", "NHWC") or data.ndim != 4:
        raise ArgumentError(request, "images are NCHW or NHWC")
    return [data.shape[layout.index(x)] for x in "NCHW"]


def _at(data: Tensor, layout: str, image: Any, channel: Any, y: Any, x: Any) -> Any:
    """A pixel's channel."""
    return data(image, channel, y, x) if layout == "NCHW" else data(image, y, x, channel)


def _images(shape: Sequence[Any], element: Callable[..., Any], layout: str, name: str) -> Tensor:
    """Images whose elements are given by their image, channel, row and column."""
    if layout == "NCHW":
        return compute(shape, element, name, INJECTIVE)
    n, c, h, w = shape
    return compute((n, h, w, c), lambda i, y, x, k: element(i, k, y, x), name, INJECTIVE)


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
