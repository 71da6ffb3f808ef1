"""The layout of a copy of an operand, made for a register tile.

A data axis that is an index of its own is cut into tiles, and the elements of a tile lie side by
side: ``B[k, j]`` becomes ``P[j // nr, k, j % nr]``. An index that axes share, as ``y + ry``, is
kept, and made longer where tiles reach beyond the tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from whet.search_spaces.rules.cpu.tiling.spec import Dim, TiledSpec


@dataclass(frozen=True)
class Part:
    """One index of the copy.

    Attributes:
        dim: the operand's index that it comes from.
        axis: the data axis that ``dim`` is, or -1 for an index that is kept as it is.
        inside: whether it is the place in the tile, not the number of the tile.
    """

    dim: int
    axis: int
    inside: bool


@dataclass(frozen=True)
class PackLayout:
    """The indices of a copy, outermost first.

    Attributes:
        parts: the indices.
        changed: whether their order or number differs from the original's.
        unit_lanes: whether the lanes of the tile lie side by side in the copy.
    """

    parts: tuple[Part, ...]
    changed: bool
    unit_lanes: bool


def pack_layout(
    spec: TiledSpec, operand: int, lane: int, tile: tuple[int, ...], reduce: tuple[int, ...]
) -> PackLayout:
    """The layout of a copy.

    Args:
        spec: the reduction. operand: the number of the operand.
        lane, tile: the register tile.
        reduce: the reduction axes in the order of their loops.
    """
    # How long a tile is does not matter, and must not be asked of a traced size.
    return _layout(spec, operand, lane, tuple([t > 1 for t in tile]), reduce)


@lru_cache(maxsize=4096)
def _layout(
    spec: TiledSpec, operand: int, lane: int, cut: tuple[bool, ...], reduce: tuple[int, ...]
) -> PackLayout:
    o = spec.operands[operand]
    first: list[Part] = []
    kept: list[tuple[tuple[int, ...], Part]] = []
    inside: list[tuple[tuple[int, int], Part]] = []
    moves = o.depends(lane)
    for d, dim in enumerate(o.dims):
        axis = _own_axis(spec, o.dims, dim)
        if axis < 0:
            kept.append((_rank(dim, d, lane, reduce, moves, len(spec.data)), Part(d, -1, False)))
        elif not cut[axis]:
            first.append(Part(d, axis, False))
        else:
            first.append(Part(d, axis, False))
            inside.append(((axis == lane, axis), Part(d, axis, True)))
    parts = (
        *first,
        *(p for _, p in sorted(kept, key=lambda x: x[0])),
        *(p for _, p in sorted(inside, key=lambda x: x[0])),
    )
    changed = bool(inside) or [p.dim for p in parts] != list(range(len(o.dims)))
    last = parts[-1]
    if last.axis >= 0:
        unit = last.axis == lane
    else:
        terms = dict(o.dims[last.dim].terms)
        unit = o.dims[last.dim].affine and abs(terms.get(lane, 0)) == 1
    return PackLayout(parts, changed, unit)


def _own_axis(spec: TiledSpec, dims: tuple[Dim, ...], dim: Dim) -> int:
    """The data axis that an index is and no other index depends on; -1 for none."""
    if not dim.affine or dim.const or len(dim.terms) != 1:
        return -1
    ((axis, coefficient),) = dim.terms
    if axis >= len(spec.data) or coefficient != 1:
        return -1
    return axis if sum(axis in d.axes for d in dims) == 1 else -1


def _rank(
    dim: Dim, place: int, lane: int, reduce: tuple[int, ...], moves: bool, data: int
) -> tuple[int, ...]:
    """Where an index goes that is kept: what moves with the lanes comes last.

    What is read in vectors is read in the order of the loops; another operand keeps its order.
    """
    if lane in dim.axes:
        return (1, 0, place)
    own = [reduce.index(a) for a in dim.axes if a >= data]
    return (0, max(own, default=-1) if moves else 0, place)
