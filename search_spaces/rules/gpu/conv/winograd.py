"""Winograd's 3x3 convolution of stride 1 on a GPU: a GEMM between two transforms.

    filters[u, v, c, o]  = G weight G^T           a thread for each c and o
    pixels[u, v, c, t]   = B^T patch B            a thread for each c and tile t of m x m results
    products[u, v, o, t] = sum over c of filters[u, v, c, o] * pixels[u, v, c, t]
    conv                 = A^T products A         a thread for each o and t, with the epilogue

Each line is a kernel, the first one ahead of the calls where weights are packed; channels last, t
stands in front of the channels. What lies between kernels is ((m + 2) / m)^2 times the image and
the result, and ((m + 2) / 3)^2 times the weights: it is in float32, for float16 too, since
transforms lose digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.tir import IterVar
from whet.compiler.tir import dtype as dt
from whet.compiler.topi.algebra.winograd_matrices import Matrix, winograd_matrices
from whet.compiler.topi.half_precision import summed_in
from whet.compiler.topi.nn.winograd import WINDOW, matrix_row
from whet.search_spaces.forms.conv_layout import channels_first, in_layout, pixel
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.rules.cpu.conv.winograd import variants
from whet.search_spaces.rules.gpu.contraction.gemm import (
    GemmStages,
    gemm_stages,
    matrix_operand,
)
from whet.search_spaces.rules.gpu.contraction.gemm_loops import matrix_loops, store_result
from whet.search_spaces.rules.gpu.contraction.gemm_plan import (
    KERNEL,
    GemmShape,
    Plan,
    moving,
)
from whet.search_spaces.rules.gpu.conv.operands import GpuConv
from whet.search_spaces.rules.gpu.hardware.device import processors
from whet.search_spaces.rules.gpu.hardware.threads import (
    Block,
    attach,
    bind,
    bind_fused,
    cooperative_load,
    unroll,
)

# With fewer channels, transforms cost more than fewer products save; and what lies between kernels
# may have so many bytes, each array of it.
_LEAST, _MOST_BYTES = 16, 1 << 31
_THREADS = 128
# Weights of a block of threads: neighbouring channels of the result, channels of the data.
_FILTERS, _CHANNELS = 32, 8
# Rows of shared memory that begin on other banks.
_BANKS, _SHIFT = 32, 1


@dataclass(frozen=True)
class Winograd:
    """A convolution in tiles of results.

    Attributes:
        shape: the convolution.
        m: rows and columns of a tile.
    """

    shape: ConvShape
    m: int

    @property
    def name(self) -> str:
        """The choice of the knob ``algorithm``."""
        return f"winograd{self.m}"

    @property
    def across(self) -> int:
        """Rows and columns of the pixels that a tile reads, and of its products."""
        return self.m + WINDOW - 1

    @property
    def plane(self) -> tuple[int, int]:
        """Tiles along an image's height and width."""
        oh, ow = self.shape.out
        return -(-oh // self.m), -(-ow // self.m)

    @property
    def tiles(self) -> int:
        """All tiles."""
        return self.shape.batch * prod(self.plane)

    @property
    def scratch_bytes(self) -> int:
        """Bytes of the largest array between two kernels."""
        channels = max(self.shape.ci, self.shape.co)
        size = dt.itemsize(summed_in(self.shape.dtype))
        return self.across**2 * channels * max(self.tiles, min(self.shape.ci, self.shape.co)) * size

    @property
    def gemm_shape(self) -> GemmShape:
        """The sizes of the GEMM in the middle."""
        sides = (self.shape.co, self.tiles)
        rows, columns = reversed(sides) if self.shape.channels_last else sides
        size = dt.itemsize(summed_in(self.shape.dtype))
        return GemmShape(self.across**2, rows, columns, self.shape.ci, itemsize=size)

    def transforms(self, target: Target, packed: bool = False) -> float:
        """Cycles of the kernels before and behind the GEMM, roughly.

        Args:
            target: whose processors share the work.
            packed: whether the weights are transformed ahead, which no call waits for.
        """
        shape, size = self.shape, dt.itemsize(summed_in(self.shape.dtype))
        images = shape.batch * (shape.ci * prod(shape.image) + shape.co * prod(shape.out))
        weights = 0 if packed else shape.ci * shape.co
        channels = self.tiles * (shape.ci + shape.co) + weights
        moved = images + weights * WINDOW**2 + self.across**2 * channels
        return (2 if packed else 3) * KERNEL + moving(moved * size, processors(target))


def winograds(shape: ConvShape) -> list[Winograd]:
    """The candidates for a convolution; none where Winograd's algorithm cannot compute it."""
    if min(shape.ci, shape.co) < _LEAST:
        return []
    every = (Winograd(shape, m) for m in variants(shape))
    return [w for w in every if w.scratch_bytes <= _MOST_BYTES]


@dataclass(frozen=True, eq=False)
class Transforms:
    """The stages of a convolution as transforms and a GEMM.

    Attributes:
        w: the tiles. of: the convolution, of weights before they are packed.
        packed: whether the weights are transformed ahead of the calls.
        filters: half transformed, and whole.
        pixels: the patches, half transformed, and whole.
        sums: the GEMM's tiles. products: its result.
        inverse: half of it, and whole.
        conv: the result.
    """

    w: Winograd
    of: GpuConv
    packed: bool
    filters: tuple[Tensor, Tensor]
    pixels: tuple[Tensor, Tensor, Tensor]
    sums: GemmStages
    products: Tensor
    inverse: tuple[Tensor, Tensor]
    conv: Tensor

    @staticmethod
    def stages(of: GpuConv, w: Winograd, plan: Plan) -> Transforms:
        """The stages under a config."""
        shape, packed = w.shape, of.is_packed
        of = of.before_packing()
        filters, pixels = _filters(w, of), _pixels(w, of.data)
        last = shape.channels_last
        operands = [
            matrix_operand(filters[-1], shape.co, shape.ci, False),
            matrix_operand(pixels[-1], w.tiles, shape.ci, last),
        ]
        # with the channels last, tiles are M
        left, right = reversed(operands) if last else operands
        sums = gemm_stages(left, right, (w.across, w.across), (), shape.ci, plan, of.kind)
        dims = (w.across, w.across, left.extent, right.extent)
        products = te.compute(dims, lambda *i: sums.total(*i), name="products")
        half, whole, conv = _inverse(w, products, of)
        return Transforms(w, of, packed, filters, pixels, sums, products, (half, whole), conv)

    def schedule(self, s: Schedule, out: Stage) -> None:
        """Schedule the stages, and the one that stores the result."""
        w, (patch, columns, pixels) = self.w, self.pixels
        _schedule_filters(s, self.of, *self.filters)
        if self.packed:
            s[self.filters[-1]].compute_ahead()
        _in_registers(s, (patch, columns), s[pixels], _transform(s[pixels]))
        store_result(s, self.sums, matrix_loops(s[self.products], self.sums.plan))
        _in_registers(s, self.inverse, out, _store(out, w))


def _filters(w: Winograd, of: GpuConv) -> tuple[Tensor, Tensor]:
    """The weights after G over their rows, and after that over their columns."""
    shape, kind = w.shape, of.kind
    return _transformed(
        winograd_matrices(w.m).g,
        lambda y, x, c, o: of.weight(o, c, y, x).astype(kind),
        (shape.ci, shape.co),
        ("half_filters", "filters"),
        "u x v c o",
    )


def _transformed(
    matrix: Matrix,
    source: Callable[..., Any],
    places: Sequence[Any],
    names: tuple[str, str],
    axes: str,
) -> tuple[Tensor, Tensor]:
    """The matrices in the first two axes of a source, transformed: their rows, then their columns.

    Args:
        matrix: of the transform.
        source: (row, column, *place) -> an element.
        places: extents of the places.
        names: of the two stages.
        axes: names: the row after the transform, the column before and after, the places.
    """
    row, before, after, *rest = axes.split()
    count, steps = len(matrix), range(len(matrix[0]))
    rows = te.compute(
        (count, len(steps), *places),
        lambda *at: matrix_row(matrix, at[0], [source(k, *at[1:]) for k in steps]),
        name=names[0],
        varargs_names=(row, before, *rest),
    )
    return rows, te.compute(
        (count, count, *places),
        lambda *at: matrix_row(matrix, at[1], [rows(at[0], k, *at[2:]) for k in steps]),
        name=names[1],
        varargs_names=(row, after, *rest),
    )


def _pixels(w: Winograd, data: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The patches of tiles, zeros around the image; after B^T over rows, then over columns."""
    shape, kind = w.shape, summed_in(w.shape.dtype)
    (top, left), (down, across) = shape.before, w.plane
    places = in_layout(shape, shape.ci, w.tiles)

    def element(r: Any, s: Any, *place: Any) -> Any:
        c, t = reversed(place) if shape.channels_last else place
        y, x = t // across % down * w.m + r - top, t % across * w.m + s - left
        return pixel(shape, data, (t // (down * across), c, y, x), kind)

    patch = te.compute((w.across, w.across, *places), element, name="patch")
    bt, names = winograd_matrices(w.m).bt, ("columns", "pixels")
    return patch, *_transformed(bt, patch, places, names, "u s v place0 place1")


def _inverse(w: Winograd, products: Tensor, of: GpuConv) -> tuple[Tensor, Tensor, Tensor]:
    """The products after A^T over rows, then over columns; and these at their places."""
    shape, at, (down, across) = w.shape, winograd_matrices(w.m).at, w.plane
    names, sides = ("half", "results"), products.shape[2:]
    half, results = _transformed(at, products, sides, names, "i v j place0 place1")

    def element(*index: Any) -> Any:
        image, o, y, x = channels_first(shape, index)
        t = (image * down + y // w.m) * across + x // w.m
        return results(y % w.m, x % w.m, *in_layout(shape, o, t)).astype(of.dtype)

    return half, results, te.compute(shape.result_shape, element, name=of.name)


def _in_registers(s: Schedule, tensors: Sequence[Tensor], stage: Stage, thread: IterVar) -> None:
    """Intermediate matrices of a thread on the way to a stage, in registers and unrolled."""
    for tensor in tensors:
        attach(s[tensor], stage, thread)
        unroll(s[tensor], s[tensor].op.axis[:2])


def _transform(stage: Stage) -> IterVar:
    """A thread for each matrix of a transform: neighbours lie side by side; returns its loop."""
    u, v, *places = stage.op.axis
    stage.reorder(*places, u, v)
    unroll(stage, (u, v))
    return bind_fused(stage, places, _THREADS)


def _store(stage: Stage, w: Winograd) -> IterVar:
    """A thread for each tile of results of a channel; returns its loop."""
    n, o, y, x = channels_first(w.shape, stage.op.axis)
    (yo, yi), (xo, xi) = stage.split(y, factor=w.m), stage.split(x, factor=w.m)
    order = in_layout(w.shape, o, n, yo, xo)
    stage.reorder(*order, yi, xi)
    stage.unroll(yi)
    if w.shape.channels_last or w.shape.out[1] % w.m:
        stage.unroll(xi)
    else:
        stage.vectorize(xi)
    return bind_fused(stage, order, _THREADS)


def _schedule_filters(s: Schedule, of: GpuConv, half: Tensor, filters: Tensor) -> None:
    """The weights' transform; what a block reads of [o, c, y, x] goes through shared memory.

    There, weights of one channel of the result lie side by side, but threads side by side have
    channels of the result, since that is how the GEMM reads the result.
    """
    stage = s[filters]
    if not of.is_oihw:
        _in_registers(s, (half,), stage, _transform(stage))
        return
    u, v, c, o = stage.op.axis
    (bo, to), (bc, tc) = stage.split(o, factor=_FILTERS), stage.split(c, factor=_CHANNELS)
    stage.reorder(bc, bo, tc, to, u, v)
    unroll(stage, (u, v))
    blocks = stage.fuse(bc, bo)
    bind(stage, block=blocks, y=tc, x=to)
    _in_registers(s, (half,), stage, to)
    read = s[s.cache_read(of.given.load.producer, "shared", [half])]
    read.compute_at(stage, blocks)
    extents = (_FILTERS, _CHANNELS, WINDOW, WINDOW)
    cooperative_load(read, read.op.axis, extents, Block(_FILTERS, _CHANNELS))
    read.storage_align(read.op.axis[0], _BANKS, _SHIFT)
