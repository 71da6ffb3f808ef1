"""Register tiles of convolutions with the channels first: which are worth trying."""

from __future__ import annotations

from itertools import product
from math import prod

from whet.search_spaces.forms.conv_shape import ConvShape

Tile = tuple
"""The way (``"width"`` or ``"channels"``), channels, and the pixels of the last dimensions."""

#: turning a tile round as it is stored, and sorting the pixels of a strided row
_TURNED, _SORTED = 1.1, 1.05
#: a tile that needs so many times the loads of the best is never the answer
_WORST = 3


def plane_tiles(shape: ConvShape, lanes: int, registers: int) -> list[Tile]:
    """Register tiles worth trying, the best guess first.

    Args:
        lanes: elements in a vector.
        registers: of the processor.
    """
    out, per = shape.out[-2:], shape.co_group
    found: list[tuple[float, Tile]] = []
    before = [(y,) for y in (1, 2, 3, 4, 6, 7) if y <= out[0]] if len(out) == 2 else [()]
    for rows, v in product(before, (1, 2, 3, 4, 7)):
        if v > 1 and v * lanes > out[-1]:
            continue
        pixels = v * prod(rows)
        for cr in (1, 2, 3, 4, 5, 6, 8, 12, 16):
            if cr > per or (shape.groups > 1 and per % cr):
                continue
            if pixels * cr + pixels + 1 > registers:
                continue
            sizes = (*rows, v * lanes)
            cost = _loads(pixels, cr) * _waste(out, sizes) * _waste((per,), (cr,))
            cost *= 1.0 if shape.strides[-1] == 1 else _SORTED
            found.append((cost, ("width", cr, *sizes)))
    for rows, x, v in product(before, (1, 2, 3, 4, 5, 6, 7, 8, 12, 14, 28), (1, 2, 3, 4)):
        sizes, pixels = (*rows, x), prod(rows) * x
        channels = (
            v * lanes
            if shape.groups == 1
            else next(n for n in range(max(1, min(per, lanes)), 0, -1) if per % n == 0)
        )
        if x > out[-1] or (v > 1 and (v - 1) * lanes >= per) or (v > 1 and shape.groups > 1):
            continue
        if v * pixels + v + 1 > registers:
            continue
        cost = _TURNED * _loads(pixels, v) * _waste(out, sizes) * _waste((per,), (channels,))
        if shape.groups > 1:
            cost *= lanes / channels
        found.append((cost, ("channels", channels, *sizes)))
    found.sort()
    return [tile for cost, tile in found if cost <= _WORST * found[0][0]]


def _loads(vectors: int, broadcast: int) -> float:
    """Loads an operation of one step."""
    return (vectors + broadcast) / (vectors * broadcast)


def _waste(extents: tuple[int, ...], tile: tuple[int, ...]) -> float:
    """The work of tiles, those at the edges whole, as a multiple of the result."""
    return prod(-(-n // t) * t for n, t in zip(extents, tile)) / max(1, prod(extents))
