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

    >>> def times_two(n):
    ...     a = te.placeholder((n,), name="a")
    ...     b = te.compute((n,), lambda i: a[i] * 2.0, name="b")
    ...     def run(ins, outs):
    ...         return tir.call_extern("int32", "twice", outs[0].access_ptr("w"), ins[0].access_ptr("r"))
    ...     return te.decl_tensor_intrin(b.op, run, name="twice")
    >>> A = te.placeholder((10,), name="A")
    >>> B = te.compute((10,), lambda i: 2.0 * A[i], name="B")
    >>> s = te.create_schedule(B.op)
    >>> i, j = s[B].split(B.op.axis[0], 4)
    >>> print(lower(s, [A, B]))
    >>> s[B].tensorize(j, times_two(4))
    >>> print(lower(s, [A, B]))

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
