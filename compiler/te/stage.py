"""One stage of a schedule: the loops of one operation and where they are attached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ScheduleError
from whet.compiler.te.place import AT, INLINE, ROOT, Placed, axis_name
from whet.compiler.te.tensor import ComputeOp, Operation
from whet.compiler.tir import expr as e
from whet.compiler.tir import ops

__all__ = ["AT", "INLINE", "ROOT", "Fuse", "Split", "Stage"]

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule


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


class Stage(Placed):
    """The loops of one operation; its methods are TVM's schedule primitives.

    In the examples ``lower`` is ``whet.lower`` for a processor with AVX2.

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
        """Split a loop in two: ``i = outer * factor + inner``.

        The inner loop has ``factor`` steps, or the outer one ``nparts``; where the size does not
        divide, the last steps are left out.

        >>> A = te.placeholder((10,), name="A")
        >>> B = te.compute((10,), lambda i: A[i] + 1.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> print(lower(s, [A, B]))
        def main(A: float32[10], B: float32[10]):
            for i in range(10):
                B[i] = A[i] + float32(1.0)
        >>> outer, inner = s[B].split(B.op.axis[0], factor=4)
        >>> print(lower(s, [A, B]))
        def main(A: float32[10], B: float32[10]):
            for i_outer in range(3):
                for i_inner in range(min(4, i_outer * -4 + 10)):
                    B[i_outer * 4 + i_inner] = A[i_outer * 4 + i_inner] + float32(1.0)

        Returns:
            The outer and the inner loop.

        Raises:
            ScheduleError: unless the axis is a loop of this stage and exactly one of factor and
                nparts is given, at least 1.
        """
        asked = f"split({self.op.name}, axis={axis_name(parent)}, " + (
            f"factor={_number(factor)})" if nparts is None else f"nparts={_number(nparts)})"
        )
        if (factor is None) == (nparts is None):
            raise ScheduleError(
                f"split({self.op.name}, axis={axis_name(parent)})",
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
            raise ScheduleError(
                asked, f"the size must be an integer, not {size.value}", self._loops
            )
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
        """Fuse neighbouring loops, outermost first: ``fused = i * extent(j) + j``.

        >>> A = te.placeholder((4, 6), name="A")
        >>> B = te.compute((4, 6), lambda i, j: A[i, j] + 1.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> print(lower(s, [A, B]))
        def main(A: float32[24], B: float32[24]):
            for i in range(4):
                for j in range(6):
                    B[i * 6 + j] = A[i * 6 + j] + float32(1.0)
        >>> fused = s[B].fuse(*B.op.axis)
        >>> print(lower(s, [A, B]))
        def main(A: float32[24], B: float32[24]):
            for i_j_fused in range(24):
                B[i_j_fused] = A[i_j_fused] + float32(1.0)

        Raises:
            ScheduleError: if they are not neighbours in this order, or of two kinds.
        """
        asked = f"fuse({self.op.name}, {', '.join(axis_name(a) for a in axes)})"
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

        >>> A = te.placeholder((4, 6), name="A")
        >>> B = te.compute((4, 6), lambda i, j: A[i, j] + 1.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> print(lower(s, [A, B]))
        def main(A: float32[24], B: float32[24]):
            for i in range(4):
                for j in range(6):
                    B[i * 6 + j] = A[i * 6 + j] + float32(1.0)
        >>> i, j = B.op.axis
        >>> s[B].reorder(j, i)
        >>> print(lower(s, [A, B]))
        def main(A: float32[24], B: float32[24]):
            for j in range(6):
                for i in range(4):
                    B[i * 6 + j] = A[i * 6 + j] + float32(1.0)

        Raises:
            ScheduleError: for an axis that is not a loop of this stage or stands there twice.
        """
        asked = f"reorder({self.op.name}, {', '.join(axis_name(a) for a in axes)})"
        places = [self._leaf(a, asked) for a in axes]
        if len(set(places)) != len(places):
            raise ScheduleError(asked, "an axis is named twice", self._loops)
        for place, axis in zip(sorted(places), axes):
            self.leaf_iter_vars[place] = axis
        self.schedule.record("reorder", self, axes, {}, ())

    def tile(
        self, x_parent: e.IterVar, y_parent: e.IterVar, x_factor: Any, y_factor: Any
    ) -> tuple[e.IterVar, e.IterVar, e.IterVar, e.IterVar]:
        """Split two loops and put both outer ones outside.

        >>> B = te.compute((4, 6), lambda i, j: 1.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> print(lower(s, [B]))
        def main(B: float32[24]):
            for i in range(4):
                for j in range(6):
                    B[i * 6 + j] = float32(1.0)
        >>> i, j = B.op.axis
        >>> io, jo, ii, ji = s[B].tile(i, j, 2, 3)
        >>> print(lower(s, [B]))
        def main(B: float32[24]):
            for i_outer in range(2):
                for j_outer in range(2):
                    for i_inner in range(2):
                        for j_inner in range(3):
                            B[i_outer * 12 + i_inner * 6 + j_outer * 3 + j_inner] = float32(1.0)

        Returns:
            ``x_outer, y_outer, x_inner, y_inner``.
        """
        xo, xi = self.split(x_parent, factor=x_factor)
        yo, yi = self.split(y_parent, factor=y_factor)
        self.reorder(xo, yo, xi, yi)
        return xo, yo, xi, yi

    def vectorize(self, axis: e.IterVar) -> None:
        """Run a loop of constant extent as vector operations, as wide as the target's registers.

        >>> A = te.placeholder((10,), name="A")
        >>> B = te.compute((10,), lambda i: A[i] + 1.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> print(lower(s, [A, B]))
        def main(A: float32[10], B: float32[10]):
            for i in range(10):
                B[i] = A[i] + float32(1.0)
        >>> s[B].vectorize(B.op.axis[0])
        >>> print(lower(s, [A, B]))
        def main(A: float32[10], B: float32[10]):
            B[ramp(0, 1, 8)] = A[ramp(0, 1, 8)] + broadcast(float32(1.0), 8)
            B[ramp(8, 1, 2)] = A[ramp(8, 1, 2)] + broadcast(float32(1.0), 2)

        Raises:
            ScheduleError: for a loop of a reduction.
        """
        self._annotate("vectorize", axis, "vectorized")

    def unroll(self, axis: e.IterVar) -> None:
        """Write a loop of constant extent out, step after step, in the machine code.

        >>> A = te.placeholder((10,), name="A")
        >>> B = te.compute((10,), lambda i: A[i] + 1.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> print(lower(s, [A, B]))
        def main(A: float32[10], B: float32[10]):
            for i in range(10):
                B[i] = A[i] + float32(1.0)
        >>> s[B].unroll(B.op.axis[0])
        >>> print(lower(s, [A, B]))
        def main(A: float32[10], B: float32[10]):
            for i in unrolled(10):
                B[i] = A[i] + float32(1.0)

        Raises:
            ScheduleError: for an axis that is not a loop of this stage.
        """
        self._annotate("unroll", axis, "unrolled")

    def parallel(self, axis: e.IterVar) -> None:
        """Share the steps of a data-parallel loop among threads.

        >>> A = te.placeholder((4, 6), name="A")
        >>> B = te.compute((4, 6), lambda i, j: A[i, j] + 1.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> print(lower(s, [A, B]))
        def main(A: float32[24], B: float32[24]):
            for i in range(4):
                for j in range(6):
                    B[i * 6 + j] = A[i * 6 + j] + float32(1.0)
        >>> s[B].parallel(B.op.axis[0])
        >>> print(lower(s, [A, B]))
        def main(A: float32[24], B: float32[24]):
            for i in parallel(4):
                for j in range(6):
                    B[i * 6 + j] = A[i * 6 + j] + float32(1.0)

        Raises:
            ScheduleError: for a loop of a reduction.
        """
        self._annotate("parallel", axis, "parallel")

    def _annotate(self, primitive: str, axis: e.IterVar, kind: str) -> None:
        asked = f"{primitive}({self.op.name}, {axis_name(axis)})"
        self._leaf(axis, asked)
        if axis.iter_type == e.COMM_REDUCE and kind != "unrolled":
            raise ScheduleError(
                asked,
                "the steps of a reduction depend on each other",
                self._loops,
            )
        self.iter_var_attrs[axis] = kind
        self.schedule.record(primitive, self, (axis,), {}, ())


def _number(size: Any) -> str:
    return str(size.value) if isinstance(size, e.IntImm) else str(size)
