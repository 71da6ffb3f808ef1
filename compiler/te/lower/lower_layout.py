"""Where an element is kept: in the order of ``transform_layout``, and in the circle of a rolling
buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whet.compiler.errors import LowerError
from whet.compiler.te.bounds.extents import AffineSizes
from whet.compiler.te.lang.relations import INLINE
from whet.compiler.te.lang.tensor import Tensor
from whet.compiler.te.primitives.transform_layout import layout_shape
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import PrimExpr, Var
from whet.compiler.tir.visit.rewrite import changed

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule
    from whet.compiler.te.stage import Stage

Indices = tuple[PrimExpr, ...]


def places(stage: Stage, shape: Indices, indices: Indices, sizes: AffineSizes) -> Indices:
    """Where an element of a stage's region lies.

    Args:
        shape: the extents of the region.
        indices: those of the element, counted from the first of the region.
    """
    for layout in stage.layout:
        axes, made = layout.original_variables, layout.transformed_variables
        extents = dict(zip(axes, map(sizes.size, shape)))
        values = dict(zip(axes, map(sizes.form, indices)))
        layout.extents_down(extents, sizes)
        layout.values_down(extents, values, sizes)
        shape = tuple(extents[a].to_expr(a.dtype) for a in made)
        indices = tuple(values[a].to_expr(a.dtype) for a in made)
    return indices


def check_row_major(reader: str, stages: Sequence[Stage]) -> None:
    """Refuse what reads rows of a tensor, of stages that are not kept in them.

    What is inlined is kept nowhere: the script that reads it computes it.

    Raises:
        LowerError: after ``transform_layout`` or ``rolling_buffer``.
    """
    for stage in stages:
        if stage.attach_type != INLINE and (stage.layout or stage.rolls):
            name = "transform_layout" if stage.layout else "rolling_buffer"
            raise LowerError(
                f"{name}({stage.op.name}, ...)" if stage.layout else f"{name}({stage.op.name})",
                f"{reader} takes {stage.op.name} as rows in memory",
                f"let it read a copy of {stage.op.name}: te.compute(shape, lambda *i: T(*i))",
            )


def arguments(
    schedule: Schedule, buffers: dict[Tensor, Buffer], params: Sequence[Buffer | Var] = ()
) -> tuple[dict[Tensor, Buffer], list[Buffer | Var]]:
    """The buffers of a function's arguments, with the shapes of their layouts.

    Args:
        buffers: tensor -> its buffer, of the tensor's shape.
        params: the parameters in order.

    Raises:
        LowerError: for a buffer with strides of its own.
    """
    laid: dict[Buffer, Buffer] = {}
    out = dict(buffers)
    for t, b in buffers.items():
        stage = schedule.stage_map.get(t.op)
        if stage is None or not stage.layout:
            continue
        if b.strides:
            raise LowerError(
                f"transform_layout({stage.op.name}, ...)",
                f"the buffer {b.name} has strides of its own",
                "leave it out of binds: the layout says where elements are",
            )
        shape = layout_shape(stage, t.shape)
        out[t] = laid[b] = changed(b, shape=tuple(shape))
    return out, [laid.get(p, p) if isinstance(p, Buffer) else p for p in params]
