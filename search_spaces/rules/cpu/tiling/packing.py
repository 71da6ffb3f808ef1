"""Copies of operands in the layout of a register tile: graph rewrites made before the schedule.

P[jo, k, ji] = B[k, jo * nr + ji]          # zero beyond the last column
C[i, j] = sum(A[i, k] * P[j // nr, k, j % nr])
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from whet.compiler import te
from whet.compiler.te import Stage, Tensor
from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.tir.expr import IterVar, PrimExpr, ProducerLoad
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import Rewriter
from whet.search_spaces.graph.stages import extent_of
from whet.search_spaces.rules.cpu.tiling.pack_layout import PackLayout, Part, pack_layout
from whet.search_spaces.rules.cpu.tiling.plan import Plan
from whet.search_spaces.rules.cpu.tiling.spec import Dim, Loads, TiledSpec
from whet.search_spaces.rules.producers import vectorize_row

#: elements of a row that a copy turns at a time
_TURNED = 8


def packed_operands(spec: TiledSpec, plan: Plan, loads: Loads) -> dict[int, Tensor]:
    """The copies that a plan asks for, by the number of the operand."""
    return {
        k: _packed(spec, plan, k, loads.of_operand[k])
        for k, how in enumerate(plan.packs)
        if how != "none"
    }


def reading_packed(
    spec: TiledSpec, plan: Plan, anchor: ComputeOp, loads: Loads, packed: dict[int, Tensor]
) -> tuple[PrimExpr, ...]:
    """The expressions of a reduction, reading copies where there are some."""
    if not packed:
        return anchor.body

    def redirect(load: ProducerLoad) -> PrimExpr:
        k = loads.operand.get(id(load))
        load = rewrite.children(load)  # an index may be read from a tensor, too
        if k is None or k not in packed:
            return load
        layout = _layout(spec, plan, k)
        return packed[k](*[_place(part, plan.tile, load.indices) for part in layout.parts])

    rewrite = Rewriter({ProducerLoad: redirect})
    return tuple(rewrite(b) for b in anchor.body)


def schedule_copy(stage: Stage, spec: TiledSpec, plan: Plan, operand: int) -> None:
    """Let a copy read its original in order, in vectors where that is contiguous."""
    layout = _layout(spec, plan, operand)
    axes, parts = stage.op.axis, layout.parts
    source = len(spec.operands[operand].dims) - 1
    order = sorted(range(len(axes)), key=lambda k: (parts[k].dim, parts[k].inside))
    last = len(axes) - 1
    if parts[last].dim == source:
        stage.reorder(*[axes[k] for k in order if k != last], axes[last])
        vectorize_row(stage, axes[last], spec.lanes)
        return
    _turn(stage, layout, axes, source)


def _turn(stage: Stage, layout: PackLayout, axes: Sequence[IterVar], source: int) -> None:
    """Move a few neighbours of each lane's row at a time, so that the lines of both stay."""
    last, size = len(axes) - 1, 1
    row: list[int] = []
    for dim in range(source, -1, -1):
        found = [k for k, part in enumerate(layout.parts) if part.dim == dim]
        if len(found) > 1 or last in found or size >= _TURNED:
            break
        row.insert(0, found[0])
        size *= extent_of(axes[found[0]])
    if size < _TURNED or not row:
        return
    others = [axes[k] for k in range(last) if k not in row]
    inner = [axes[k] for k in row]
    extent = extent_of(inner[0])
    wanted = -(-_TURNED * extent // size)
    if wanted < extent:
        outer, inner[0] = stage.split(inner[0], factor=wanted)
        others.append(outer)
    stage.reorder(*others, axes[last], *inner)
    if len(inner) == 1 and extent % wanted == 0:
        stage.vectorize(inner[0])


def _layout(spec: TiledSpec, plan: Plan, operand: int) -> PackLayout:
    return pack_layout(spec, operand, plan.lane, plan.tile, plan.reduce)


def _place(part: Part, tile: tuple[int, ...], indices: tuple[PrimExpr, ...]) -> Any:
    index = indices[part.dim]
    if part.axis < 0 or not tile[part.axis] > 1:
        return index
    divide = ops.floormod if part.inside else ops.floordiv
    return divide(index, tile[part.axis])


def _packed(spec: TiledSpec, plan: Plan, operand: int, load: ProducerLoad) -> Tensor:
    tensor, layout = load.producer, _layout(spec, plan, operand)
    dims = spec.operands[operand].dims
    covered = plan.covered(spec)
    shape = [_extent(part, dims[part.dim], plan.tile, covered) for part in layout.parts]

    def element(*p: Any) -> Any:
        indices: list[Any] = [None] * len(dims)
        for part, place in zip(layout.parts, p, strict=True):
            if part.inside:
                indices[part.dim] = indices[part.dim] + place
            elif part.axis >= 0 and plan.tile[part.axis] > 1:
                indices[part.dim] = place * plan.tile[part.axis]
            else:
                indices[part.dim] = place
        beyond = [
            index < dim.extent
            for d, (index, dim) in enumerate(zip(indices, dims, strict=True))
            if prod(n for part, n in zip(layout.parts, shape) if part.dim == d) > dim.extent
        ]
        inside = tensor(*indices)
        if not beyond:
            return inside
        return te.if_then_else(te.all(*beyond), inside, ops.const(0, tensor.dtype))

    return te.compute(tuple(shape), element, name=f"{tensor.name}.packed")


def _extent(part: Part, dim: Dim, tile: tuple[int, ...], covered: tuple[int, ...]) -> int:
    if part.axis >= 0:
        size = tile[part.axis]
        return size if part.inside else covered[part.axis] // size
    low = dim.const + sum(c * (covered[a] - 1) for a, c in dim.terms if c < 0)
    if not dim.affine or low < 0:
        return dim.extent
    return 1 + dim.const + sum(c * (covered[a] - 1) for a, c in dim.terms if c > 0)
