"""The primitive that lets an instruction compute a tile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ScheduleError
from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.te.lang.tensor_intrin import TensorIntrin
from whet.compiler.te.primitives.checks import Request, loops_of, on_stage, unannotated_leaf
from whet.compiler.tir.expr import TENSORIZED, IterVar

if TYPE_CHECKING:
    from whet.compiler.te.stage import Stage


@on_stage
def tensorize(stage: Stage, var: IterVar, tensor_intrin: TensorIntrin) -> None:
    """Let an instruction compute a loop and all loops inside of it.

    What it computes must be what they compute: the same tensors read at the same places, in
    whatever order operands, axes and conversions of the same meaning stand. Tiles of a rest, which
    are not whole, stay loops.

    >>> a = te.placeholder((4,), name="a")
    >>> b = te.compute((4,), lambda i: a[i] * 2.0, name="b")
    >>> def run(ins, outs):
    ...     return outs[0].vstore(0, ins[0].vload(0, "float32x4") * 2.0)
    >>> twice = te.decl_tensor_intrin(b.op, run, default_buffer_params={"offset_factor": 1})
    >>> A = te.placeholder((10,), name="A")
    >>> B = te.compute((10,), lambda i: 2.0 * A[i], name="B")
    >>> s = te.create_schedule(B.op)
    >>> i, j = s[B].split(B.op.axis[0], 4)
    >>> print(lower(s, [A, B]))
    def main(A: float32[10], B: float32[10]):
        for i_outer in range(3):
            for i_inner in range(min(4, i_outer * -4 + 10)):
                B[i_outer * 4 + i_inner] = float32(2.0) * A[i_outer * 4 + i_inner]
    >>> s[B].tensorize(j, twice)
    >>> print(lower(s, [A, B]))
    def main(A: float32[10], B: float32[10]):
        for i_outer in range(2):
            B[ramp(i_outer * 4, 1, 4)] = A[ramp(i_outer * 4, 1, 4)] * broadcast(float32(2.0), 4)
        for i_inner in range(2):
            B[i_inner + 8] = float32(2.0) * A[i_inner + 8]

    Args:
        var: a loop of this stage; its tile's extents are numbers.
        tensor_intrin: what ``te.decl_tensor_intrin`` gave.

    Raises:
        ScheduleError: for another loop, one that has an annotation, or no intrinsic. Whether the
            computations agree is seen when the schedule is lowered (``LowerError``).
    """
    request = Request(stage, "tensorize", var, tensor_intrin)
    unannotated_leaf(stage, var, request, pragmas=True)
    if not isinstance(tensor_intrin, TensorIntrin):
        given: Any = tensor_intrin
        raise ScheduleError(
            request,
            f"a {type(given).__name__} is no tensor intrinsic",
            "te.decl_tensor_intrin(op, fcompute) makes one",
        )
    if not isinstance(stage.op, ComputeOp):
        raise ScheduleError(request, f"{stage.op.name} is a statement, without loops")
    if stage.tensorized is not None:
        first = stage.leaf_iter_vars[stage.tensorized]
        raise ScheduleError(request, f"{first.name} is tensorized already", loops_of(stage))
    stage.iter_var_attrs[var] = replace(
        stage.attr(var), iter_type=TENSORIZED, tensor_intrin=tensor_intrin
    )
    request.record()
