"""The knobs of a direct convolution on a GPU: a rectangle of pixels, a part of it for a thread."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf, prod
from typing import Any

from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.compiler.topi.half_precision import summed_in
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.gpu.contraction.gemm import covered
from whet.search_spaces.rules.gpu.contraction.gemm_plan import WARP, busy, held
from whet.search_spaces.rules.gpu.hardware.device import LANES, Gpu, shared_bytes

# pixels of a block along a row, its groups of channels, rows and channels of a thread
_TILES = (
    (16, 8, 8, 8),
    (32, 8, 4, 8),
    (32, 4, 8, 8),
    (32, 4, 4, 8),
    (32, 4, 2, 8),
    (16, 8, 7, 8),
    (16, 8, 4, 8),
    (16, 16, 4, 4),
    (16, 8, 2, 8),
    (8, 16, 7, 4),
    (8, 16, 4, 4),
    (8, 8, 2, 8),
    (32, 4, 4, 4),
    (32, 4, 2, 4),
    (16, 8, 1, 4),
    (64, 2, 2, 4),
    (32, 2, 2, 2),
    (32, 1, 4, 1),
)
_CHANNELS = (4, 2, 8, 16, 1, 3)
# Columns of windows are unrolled that have so many multiply-adds.
_COLUMN = 640
# Shared memory that a block may have, and a multiprocessor.
_SHARED, _SHARED_SM = 96 * 1024, 160 * 1024
# Of a thread: registers beside its sums and operands; what it costs to fetch a number for shared
# memory, to read one of it and to store a sum, in multiply-adds; cycles that a block waits for what
# it fetches, and to begin and to end.
_OTHERS, _COPYING, _READING, _STORING, _LATENCY = 44, 9.0, 1.2, 2.0, 900


@dataclass(frozen=True)
class Rectangle:
    """The choices of a config for a direct convolution.

    Attributes:
        x, groups: pixels of a row, and groups of channels, that a block's threads have one each of.
        own_rows, own_channels: of a thread.
        channels: of the data in shared memory at a time.
    """

    x: int
    groups: int
    own_rows: int
    own_channels: int
    channels: int

    @staticmethod
    def of(view: Any) -> Rectangle:
        """The rectangle of a config, or of the view that a constraint gets."""
        x, groups, own_rows, own_channels = view["rectangle"].val
        return Rectangle(x, groups, own_rows, own_channels, view["channels"].val)

    def rows_read(self, shape: ConvShape) -> int:
        """Rows of the image that a thread's pixels read."""
        return (self.own_rows - 1) * shape.strides[0] + shape.reach[0]

    def columns_read(self, shape: ConvShape) -> tuple[int, int]:
        """Columns of the image that a block reads: apart by the stride, and side by side."""
        stride = shape.strides[1]
        return min(stride, shape.reach[1]), self.x + (shape.reach[1] - 1) // stride

    def numbers(self, shape: ConvShape) -> int:
        """Pixels and weights that a block has in shared memory."""
        patch = self.rows_read(shape) * prod(self.columns_read(shape))
        weights = (self.groups * self.own_channels + 4) * prod(shape.window)
        return (patch + weights) * self.channels

    def shared_bytes(self, shape: ConvShape) -> int:
        """Bytes of these."""
        return self.numbers(shape) * dt.itemsize(summed_in(shape.dtype))

    def keeps_columns(self, shape: ConvShape) -> bool:
        """True if a thread reads a column of the patch once for all rows of the window."""
        high = shape.window[0]
        written = self.own_rows * self.own_channels * high <= _COLUMN
        return written and self.rows_read(shape) < self.own_rows * high


@dataclass(frozen=True)
class _Fits:
    """A constraint: the shared memory of a block is at most what it may have.

    Of a large window no choice has so little, but then there are other algorithms.
    """

    bytes: int
    shape: ConvShape

    def __call__(self, view: Any) -> bool:
        other = view["algorithm"].val != "direct"
        return other or Rectangle.of(view).shared_bytes(self.shape) <= self.bytes

    def __repr__(self) -> str:
        return f"a patch of the image and its weights have at most {self.bytes} bytes"


