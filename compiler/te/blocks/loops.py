"""The primitives of a ``tir.Schedule`` that make loops and say how they run."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ScheduleError
from whet.compiler.te.blocks.handles import BlockRV, LoopRV
from whet.compiler.te.blocks.record import primitive
from whet.compiler.te.blocks.state import FunctionState
from whet.compiler.te.lang.axes import thread_axis
from whet.compiler.te.lang.scopes import is_virtual
from whet.compiler.te.lang.tensor_intrin import TensorIntrin
from whet.compiler.te.stage import Stage
from whet.compiler.tir.expr import IterVar

if TYPE_CHECKING:
    from whet.compiler.te.blocks.schedule import Schedule


@primitive
def split(
    self: Schedule,
    loop: LoopRV,
    factors: Sequence[int | None],
    preserve_unit_iters: bool = True,
) -> list[LoopRV]:
    """Split a loop into several, outermost first; one factor may be None.

    >>> A = te.placeholder((10,), name="A")
    >>> B = te.compute((10,), lambda i: A[i] + 1.0, name="B")
    >>> sch = tir.Schedule(te.create_prim_func([A, B]))
    >>> (i,) = sch.get_loops(sch.get_block("B"))
    >>> print(loops(sch))
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)
    >>> outer, inner = sch.split(i, factors=[None, 4])
    >>> print(loops(sch))
    for i_0, i_1 in T.grid(3, 4):
        with T.block("B"):
            vi = T.axis.spatial(10, i_0 * 4 + i_1)
            T.where(i_0 * 4 + i_1 < 10)

    Returns:
        The new loops.

    Raises:
        ScheduleError: for factors that do not cover the loop, or a loop that says how it runs.
    """
    state, stage, axis = self.loop(loop)
    sizes = _sizes(f"split({state.loop_name(axis)}, {factors})", factors, state.extent(stage, axis))
    name, rest, made = state.loop_name(axis), axis, []
    of = state.schedule.stage_map[stage.op]
    for k in range(1, len(sizes)):
        outer, rest = of.split(rest, factor=prod(sizes[k:]))
        made.append(outer)
    made.append(rest)
    for k, a in enumerate(made):
        state.view.names[a] = f"{name}_{k}"
    _moved(state, stage, axis, rest)
    return [self.new_loop(state, stage, a) for a in made]


def _sizes(request: str, factors: Any, extent: int | None) -> list[int]:
    """The factors behind the first one, which follows from the extent, with it as it was given."""
    many = list(factors) if isinstance(factors, (list, tuple)) else []
    known = [f for f in many if f is not None]
    if not many or len(many) - len(known) > 1:
        raise ScheduleError(request, "factors are a list of numbers, of which one may be None")
    if any(isinstance(f, bool) or not isinstance(f, int) or f < 1 for f in known):
        raise ScheduleError(request, "a factor is a number, at least 1")
    if extent is None:
        if many[0] is not None:
            raise ScheduleError(
                request, "the loop's length is a symbol", "let the first factor be None"
            )
        return [0, *known]
    if len(known) == len(many) and prod(known) < extent:
        raise ScheduleError(
            request,
            f"the product of the factors, {prod(known)}, is less than the {extent} steps",
            "let one factor be None",
        )
    missing = max(-(-extent // max(prod(known), 1)), 1)
    return [missing if f is None else int(f) for f in many]


def _moved(state: FunctionState, stage: Stage, old: IterVar, new: IterVar) -> None:
    """Let what was computed in a loop be computed in the one that took its place."""
    for s in state.attached(stage, old):
        s.compute_at(stage, new)
    notes = state.view.notes.pop(old, None)
    if notes:
        state.view.notes[new] = notes


@primitive
def fuse(self: Schedule, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
    """Fuse loops that stand in each other.

    >>> A = te.placeholder((4, 6), name="A")
    >>> B = te.compute((4, 6), lambda i, j: A[i, j] + 1.0, name="B")
    >>> sch = tir.Schedule(te.create_prim_func([A, B]))
    >>> i, j = sch.get_loops(sch.get_block("B"))
    >>> print(loops(sch))
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
    >>> fused = sch.fuse(i, j)
    >>> print(loops(sch))
    for i_j_fused in range(24):
        with T.block("B"):
            vi = T.axis.spatial(4, i_j_fused // 6)
            vj = T.axis.spatial(6, i_j_fused - i_j_fused // 6 * 6)

    Raises:
        ScheduleError: for loops of two blocks, that do not stand in each other, or of which one is
            reduced and another is not.
    """
    state, stage, axes = self.loops_of_one(f"fuse({_names(loops)})", loops)
    name = "_".join([*map(state.loop_name, axes), "fused"])
    fused = stage.fuse(*axes)
    state.view.names[fused] = name
    _moved(state, stage, axes[-1], fused)
    return self.new_loop(state, stage, fused)


@primitive
def reorder(self: Schedule, *loops: LoopRV) -> None:
    """Put the loops of a block in the order given.

    >>> A = te.placeholder((4, 6), name="A")
    >>> B = te.compute((4, 6), lambda i, j: A[i, j] + 1.0, name="B")
    >>> sch = tir.Schedule(te.create_prim_func([A, B]))
    >>> i, j = sch.get_loops(sch.get_block("B"))
    >>> print(loops(sch))
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
    >>> sch.reorder(j, i)
    >>> print(loops(sch))
    for j, i in T.grid(6, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])

    Raises:
        ScheduleError: for loops of two blocks, or one that is named twice.
    """
    _, stage, axes = self.loops_of_one(f"reorder({_names(loops)})", loops)
    stage.reorder(*axes)


def _names(loops: Sequence[Any]) -> str:
    return ", ".join(getattr(x, "name", repr(x)) for x in loops)


@primitive
def parallel(self: Schedule, loop: LoopRV) -> None:
    """Share the steps of a loop among threads.

    >>> A = te.placeholder((10,), name="A")
    >>> B = te.compute((10,), lambda i: A[i] + 1.0, name="B")
    >>> sch = tir.Schedule(te.create_prim_func([A, B]))
    >>> (i,) = sch.get_loops(sch.get_block("B"))
    >>> print(loops(sch))
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)
    >>> sch.parallel(i)
    >>> print(loops(sch))
    for i in T.parallel(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)

    Raises:
        ScheduleError: for a loop of a reduction.
    """
    _, stage, axis = self.loop(loop)
    stage.parallel(axis)


@primitive
def vectorize(self: Schedule, loop: LoopRV) -> None:
    """Run a loop of constant length as vector operations.

    >>> A = te.placeholder((10,), name="A")
    >>> B = te.compute((10,), lambda i: A[i] + 1.0, name="B")
    >>> sch = tir.Schedule(te.create_prim_func([A, B]))
    >>> (i,) = sch.get_loops(sch.get_block("B"))
    >>> print(loops(sch))
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)
    >>> sch.vectorize(i)
    >>> print(loops(sch))
    for i in T.vectorized(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)

    Raises:
        ScheduleError: for a loop of a reduction.
    """
    _, stage, axis = self.loop(loop)
    stage.vectorize(axis)


@primitive
def unroll(self: Schedule, loop: LoopRV) -> None:
    """Write a loop of constant length out.

    >>> A = te.placeholder((10,), name="A")
    >>> B = te.compute((10,), lambda i: A[i] + 1.0, name="B")
    >>> sch = tir.Schedule(te.create_prim_func([A, B]))
    >>> (i,) = sch.get_loops(sch.get_block("B"))
    >>> print(loops(sch))
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)
    >>> sch.unroll(i)
    >>> print(loops(sch))
    for i in T.unroll(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)

    Raises:
        ScheduleError: for what is no loop any more.
    """
    _, stage, axis = self.loop(loop)
    stage.unroll(axis)


@primitive
def bind(self: Schedule, loop: LoopRV, thread_axis: str) -> None:
    """Run the steps of a loop in the threads of a GPU.

    >>> A = te.placeholder((10,), name="A")
    >>> B = te.compute((10,), lambda i: A[i] + 1.0, name="B")
    >>> sch = tir.Schedule(te.create_prim_func([A, B]))
    >>> (i,) = sch.get_loops(sch.get_block("B"))
    >>> print(loops(sch))
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)
    >>> sch.bind(i, "threadIdx.x")
    >>> print(loops(sch))
    for i in T.thread_binding(10, thread="threadIdx.x"):
        with T.block("B"):
            vi = T.axis.spatial(10, i)

    Args:
        loop: the loop.
        thread_axis: ``"blockIdx.x"``, ``"threadIdx.x"``, ``"vthread.x"`` and so on.

    Raises:
        ScheduleError: if the loop or the thread is taken already.
    """
    _, stage, axis = self.loop(loop)
    stage.bind(axis, self.thread(thread_axis))


def thread(self: Schedule, tag: str) -> IterVar:
    """The axis of a GPU's threads: one for each tag, but for virtual threads."""
    short = "vthread" if str(tag).startswith("vthread") else tag
    if short not in self.threads or is_virtual(short):
        self.threads[short] = thread_axis(short)
    return self.threads[short]


