"""The primitives that make a stage's loops: split, fuse, reorder, tile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ScheduleError
from whet.compiler.te.lang.axes import axis_over
from whet.compiler.te.lang.relations import Fuse, Singleton, Split
from whet.compiler.te.lang.sizes import as_size
from whet.compiler.te.lang.tensor import HybridOp
from whet.compiler.te.primitives.checks import (
    Request,
    check_loops,
    check_no_loop_around,
    check_one_nest,
    leaf_index,
    loops_of,
    on_stage,
    unannotated_leaf,
)
from whet.compiler.te.primitives.scans import check_not_step
from whet.compiler.tir.expr import IterVar, PrimExpr, Var
from whet.compiler.tir.ops import ops

if TYPE_CHECKING:
    from whet.compiler.te.stage import Stage


@on_stage
def split(
    stage: Stage, parent: IterVar, factor: Any = None, nparts: Any = None, tail: str = "guard"
) -> tuple[IterVar, IterVar]:
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

    With ``tail="shift"`` (Halide's ``ShiftInwards``) the last steps begin earlier: some elements
    are computed twice, and no loop has an odd size. Where the size is a symbol, or loops are bound
    to threads, it is a guard.

    >>> s = te.create_schedule(B.op)
    >>> outer, inner = s[B].split(B.op.axis[0], factor=4, tail="shift")
    >>> print(lower(s, [A, B]))
    def main(A: float32[10], B: float32[10]):
        for i_outer in range(3):
            for i_inner in range(4):
                B[min(i_outer * 4, 6) + i_inner] = A[min(i_outer * 4, 6) + i_inner] + float32(1.0)

    Returns:
        The outer and the inner loop.

    Raises:
        ScheduleError: unless the axis is a loop of this stage and exactly one of factor and
            nparts is given, at least 1; for a tail that is neither ``"guard"`` nor ``"shift"``, or
            that shifts a stage with a reduction, whose sums would count steps twice.
    """
    by = "factor" if nparts is None else "nparts"
    given = factor if nparts is None else nparts
    if (factor is None) == (nparts is None):
        raise ScheduleError(
            Request(stage, "split", axis=parent),
            "give exactly one of factor and nparts",
            loops_of(stage),
        )
    request = Request(stage, "split", axis=parent, **{by: given})
    size = as_size(given, by, request, loops_of(stage))
    where = unannotated_leaf(stage, parent, request)
    check_not_step(stage, parent, request)
    _check_tail(stage, tail, request)
    options: dict[str, Any] = {by: size} if tail == "guard" else {by: size, "tail": tail}
    outer, inner = _split(stage, where, by, size, tail == "shift")
    stage.record("split", parent, results=(outer, inner), **options)
    return outer, inner


def _check_tail(stage: Stage, tail: str, request: Request) -> None:
    """Refuse a tail that there is not, or that would compute a sum's steps twice."""
    if tail == "guard":
        return
    if tail != "shift":
        raise ScheduleError(request, f'tail={tail!r} is neither "guard" nor "shift"')
    if isinstance(stage.op, HybridOp):
        raise ScheduleError(
            request,
            'with tail="shift" steps are run twice, and those of a script may add to what they did',
            "leave the guard",
        )
    if stage.op.reduce_axis:
        raise ScheduleError(
            request,
            'with tail="shift" steps are computed twice, and a reduction would count them twice',
            "split a stage that copies the result (cache_write), or leave the guard",
        )


def _split(
    stage: Stage, where: int, by: str, size: PrimExpr, shifts: bool = False
) -> tuple[IterVar, IterVar]:
    """Split the loop at a place, unrecorded."""
    parent = stage.leaf_iter_vars[where]
    kind, name, dtype = parent.iter_type, parent.var.name, parent.dtype
    outer = IterVar(None, Var(f"{name}.outer", dtype), kind)
    inner = IterVar(None, Var(f"{name}.inner", dtype), kind)
    factor, nparts = (size, None) if by == "factor" else (None, size)
    stage.relations.append(Split(parent, outer, inner, factor, nparts, shifts))
    stage.all_iter_vars += [outer, inner]
    stage.leaf_iter_vars[where : where + 1] = [outer, inner]
    _follow(stage, parent, inner)
    return outer, inner


