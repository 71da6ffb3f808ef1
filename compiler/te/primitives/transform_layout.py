"""The primitive transform_layout: how a stage's result lies in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError, ScheduleError, Text
from whet.compiler.te.lang.axes import axis_over
from whet.compiler.te.lang.graph import made_by
from whet.compiler.te.lang.relations import Transform
from whet.compiler.te.lang.scan import ScanOp
from whet.compiler.te.lang.tensor import ComputeOp, PlaceholderOp
from whet.compiler.te.primitives.checks import (
    Request,
    check_loops,
    loops_of,
    on_stage,
    unannotated_leaf,
)
from whet.compiler.te.primitives.scans import scans_of
from whet.compiler.tir.expr import IterVar
from whet.compiler.tir.layouts.index_map import IndexMap

if TYPE_CHECKING:
    from whet.compiler.te.stage import Stage


@on_stage
def transform_layout(
    stage: Stage, mapping_function: IndexMap | Callable[..., Any]
) -> list[IterVar] | None:
    """Lay the stage's result out anew: an element is kept where the function says.

    Readers find their elements there. A computation runs in the order of its new layout. Of an
    argument, be it an input or an output, the shape is that of the layout: its caller lays it out.

    >>> A = te.placeholder((6,), name="A")
    >>> T = te.compute((6, 4), lambda i, j: A[i] * 2.0, name="T")
    >>> U = te.compute((6, 4), lambda i, j: T[i, j] + 1.0, name="U")
    >>> s = te.create_schedule(U.op)
    >>> print(lower(s, [A, U]))
    def main(A: float32[6], U: float32[24]):
        T = allocate([24], "float32", "global")
        for i in range(6):
            for j in range(4):
                T[i * 4 + j] = A[i] * float32(2.0)
        for i_1 in range(6):
            for j_1 in range(4):
                U[i_1 * 4 + j_1] = T[i_1 * 4 + j_1] + float32(1.0)
    >>> axis0, axis1 = s[T].transform_layout(lambda i, j: [j, i])
    >>> print(lower(s, [A, U]))
    def main(A: float32[6], U: float32[24]):
        T = allocate([24], "float32", "global")
        for axis0 in range(4):
            for axis1 in range(6):
                T[axis0 * 6 + axis1] = A[axis1] * float32(2.0)
        for i in range(6):
            for j in range(4):
                U[i * 4 + j] = T[j * 6 + i] + float32(1.0)

    Where a block has a rest, the places behind it are there, and nothing is stored in them.
    ``te.AXIS_SEPARATOR`` among the indices is kept in ``stage.axis_separators``; memory here is
    flat, and what is before it lies outside of what is after it, as without one.

    Args:
        mapping_function: from the indices of an element to the list of those of its place: each
            index whole or all of its digits, ``lambda i, j: [i // 4, j, i % 4]``. A second call
            takes the indices of the places that the first one gave.

    Returns:
        The new loops in the layout's order; None of an input, and of a stage whose loops rfactor
        has made anew since: these stay as they are.

    Raises:
        ScheduleError: for a map that is none; for axes that were split, fused, reordered apart or
            annotated, or at which a stage is attached; for a stage without dimensions, a
            ``te.extern``, and what a ``te.scan`` keeps.
    """
    request = Request(stage, "transform_layout", _Shown(mapping_function))
    _check(stage, request)
    loops = _laid_out(stage, mapping_function, request)
    made = () if loops is None else loops.transformed_variables
    stage.record("transform_layout", stage.layout[-1].forward_transform, results=made)
    return None if loops is None else list(made)


def lay_out_memory(stage: Stage, mapping_function: IndexMap | Callable[..., Any]) -> None:
    """Lay the stage's result out anew, and let its loops stay as they are.

    Blocks do so; a te schedule's trace has no such step, and does not record it.

    Raises:
        ScheduleError: as :func:`transform_layout`, but for what is about loops.
    """
    request = Request(stage, "transform_layout", _Shown(mapping_function))
    _check(stage, request)
    _laid_out(stage, mapping_function, request, with_loops=False)


def _laid_out(stage: Stage, given: Any, request: Text, with_loops: bool = True) -> Transform | None:
    """Lay a stage out, unrecorded; the transform of its loops."""
    shape = layout_shape(stage, stage.op.output_shape(0))
    try:
        index_map = _map(given, len(shape))
        layout = Transform.of(_roots(stage, shape), shape, index_map)
        loops = _of_loops(stage, shape, index_map, request) if with_loops else None
    except ArgumentError as error:
        raise ScheduleError(request, *error.args[1:]) from error
    stage.layout.append(layout)
    stage.axis_separators = list(index_map.axis_separators)
    if loops is not None:
        _enter(stage, loops)
    return loops


class _Shown:
    """The text of a map in errors."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def __str__(self) -> str:
        return str(self.given) if isinstance(self.given, IndexMap) else "the function"

    __repr__ = __str__


def layout_shape(stage: Stage, shape: Sequence[Any]) -> list[Any]:
    """The extents of a stage's tensor, or of a region of it, as it is laid out."""
    for layout in stage.layout:
        shape = layout.forward_transform.map_shape(shape)
    return list(shape)


def _check(stage: Stage, request: Text) -> None:
    op = stage.op
    if not isinstance(op, PlaceholderOp):
        check_loops(stage, request)
        if not isinstance(op, (ComputeOp, ScanOp)):
            raise ScheduleError(
                request, f"{op.name} {made_by(op)}, whose statements say where they store"
            )
    for scan, of_scan in scans_of(stage.schedule):
        kept = (*of_scan.init, *of_scan.update, *of_scan.state_placeholder)
        if stage is scan or any(stage.schedule.stage_map.get(t.op) is stage for t in kept):
            raise ScheduleError(
                request,
                f"{op.name} is kept in the memory of {of_scan.name}, step by step",
                "copy the result: te.compute(shape, lambda *i: S(*i))",
            )
    if any(attr.dim_align_factor for attr in stage.iter_var_attrs.values()):
        raise ScheduleError(
            request,
            f"the rows of {op.name} are padded by storage_align",
            "a layout has no padded rows: leave one of the two out",
        )
    if not op.output_shape(0):
        raise ScheduleError(request, f"{op.name} has no dimensions")


def _map(given: Any, ndim: int) -> IndexMap:
    if isinstance(given, IndexMap):
        return given
    return IndexMap.from_func_with_separators(given, ndim)[0]


def _roots(stage: Stage, shape: Sequence[Any]) -> Sequence[IterVar]:
    """The indices of the places so far."""
    if stage.layout:
        return stage.layout[-1].transformed_variables
    return [axis_over(f"i{k}", d, d.dtype) for k, d in enumerate(shape)]


def _of_loops(
    stage: Stage, shape: Sequence[Any], index_map: IndexMap, request: Text
) -> Transform | None:
    """The transform of a stage's loops, which must stand as the axes do."""
    if not isinstance(stage.op, ComputeOp):
        return None
    made = (r for r in reversed(stage.relations) if isinstance(r, Transform))
    last = next(made, None)
    if last is None and stage.layout:
        return None  # rfactor gave it loops over its elements
    axes = stage.op.axis if last is None else last.transformed_variables
    places = sorted(unannotated_leaf(stage, a, request) for a in axes)
    if places != list(range(places[0], places[0] + len(axes))):
        raise ScheduleError(request, "its axes were reordered apart", loops_of(stage))
    for other in (*stage.schedule.stages, *stage.schedule.groups):
        if other.attach_stage is stage and any(other.attach_ivar is a for a in axes):
            assert other.attach_ivar is not None
            raise ScheduleError(
                request,
                f"{other.op.name} is attached at {other.attach_ivar.name}",
                "call transform_layout first, and compute_at with one of the loops that it returns",
            )
    return Transform.of(axes, shape, index_map)


def _enter(stage: Stage, loops: Transform) -> None:
    """Let the new loops take the places of those that they were made of."""
    leaves, old = stage.leaf_iter_vars, loops.original_variables
    first = min(k for k, a in enumerate(leaves) if any(a is x for x in old))
    stage.relations.append(loops)
    stage.all_iter_vars += loops.transformed_variables
    leaves[first : first + len(old)] = loops.transformed_variables