def _pragma(key: str) -> str:
    return key.removeprefix("pragma_") if key.startswith("pragma_") else ""


@primitive
def annotate(self: Schedule, block_or_loop: BlockRV | LoopRV, ann_key: str, ann_val: Any) -> None:
    """Note something at a block or a loop; a key ``pragma_...`` of a loop is a pragma.

    >>> A = te.placeholder((10,), name="A")
    >>> B = te.compute((10,), lambda i: A[i] + 1.0, name="B")
    >>> sch = tir.Schedule(te.create_prim_func([A, B]))
    >>> (i,) = sch.get_loops(sch.get_block("B"))
    >>> print(loops(sch))
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)
    >>> sch.annotate(i, "pragma_auto_unroll_max_step", 16)
    >>> print(loops(sch))
    for i in T.serial(10, annotations={"pragma_auto_unroll_max_step": 16}):
        with T.block("B"):
            vi = T.axis.spatial(10, i)

    Raises:
        ScheduleError: for a pragma's value that it cannot have.
    """
    if isinstance(block_or_loop, LoopRV):
        state, stage, axis = self.loop(block_or_loop)
        if _pragma(ann_key):
            stage.pragma(axis, _pragma(ann_key), ann_val)
        else:
            state.view.notes.setdefault(axis, {})[ann_key] = ann_val
        return
    state, stage = self.block(block_or_loop)
    if ann_key == "double_buffer_scope":
        stage.double_buffer()
    state.view.notes.setdefault(stage.origin_op, {})[ann_key] = ann_val


