"""Which register tiles are worth trying on a processor."""

from __future__ import annotations

from whet.compiler.target import Target


def vector_registers(target: Target) -> int:
    """How many vector registers a processor has: 32 with AVX-512 (and on Arm), else 16."""
    triple = str(target.canonical().attrs.get("mtriple", ""))
    return 32 if target.vector_bytes >= 64 or triple.startswith(("aarch64", "arm64")) else 16


def register_tiles(
    target: Target, lanes: int, rows_at_most: int, columns_at_most: int
) -> list[tuple[int, int]]:
    """Tiles of (rows, columns) whose accumulators fit the registers, the best guess first.

    A step of a tile of r rows and v vectors loads v vectors and r scalars for r * v operations:
    the nearer to square and the larger, the fewer loads. One register is kept for the scalar and
    v for the vectors of the panel.

    Args:
        target: whose registers.
        lanes: elements in a vector.
        rows_at_most, columns_at_most: the matrix's size; no tile is much larger than it.
    """
    registers = vector_registers(target)
    found: list[tuple[float, tuple[int, int]]] = []
    for v in (1, 2, 3, 4, 6):
        if v > 1 and (v - 1) * lanes >= columns_at_most:
            continue
        for r in range(1, registers - 1):
            used = r * v + v + 1
            if used > registers or (r > 1 and r > rows_at_most):
                continue
            loads = (r + v) / (r * v)
            found.append((loads, (r, v * lanes)))
    found.sort(key=lambda t: (t[0], -t[1][0]))
    # a tile that needs over four times the loads of the best is never the answer
    best = found[0][0]
    return [tile for loads, tile in found if loads <= 4 * best]
