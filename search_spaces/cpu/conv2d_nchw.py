"""The conv2d template for CPUs, NCHW: packed weights, a register tile, two ways to vectorise.

``width``: lanes along the output's rows. A tile holds some channels of some rows of some pixels;
weights are broadcast, the image is read in (unaligned) vectors. For stride 1.

    for channels, rows, pixels of the output:                    # the outer loops
        acc[cr, yr, xr] += P[o // cr, rc, ry, rx, o % cr] * padded[rc, y + ry, x + rx]

``channels``: lanes along the output's channels. A tile holds some pixels of some channels; pixels
are broadcast, weights are read in vectors, and the tile is turned round when it is stored.
"""

from __future__ import annotations

from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Tensor
from whet.compiler.tir import dtype as dt
from whet.compiler.topi.nn import pair
from whet.compiler.topi.pad import pad
from whet.search_spaces.config_scope import get_config
from whet.search_spaces.cpu.registers import vector_registers
from whet.search_spaces.template import template

Tile = tuple[str, int, int, int]  # way, channels, rows, pixels


def _pairs(args: tuple) -> tuple:
    """The arguments with strides and padding as pairs: 1 and (1, 1) are one workload."""
    *sizes, strides, padding, dtype = args
    return (*sizes, pair(strides, "strides"), pair(padding, "padding"), dtype)


