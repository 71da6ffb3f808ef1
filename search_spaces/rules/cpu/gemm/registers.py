"""Register tiles of a GEMM that are worth trying on a processor."""

from __future__ import annotations

from whet.compiler.target import Target
from whet.search_spaces.rules.vectors import vector_registers

#: accumulators that hide the latency of two fused multiply-adds a cycle, with some to spare
_BUSY = 10
#: a tile that should take so much longer than the best one is not worth trying
_WORST = 1.3
_MOST = 16  # tiles
_WHOLE = 2  # more of them that have all rows


def register_tiles(target: Target, lanes: int, rows: int, columns: int) -> list[tuple[int, int]]:
    """Tiles of (rows, columns) whose accumulators fit the registers, the best guess first.

    A step of a tile of r rows and v vectors loads v vectors and r scalars for r * v operations.
    One register is kept for the scalar and v for the vectors of the panel.

    Args:
        target: whose registers.
        lanes: elements in a vector.
        rows, columns: the matrix's size: work of tiles beyond its edges is wasted.
    """
    registers = vector_registers(target)
    found: list[tuple[float, tuple[int, int]]] = []
    for v in range(1, registers // 2):
        if v > 1 and (v - 1) * lanes >= columns:
            break
        for r in range(1, registers - 1):
            if r * v + v + 1 > registers or r > rows:
                break
            loads = (r + v) / (r * v)
            waste = _covered(rows, r) * _covered(columns, v * lanes)
            cost = (max(1.0, 1.2 * loads, _BUSY / (r * v)) + loads / 3) * waste
            found.append((cost, (r, v * lanes)))
    found.sort(key=lambda t: (t[0], -t[1][0]))
    # one row reuses nothing: memory decides, not the registers
    worst = _WORST * found[0][0] if rows > 1 else float("inf")
    best = [tile for cost, tile in found if cost <= worst][:_MOST]
    # a tile of all rows reads B once, from memory to registers; of half of them, twice
    tallest = max(r for _, (r, _) in found)
    even = -(-rows // -(-rows // tallest))
    whole = [tile for _, tile in found if tile[0] == even and tile not in best]
    return best + whole[:_WHOLE]


def _covered(extent: int, tile: int) -> float:
    """How many times an extent its tiles cover: 1 where they divide it."""
    return -(-extent // tile) * tile / extent
