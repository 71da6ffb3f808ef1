"""The primitives that say how a stage's result is kept: scope, alignment, predicate, buffers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ScheduleError, WhetError
from whet.compiler.te.lang.sizes import as_int, plain
from whet.compiler.te.lang.tensor import ComputeOp, ExternOp
from whet.compiler.te.primitives.checks import (
    Request,
    argument_text,
    check_computed,
    check_loops,
    check_scope,
    on_stage,
)
from whet.compiler.te.primitives.scans import check_not_in_scan
from whet.compiler.tir.expr import IterVar
from whet.compiler.tir.ops import ops

if TYPE_CHECKING:
    from whet.compiler.te.stage import Stage


@on_stage
def set_scope(stage: Stage, scope: str) -> None:
    """Keep the stage's result in a storage scope: ``"global"``, ``"shared"``, ``"local"`` ...

    Without it a stage is kept in memory; attached at a loop over the threads of a block it is
    ``"local"``, at one over blocks only, ``"shared"``.

    >>> A = te.placeholder((4,), name="A")
    >>> T = te.compute((4,), lambda i: A[i] * 2.0, name="T")
    >>> U = te.compute((4,), lambda i: T[i] + 1.0, name="U")
    >>> s = te.create_schedule(U.op)
    >>> print(lower(s, [A, U]))
    def main(A: float32[4], U: float32[4]):
        T = allocate([4], "float32", "global")
        for i in range(4):
            T[i] = A[i] * float32(2.0)
        for i_1 in range(4):
            U[i_1] = T[i_1] + float32(1.0)
    >>> s[T].set_scope("local")
    >>> print(lower(s, [A, U]))
    def main(A: float32[4], U: float32[4]):
        T = allocate([4], "float32", "local")
        for i in range(4):
            T[i] = A[i] * float32(2.0)
        for i_1 in range(4):
            U[i_1] = T[i_1] + float32(1.0)

    Raises:
        ScheduleError: for a scope that does not exist, an input or an output.
    """
    request = Request(stage, "set_scope", scope)
    check_computed(stage, request)
    check_not_in_scan(stage, request)
    check_scope(scope, request)
    if stage.is_output and scope != "global":
        raise ScheduleError(request, f"{stage.op.name} is an output, which its caller keeps")
    stage.scope = scope
    request.record()


@on_stage
def rolling_buffer(stage: Stage) -> None:
    """Keep of a stage that is attached at a loop what the loop's next steps still need.

    Each step then computes only what the one before it has not. The buffer is as large as what
    one step reads, and is filled in circles: of an index along which the steps move, the rest of a
    division counts.

    >>> A = te.placeholder((18,), name="A")
    >>> T = te.compute((18,), lambda i: A[i] * 2.0, name="T")
    >>> U = te.compute((16,), lambda i: T[i] + T[i + 1] + T[i + 2], name="U")
    >>> s = te.create_schedule(U.op)
    >>> s[T].compute_at(s[U], U.op.axis[0])
    >>> print(lower(s, [A, U]))
    def main(A: float32[18], U: float32[16]):
        for i in range(16):
            T = allocate([3], "float32", "global")
            for i_1 in range(3):
                T[i_1] = A[i_1 + i] * float32(2.0)
            U[i] = T[0] + T[1] + T[2]
    >>> s[T].rolling_buffer()
    >>> print(lower(s, [A, U]))  # doctest: +ELLIPSIS
    def main(A: float32[18], U: float32[16]):
        T = allocate([3], "float32", "global")
        for i in range(16):
            for i_1 in range(max(i * -2 + 3, 1)):
                T[...] = A[i_1 + i - max(i * -2 + 3, 1) + 3] * float32(2.0)
            U[i] = T[i - i // 3 * 3] + T[i - (i + 1) // 3 * 3 + 1] + T[i - (i + 2) // 3 * 3 + 2]

    Lowering refuses it by name where it does not hold: where the stage is attached at no loop, at
    one whose steps do not follow each other in one thread, or where the regions of two steps have
    nothing in common or move along several dimensions.

    Raises:
        ScheduleError: for an input, an output, or what a ``te.scan`` keeps.
    """
    request = Request(stage, "rolling_buffer")
    check_computed(stage, request)
    check_not_in_scan(stage, request)
    if stage.is_output:
        raise ScheduleError(request, f"{stage.op.name} is an output, which its caller keeps")
    if not isinstance(stage.op, ComputeOp):
        raise ScheduleError(request, f"{stage.op.name} is computed as a whole")
    stage.rolls = True
    request.record()


@on_stage
def storage_align(stage: Stage, axis: IterVar, factor: int, offset: int) -> None:
    """Pad the rows of the stage's buffer: ``stride of axis = k * factor + offset``.

    On a GPU this keeps the threads of a warp from meeting in one bank of shared memory.

    >>> A = te.placeholder((4, 6), name="A")
    >>> T = te.compute((4, 6), lambda i, j: A[i, j] * 2.0, name="T")
    >>> U = te.compute((4, 6), lambda i, j: T[i, j] + 1.0, name="U")
    >>> s = te.create_schedule(U.op)
    >>> print(lower(s, [A, U]))
    def main(A: float32[24], U: float32[24]):
        T = allocate([24], "float32", "global")
        for i in range(4):
            for j in range(6):
                T[i * 6 + j] = A[i * 6 + j] * float32(2.0)
        for i_1 in range(4):
            for j_1 in range(6):
                U[i_1 * 6 + j_1] = T[i_1 * 6 + j_1] + float32(1.0)
    >>> s[T].storage_align(T.op.axis[0], 8, 1)
    >>> print(lower(s, [A, U]))
    def main(A: float32[24], U: float32[24]):
        T = allocate([33], "float32", "global")
        for i in range(4):
            for j in range(6):
                T[i * 9 + j] = A[i * 6 + j] * float32(2.0)
        for i_1 in range(4):
            for j_1 in range(6):
                U[i_1 * 6 + j_1] = T[i_1 * 9 + j_1] + float32(1.0)

    Args:
        axis: an axis of the operation, not a loop made of it.
        factor, offset: in elements.

    Raises:
        ScheduleError: for another axis, an output, or numbers that are too small.
    """
    request = Request(stage, "storage_align", axis, factor=factor, offset=offset)
    if stage.layout:
        raise ScheduleError(
            request,
            f"{stage.op.name} is laid out by transform_layout, which has no padded rows",
            "leave one of the two out",
        )
    check_loops(stage, request)
    check_not_in_scan(stage, request)
    if not any(axis is a for a in stage.op.axis):
        raise ScheduleError(
            request,
            f"{argument_text(axis)} is not an axis of what {stage.op.name} computes",
            f"axes: {' '.join(a.var.name for a in stage.op.axis) or 'none'}",
        )
    if stage.is_output:
        raise ScheduleError(request, f"{stage.op.name} is an output, which its caller lays out")
    by = int(as_int(factor, "factor", 1, request))
    more = int(as_int(offset, "offset", 0, request))
    stage.iter_var_attrs[axis] = replace(
        stage.attr(axis), dim_align_factor=by, dim_align_offset=more
    )
    stage.record("storage_align", axis, by, more)


@on_stage
def double_buffer(stage: Stage) -> None:
    """Ask for two buffers in turns, so that one is filled while the other is read.

    The request stands in the loops as an attribute; to ignore it is right, too.

    >>> A = te.placeholder((4, 6), name="A")
    >>> T = te.compute((4, 6), lambda i, j: A[i, j] * 2.0, name="T")
    >>> U = te.compute((4, 6), lambda i, j: T[i, j] + 1.0, name="U")
    >>> s = te.create_schedule(U.op)
    >>> s[T].compute_at(s[U], U.op.axis[0])
    >>> print(lower(s, [A, U]))
    def main(A: float32[24], U: float32[24]):
        for i in range(4):
            T = allocate([6], "float32", "global")
            for j in range(6):
                T[j] = A[i * 6 + j] * float32(2.0)
            for j_1 in range(6):
                U[i * 6 + j_1] = T[j_1] + float32(1.0)
    >>> s[T].double_buffer()
    >>> print(lower(s, [A, U]))
    def main(A: float32[24], U: float32[24]):
        for i in range(4):
            T = allocate([6], "float32", "global")
            attr(T, 'double_buffer_scope', 1)
            for j in range(6):
                T[j] = A[i * 6 + j] * float32(2.0)
            for j_1 in range(6):
                U[i * 6 + j_1] = T[j_1] + float32(1.0)

    Raises:
        ScheduleError: for an input, an output or what is inlined.
    """
    request = Request(stage, "double_buffer")
    check_loops(stage, request)
    check_not_in_scan(stage, request)
    if stage.is_output:
        raise ScheduleError(request, f"{stage.op.name} is an output: there is one, its caller's")
    stage.double_buffered = True
    request.record()


@on_stage
def store_nontemporal(stage: Stage, align: int = 16) -> None:
    """Store past the caches: for results that are larger than a cache and not read again soon.

    A line of memory is then written without being read first, and the caches keep what else
    they hold. It concerns vectors whose address is a multiple of 16 bytes, which is found out
    as the kernel runs; others are stored as ever. A kernel waits for such stores before it
    returns. Generators that have no such stores ignore it.

    >>> A = te.placeholder((10,), name="A")
    >>> B = te.compute((10,), lambda i: A[i] + 1.0, name="B")
    >>> s = te.create_schedule(B.op)
    >>> s[B].vectorize(B.op.axis[0])
    >>> print(lower(s, [A, B]))
    def main(A: float32[10], B: float32[10]):
        B[ramp(0, 1, 8)] = A[ramp(0, 1, 8)] + broadcast(float32(1.0), 8)
        B[ramp(8, 1, 2)] = A[ramp(8, 1, 2)] + broadcast(float32(1.0), 2)
    >>> s[B].store_nontemporal()
    >>> print(lower(s, [A, B]))
    def main(A: float32[10], B: float32[10]):
        attr(B, 'store_nontemporal', 1)
        B[ramp(0, 1, 8)] = A[ramp(0, 1, 8)] + broadcast(float32(1.0), 8)
        B[ramp(8, 1, 2)] = A[ramp(8, 1, 2)] + broadcast(float32(1.0), 2)

    Args:
        align: a power of two of bytes. Memory that does not begin at a multiple of it is stored
            as ever. 64 is for loops that leave a line of memory before the next one is begun:
            halves of lines that are stored past the caches cost more than they save. Vectors
            are then stored whole.

    Raises:
        ScheduleError: for an input, what is inlined or extern, or a reduction, which reads its
            own result; for another alignment.
    """
    request = Request(stage, "store_nontemporal")
    check_loops(stage, request)
    check_not_in_scan(stage, request)
    whole = int(as_int(align, "align", 16, request))
    if whole & (whole - 1):
        raise ScheduleError(request, f"align={whole} is no power of two", "16, or 64 for lines")
    if not isinstance(stage.op, ComputeOp):
        raise ScheduleError(
            request,
            f"{stage.op.name} is extern: its own code stores",
            "mark a stage that te.compute made",
        )
    if stage.op.reduce_axis:
        raise ScheduleError(
            request,
            f"{stage.op.name} is a reduction over "
            f"{', '.join(a.var.name for a in stage.op.reduce_axis)}: it reads what it stored",
            f'sum up in cache_write({stage.op.name}, "local") and mark the copy that remains',
        )
    stage.nontemporal = whole
    options: dict[str, Any] = {} if whole == 16 else {"align": whole}
    stage.record("store_nontemporal", **options)


@on_stage
def set_store_predicate(stage: Stage, predicate: Any) -> None:
    """Store only where a condition holds: ``if predicate: stage[...] = ...``.

    It is a condition on axes of this stage and on thread axes, e.g. ``tx.var.equal(0)``, which
    are bound in this stage, around it, or in a stage attached to it. A reduction that is spread
    over threads takes it for its result, which all of them share; so does what reads it.

    >>> A = te.placeholder((4,), name="A")
    >>> B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    >>> s = te.create_schedule(B.op)
    >>> print(lower(s, [A, B]))
    def main(A: float32[4], B: float32[4]):
        for i in range(4):
            B[i] = A[i] + float32(1.0)
    >>> s[B].set_store_predicate(B.op.axis[0].var % 2 == 1)
    >>> print(lower(s, [A, B]))
    def main(A: float32[4], B: float32[4]):
        for i in range(4):
            if i - i // 2 * 2 == 1:
                B[i] = A[i] + float32(1.0)

    Raises:
        ScheduleError: for what is no condition.
    """
    request = f"set_store_predicate({stage.op.name}, ...)"
    check_loops(stage, request)
    check_not_in_scan(stage, request)
    if isinstance(stage.op, ExternOp):
        raise ScheduleError(
            request, f"{stage.op.name} is extern: its own code stores", "write the condition in it"
        )
    try:
        condition = ops.convert(predicate)
    except WhetError as error:
        raise ScheduleError(request, f"a {type(predicate).__name__} is no condition") from error
    if condition.dtype != "bool":
        raise ScheduleError(
            request,
            f"a {condition.dtype} expression is no condition",
            "compare it: tx.var.equal(0)",
        )
    stage.store_predicate = plain(condition, request)
    stage.record("set_store_predicate", condition)
