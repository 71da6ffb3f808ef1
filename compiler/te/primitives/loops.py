"""The primitives that make a stage's loops: split, fuse, reorder, tile."""

from __future__ import annotations

from typing import Any

from whet.compiler.errors import ScheduleError
from whet.compiler.te.lang.relations import Fuse, Singleton, Split
from whet.compiler.te.lang.sizes import as_size, size_text
from whet.compiler.te.primitives.compute_at import Placed, axis_name
from whet.compiler.tir import expr as e
from whet.compiler.tir.ops import ops


class Loops(Placed):
    """The part of a stage that makes its loops; :class:`te.Stage` is the whole."""

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
        by = "factor" if nparts is None else "nparts"
        given = factor if nparts is None else nparts
        if (factor is None) == (nparts is None):
            raise ScheduleError(
                f"split({self.op.name}, axis={axis_name(parent)})",
                "give exactly one of factor and nparts",
                self._loops,
            )
        asked = f"split({self.op.name}, axis={axis_name(parent)}, {by}={size_text(given)})"
        size = as_size(given, by, asked, self._loops)
        where = self._plain_leaf(parent, asked)
        outer, inner = self._split(where, by, size)
        self.schedule.record("split", self._stage, (parent,), {by: size}, (outer, inner))
        return outer, inner

    def _split(self, where: int, by: str, size: e.PrimExpr) -> tuple[e.IterVar, e.IterVar]:
        """Split the loop at a place, unrecorded."""
        parent = self.leaf_iter_vars[where]
        kind, name, dtype = parent.iter_type, parent.var.name, parent.dtype
        outer = e.IterVar(None, e.Var(f"{name}.outer", dtype), kind)
        inner = e.IterVar(None, e.Var(f"{name}.inner", dtype), kind)
        factor, nparts = (size, None) if by == "factor" else (None, size)
        self.relations.append(Split(parent, outer, inner, factor, nparts))
        self.all_iter_vars += [outer, inner]
        self.leaf_iter_vars[where : where + 1] = [outer, inner]
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

        With no axes, a loop of one step is made, outside all others.

        Raises:
            ScheduleError: if they are not neighbours in this order, or of two kinds.
        """
        if not axes:
            return self._singleton()
        asked = f"fuse({self.op.name}, {', '.join(axis_name(a) for a in axes)})"
        places = [self._plain_leaf(a, asked) for a in axes]
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
        self.schedule.record("fuse", self._stage, axes, {}, (fused,))
        return fused

    def _singleton(self) -> e.IterVar:
        self._scheduled(f"fuse({self.op.name})")
        one = e.IterVar(
            e.Range.from_min_extent(ops.const(0), ops.const(1)), e.Var("singleton"), e.DATA_PAR
        )
        self.relations.append(Singleton(one))
        self.all_iter_vars.append(one)
        self.leaf_iter_vars.insert(0, one)
        self.schedule.record("fuse", self._stage, (), {}, (one,))
        return one

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
        self._scheduled(asked)
        places = [self._leaf(a, asked) for a in axes]
        if len(set(places)) != len(places):
            raise ScheduleError(asked, "an axis is named twice", self._loops)
        self._reorder(places, axes)
        self.schedule.record("reorder", self._stage, axes, {}, ())

    def _reorder(self, places: list[int], axes: tuple[e.IterVar, ...]) -> None:
        for place, axis in zip(sorted(places), axes):
            self.leaf_iter_vars[place] = axis

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

        Raises:
            ScheduleError: as split and reorder do.
        """
        asked = (
            f"tile({self.op.name}, {axis_name(x_parent)}, {axis_name(y_parent)}, "
            f"x_factor={size_text(x_factor)}, y_factor={size_text(y_factor)})"
        )
        x_size = as_size(x_factor, "x_factor", asked, self._loops)
        y_size = as_size(y_factor, "y_factor", asked, self._loops)
        x_place = self._plain_leaf(x_parent, asked)
        if self._plain_leaf(y_parent, asked) == x_place:
            raise ScheduleError(asked, "an axis is named twice", self._loops)
        xo, xi = self._split(x_place, "factor", x_size)
        yo, yi = self._split(self._leaf(y_parent, asked), "factor", y_size)
        order = (xo, yo, xi, yi)
        self._reorder([self._leaf(a, asked) for a in order], order)
        options = {"x_factor": x_size, "y_factor": y_size}
        self.schedule.record("tile", self._stage, (x_parent, y_parent), options, order)
        return order
