"""A tile that an instruction computes, in place of loops.

Where a split has a rest, or a region may reach beyond its tensor, the instruction computes the
tiles that are whole; the stage's own loops compute the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from whet.compiler.te.bounds.ragged import ragged_axes
from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.te.lower.guards import Guards
from whet.compiler.te.lower.lower_layout import check_row_major
from whet.compiler.te.tensorize.bind import Binding, Place, placed
from whet.compiler.te.tensorize.match import Match, matched
from whet.compiler.te.tensorize.tile import Tile
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import COMM_REDUCE, EQ, PrimExpr, Reduce, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import IfThenElse, Stmt, nothing, seq
from whet.compiler.tir.visit.rewrite import nodes_of

if TYPE_CHECKING:
    from whet.compiler.te.stage import Stage

Indices = tuple[PrimExpr, ...]


class Tensorized:
    """The statements of a tensorized stage.

    Args:
        guards: those of the schedule.
        stage: the stage.
        buffers: of all stages.
        inside: indices in a stage's tensor -> those in its buffer.
        read: an expression over tensors, and what stands for axes -> one over buffers.

    Attributes:
        first: the place of the outermost loop of the tile.
        inner: the loops of the tile.

    Raises:
        LowerError: if the tile is not what the instruction computes, or a buffer does not fit.
    """

    def __init__(
        self,
        guards: Guards,
        stage: Stage,
        buffers: Mapping[tuple[Stage, int], Buffer],
        inside: Callable[[Stage, Indices], Indices],
        read: Callable[[PrimExpr, dict[Var, PrimExpr]], PrimExpr],
    ) -> None:
        bounds = guards.bounds
        assert isinstance(stage.op, ComputeOp)
        self.guards, self.stage, self.buffers, self.inside = guards, stage, buffers, inside
        self.tile = tile = Tile(bounds, stage)
        self.first, self.inner, intrin = tile.first, tile.inner, tile.intrin
        if ragged_axes(stage.op):
            raise tile.error("the extents of its axes depend on each other", "plain loops")
        bodies = bounds.bodies[stage]
        match = matched(tile, bodies)
        values = guards.values(stage)
        self.read = read
        scalars = {v: read(x, values) for v, x in match.scalars.items()}
        self.binding = Binding(tile, bounds.analyzer, scalars, self._places(match))
        given = (intrin.body, intrin.reduce_init, intrin.reduce_update)
        self.body, self.reset, self.update = (
            None if x is None else self.binding.put(x) for x in given
        )
        outer = stage.leaf_iter_vars[: self.first]
        self.rounds = [a for a in outer if a.iter_type == COMM_REDUCE]
        self.begins = any(isinstance(b, Reduce) and b.init for b in bodies)
        self._check_parts()

    def _check_parts(self) -> None:
        if self.rounds and self.update is None:
            names = ", ".join(a.name for a in self.rounds)
            raise self.tile.error(
                f"the reduction goes on in the loop {names} around the tile, and "
                f"{self.tile.intrin.name} has no update",
                "return (body, reset, update), or tensorize all loops of the reduction",
            )
        moving = {a.var for a in self.rounds} & set(nodes_of(self.reset or nothing(), Var))
        if moving:
            raise self.tile.error(
                f"the reset of {self.tile.intrin.name} runs before the loop "
                f"{', '.join(sorted(v.name for v in moving))}, and reads an input there that "
                "changes with it",
                "let the reset write first values alone, or leave the reset out: "
                "(body, None, update)",
            )
        if self.begins and not self.rounds:
            raise self.tile.error(
                "the reduction has a first value of its own (init=)",
                "leave a loop of the reduction around the tile, and give an update",
            )

    def _places(self, match: Match) -> dict[Buffer, Place]:
        """Where each declared buffer is."""
        tile, stage, intrin = self.tile, self.stage, self.tile.intrin
        check_row_major(f"tensorize({stage.op.name}, ...)", [stage])
        places: dict[Buffer, Place] = {}
        for t, b in zip(intrin.inputs, intrin.buffers):
            region = match.regions[t]
            source = tile.bounds.schedule.stage_map[region.tensor.op]
            check_row_major(f"tensorize({stage.op.name}, ...)", [source])
            real = self.buffers[(source, region.tensor.value_index)]
            at = self.inside(source, tuple(x.to_expr() for x in region.first))
            # an index may be read from a tensor; the loops stand in it already
            places[b] = Place(real, tuple(self.read(i, {}) for i in at), region.steps)
        known = tile.bounds.stages[stage]
        whole = stage in self.guards.in_place
        theirs = {match.axes[a].var: k for k, a in enumerate(intrin.op.axis) if a in match.axes}
        first, steps = [], []
        for axis in stage.op.axis:
            x = tile.axes[axis]
            first.append(x.base if whole else x.base - known.mins[axis])
            at_dim = theirs.get(axis.var)
            steps.append(tuple(x.step if k == at_dim else 0 for k in range(len(intrin.op.axis))))
        for k, b in enumerate(intrin.outputs):
            places[b] = placed(self.buffers[(stage, k)], first, steps)
        return places

    def _whole(self, with_reduction: bool) -> PrimExpr | None:
        """The condition under which the tile is whole; None where it always is."""
        inner = {a.var for a in self.inner}
        conditions = self.guards.of_whole(self.stage, inner, with_reduction)
        if conditions is None:
            raise self.tile.error(
                "it cannot be told which tiles are whole", "split its axes evenly"
            )
        return ops.all_of(*conditions) if conditions else None

    def instead_of(self, loops: Stmt) -> Stmt:
        """The tile; its own loops where it is not whole."""
        return self._chosen(self._step(), loops, self._whole(True))

    def first_values(self, loops: Stmt) -> Stmt:
        """What the reduction begins with, before the loops around the tile."""
        if self.begins:
            return loops
        if self.reset is not None:
            return self._chosen(self.reset, loops, self._whole(False))
        return nothing() if self._whole(True) is None else loops

    def _step(self) -> Stmt:
        if not self.rounds:
            if self.body is not None:
                return self.body
            assert self.reset is not None and self.update is not None
            return seq(self.reset, self.update)
        assert self.update is not None
        if self.reset is not None or self.begins:
            return self.update
        assert self.body is not None
        starts = [ops.compare(EQ, a.var, ops.const(0, a.dtype)) for a in self.rounds]
        return IfThenElse(ops.all_of(*starts), self.body, self.update)

    def _chosen(self, tile: Stmt, loops: Stmt, whole: PrimExpr | None) -> Stmt:
        return tile if whole is None else IfThenElse(whole, tile, loops, True)