@template("conv2d_nchw", version=1, canonical=_pairs)
def conv2d_nchw(
    N: int,
    CI: int,
    H: int,
    W: int,
    CO: int,
    KH: int,
    KW: int,
    strides: Any = 1,
    padding: Any = 0,
    dtype: str = "float32",
) -> tuple[Schedule, list[Tensor]]:
    """The convolution of data (N, CI, H, W) with weights (CO, CI, KH, KW) into (N, CO, OH, OW).

    Args:
        strides, padding: an int, or (vertical, horizontal); zeros are padded on both sides.
            The workload holds pairs.
        dtype: of data, weights and result.
    """
    asked = f"conv2d_nchw{(N, CI, H, W, CO, KH, KW, strides, padding)}"
    if not all(isinstance(v, int) and v >= 1 for v in (N, CI, H, W, CO, KH, KW)):
        raise ArgumentError(asked, "every size must be an int, at least 1")
    (sh, sw), (ph, pw) = pair(strides, "strides"), pair(padding, "padding")
    if min(sh, sw) < 1 or min(ph, pw) < 0:
        raise ArgumentError(asked, "strides must be at least 1 and padding at least 0")
    oh, ow = (H + 2 * ph - KH) // sh + 1, (W + 2 * pw - KW) // sw + 1
    if oh < 1 or ow < 1:
        raise ArgumentError(asked, f"the {KH}x{KW} window is larger than the padded image")

    cfg = get_config()
    target = Target.current() or Target("llvm")
    lanes = max(target.vector_bytes // dt.itemsize(dtype), 1)
    tiles = _tiles(lanes, vector_registers(target), CO, oh, ow, sw)
    cfg.define_knob("tile", tiles, default=tiles[0])
    cfg.define_knob("outer", ["channels", "rows"], default="rows")
    cfg.define_knob("unroll", ["none", "rx", "ry rx"], default="rx")
    cfg.define_knob("pad_at", ["image", "rows"], default="image")
    cfg.define_knob("weights", ["packed", "plain"], default="packed")

    data = te.placeholder((N, CI, H, W), dtype, name="data")
    weight = te.placeholder((CO, CI, KH, KW), dtype, name="weight")
    way, cr, yr, xr = cfg["tile"].val
    # Tiles at the edge read on beyond the image. With zeros there, they need no guards inside.
    below = ph + max(0, (-(-oh // yr) * yr - 1) * sh + KH - (H + 2 * ph))
    right = pw + max(0, (-(-ow // xr) * xr - 1) * sw + KW - (W + 2 * pw))
    padded = data
    if ph or pw or below or right:
        padded = pad(data, (0, 0, ph, pw), (0, 0, below, right), name="padded")
    if way == "channels" or cfg["weights"].val == "packed":
        packed = _pack(weight, cr)
    else:
        packed = None
    rc = te.reduce_axis((0, CI), name="rc")
    ry = te.reduce_axis((0, KH), name="ry")
    rx = te.reduce_axis((0, KW), name="rx")

    def product(b: Any, o: Any, y: Any, x: Any) -> Any:
        w = weight[o, rc, ry, rx] if packed is None else packed[o // cr, rc, ry, rx, o % cr]
        return te.sum(padded[b, rc, y * sh + ry, x * sw + rx] * w, axis=[rc, ry, rx])

    if way == "width":
        conv = te.compute((N, CO, oh, ow), product, name="conv")
        tiled = None
    else:
        tiled = te.compute(
            (N, -(-CO // cr), oh, ow, cr),
            lambda b, p, y, x, c: product(b, p * cr + c, y, x),
            name="tiled",
        )
        conv = te.compute(
            (N, CO, oh, ow), lambda b, o, y, x: tiled[b, o // cr, y, x, o % cr], name="conv"
        )

    s = te.create_schedule(conv.op)
    acc = s.cache_write(conv if tiled is None else tiled, "local")
    b, o, y, x = s[conv].op.axis
    oo, oi = s[conv].split(o, factor=cr)
    yo, yi = s[conv].split(y, factor=yr)
    xo, xi = s[conv].split(x, factor=xr)
    if cfg["outer"].val == "channels":
        s[conv].reorder(b, oo, yo, xo, yi, oi, xi)
        rows = b
    else:
        s[conv].reorder(b, yo, xo, oo, yi, oi, xi)
        rows = yo
    innermost = xo if cfg["outer"].val == "channels" else oo
    s[conv].vectorize(xi)
    if tiled is None:
        s[conv].unroll(oi)
        s[conv].unroll(yi)
        s[acc].compute_at(s[conv], innermost)
    else:
        s[tiled].compute_at(s[conv], innermost)
        tb, _, ty, tx, tc = s[tiled].op.axis
        s[tiled].unroll(ty)
        s[tiled].unroll(tx)
        s[tiled].vectorize(tc)
        s[acc].compute_at(s[tiled], tb)
    axes = list(s[acc].op.axis)
    lane_axis = axes.pop()
    tile_axes = axes[1:] if tiled is None else axes[2:]
    s[acc].reorder(*axes[: len(axes) - len(tile_axes)], rc, ry, rx, *tile_axes, lane_axis)
    for a in tile_axes:
        s[acc].unroll(a)
    s[acc].vectorize(lane_axis)
    if "rx" in cfg["unroll"].val:
        s[acc].unroll(rx)
    if "ry" in cfg["unroll"].val:
        s[acc].unroll(ry)
    if padded is not data:
        s[padded].vectorize(s[padded].op.axis[3])
        if cfg["pad_at"].val == "rows":
            s[padded].compute_at(s[conv], rows)
    return s, [data, weight, conv]


def _pack(weight: Tensor, cr: int) -> Tensor:
    """Weights with ``cr`` channels side by side; channels beyond the last are zero."""
    co, ci, kh, kw = (int(d) for d in weight.shape)

    def element(p: Any, c: Any, y: Any, x: Any, i: Any) -> Any:
        o = p * cr + i
        inside = weight[o, c, y, x]
        return inside if co % cr == 0 else te.if_then_else(o < co, inside, 0.0)

    return te.compute((-(-co // cr), ci, kh, kw, cr), element, name="packed")


def _tiles(lanes: int, registers: int, co: int, oh: int, ow: int, sw: int) -> list[Tile]:
    """Register tiles worth trying, the best guess first."""
    found: list[tuple[float, Tile]] = []

    def waste(extent: int, tile: int) -> float:
        return -(-extent // tile) * tile / extent

    if sw == 1:
        for v in (1, 2, 3, 4, 7):
            for yr in (1, 2, 3, 4, 6, 7):
                for cr in (1, 2, 3, 4, 5, 6, 8, 12, 16):
                    loads = (v * yr + cr) / (v * yr * cr)
                    fits = v * yr * cr + min(v * yr, cr) + 1 <= registers
                    if fits and yr <= oh and cr <= co and (v - 1) * lanes < ow:
                        cost = loads * waste(ow, v * lanes) * waste(oh, yr) * waste(co, cr)
                        found.append((cost, ("width", cr, yr, v * lanes)))
    for v in (1, 2, 3, 4):
        for yr in (1, 2, 3, 4):
            for xr in (1, 2, 3, 4, 5, 6, 7, 8, 12, 14, 28):
                pixels = yr * xr
                loads = (v + pixels) / (v * pixels)
                fits = v * pixels + v + 1 <= registers
                if fits and yr <= oh and xr <= ow and (v - 1) * lanes < co:
                    cost = loads * waste(co, v * lanes) * waste(oh, yr) * waste(ow, xr)
                    found.append((1.1 * cost, ("channels", v * lanes, yr, xr)))
    found.sort()
    best = found[0][0]
    return [tile for cost, tile in found if cost <= 3 * best]