def define_direct(knobs: Prefixed, shape: ConvShape, target: Target) -> Rectangle:
    """Define the knobs of the direct way, and read them.

    Args:
        knobs: where they are defined.
    """
    tiles, channels = _choices(shape)
    fits = _Fits(min(shared_bytes(target), _SHARED), shape)
    _, best = cheapest_rectangle(shape, target)
    tile = (best.x, best.groups, best.own_rows, best.own_channels)
    knobs.choose("rectangle", tiles, tile)
    knobs.choose("channels", channels, best.channels)
    knobs.multi_filter(fits)
    return Rectangle.of(knobs)


def _choices(shape: ConvShape) -> tuple[list[tuple[int, int, int, int]], list[int]]:
    """Rectangles that waste less than half at the edge, and channels at a time."""
    (oh, ow), co = shape.out, shape.co_group

    def waste(tile: tuple[int, int, int, int]) -> float:
        x, groups, rows, own = tile
        return covered(ow, x) * covered(oh, rows) * covered(co, groups * own)

    # channels of a tile beyond the end of a group would be the next group's
    tiles = [t for t in _TILES if shape.groups == 1 or co % (t[1] * t[3]) == 0]
    limit = min(waste(t) for t in tiles) * 2
    channels = [c for c in _CHANNELS if covered(shape.ci_group, c) <= 1.34 * shape.ci_group]
    return [t for t in tiles if waste(t) <= limit], channels or [1]


def cheapest_rectangle(shape: ConvShape, target: Target) -> tuple[float, Rectangle]:
    """The cheapest choice and its cycles, roughly; inf where no choice fits a block."""
    return _cheapest(shape, Gpu.of(target))


@lru_cache(maxsize=256)
def _cheapest(shape: ConvShape, gpu: Gpu) -> tuple[float, Rectangle]:
    tiles, channels = _choices(shape)
    most = min(gpu.shared, _SHARED)
    every = [Rectangle(*t, c) for t in tiles for c in channels]
    fitting = [r for r in every if r.shared_bytes(shape) <= most]
    if not fitting:
        return inf, every[-1]
    times = [(_time(shape, r, gpu), r) for r in fitting]
    return min(times, key=lambda found: found[0])


def _time(shape: ConvShape, r: Rectangle, gpu: Gpu) -> float:
    """Cycles, roughly: those of the multiprocessor that has the most blocks."""
    (oh, ow), (kh, kw), threads = shape.out, shape.window, r.x * r.groups
    blocks = (
        shape.batch * shape.groups * -(-shape.co_group // (r.groups * r.own_channels))
        * -(-oh // r.own_rows) * -(-ow // r.x)
    )  # fmt: skip
    each, pieces = -(-blocks // gpu.many), -(-shape.ci_group // r.channels)
    column = r.rows_read(shape) if r.keeps_columns(shape) else r.own_rows * kh
    registers = r.own_rows * r.own_channels + column + 2 * r.own_channels + _OTHERS
    fitting = min(held(threads, registers), max(1, _SHARED_SM // r.shared_bytes(shape)))
    products = kh * kw * r.own_rows * r.own_channels
    reads = kw * column + kh * kw * -(-r.own_channels // 4)
    copies = r.numbers(shape) / threads * _COPYING
    own = pieces * (r.channels * (products + _READING * reads) + copies)
    own = max(own, pieces * r.channels * products * LANES / gpu.fma)
    own += r.own_rows * r.own_channels * _STORING
    resident = min(each, fitting)
    waits = -(-each // fitting) * (pieces + 1) * _LATENCY / resident
    warps = -(-threads // WARP)
    return each * warps * WARP * own / (LANES * busy(resident * warps, gpu.fma)) + waits
