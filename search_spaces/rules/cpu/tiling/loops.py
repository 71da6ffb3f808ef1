"""The loops of a tiled reduction: what a plan says, as schedule primitives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.te.lang.tensor import Operation
from whet.compiler.tir.expr import IterVar
from whet.search_spaces.graph.stages import Group
from whet.search_spaces.rules.cpu.tiling.packing import schedule_copy
from whet.search_spaces.rules.cpu.tiling.plan import Plan
from whet.search_spaces.rules.cpu.tiling.spec import TiledSpec
from whet.search_spaces.rules.producers import schedule_staged


@dataclass(frozen=True)
class TiledStages:
    """The note that ``Tiled.rewrite`` leaves for ``Tiled.schedule``.

    Attributes:
        spec, plan: the reduction, and what to do with it.
        packed: copies of operands by the operand's number.
        core: the reduction as it is computed; transposed: whether another axis of it comes last,
            so that the anchor reads it.
        inlined: staged producers that operands compute as they are read.
    """

    spec: TiledSpec
    plan: Plan
    packed: dict[int, Tensor]
    core: Tensor
    transposed: bool
    inlined: tuple[Operation, ...]


@dataclass
class _Nest:
    """The loops of a stage that runs over tiles.

    Attributes:
        outer: data axis -> its loop over blocks, in the order of the loops.
        long: the loop over blocks of the long reduction axis, if there is one.
        middle: the innermost loop over the tiles of a block.
    """

    outer: dict[int, IterVar]
    long: IterVar | None
    middle: IterVar


def schedule_tiled(s: Schedule, group: Group) -> None:
    """Schedule a group that ``Tiled.rewrite`` has prepared."""
    stages = group.noted(TiledStages)
    spec, plan, core = stages.spec, stages.plan, stages.core
    schedule_staged(s, group, stages.inlined, spec.lanes)
    if stages.transposed and group.consumers:
        s[group.anchor.op].compute_inline()
    writer = s[group.last.op]
    direct = writer is s[core]
    accumulators = core
    if plan.long < 0 and (direct or stages.transposed):
        accumulators = s.cache_write(core, "local")
    lane = plan.lane if direct else spec.last
    reduces = direct and plan.long >= 0
    nest = _tiles(writer, spec, plan, lane, unrolled=not stages.transposed, reduces=reduces)
    if plan.long < 0:
        _in_registers(s, spec, plan, core, accumulators, writer, nest)
    elif not direct:
        nest.long = _in_memory(s[core], spec, plan, writer, nest)
    if plan.parallel and nest.outer:
        fused = writer.fuse(*nest.outer.values())
        writer.parallel(fused)
        nest.outer = dict.fromkeys(nest.outer, fused)
        if plan.long >= 0 and not direct:  # it was attached to a loop that was fused
            s[core].compute_at(writer, fused)
    for k, copy in stages.packed.items():
        if plan.packs[k] == "block":  # inside the innermost loop over blocks that moves it
            moving = [axis for a, axis in nest.outer.items() if spec.operands[k].depends(a)]
            if nest.long is not None and spec.operands[k].depends(plan.long):
                s[copy].compute_at(writer if direct else s[core], nest.long)
            elif moving:
                s[copy].compute_at(writer, moving[-1])
        schedule_copy(s[copy], spec, plan, k)


def _tiles(
    stage: Stage,
    spec: TiledSpec,
    plan: Plan,
    lane: int,
    unrolled: bool,
    reduces: bool,
) -> _Nest:
    """Loops over blocks, over the tiles of a block, and over a tile."""
    outer: dict[int, IterVar] = {}
    middle: dict[int, IterVar] = {}
    inner: dict[int, IterVar] = {}
    for a, rest in enumerate(stage.op.axis):
        size = plan.blocks[a] * plan.tile[a]
        if size < spec.data[a]:
            outer[a], rest = stage.split(rest, factor=size)
        if plan.tile[a] > 1:
            rest, inner[a] = stage.split(rest, factor=plan.tile[a])
        middle[a] = rest
    outer = {a: outer[a] for a in plan.outer if a in outer}
    rows = [inner[a] for a in inner if a != lane]
    lanes = [inner[lane]] if lane in inner else []
    long, steps = _steps(stage, spec, plan) if reduces else (None, [])
    order = [*outer.values(), *([long] if long is not None else [])]
    order += [*(middle[a] for a in plan.inner), *steps, *rows, *lanes]
    stage.reorder(*order)
    if unrolled:
        for row in rows:
            stage.unroll(row)
    for axis in lanes:
        stage.vectorize(axis)
    return _Nest(outer, long, middle[plan.inner[-1]])


def _in_registers(
    s: Schedule,
    spec: TiledSpec,
    plan: Plan,
    core: Tensor,
    accumulators: Tensor,
    writer: Stage,
    nest: _Nest,
) -> None:
    """Compute one register tile at a time, over the whole reduction."""
    numbers = _core_axes(spec, plan, s[core] is not writer)
    stage, parent, at = s[accumulators], writer, nest.middle
    if accumulators is core:
        stage.set_scope("local")
    elif s[core] is not writer:  # the transposed reduction
        parent = s[core]
        parent.compute_at(writer, nest.middle)
        axes = dict(zip(numbers, parent.op.axis, strict=True))
        first, at = numbers[0], parent.op.axis[0]
        if plan.tile[first] > 1:
            at, axes[first] = parent.split(at, factor=plan.tile[first])
        _tile_axes(parent, plan, axes, [], at)
    stage.compute_at(parent, at)
    _, steps = _steps(stage, spec, plan)
    _tile_axes(stage, plan, dict(zip(numbers, stage.op.axis, strict=True)), steps, None)


def _in_memory(
    stage: Stage, spec: TiledSpec, plan: Plan, writer: Stage, nest: _Nest
) -> IterVar | None:
    """Compute a block at a time, in blocks of the long axis."""
    if nest.outer:
        stage.compute_at(writer, list(nest.outer.values())[-1])
    numbers = _core_axes(spec, plan, True)
    middle: dict[int, IterVar] = {}
    inner: dict[int, IterVar] = {}
    for a, axis in zip(numbers, stage.op.axis, strict=True):
        middle[a] = axis
        if plan.tile[a] > 1:
            middle[a], inner[a] = stage.split(axis, factor=plan.tile[a])
    long, steps = _steps(stage, spec, plan)
    assert long is not None
    _order(stage, plan, [long, *(middle[a] for a in plan.inner), *steps], inner)
    return long


def _core_axes(spec: TiledSpec, plan: Plan, own: bool) -> list[int]:
    """The numbers of the data axes in the order in which the reduction has them."""
    order = list(range(len(spec.data)))
    if own and plan.lane != spec.last:
        order.remove(plan.lane)
        order.append(plan.lane)
    return order


def _tile_axes(
    stage: Stage,
    plan: Plan,
    axes: Mapping[int, IterVar],
    steps: list[IterVar],
    at: IterVar | None,
) -> None:
    """The loops of one tile: the axes without extent, the reduction, rows, lanes."""
    inner = {a: axis for a, axis in axes.items() if plan.tile[a] > 1}
    outer = [axis for a, axis in axes.items() if plan.tile[a] == 1]
    if at is not None:
        outer = [at, *(axis for axis in outer if axis is not at)]
    _order(stage, plan, [*outer, *steps], inner)


def _order(stage: Stage, plan: Plan, outer: list[IterVar], inner: Mapping[int, IterVar]) -> None:
    """Loops outside of a tile, then the tile's: its rows, unrolled, and its lanes, vectorised."""
    rows = [axis for a, axis in inner.items() if a != plan.lane]
    lanes = [axis for a, axis in inner.items() if a == plan.lane]
    stage.reorder(*outer, *rows, *lanes)
    for a, axis in inner.items():
        if a == plan.lane:
            stage.vectorize(axis)
        else:
            stage.unroll(axis)


def _steps(stage: Stage, spec: TiledSpec, plan: Plan) -> tuple[IterVar | None, list[IterVar]]:
    """The loops of the reduction: over blocks of the long axis, and the others in their order."""
    axes = dict(enumerate(stage.op.reduce_axis, len(spec.data)))
    written = dict(plan.unroll)
    long: IterVar | None = None
    out: list[IterVar] = []
    for r in plan.reduce:
        axis, extent = axes[r], spec.extents[r]
        if r == plan.long:
            long, axis = stage.split(axis, factor=plan.steps)
            extent = plan.steps
        unroll = written.get(r, 1)
        if 1 < unroll < extent:
            more, axis = stage.split(axis, factor=unroll)
            out.append(more)
        out.append(axis)
        if unroll > 1:
            stage.unroll(axis)
    return long, out
