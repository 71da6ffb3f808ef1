"""The primitives that say how a loop is run: vectorize, unroll, bind, pragma, prefetch, ..."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ScheduleError, Text
from whet.compiler.te.bounds.threads import thread_of
from whet.compiler.te.lang.relations import PragmaKey
from whet.compiler.te.lang.scopes import is_thread, is_virtual
from whet.compiler.te.lang.sizes import as_int, plain
from whet.compiler.te.lang.tensor import Tensor
from whet.compiler.te.primitives.checks import (
    Request,
    argument_text,
    check_loops,
    in_one_nest,
    leaf_index,
    loops_of,
    on_stage,
    unannotated_leaf,
)
from whet.compiler.te.primitives.scans import check_not_ordered, check_not_step
from whet.compiler.tir.expr import (
    COMM_REDUCE,
    PARALLELIZED,
    UNROLLED,
    VECTORIZED,
    IntImm,
    IterVar,
    PrimExpr,
)
from whet.compiler.tir.ops import ops
from whet.compiler.tir.tracing.traced import whole

if TYPE_CHECKING:
    from whet.compiler.te.stage import Stage


@on_stage
def vectorize(stage: Stage, axis: IterVar) -> None:
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
    _annotate(stage, "vectorize", axis, VECTORIZED)


@on_stage
def unroll(stage: Stage, axis: IterVar) -> None:
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
    _annotate(stage, "unroll", axis, UNROLLED)


@on_stage
def parallel(stage: Stage, axis: IterVar, grain: int | None = None) -> None:
    """Share the steps of a data-parallel loop among threads.

    Each thread gets an even share of consecutive steps. With a ``grain``, it gets that many
    steps at a time and comes back for more: for steps that differ in length, or threads that
    do. A loop of no more steps than its grain is run by the calling thread alone.

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

    Args:
        axis: a loop of this stage.
        grain: how many steps one hand-out takes; None: an even share for each thread.

    Raises:
        ScheduleError: for a loop of a reduction, or a grain that is no number from 1 on.
    """
    _annotate(stage, "parallel", axis, PARALLELIZED, **({} if grain is None else {"grain": grain}))


@on_stage
def bind(stage: Stage, ivar: IterVar, thread_ivar: IterVar) -> None:
    """Run the steps of a loop in the threads of a GPU: ``ivar = thread_ivar``.

    By meaning it stays a loop; a processor without such threads runs its steps in order. A
    thread axis that has an extent may be longer than the loop: what is beyond does nothing.

    >>> A = te.placeholder((10,), name="A")
    >>> B = te.compute((10,), lambda i: A[i] + 1.0, name="B")
    >>> s = te.create_schedule(B.op)
    >>> print(lower(s, [A, B]))
    def main(A: float32[10], B: float32[10]):
        for i in range(10):
            B[i] = A[i] + float32(1.0)
    >>> s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    >>> print(lower(s, [A, B]))
    def main(A: float32[10], B: float32[10]):
        for i in thread_binding(10, "threadIdx.x"):
            B[i] = A[i] + float32(1.0)

    Args:
        ivar: a loop of this stage.
        thread_ivar: what ``te.thread_axis`` gave.

    Raises:
        ScheduleError: if the loop or the thread is taken already.
    """
    request = Request(stage, "bind", ivar, thread_ivar)
    unannotated_leaf(stage, ivar, request, pragmas=True)
    check_not_step(stage, ivar, request)
    if not is_thread(thread_ivar):
        raise ScheduleError(
            request,
            f"{argument_text(thread_ivar)} is not a thread axis",
            'make one: te.thread_axis("threadIdx.x")',
        )
    for leaf in stage.leaf_iter_vars:
        other = thread_of(stage, leaf)
        if other is None or not in_one_nest(stage, (leaf, ivar)):
            continue
        tag = thread_ivar.thread_tag
        if other is thread_ivar or (other.thread_tag == tag and not is_virtual(tag)):
            raise ScheduleError(
                request, f"{leaf.var.name} is bound to {tag} already", loops_of(stage)
            )
    stage.iter_var_attrs[ivar] = replace(stage.attr(ivar), bind_thread=thread_ivar)
    request.record()


@on_stage
def env_threads(stage: Stage, threads: IterVar | Sequence[IterVar]) -> None:
    """Run the whole stage in each thread of some thread axes, which need extents.

    >>> A = te.placeholder((4,), name="A")
    >>> B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    >>> s = te.create_schedule(B.op)
    >>> print(lower(s, [A, B]))
    def main(A: float32[4], B: float32[4]):
        for i in range(4):
            B[i] = A[i] + float32(1.0)
    >>> s[B].env_threads(te.thread_axis((0, 2), "threadIdx.x"))
    >>> print(lower(s, [A, B]))
    def main(A: float32[4], B: float32[4]):
        for threadIdx_x in thread_binding(2, "threadIdx.x"):
            for i in range(4):
                B[i] = A[i] + float32(1.0)

    Raises:
        ScheduleError: for what is no thread axis, has no extent or is named twice, or if the
            stage has such threads already.
    """
    given: list[Any] = list(threads) if isinstance(threads, (list, tuple)) else [threads]
    request = Request(stage, "env_threads", given)
    check_loops(stage, request)
    if stage.launch_threads:
        raise ScheduleError(request, "the stage has such threads already")
    if not given:
        raise ScheduleError(request, "give at least one thread axis")
    for t in given:
        if not is_thread(t):
            raise ScheduleError(
                request,
                f"{argument_text(t)} is not a thread axis",
                'make one: te.thread_axis((0, 32), "threadIdx.x")',
            )
        if t.dom is None:
            raise ScheduleError(
                request,
                f"{argument_text(t)} has no extent",
                'give it one: te.thread_axis((0, 32), "threadIdx.x")',
            )
    tags = [t.thread_tag for t in given if not is_virtual(t.thread_tag)]
    if len(set(tags)) != len(tags) or len({id(t) for t in given}) != len(given):
        raise ScheduleError(request, "a thread is named twice")
    stage.launch_threads = given
    request.record()


@on_stage
def pragma(stage: Stage, var: IterVar, pragma_type: str, pragma_value: Any = None) -> None:
    """Say something of a loop to passes and generators: an attribute ``pragma_<type>``.

    ``auto_unroll_max_step`` (a number of steps) and ``unroll_explicit`` (whether to write them
    out) unroll the loops inside, ``unroll`` and ``vectorize`` are the primitives of their names, as
    in TVM, ``debug_skip_region`` leaves the loop out, ``import_llvm`` (LLVM
    text, target ``llvm``) links functions into the module, for ``call_extern``; a name that nobody
    knows is kept and does nothing.

    >>> A = te.placeholder((4,), name="A")
    >>> B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    >>> s = te.create_schedule(B.op)
    >>> print(lower(s, [A, B]))
    def main(A: float32[4], B: float32[4]):
        for i in range(4):
            B[i] = A[i] + float32(1.0)
    >>> s[B].pragma(B.op.axis[0], "my_hint", 3)
    >>> print(lower(s, [A, B]))
    def main(A: float32[4], B: float32[4]):
        attr(i, 'pragma_my_hint', 3)
        for i in range(4):
            B[i] = A[i] + float32(1.0)

    Args:
        var: a loop of this stage.
        pragma_type: its name, an identifier.
        pragma_value: a number, a string, an expression or nothing (1).

    Raises:
        ScheduleError: for another axis, name or value, and ``import_c``.
    """
    request = Request(stage, "pragma", var, pragma_type, pragma_value)
    check_loops(stage, request)
    leaf_index(stage, var, request)
    if not isinstance(pragma_type, str) or not pragma_type.isidentifier():
        raise ScheduleError(request, "the type of a pragma is a name", loops_of(stage))
    if pragma_type == "import_c":
        raise ScheduleError(
            request,
            "C is not compiled here",
            'pragma "import_llvm" takes what `clang -S -emit-llvm` makes of it',
        )
    value = _pragma_value(pragma_type, pragma_value, request)
    if pragma_type in ("unroll", "vectorize"):
        getattr(stage, pragma_type)(var)
        return
    old = stage.attr(var)
    stage.iter_var_attrs[var] = replace(
        old,
        pragma_keys=(*old.pragma_keys, PragmaKey(pragma_type)),
        pragma_values=(*old.pragma_values, value),
    )
    stage.record("pragma", var, pragma_type, value)


@on_stage
def prefetch(stage: Stage, tensor: Tensor, var: IterVar, offset: int, spread: bool = False) -> None:
    """Fetch into the caches what a loop reads of a tensor ``offset`` iterations later.

    Each iteration begins with a prefetch of each cache line, 64 bytes, of the region that its
    body, stages attached there included, will read: one for every 64 bytes from the region's first
    element on, and one more where it may begin within a line and reach another. It is a hint, and
    nothing is read: past the loop's end it names what lies beyond, which is harmless. For tensors
    in memory; registers and shared memory are at hand, and a GPU does without. Of use where the
    hardware cannot guess what comes next: short rows far apart, or many streams.

    >>> A = te.placeholder((9, 100), name="A")
    >>> k = te.reduce_axis((0, 9), name="k")
    >>> B = te.compute((20,), lambda j: te.sum(A[k, j], axis=k), name="B")
    >>> s = te.create_schedule(B.op)
    >>> s[B].reorder(k, B.op.axis[0])
    >>> print(lower(s, [A, B]))
    def main(A: float32[900], B: float32[20]):
        for j_init in range(20):
            B[j_init] = float32(0.0)
        for k in range(9):
            for j in range(20):
                B[j] = B[j] + A[k * 100 + j]
    >>> s[B].prefetch(A, k, 2)
    >>> print(lower(s, [A, B]))
    def main(A: float32[900], B: float32[20]):
        for j_init in range(20):
            B[j_init] = float32(0.0)
        for k in range(9):
            for line in unrolled(2):
                prefetch(tvm_access_ptr(A[k * 100 + line * 16 + 200], 1, 1), 0, 3, 1)
            for j in range(20):
                B[j] = B[j] + A[k * 100 + j]

    Args:
        tensor: of this schedule; the loop's body must read it.
        var: a loop of this stage.
        offset: how many iterations ahead; 0: what this one reads.
        spread: evenly over the loops within: a large region, one run in memory, comes meanwhile.

    Raises:
        ScheduleError: for another tensor or loop, or an offset below 0.
    """
    request = Request(stage, "prefetch", tensor, var, offset)
    check_loops(stage, request)
    leaf_index(stage, var, request)
    if not isinstance(tensor, Tensor) or tensor.op not in stage.schedule.stage_map:
        raise ScheduleError(
            request,
            f"{argument_text(tensor)} is not a tensor of this schedule",
            f"{stage.op.name} reads {', '.join(t.name for t in stage.op.input_tensors) or 'none'}",
        )
    ahead = as_int(offset, "offset", 0, request)
    old = stage.attr(var)
    stage.iter_var_attrs[var] = replace(
        old,
        prefetch_data=(*old.prefetch_data, tensor),
        prefetch_offset=(*old.prefetch_offset, ahead),
        prefetch_spread=(*old.prefetch_spread, bool(spread)),
    )
    stage.record("prefetch", tensor, var, ahead, *([True] if spread else []))


def _annotate(stage: Stage, name: str, axis: IterVar, kind: int, **options: Any) -> None:
    request = Request(stage, name, axis, **options)
    if options:
        options["grain"] = as_int(options["grain"], "grain", 1, request)
    check_loops(stage, request)
    leaf_index(stage, axis, request)
    if kind != UNROLLED:
        check_not_ordered(stage, axis, request)
        check_not_step(stage, axis, request)
    if axis.iter_type == COMM_REDUCE and kind != UNROLLED:
        raise ScheduleError(
            request, "the steps of a reduction depend on each other", loops_of(stage)
        )
    attr = stage.attr(axis)
    if attr.tensor_intrin is not None:
        raise ScheduleError(
            request, f"{argument_text(axis)} is tensorized already", loops_of(stage)
        )
    if tag := attr.thread_tag:
        raise ScheduleError(request, f"{argument_text(axis)} is bound to {tag}", loops_of(stage))
    stage.iter_var_attrs[axis] = replace(attr, iter_type=kind, grain=options.get("grain", 0))
    stage.record(name, axis, **options)


_NUMBERS = {"auto_unroll_max_step": "a number of steps", "unroll_explicit": "True or False"}


def _pragma_value(name: str, value: Any, request: Text) -> PrimExpr | None:
    """The value as an expression; those of pragmas that do something are checked."""
    if isinstance(value, PrimExpr):
        out: PrimExpr | None = plain(value, request)
    elif value is None:
        out = None
    elif isinstance(value, (bool, str)):
        out = ops.convert(value)
    elif isinstance(value, numbers.Integral):
        out = ops.const(whole(value))
    elif isinstance(value, float):
        out = ops.const(value)
    else:
        raise ScheduleError(request, f"a {type(value).__name__} is not a pragma's value")
    if name in _NUMBERS and not (isinstance(out, IntImm) and out.value >= 0):
        raise ScheduleError(request, f"its value must be {_NUMBERS[name]}")
    return out