def _follow(stage: Stage, loop: IterVar, inside: IterVar) -> None:
    """Attach at a new loop what was attached at the one that it came of, as TVM does.

    Of a split that is the inner loop; a fused loop takes the place of the inner one of its two.
    """
    for other in (*stage.schedule.stages, *stage.schedule.groups):
        if other.attach_stage is stage and other.attach_ivar is loop:
            other.attach_ivar = inside


@on_stage
def fuse(stage: Stage, *axes: IterVar) -> IterVar:
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
        return _singleton(stage)
    request = Request(stage, "fuse", *axes)
    places = [unannotated_leaf(stage, a, request) for a in axes]
    if places != list(range(places[0], places[0] + len(places))):
        raise ScheduleError(
            request, "the axes must be neighbours, outermost first; reorder them", loops_of(stage)
        )
    check_one_nest(stage, axes, request)
    if len({a.iter_type for a in axes}) > 1:
        raise ScheduleError(
            request, "a data axis and a reduction axis do not fuse", loops_of(stage)
        )
    fused = axes[0]
    for inner in axes[1:]:
        name = f"{fused.var.name}.{inner.var.name}.fused"
        out = IterVar(None, Var(name, fused.dtype), fused.iter_type)
        stage.relations.append(Fuse(fused, inner, out))
        stage.all_iter_vars.append(out)
        _follow(stage, inner, out)
        fused = out
    stage.leaf_iter_vars[places[0] : places[0] + len(places)] = [fused]
    request.record(fused)
    return fused


def _singleton(stage: Stage) -> IterVar:
    request = Request(stage, "fuse")
    check_loops(stage, request)
    check_no_loop_around(stage, request)
    one = axis_over("singleton", ops.const(1))
    stage.relations.append(Singleton(one))
    stage.all_iter_vars.append(one)
    stage.leaf_iter_vars.insert(0, one)
    request.record(one)
    return one


@on_stage
def reorder(stage: Stage, *axes: IterVar) -> None:
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
    request = Request(stage, "reorder", *axes)
    check_loops(stage, request)
    places = [leaf_index(stage, a, request) for a in axes]
    if len(set(places)) != len(places):
        raise ScheduleError(request, "an axis is named twice", loops_of(stage))
    check_one_nest(stage, axes, request)
    _reorder(stage, places, axes)
    request.record()


def _reorder(stage: Stage, places: list[int], axes: tuple[IterVar, ...]) -> None:
    for place, axis in zip(sorted(places), axes):
        stage.leaf_iter_vars[place] = axis


@on_stage
def tile(
    stage: Stage, x_parent: IterVar, y_parent: IterVar, x_factor: Any, y_factor: Any
) -> tuple[IterVar, IterVar, IterVar, IterVar]:
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
    request = Request(stage, "tile", x_parent, y_parent, x_factor=x_factor, y_factor=y_factor)
    x_size = as_size(x_factor, "x_factor", request, loops_of(stage))
    y_size = as_size(y_factor, "y_factor", request, loops_of(stage))
    x_place = unannotated_leaf(stage, x_parent, request)
    if unannotated_leaf(stage, y_parent, request) == x_place:
        raise ScheduleError(request, "an axis is named twice", loops_of(stage))
    check_one_nest(stage, (x_parent, y_parent), request)
    for parent in (x_parent, y_parent):
        check_not_step(stage, parent, request)
    xo, xi = _split(stage, x_place, "factor", x_size)
    yo, yi = _split(stage, leaf_index(stage, y_parent, request), "factor", y_size)
    order = (xo, yo, xi, yi)
    _reorder(stage, [leaf_index(stage, a, request) for a in order], order)
    stage.record("tile", x_parent, y_parent, results=order, x_factor=x_size, y_factor=y_size)
    return order
