"""The primitives that attach a stage: at the root, at a loop, inlined, or ahead of the calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whet.compiler.errors import ScheduleError
from whet.compiler.te.lang.relations import AHEAD, AT, INLINE, ROOT
from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.te.primitives.checks import (
    Request,
    check_computed,
    check_loops,
    leaf_index,
    loops_of,
    on_stage,
)
from whet.compiler.te.primitives.groups import check_groups, moved
from whet.compiler.te.primitives.prepack import ahead_stages, check_ahead
from whet.compiler.te.primitives.scans import check_not_in_scan, check_not_scan
from whet.compiler.tir.expr import IterVar

if TYPE_CHECKING:
    from whet.compiler.te.stage import Stage


@on_stage
def compute_at(stage: Stage, parent: Stage, scope: IterVar) -> None:
    """Compute this stage inside the loop ``scope`` of ``parent``, as much as is needed there.

    >>> A = te.placeholder((18,), name="A")
    >>> T = te.compute((18,), lambda i: A[i] * 2.0, name="T")
    >>> U = te.compute((16,), lambda i: T[i] + T[i + 2], name="U")
    >>> s = te.create_schedule(U.op)
    >>> print(lower(s, [A, U]))
    def main(A: float32[18], U: float32[16]):
        T = allocate([18], "float32", "global")
        for i in range(18):
            T[i] = A[i] * float32(2.0)
        for i_1 in range(16):
            U[i_1] = T[i_1] + T[i_1 + 2]
    >>> outer, inner = s[U].split(U.op.axis[0], factor=4)
    >>> s[T].compute_at(s[U], outer)
    >>> print(lower(s, [A, U]))
    def main(A: float32[18], U: float32[16]):
        for i_outer in range(4):
            T = allocate([6], "float32", "global")
            for i in range(6):
                T[i] = A[i + i_outer * 4] * float32(2.0)
            for i_inner in range(4):
                U[i_outer * 4 + i_inner] = T[i_inner] + T[i_inner + 2]

    A loop that is split or fused afterwards is followed: to the inner loop of a split, and to the
    fused loop where it was the inner one of two. A group (``create_group``) moves with all its
    stages; one of them alone moves to loops of the same group.

    Raises:
        ScheduleError: if ``scope`` is no loop of ``parent``, or ``parent`` does not read this
            stage; for a ``te.scan``; for a ``parent`` outside of the stage's group.
    """
    request = Request(stage, "compute_at", parent, scope)
    if not isinstance(parent, type(stage)):
        raise ScheduleError(
            request,
            f"a {type(parent).__name__} is not a stage",
            "name the stage: s[tensor]",
        )
    if parent.schedule is not stage.schedule or parent is stage:
        raise ScheduleError(request, "the parent must be another stage of the same schedule")
    check_loops(parent, request)
    leaf_index(parent, scope, request)
    _check_moved(stage, parent, request)
    stage.put((AT, parent, scope))
    request.record()


def _check_moved(stage: Stage, parent: Stage, request: Request) -> None:
    """Refuse a stage or a group that cannot be computed inside loops of ``parent``."""
    members = moved(stage)
    if stage in members:
        check_computed(stage, request)
    for member in members:
        if member.is_output:
            raise ScheduleError(
                request,
                f"{member.op.name} is an output, which is computed at the root",
                loops_of(member),
            )
        check_not_in_scan(member, request)
        check_not_scan(member, parent, request)
    check_groups(stage, parent, members, request)
    if not any(stage.schedule.feeds(x, parent) for x in members):
        readers = [r for x in members for r in stage.schedule.consumers(x) if r not in members]
        raise ScheduleError(
            request,
            f"{parent.op.name} does not consume {stage.op.name}",
            f"stages that read {stage.op.name}: "
            + (", ".join(dict.fromkeys(r.op.name for r in readers)) or "none"),
        )


@on_stage
def compute_inline(stage: Stage) -> None:
    """Put the computation into whatever reads it.

    >>> A = te.placeholder((18,), name="A")
    >>> T = te.compute((18,), lambda i: A[i] * 2.0, name="T")
    >>> U = te.compute((16,), lambda i: T[i] + T[i + 2], name="U")
    >>> s = te.create_schedule(U.op)
    >>> print(lower(s, [A, U]))
    def main(A: float32[18], U: float32[16]):
        T = allocate([18], "float32", "global")
        for i in range(18):
            T[i] = A[i] * float32(2.0)
        for i_1 in range(16):
            U[i_1] = T[i_1] + T[i_1 + 2]
    >>> s[T].compute_inline()
    >>> print(lower(s, [A, U]))
    def main(A: float32[18], U: float32[16]):
        for i in range(16):
            U[i] = A[i] * float32(2.0) + A[i + 2] * float32(2.0)

    Raises:
        ScheduleError: for an input, an output or a reduction.
    """
    request = Request(stage, "compute_inline")
    check_computed(stage, request)
    if not isinstance(stage.op, ComputeOp):
        raise ScheduleError(request, f"{stage.op.name} has no expression to put elsewhere")
    if stage.op.reduce_axis:
        raise ScheduleError(request, "a reduction cannot be inlined", "use compute_at")
    if stage.is_output:
        raise ScheduleError(request, f"{stage.op.name} is an output and must be stored")
    check_not_in_scan(stage, request)
    _detach(request, INLINE)


@on_stage
def compute_root(stage: Stage) -> None:
    """Compute this stage on its own, before whatever reads it: undo attaching and inlining.

    >>> A = te.placeholder((18,), name="A")
    >>> T = te.compute((18,), lambda i: A[i] * 2.0, name="T")
    >>> U = te.compute((16,), lambda i: T[i] + T[i + 2], name="U")
    >>> s = te.create_schedule(U.op)
    >>> print(lower(s, [A, U]))
    def main(A: float32[18], U: float32[16]):
        T = allocate([18], "float32", "global")
        for i in range(18):
            T[i] = A[i] * float32(2.0)
        for i_1 in range(16):
            U[i_1] = T[i_1] + T[i_1 + 2]
    >>> s[T].compute_inline()
    >>> s[T].compute_root()
    >>> print(lower(s, [A, U]))
    def main(A: float32[18], U: float32[16]):
        T = allocate([18], "float32", "global")
        for i in range(18):
            T[i] = A[i] * float32(2.0)
        for i_1 in range(16):
            U[i_1] = T[i_1] + T[i_1 + 2]

    A stage of a group is computed where the group is.

    Raises:
        ScheduleError: for an input.
    """
    request = Request(stage, "compute_root")
    if stage in moved(stage):
        check_computed(stage, request)
    _detach(request, ROOT)


@on_stage
def compute_ahead(stage: Stage) -> None:
    """Compute this stage once, ahead of the kernel's calls, which take its result as an input.

    For what is made of weights alone, such as a packed layout: what does not change from call
    to call. The stage, and what is computed for it alone, becomes a function of its own, named
    like the kernel with ``_ahead``; in the kernel's arguments the stage stands where the input
    stood that it is computed from (the first of several). ``Module.pack_weights`` calls it.

    >>> W = te.placeholder((8, 3), name="W")
    >>> x = te.placeholder((3, 8), name="x")
    >>> P = te.compute((3, 8), lambda i, j: W[j, i], name="P")
    >>> y = te.compute((3, 8), lambda i, j: P[i, j] * x[i, j], name="y")
    >>> s = te.create_schedule(y.op)
    >>> print(lower(s, [W, x, y]))
    def main(W: float32[24], x: float32[24], y: float32[24]):
        P = allocate([24], "float32", "global")
        for i in range(3):
            for j in range(8):
                P[i * 8 + j] = W[j * 3 + i]
        for i_1 in range(3):
            for j_1 in range(8):
                y[i_1 * 8 + j_1] = P[i_1 * 8 + j_1] * x[i_1 * 8 + j_1]
    >>> s[P].compute_ahead()
    >>> print(lower(s, [W, x, y]))
    def main(P: float32[24], x: float32[24], y: float32[24]):
        for i in range(3):
            for j in range(8):
                y[i * 8 + j] = P[i * 8 + j] * x[i * 8 + j]
    <BLANKLINE>
    def main_ahead(W: float32[24], P: float32[24]):
        for i in range(3):
            for j in range(8):
                P[i * 8 + j] = W[j * 3 + i]

    The kernel's calls are what is measured: neither a cost nor a count of operations holds what
    is computed ahead.

    Raises:
        ScheduleError: for an input, an output, or several results at once; for a stage that is
            computed from no input, from another that is computed ahead, or from an input that
            the kernel or another stage computed ahead reads, too.
    """
    request = Request(stage, "compute_ahead")
    check_computed(stage, request)
    check_ahead(stage.schedule, [*ahead_stages(stage.schedule), stage])
    _detach(request, AHEAD)


def _detach(request: Request, kind: int) -> None:
    request.stage.detach(kind)
    request.record()
