"""Winograd's 3x3 convolution as stages: patches, two transforms, a batched product, the inverse.

    patch[b, t, r, s, c]                the (m + 2) x (m + 2) pixels of tile b * T + t
    columns[b, t, u, s, c]              B^T over r
    pixels[b, u, v, t, c]               B^T over s: the transformed data, T tiles to a block
    filters[u, v, p, c, i]              the transformed weights, panels of channels side by side
    products[b, u, v, t, o]             for each of (m + 2)^2 places (u, v) a matrix product
    half[b, t, i, v, o], results[b, t, i, j, o]     A^T over u, then over v
    conv                                the tiles at their places, in the layout of the data

A schedule computes a block of tiles at a time, while its numbers are in a cache. The transforms are
unrolled sums (:func:`winograd_matrices.combined`): in each iteration one row's sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, reduce_axis
from whet.compiler.tir.ops.ops import const, if_then_else
from whet.compiler.topi.algebra.winograd_matrices import Matrix, combined, winograd_matrices
from whet.compiler.topi.shapes import static

WINDOW = 3


@dataclass(frozen=True)
class WinogradStages:
    """The stages of :func:`conv2d_winograd`, in the order in which they are computed."""

    half_filters: Tensor
    filters: Tensor
    patch: Tensor
    columns: Tensor
    pixels: Tensor
    products: Tensor
    half: Tensor
    results: Tensor
    conv: Tensor


def conv2d_winograd(
    data: Tensor,
    weight: Tensor,
    m: int,
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    layout: str = "NHWC",
    block: int = 1,
    panel: int = 1,
    points: Sequence[Any] | None = None,
    name: str = "conv",
) -> WinogradStages:
    """A 3x3 convolution of stride 1 by F(m x m, 3 x 3): ((m + 2) / (3 m))^2 of the products.

    Args:
        data: (N, H, W, CI), or (N, CI, H, W).
        weight: (3, 3, CI, CO), or (CO, CI, 3, 3).
        m: the results of a tile are ``m`` by ``m``.
        padding: zeros, (top, left, bottom, right).
        layout: of data, weight and result, ``"NHWC"`` or ``"NCHW"``.
        block: tiles that are computed together.
        panel: output channels that stand side by side in the transformed weights.
        points: the interpolation points, as :func:`winograd_matrices` takes them.
        name: of the result.

    Raises:
        ArgumentError: another layout or window, channels that differ, an image smaller than the
            window.
    """
    request = f"conv2d_winograd({data}, {weight}, {m}, padding={padding}, layout={layout!r})"
    n, h, w, ci, co = _sizes(data, weight, layout, request)
    (top, left, bottom, right), last = padding, layout == "NHWC"
    oh, ow = h + top + bottom - WINDOW + 1, w + left + right - WINDOW + 1
    if min(oh, ow) < 1:
        raise ArgumentError(request, "the window is larger than the padded image")
    th, tw = -(-oh // m), -(-ow // m)
    tiles, matrices, alpha = n * th * tw, winograd_matrices(m, WINDOW, points), m + WINDOW - 1
    blocks, panels = -(-tiles // block), -(-co // panel)

    half_filters, filters = _filters(weight, last, panels, panel, matrices.g)
    patch = _patches(data, last, (top, left), m, (n, th, tw), block)
    columns, pixels = _transformed(patch, matrices.bt)
    k = reduce_axis((0, ci), name="k")
    products = compute(
        (blocks, alpha, alpha, block, panels * panel),
        lambda b, u, v, t, o: te.sum(
            pixels[b, u, v, t, k] * filters[u, v, o // panel, k, o % panel], axis=k
        ),
        name="products",
    )
    half, results = _results(products, matrices.at, co)

    def placed(image: Any, y: Any, x: Any, o: Any) -> Any:
        tile = (image * th + y // m) * tw + x // m
        return results[tile // block, tile % block, y % m, x % m, o]

    shape = (n, oh, ow, co) if last else (n, co, oh, ow)
    conv = compute(shape, placed if last else lambda i, o, y, x: placed(i, y, x, o), name)
    return WinogradStages(
        half_filters, filters, patch, columns, pixels, products, half, results, conv
    )


def _patches(
    data: Tensor,
    last: bool,
    before: tuple[int, int],
    m: int,
    grid: tuple[int, int, int],
    block: int,
) -> Tensor:
    """Tiles of the data, which overlap; zeros outside the images, and beyond the last tile.

    Args:
        data: of :func:`conv2d_winograd`.
        last: the channels come last.
        before: padding at the top and the left.
        m: from tile to tile.
        grid: images, and tiles of each along its height and its width.
        block: tiles that are computed together.
    """
    n, th, tw = grid
    (h, w, ci), tiles = data.shape[1:] if last else (*data.shape[2:], data.shape[1]), n * th * tw
    alpha, (top, left) = m + WINDOW - 1, before

    def pixel(b: Any, t: Any, r: Any, s: Any, c: Any) -> Any:
        tile = b * block + t
        y, x = tile // tw % th * m + r - top, tile % tw * m + s - left
        inside = [y >= 0, y < h, x >= 0, x < w]
        if tiles % block:
            inside.append(tile < tiles)
        image = tile // (th * tw)
        one = data[image, y, x, c] if last else data[image, c, y, x]
        return if_then_else(te.all(*inside), one, const(0, data.dtype))

    return compute((-(-tiles // block), block, alpha, alpha, ci), pixel, name="patch")


def _sizes(data: Tensor, weight: Tensor, layout: str, request: str) -> tuple[int, ...]:
    """Images, their height and width, and the channels of data and result."""
    if layout not in ("NHWC", "NCHW"):
        raise ArgumentError(request, f"the layout {layout!r} is unknown", "'NHWC' or 'NCHW'")
    images = [static(d, request) for d in data.shape]
    weights = [static(d, request) for d in weight.shape]
    if layout == "NHWC":
        (n, h, w, ci), (*window, ci2, co) = images, weights
    else:
        (n, ci, h, w), (co, ci2, *window) = images, weights
    if window != [WINDOW, WINDOW] or ci != ci2:
        raise ArgumentError(
            request, "it needs a 3x3 window over the channels of data", "use conv2d for others"
        )
    return n, h, w, ci, co


def _transformed(patch: Tensor, bt: Matrix) -> tuple[Tensor, Tensor]:
    """The data after B^T over the rows of each tile, then over its columns."""
    blocks, block, alpha, _, ci = (int(d) for d in patch.shape)
    columns = compute(
        (blocks, block, alpha, alpha, ci),
        lambda b, t, u, s, c: matrix_row(bt, u, [patch[b, t, r, s, c] for r in range(alpha)]),
        name="columns",
    )
    pixels = compute(
        (blocks, alpha, alpha, block, ci),
        lambda b, u, v, t, c: matrix_row(bt, v, [columns[b, t, u, s, c] for s in range(alpha)]),
        name="pixels",
    )
    return columns, pixels


def _results(products: Tensor, at: Matrix, co: int) -> tuple[Tensor, Tensor]:
    """The products after A^T over the rows of each tile, then over its columns."""
    blocks, alpha, _, block, _ = (int(d) for d in products.shape)
    m = len(at)
    half = compute(
        (blocks, block, m, alpha, co),
        lambda b, t, i, v, o: matrix_row(at, i, [products[b, u, v, t, o] for u in range(alpha)]),
        name="half",
    )
    results = compute(
        (blocks, block, m, m, co),
        lambda b, t, i, j, o: matrix_row(at, j, [half[b, t, i, v, o] for v in range(alpha)]),
        name="results",
    )
    return half, results


def _filters(
    weight: Tensor, last: bool, panels: int, panel: int, g: Matrix
) -> tuple[Tensor, Tensor]:
    """The weights after G over their rows, then over their columns; zeros beyond the last."""
    alpha = len(g)
    ci, co = (int(d) for d in (weight.shape[2:] if last else weight.shape[1::-1]))

    def element(y: int, x: Any, p: Any, c: Any, i: Any) -> Any:
        o = p * panel + i
        one = weight[y, x, c, o] if last else weight[o, c, y, x]
        return one if co % panel == 0 else if_then_else(o < co, one, const(0, one.dtype))

    half = compute(
        (alpha, WINDOW, panels, ci, panel),
        lambda u, x, p, c, i: matrix_row(g, u, [element(y, x, p, c, i) for y in range(WINDOW)]),
        name="half_filters",
    )
    filters = compute(
        (alpha, alpha, panels, ci, panel),
        lambda u, v, p, c, i: matrix_row(g, v, [half[u, x, p, c, i] for x in range(WINDOW)]),
        name="filters",
    )
    return half, filters


def matrix_row(matrix: Matrix, place: Any, values: list[Any]) -> Any:
    """The sum of a matrix's row number ``place``; where that is a number, the others vanish.

    Args:
        matrix: exact.
        place: the loop over its rows, to be unrolled.
        values: as many as it has columns.
    """
    sums = combined(matrix, values, lambda x: const(x, values[0].dtype))
    out = sums.pop()
    for k, one in reversed(list(enumerate(sums))):
        out = if_then_else(place == k, one, out)
    return out
