"""One stage of a schedule: the loops of one operation and where they are attached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ScheduleError
from whet.compiler.te.tensor import ComputeOp, Operation
from whet.compiler.tir import expr as e
from whet.compiler.tir import ops

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule

# where a stage is computed
ROOT, INLINE, AT = "root", "inline", "at"


@dataclass(slots=True, eq=False, frozen=True)
class Split:
    """``parent = outer * extent(inner) + inner``; exactly one of factor and nparts is given."""

    parent: e.IterVar
    outer: e.IterVar
    inner: e.IterVar
    factor: e.PrimExpr | None
    nparts: e.PrimExpr | None


@dataclass(slots=True, eq=False, frozen=True)
class Fuse:
    """``fused = outer * extent(inner) + inner``."""

    outer: e.IterVar
    inner: e.IterVar
    fused: e.IterVar


class Stage:
    """The loops of one operation; its methods are TVM's schedule primitives.

    Attributes:
        op: the operation as it is computed now; ``origin_op``: as it was given.
        leaf_iter_vars: the loops, outermost first.
        all_iter_vars: the axes of the operation and everything made of them.
        relations: how they were made, in order.
        iter_var_attrs: axis -> its kind of loop, where it is not serial.
        attach_type: computed on its own (root), inlined, or at a loop of another stage, which
            ``attach_stage`` and ``attach_ivar`` name.
        scope: where its result is kept, e.g. ``"global"`` or ``"local"``.
    """

    def __init__(self, schedule: Schedule, op: Operation) -> None:
        self.schedule = schedule
        self.op = op
        self.origin_op = op
        self.relations: list[Split | Fuse] = []
        self.iter_var_attrs: dict[e.IterVar, str] = {}
        self.attach_type = ROOT
        self.attach_stage: Stage | None = None
        self.attach_ivar: e.IterVar | None = None
        self.scope = ""
        self.is_output = False
        self.reset_axes()

    def reset_axes(self) -> None:
        """Begin with the operation's own axes."""
        axes: list[e.IterVar] = []
        if isinstance(self.op, ComputeOp):
            axes = [*self.op.axis, *self.op.reduce_axis]
        self.all_iter_vars = list(axes)
        self.leaf_iter_vars = list(axes)
        self.relations = []
        self.iter_var_attrs = {}

    def __repr__(self) -> str:
        return f"stage({self.op.name})"

    # primitives

    def split(
        self, parent: e.IterVar, factor: Any = None, nparts: Any = None
    ) -> tuple[e.IterVar, e.IterVar]:
        """Split a loop in two: the inner one has ``factor`` steps, or the outer one ``nparts``.

        Where the size does not divide, the last steps are guarded.

            for i in range(n):      for i_outer in range(ceil(n / factor)):
                ...             ->      for i_inner in range(factor):
                                            ...  # i = i_outer * factor + i_inner

        Returns:
            The outer and the inner loop.

        Raises:
            ScheduleError: unless exactly one of factor and nparts, at least 1, is given.
        """
        asked = f"split({self.op.name}, axis={_name(parent)}, " + (
            f"factor={_number(factor)})" if nparts is None else f"nparts={_number(nparts)})"
        )
        if (factor is None) == (nparts is None):
            raise ScheduleError(
                f"split({self.op.name}, axis={_name(parent)})",
                "give exactly one of factor and nparts",
                self._loops,
            )
        size = ops.convert(factor if nparts is None else nparts)
        if isinstance(size, e.IntImm) and size.value < 1:
            which = "factor" if nparts is None else "nparts"
            raise ScheduleError(asked, f"{which} must be at least 1", self._loops)
        if not isinstance(size, e.IntImm) and not isinstance(size, e.PrimExpr):
            raise ScheduleError(asked, "the size must be an integer", self._loops)
        if isinstance(size, e.FloatImm):
            raise ScheduleError(asked, f"the size must be an integer, not {size.value}", self._loops)
        where = self._leaf(parent, asked)
        kind = parent.iter_type
        outer = e.IterVar(None, e.Var(f"{parent.var.name}.outer", parent.dtype), kind)
        inner = e.IterVar(None, e.Var(f"{parent.var.name}.inner", parent.dtype), kind)
        by_factor = nparts is None
        self.relations.append(
            Split(parent, outer, inner, size if by_factor else None, None if by_factor else size)
        )
        self.all_iter_vars += [outer, inner]
        self.leaf_iter_vars[where : where + 1] = [outer, inner]
        self.schedule.record(
            "split", self, (parent,), {"factor" if by_factor else "nparts": size}, (outer, inner)
        )
        return outer, inner

    def fuse(self, *axes: e.IterVar) -> e.IterVar:
        """Fuse neighbouring loops, outermost first, into one.

            for i in range(n):          for i_j_fused in range(n * m):
                for j in range(m):  ->      ...  # i = fused // m, j = fused % m
                    ...

        Raises:
            ScheduleError: if they are not neighbours in this order, or of two kinds.
        """
        asked = f"fuse({self.op.name}, {', '.join(_name(a) for a in axes)})"
        if not axes:
            raise ScheduleError(asked, "give at least one axis", self._loops)
        places = [self._leaf(a, asked) for a in axes]
        if places != list(range(places[0], places[0] + len(places))):
            raise ScheduleError(
                asked, "the axes must be neighbours, outermost first; reorder them", self._loops
            )
        if len({a.iter_type for a in axes}) > 1:
            raise ScheduleError(asked, "a data axis and a reduction axis do not fuse", self._loops)
        fused = axes[0]
        for inner in axes[1:]:
            name = f"{fused.var.name}.{inner.var.name}.fused"
            out = e.IterVar(None, e.Var(name, fused.dtype), fused.iter_type)
            self.relations.append(Fuse(fused, inner, out))
            self.all_iter_vars.append(out)
            fused = out
        self.leaf_iter_vars[places[0] : places[0] + len(places)] = [fused]
        self.schedule.record("fuse", self, axes, {}, (fused,))
        return fused

    def reorder(self, *axes: e.IterVar) -> None:
        """Put loops in the order given; the others keep their places.

        Raises:
            ScheduleError: for an axis that is not a loop of this stage or stands there twice.
        """
        asked = f"reorder({self.op.name}, {', '.join(_name(a) for a in axes)})"
        places = [self._leaf(a, asked) for a in axes]
        if len(set(places)) != len(places):
            raise ScheduleError(asked, "an axis is named twice", self._loops)
        for place, axis in zip(sorted(places), axes):
            self.leaf_iter_vars[place] = axis
        self.schedule.record("reorder", self, axes, {}, ())

    def tile(
        self, x_parent: e.IterVar, y_parent: e.IterVar, x_factor: Any, y_factor: Any
    ) -> tuple[e.IterVar, e.IterVar, e.IterVar, e.IterVar]:
        """Split two loops and put both outer ones outside: ``x_outer, y_outer, x_inner, y_inner``."""
        xo, xi = self.split(x_parent, factor=x_factor)
        yo, yi = self.split(y_parent, factor=y_factor)
        self.reorder(xo, yo, xi, yi)
        return xo, yo, xi, yi

    def vectorize(self, axis: e.IterVar) -> None:
        """Run a loop of constant extent as vector operations."""
        self._annotate("vectorize", axis, "vectorized")

    def unroll(self, axis: e.IterVar) -> None:
        """Write a loop of constant extent out."""
        self._annotate("unroll", axis, "unrolled")

    def parallel(self, axis: e.IterVar) -> None:
        """Share the steps of a data-parallel loop among threads."""
        self._annotate("parallel", axis, "parallel")

    def _annotate(self, primitive: str, axis: e.IterVar, kind: str) -> None:
        asked = f"{primitive}({self.op.name}, {_name(axis)})"
        self._leaf(axis, asked)
        if axis.iter_type == e.COMM_REDUCE and kind != "unrolled":
            raise ScheduleError(
                asked,
                "the steps of a reduction depend on each other",
                self._loops,
            )
        self.iter_var_attrs[axis] = kind
        self.schedule.record(primitive, self, (axis,), {}, ())

    def compute_at(self, parent: Stage, scope: e.IterVar) -> None:
        """Compute this stage inside the loop ``scope`` of ``parent``, as much as is needed there.

        Raises:
            ScheduleError: if ``scope`` is no loop of ``parent`` or ``parent`` does not read this stage.
        """
        asked = f"compute_at({self.op.name}, {parent.op.name}, {_name(scope)})"
        if parent.schedule is not self.schedule or parent is self:
            raise ScheduleError(asked, "the parent must be another stage of the same schedule")
        parent._leaf(scope, asked)
        if not isinstance(self.op, ComputeOp):
            raise ScheduleError(asked, f"{self.op.name} is an input and is not computed")
        if self.is_output:
            raise ScheduleError(
                asked, f"{self.op.name} is an output, which is computed at the root", self._loops
            )
        if not self.schedule.feeds(self, parent):
            readers = ", ".join(s.op.name for s in self.schedule.consumers(self)) or "none"
            raise ScheduleError(
                asked,
                f"{parent.op.name} does not consume {self.op.name}",
                f"stages that read {self.op.name}: {readers}",
            )
        self.attach_type, self.attach_stage, self.attach_ivar = AT, parent, scope
        self.schedule.record("compute_at", self, (parent, scope), {}, ())

    def compute_inline(self) -> None:
        """Put the computation into whatever reads it."""
        asked = f"compute_inline({self.op.name})"
        if not isinstance(self.op, ComputeOp):
            raise ScheduleError(asked, f"{self.op.name} is an input and is not computed")
        if self.op.reduce_axis:
            raise ScheduleError(asked, "a reduction cannot be inlined", "use compute_at")
        if self.is_output:
            raise ScheduleError(asked, f"{self.op.name} is an output and must be stored")
        self.attach_type, self.attach_stage, self.attach_ivar = INLINE, None, None
        self.schedule.record("compute_inline", self, (), {}, ())

    def compute_root(self) -> None:
        """Compute this stage on its own, before whatever reads it."""
        self.attach_type, self.attach_stage, self.attach_ivar = ROOT, None, None
        self.schedule.record("compute_root", self, (), {}, ())

    # what errors show

    def _leaf(self, axis: e.IterVar, asked: str) -> int:
        """The place of a loop; an error when the axis is no loop of this stage."""
        if isinstance(axis, e.IterVar):
            for k, leaf in enumerate(self.leaf_iter_vars):
                if leaf is axis:
                    return k
        if isinstance(axis, e.IterVar) and any(axis is a for a in self.all_iter_vars):
            why = f"{_name(axis)} is no longer a loop: it was split or fused"
        else:
            why = f"{_name(axis)} is not an axis of {self.op.name}"
        raise ScheduleError(asked, why, self._loops)

    def _loops(self) -> str:
        """The loops as they stand, with their extents where they are known."""
        from whet.compiler.te.bound import leaf_extents

        extents = leaf_extents(self)
        loops = " ".join(f"{a.var.name}({extents.get(a, '?')})" for a in self.leaf_iter_vars)
        return f"loops of {self.op.name}: {loops or 'none'}"


def _name(axis: Any) -> str:
    return axis.var.name if isinstance(axis, e.IterVar) else repr(axis)


def _number(size: Any) -> str:
    return str(size.value) if isinstance(size, e.IntImm) else str(size)
