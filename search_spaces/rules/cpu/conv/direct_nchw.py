"""The direct convolution with the channels first (NCW, NCHW, NCDHW): two ways to vectorise.

``width``: lanes along the output's rows. A tile holds some channels of some rows of some pixels;
weights are broadcast, the image is read in (unaligned) vectors. With strides, the padded image
holds a row's pixels sorted by their remainder, so that a vector's pixels lie side by side.

    for channels, rows, pixels of the output:                    # the outer loops
        acc[cr, yr, xr] += P[o // cr, rc, ry, rx, o % cr] * padded[rc, y + ry, x + rx]

``channels``: lanes along the output's channels. A tile holds some pixels of some channels; pixels
are broadcast, weights are read in vectors, and the tile is transposed when it is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.tir import IterVar
from whet.search_spaces.forms.conv import ConvOperands
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.cpu.conv.estimate.plane_tiles import plane_tiles
from whet.search_spaces.rules.cpu.conv.estimate.space import Choices, Space
from whet.search_spaces.rules.cpu.conv.padded_image import Read, copy_lines, padded_planes
from whet.search_spaces.rules.cpu.conv.skipping import met, zeros_met
from whet.search_spaces.rules.cpu.conv.weights import Storing, pack, panels
from whet.search_spaces.rules.cpu.gemm.stages import accumulators
from whet.search_spaces.rules.vectors import lanes_of, register_tile, vector_registers


def space(shape: ConvShape, target: Target) -> Space:
    """The knobs of the direct algorithm."""
    lanes, last = lanes_of(target, shape.dtype), len(shape.out) - 1
    choices: Choices = {
        "tile": plane_tiles(shape, lanes, vector_registers(target)),
        "outer": ["rows", "channels"],
        "unroll": ["none", "rx", "ry rx"],
        "pad_at": ["image", "rows"],
        "skip": [False, True] if any(map(shape.is_padded_along, range(last))) else [False],
    }
    return Space("", choices)


@dataclass(frozen=True, eq=False)
class Direct:
    """The stages of a convolution under the knobs of :func:`space`.

    Attributes:
        cfg: has the knobs.
        padded: the image with zeros around it, or None. panels: the weights.
        tiled: the sums with the channels of a tile last, which the way ``channels`` stores.
        conv: the result.
    """

    cfg: Prefixed
    padded: Tensor | None
    panels: Tensor
    tiled: Tensor | None
    conv: Tensor

    @property
    def copied(self) -> bool:
        """True if the image is copied, so that each pixel is read about once."""
        return self.padded is not None

    @staticmethod
    def of(cfg: Prefixed, given: ConvOperands, name: str) -> Direct:
        """The computation.

        Args:
            given: the operands, the image (N, C, spatial ...).
            name: of the result.
        """
        shape = given.form.shape
        way, cr, *sizes = cfg["tile"].val
        padded, read = padded_planes(shape, given.data, tuple(sizes), way == "width")
        weights = panels(given.weight, shape.co, (shape.ci_group, *shape.window), cr)
        conv, tiled = _sums(shape, read, weights, cfg, name)
        return Direct(cfg, padded, weights, tiled, conv)

    def schedule(self, s: Schedule, how: Storing) -> None:
        """Schedule all stages but the inlined ones."""
        cfg, padded, tiled = self.cfg, self.padded, self.tiled
        _, cr, *sizes = cfg["tile"].val
        acc = (
            accumulators(s, self.conv, how.out) if tiled is None else s.cache_write(tiled, "local")
        )
        # as a whole, or the rows of it that each step of ``outer`` reads
        at_rows = cfg["pad_at"].val == "rows" and cfg["outer"].val == "rows"
        share = how.threads.parallel and not at_rows
        outer, inner = _stored(how.out, cfg, cr, sizes, share)
        if tiled is None:
            s[acc].compute_at(how.out, inner)
        else:
            _transpose(s[tiled], s[acc], how.out, inner, len(sizes))
        _sum_up(s[acc], len(sizes), tiled is not None, cfg["unroll"].val)
        how.threads.run(how.out, outer)
        pack(s, self.panels, how)
        if padded is not None:
            copy_lines(s, padded, share)
            if at_rows:
                s[padded].compute_at(how.out, outer)


def _sums(
    shape: ConvShape, read: Read, weights: Tensor, cfg: Prefixed, name: str
) -> tuple[Tensor, Tensor | None]:
    """The sums, and those with the channels of a tile last, which the way ``channels`` stores."""
    (way, cr, *sizes), skips = cfg["tile"].val, cfg["skip"].val
    channels, window = te.reduce_axis((0, shape.ci_group), name="rc"), shape.window_axes()
    # what is skipped is outermost: one test for all channels
    steps = [*window[:-1], channels, window[-1]] if skips else [channels, *window]

    def product(b: Any, o: Any, *place: Any) -> Any:
        channel: Any = channels
        if shape.groups > 1:
            channel = shape.group_of(o) * shape.ci_group + channel
        one = read(b, channel, place, window)
        where = _meets(shape, sizes, place, window) if skips else None
        return te.sum(one * weights(o // cr, channels, *window, o % cr), axis=steps, where=where)

    tiled = None
    if way == "channels":
        tiled = te.compute(
            (shape.batch, -(-shape.co // cr), *shape.out, cr),
            lambda b, p, *place: product(b, p * cr + place[-1], *place[:-1]),
            name="tiled",
        )
    conv = te.compute(
        shape.result_shape,
        product if tiled is None else lambda b, o, *place: tiled(b, o // cr, *place, o % cr),
        name=name,
    )
    return conv, tiled


def _meets(shape: ConvShape, sizes: list[int], place: Any, window: Any) -> Any:
    """True where a tap of all dimensions but the last meets the image for any pixel of a tile."""
    beyond: list[Any] = []
    tile = (*(1 for _ in place[len(sizes) :]), *sizes[:-1])
    for axis, (i, n, tap) in enumerate(zip(place, tile, window)):
        begin = i // n * n
        beyond += zeros_met(shape, axis, tap, begin, begin + (n - 1))
    return met(beyond)


def _stored(
    stored: Stage, cfg: Any, cr: int, sizes: list[int], share: bool
) -> tuple[IterVar, IterVar]:
    """The loops that store tiles: returns the outermost of rows or channels, and the innermost.

    Args:
        cr, sizes: the channels and the pixels of a tile.
        share: put the images, and with rows outermost all tiles of pixels, in the outermost loop,
            so that threads get even shares.
    """
    b, o, *place = stored.op.axis
    oo, oi = stored.split(o, factor=cr)
    whole = len(place) - len(sizes)
    split = [stored.split(a, factor=t) for a, t in zip(place[whole:], sizes)]
    outer = [*place[:whole], *(a for a, _ in split)]
    *inner, lane = (a for _, a in split)
    rows = [*outer, oo] if cfg["outer"].val == "rows" else [oo, *outer]
    if cfg["tile"].val[0] == "width":
        register_tile(stored, [b, *rows], [*inner, oi, lane])
    else:
        register_tile(stored, [b, *rows, *inner, oi], [lane])
    first = rows[0]
    if share:
        count = len(outer) if cfg["outer"].val == "rows" else 1
        for axis in rows[1:count]:
            first = stored.fuse(first, axis)
        first = stored.fuse(b, first)
    return first, rows[-1]


def _transpose(tiled: Stage, acc: Stage, stored: Stage, inner: IterVar, count: int) -> None:
    """Keep a tile's sums in memory, so that they can be read along the pixels."""
    tiled.compute_at(stored, inner)
    b, *_, lane = tiled.op.axis
    for a in tiled.op.axis[-1 - count : -1]:
        tiled.unroll(a)
    tiled.vectorize(lane)
    acc.compute_at(tiled, b)


def _sum_up(acc: Stage, count: int, is_transposed: bool, unroll: str) -> None:
    """Sum a tile up in registers; ``unroll`` names the steps that are unrolled."""
    axes, steps = acc.op.axis, list(acc.op.reduce_axis)
    # Lanes along the width: the channels of the tile are unrolled as well.
    first = len(axes) - 1 - count if is_transposed else 1
    register_tile(acc, [*axes[:first], *steps], axes[first:])
    for a in steps:
        if a.var.name in unroll.split():
            acc.unroll(a)
