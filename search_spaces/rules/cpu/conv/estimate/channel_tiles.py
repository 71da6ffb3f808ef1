"""Register tiles of convolutions: which are worth trying, by the work that each makes in all."""

from __future__ import annotations

from collections.abc import Iterable

from whet.compiler.target import Target
from whet.search_spaces.rules.vectors import vector_registers

#: steps of a processor that starts two multiply-adds a cycle, each done after four
_IN_FLIGHT = 8
#: what a load costs: where loads bound a step, and beside as many multiply-adds as there are.
#: Measured on Zen 4 with AVX2, steps of 1x1 convolutions, relative to tiles of 6x2: 5x2 3 % slower
#: than its work, 2x4 8 %, 14x1 20 %, 4x3 as quick.
_LOAD_BOUND, _LOAD = 1.1, 0.1
#: and what an accumulator that is missing for a full pipeline does
_FULL, _MISSING = 12, 0.15
#: a tile that needs so many times the work of the best is never the answer
_WORST = 2.0


def channel_tiles(
    target: Target,
    lanes: int,
    rows: Iterable[tuple[int, ...]],
    image: tuple[int, ...],
    channels: int,
) -> list[tuple[int, ...]]:
    """Tiles of broadcast rows by vectors of channels, the best guess first.

    A step of a tile of m rows and v vectors loads m numbers and v vectors for m * v operations, and
    no step is quicker than the chain of one accumulator. Rows beyond the edge are work,
    too; of the last vectors, only those that hold channels are.

    Args:
        target: whose registers.
        lanes: elements in a vector.
        rows: shapes of tiles of what is broadcast, e.g. of pixels.
        image: the extents of that, as many as a shape has.
        channels: of the result, or of one of its groups; whatever has the lanes.

    Returns:
        The shape and the channels of each tile: ``(yr, xr, nr)`` or ``(mr, nr)``.
    """
    registers = vector_registers(target)
    found: list[tuple[float, tuple[int, ...]]] = []
    for shape in rows:
        if any(t > 1 and t > n for t, n in zip(shape, image)):
            continue
        m, tiles = 1, 1
        for t, n in zip(shape, image):
            m, tiles = m * t, tiles * -(-n // t)
        for v in (1, 2, 3, 4, 6):
            if m * v + v + 1 > registers or (v > 1 and (v - 1) * lanes >= channels):
                continue
            whole, rest = divmod(-(-channels // lanes), v)
            work = whole * _step(m, v) + (_step(m, rest) if rest else 0.0)
            found.append((tiles * work, (*shape, v * lanes)))
    found.sort()
    return [tile for cost, tile in found if cost <= _WORST * found[0][0]]


def _step(m: int, v: int) -> float:
    """Half-cycles of one step of a tile."""
    bound = max(m * v, _LOAD_BOUND * (m + v), _IN_FLIGHT)
    return bound + _LOAD * (m + v) + _MISSING * max(0, _FULL - m * v)
