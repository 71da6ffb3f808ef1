"""``te.create_prim_func``: a function of blocks from a computation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te.blocks.index_types import with_index_type
from whet.compiler.te.blocks.nests import Scheduled, View, block_form
from whet.compiler.te.lang.scan import ScanOp
from whet.compiler.te.lang.tensor import ComputeOp, ExternOp, Tensor
from whet.compiler.te.lower.lower_layout import arguments
from whet.compiler.te.schedule import Schedule, create_schedule
from whet.compiler.tir.blocks.lower import SCHEDULED
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import Var
from whet.compiler.tir.function import PrimFunc


def create_prim_func(
    ops: Sequence[Tensor | Var], index_dtype_override: str | None = None
) -> PrimFunc:
    """A function with a block for each stage of a computation.

    >>> A = te.placeholder((4, 6), name="A")
    >>> k = te.reduce_axis((0, 6), name="k")
    >>> B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    >>> print(te.create_prim_func([A, B]))
    @T.prim_func
    def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        # with T.block("root"):
        for i, k in T.grid(4, 6):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi, vk])
                T.writes(B[vi])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]

    ``whet.lower`` and ``whet.build`` take it, alone or in an ``IRModule``; ``tir.Schedule``
    rewrites its loops.

    Args:
        ops: the parameters in order: inputs and results, and scalars that they use.
        index_dtype_override: the type of all sizes and indices, ``"int32"`` or ``"int64"``.

    Raises:
        ArgumentError: for what is no tensor, for no result, and for a recurrence.
        LowerError: where an input is missing.
    """
    many = list(ops) if isinstance(ops, (list, tuple)) else [ops]
    request = "create_prim_func([...])"
    for x in many:
        if not isinstance(x, (Tensor, Var)):
            raise ArgumentError(request, f"a {type(x).__name__} is no tensor", "[A, B, C]")
    if index_dtype_override is not None:
        many = with_index_type(many, index_dtype_override)
    made = [x.op for x in many if isinstance(x, Tensor)]
    outputs = [op for op in made if isinstance(op, (ComputeOp, ExternOp, ScanOp))]
    if not outputs:
        raise ArgumentError(request, "no tensor of it is computed", "name inputs and results")
    schedule = create_schedule(outputs)
    for stage in schedule.stages:
        if isinstance(stage.op, ScanOp):
            raise ArgumentError(
                request,
                f"{stage.op.name} is a te.scan, whose steps are no block",
                "te.create_schedule makes a schedule of it",
            )
    return scheduled_function(schedule, View(), many)


def scheduled_function(
    schedule: Schedule,
    view: View,
    args: Sequence[Any],
    buffers: dict[Tensor, Buffer] | None = None,
    attrs: dict[str, Any] | None = None,
) -> PrimFunc:
    """The function of blocks of a schedule, which it keeps with it.

    Args:
        schedule: is not changed any more.
        view: what the blocks say besides.
        args: tensors and scalars.
        buffers: the parameters of tensors; new ones by default.
        attrs: of the function.
    """
    if buffers is None:
        buffers = {t: Buffer(t.name, t.shape, t.dtype) for t in args if isinstance(t, Tensor)}
    params = tuple(buffers[x] if isinstance(x, Tensor) else x for x in args)
    buffers, laid = arguments(schedule, buffers, params)
    params = tuple(laid)
    body = block_form(schedule, buffers, view)
    said = {"global_symbol": "main", "tir.noalias": True} if attrs is None else attrs
    known = Scheduled(schedule, view, tuple(args), buffers, params, body)
    return PrimFunc(params, body, attrs={**said, SCHEDULED: known})