@primitive
def unannotate(self: Schedule, block_or_loop: BlockRV | LoopRV, ann_key: str) -> None:
    """Take back what ``annotate`` noted.

    >>> A = te.placeholder((10,), name="A")
    >>> B = te.compute((10,), lambda i: A[i] + 1.0, name="B")
    >>> sch = tir.Schedule(te.create_prim_func([A, B]))
    >>> (i,) = sch.get_loops(sch.get_block("B"))
    >>> sch.annotate(i, "hint", 16)
    >>> print(loops(sch))
    for i in T.serial(10, annotations={"hint": 16}):
        with T.block("B"):
            vi = T.axis.spatial(10, i)
    >>> sch.unannotate(i, "hint")
    >>> print(loops(sch))
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)

    Raises:
        ScheduleError: for what was not noted, and for pragmas, which a schedule keeps.
    """
    key: Any
    if isinstance(block_or_loop, LoopRV):
        state, _, key = self.loop(block_or_loop)
    else:
        state, stage = self.block(block_or_loop)
        key = stage.origin_op
    request = f"unannotate({block_or_loop.name}, {ann_key!r})"
    if _pragma(ann_key) or ann_key == "double_buffer_scope":
        raise ScheduleError(
            request, "a schedule keeps it once it is said", "leave annotate out, or take a copy"
        )
    if ann_key not in state.view.said(key):
        known = ", ".join(state.view.said(key)) or "none"
        raise ScheduleError(request, "there is no such note", f"notes: {known}")
    del state.view.notes[key][ann_key]


@primitive
def tensorize(self: Schedule, block_or_loop: BlockRV | LoopRV, tensor_intrin: TensorIntrin) -> None:
    """Let an instruction compute a loop and all inside of it.

    Args:
        block_or_loop: a loop.
        tensor_intrin: what ``te.decl_tensor_intrin`` gave.

    Raises:
        ScheduleError: for a block, and for the name of an intrinsic of TensorIR.
    """
    request = f"tensorize({block_or_loop.name})"
    if isinstance(block_or_loop, BlockRV):
        raise ScheduleError(
            request, "blocks are not made larger (blockize)", "give the outermost loop of the tile"
        )
    if not isinstance(tensor_intrin, TensorIntrin):
        raise ScheduleError(
            request,
            f"{tensor_intrin!r} is no intrinsic of te",
            "te.decl_tensor_intrin makes one",
        )
    _, stage, axis = self.loop(block_or_loop)
    stage.tensorize(axis, tensor_intrin)
