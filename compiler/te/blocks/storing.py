"""The primitives of a ``tir.Schedule`` about what is kept where: caches, scopes, partial sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ScheduleError
from whet.compiler.te.blocks.handles import BlockRV, LoopRV
from whet.compiler.te.blocks.record import primitive
from whet.compiler.te.blocks.state import FunctionState
from whet.compiler.te.lang.tensor import Operation, Tensor
from whet.compiler.te.primitives.transform_layout import lay_out_memory
from whet.compiler.te.stage import Stage
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import IterVar
from whet.compiler.tir.layouts.index_map import IndexMap

if TYPE_CHECKING:
    from whet.compiler.te.blocks.schedule import Schedule


@primitive
def cache_read(
    self: Schedule,
    block: BlockRV,
    read_buffer_index: int | str | Buffer,
    storage_scope: str,
    consumer_blocks: Sequence[BlockRV] | None = None,
) -> BlockRV:
    """Copy what a block reads, and let it be read from the copy.

    >>> A = te.placeholder((16,), name="A")
    >>> U = te.compute((16,), lambda i: A[i] + 1.0, name="U")
    >>> sch = tir.Schedule(te.create_prim_func([A, U]))
    >>> print(loops(sch))
    for i in range(16):
        with T.block("U"):
            vi = T.axis.spatial(16, i)
    >>> copy = sch.cache_read(sch.get_block("U"), 0, "local")
    >>> print(loops(sch))
    for ax0 in range(16):
        with T.block("A_local"):
            vax0 = T.axis.spatial(16, ax0)
    for i in range(16):
        with T.block("U"):
            vi = T.axis.spatial(16, i)

    Args:
        block: the block.
        read_buffer_index: which of ``T.reads``, or the buffer or its name.
        storage_scope: where the copy is kept.
        consumer_blocks: those that read the copy; all that read the buffer by default.

    Returns:
        The block that copies.

    Raises:
        ScheduleError: if the block does not read it, or there is no such scope.
    """
    state, stage = self.block(block)
    tensor = _of(state, block, state.reads(stage), read_buffer_index, "reads")
    readers = state.readers(tensor)
    if consumer_blocks:
        readers = [self.block(b)[1] for b in consumer_blocks]
    copy = state.schedule.cache_read(tensor, storage_scope, [s.op for s in readers])
    return self.new_block(state, state.stage(copy.op))


def _of(state: FunctionState, block: BlockRV, many: list[Tensor], which: Any, verb: str) -> Tensor:
    """One of a block's tensors, by its place, its buffer or its name."""
    if isinstance(which, (Buffer, str)):
        name = which.name if isinstance(which, Buffer) else which
        found = [t for t in many if t.name.replace(".", "_") == name]
    else:
        place = which if isinstance(which, int) else -1
        found = many[place : place + 1] if place >= 0 else []
    if not found:
        raise ScheduleError(
            f"the buffer {which} of {block.name}",
            f"the block {verb} {len(many)}",
            ", ".join(f"{k}: {t.name.replace('.', '_')}" for k, t in enumerate(many)),
        )
    return found[0]


@primitive
def cache_write(
    self: Schedule,
    block: BlockRV,
    write_buffer_index: int | str | Buffer,
    storage_scope: str,
) -> BlockRV:
    """Let a block write to a cache, which another block copies to its place.

    >>> A = te.placeholder((16,), name="A")
    >>> U = te.compute((16,), lambda i: A[i] + 1.0, name="U")
    >>> sch = tir.Schedule(te.create_prim_func([A, U]))
    >>> print(loops(sch))
    for i in range(16):
        with T.block("U"):
            vi = T.axis.spatial(16, i)
    >>> copy = sch.cache_write(sch.get_block("U"), 0, "local")
    >>> print(loops(sch))
    for i in range(16):
        with T.block("U"):
            vi = T.axis.spatial(16, i)
    for i in range(16):
        with T.block("U_local"):
            vi = T.axis.spatial(16, i)

    Returns:
        The block that copies.

    Raises:
        ScheduleError: if there is no such scope, or the block's loops were changed already.
    """
    state, stage = self.block(block)
    name, old = state.names()[stage], stage.op
    outputs = [Tensor(old, k) for k in range(old.num_outputs)]
    tensor = _of(state, block, outputs, write_buffer_index, "writes")
    axes = [*old.axis, *old.reduce_axis]
    if stage.relations or stage.leaf_iter_vars != axes or stage.iter_var_attrs:
        raise ScheduleError(
            f"cache_write({name}, {tensor.name})",
            "its loops were changed, and the cache would have other axes",
            "call cache_write first: it gives the block that copies, and the loops stay",
        )
    made = state.schedule.cache_write(outputs, storage_scope)
    new = made[0].op
    origin = stage.origin_op
    state.view.blocks[new] = name
    state.view.blocks[origin] = f"{name}_{storage_scope.replace('.', '_')}"
    twins: dict[IterVar, tuple[Operation, IterVar]] = {}
    for a, b in zip(axes, (*new.axis, *new.reduce_axis)):
        twins[a] = new, b
        state.view.names[b] = state.loop_name(a)
    self.rename(state, {origin: new}, twins)
    if origin in state.view.decomposed:
        state.view.decomposed.add(new)
        state.view.decomposed.discard(origin)
    if origin in state.view.notes:
        state.view.notes[new] = state.view.notes.pop(origin)
    return self.new_block(state, stage)


@primitive
def rfactor(self: Schedule, loop: LoopRV, factor_axis: int = 0) -> BlockRV:
    """Reduce in two blocks: over all loops but one, then over that one.

    >>> A = te.placeholder((64,), name="A")
    >>> k = te.reduce_axis((0, 64), name="k")
    >>> B = te.compute((1,), lambda i: te.sum(A[k], axis=k), name="B")
    >>> sch = tir.Schedule(te.create_prim_func([A, B]))
    >>> i, k = sch.get_loops(sch.get_block("B"))
    >>> ko, ki = sch.split(k, factors=[None, 8])
    >>> print(loops(sch))
    for i, k_0, k_1 in T.grid(1, 8, 8):
        with T.block("B"):
            vi = T.axis.spatial(1, i)
            vk = T.axis.reduce(64, k_0 * 8 + k_1)
    >>> partial = sch.rfactor(ki)
    >>> print(loops(sch))
    for k_inner, i, k_outer in T.grid(8, 1, 8):
        with T.block("B_rf"):
            vk_inner, vi, vk_outer = T.axis.remap("SSR", [k_inner, i, k_outer])
    for i, k_inner_v in T.grid(1, 8):
        with T.block("B"):
            vi, vk_inner_v = T.axis.remap("SR", [i, k_inner_v])

    Args:
        loop: a reduced loop.
        factor_axis: its place among the axes of the first block.

    Returns:
        The block of partial results; the other one keeps its name. Both begin with plain loops.

    Raises:
        ScheduleError: if the loop is not reduced, or the place does not exist.
    """
    state, stage, axis = self.loop(loop)
    made = state.schedule.rfactor(stage.op.output(0), axis, factor_axis)
    first = made[0] if isinstance(made, list) else made
    state.view.decomposed.discard(stage.origin_op)
    return self.new_block(state, state.stage(first.op))


@primitive
def decompose_reduction(self: Schedule, block: BlockRV, loop: LoopRV) -> BlockRV:
    """Set the first values of a reduction in a block of its own, before the reduction begins.

    >>> A = te.placeholder((16, 8), name="A")
    >>> k = te.reduce_axis((0, 8), name="k")
    >>> S = te.compute((16,), lambda i: te.sum(A[i, k], axis=k), name="S")
    >>> sch = tir.Schedule(te.create_prim_func([A, S]))
    >>> i, k = sch.get_loops(sch.get_block("S"))
    >>> print(loops(sch))
    for i, k in T.grid(16, 8):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
    >>> init = sch.decompose_reduction(sch.get_block("S"), k)
    >>> print(loops(sch))
    for i in range(16):
        with T.block("S_init"):
            vi = T.axis.spatial(16, i)
        for k in range(8):
            with T.block("S_update"):
                vi, vk = T.axis.remap("SR", [i, k])

    Args:
        block: a reduction.
        loop: its outermost reduced loop.

    Returns:
        The block of the first values.

    Raises:
        ScheduleError: for another block or loop.
    """
    state, stage = self.block(block)
    _, owner, axis = self.loop(loop)
    name = state.names()[stage]
    request = f"decompose_reduction({name}, {loop.name})"
    if not stage.op.reduce_axis or stage.first_reduce == len(stage.leaf_iter_vars):
        raise ScheduleError(request, f"{name} is no reduction")
    if stage.origin_op in state.view.decomposed:
        raise ScheduleError(request, f"{name} was decomposed already")
    first = stage.leaf_iter_vars[stage.first_reduce]
    if owner is not stage or axis is not first:
        raise ScheduleError(
            request,
            f"first values are set just before {state.loop_name(first)}, the outermost reduced "
            f"loop of {name}",
            f"name that loop; reorder moves it\nloops: {_loops(state, stage)}",
        )
    state.view.decomposed.add(stage.origin_op)
    return self.new_block(state, stage, "init")


def _loops(state: FunctionState, stage: Stage) -> str:
    return ", ".join(state.loop_name(a) for _, a in state.loops(stage))


@primitive
def set_scope(
    self: Schedule, block: BlockRV, buffer_index: int | str | Buffer, storage_scope: str
) -> None:
    """Keep what a block writes in another storage scope.

    Raises:
        ScheduleError: for a result, or an unknown scope.
    """
    state, stage = self.block(block)
    outputs = [Tensor(stage.op, k) for k in range(stage.op.num_outputs)]
    _of(state, block, outputs, buffer_index, "writes")
    if stage.is_output:
        raise ScheduleError(
            f"set_scope({state.names()[stage]})", "it writes an argument, which the caller keeps"
        )
    stage.set_scope(storage_scope)


@primitive
def transform_layout(
    self: Schedule,
    block: BlockRV,
    buffer: tuple[str, int] | str | Buffer,
    index_map: IndexMap | Callable[..., Any],
    pad_value: None = None,
    *,
    assume_injective_transform: bool = False,
) -> None:
    """Keep the elements of a buffer where a map says; all loops stay as they are.

    >>> A = te.placeholder((6, 4), name="A")
    >>> U = te.compute((6, 4), lambda i, j: A[i, j] + 1.0, name="U")
    >>> sch = tir.Schedule(te.create_prim_func([A, U]))
    >>> print(sch.mod["main"])  # doctest: +ELLIPSIS
    @T.prim_func
    def main(A: T.Buffer((6, 4), "float32"), U: T.Buffer((6, 4), "float32")):
    ...
                U[vi, vj] = A[vi, vj] + T.float32(1)
    >>> sch.transform_layout(sch.get_block("U"), ("write", 0), lambda i, j: [j, i // 2, i % 2])
    >>> print(sch.mod["main"])  # doctest: +ELLIPSIS
    @T.prim_func
    def main(A: T.Buffer((6, 4), "float32"), U: T.Buffer((4, 3, 2), "float32")):
    ...
                U[vj, vi // 2, vi % 2] = A[vi, vj] + T.float32(1)

    Args:
        block: the block; a parameter's shape becomes that of its layout.
        buffer: ``("write", 0)`` or ``("read", 1)``, the buffer, or its name.
        index_map: from an element's indices to those of its place.
        pad_value: None: nothing is stored in the rest of a block.
        assume_injective_transform: maps are checked in any case.

    Raises:
        ScheduleError: for a map that is none, another buffer, or a value for the rest.
    """
    state, stage = self.block(block)
    if pad_value is not None:
        raise ScheduleError(
            f"transform_layout({state.names()[stage]}, pad_value=...)",
            "nothing is stored in the rest of a block",
            "leave it out: what reads the buffer does not read the rest",
        )
    written = [Tensor(stage.op, k) for k in range(stage.op.num_outputs)]
    if isinstance(buffer, (list, tuple)):
        if len(buffer) != 2 or buffer[0] not in ("read", "write"):
            raise ScheduleError(
                f"transform_layout({state.names()[stage]}, {buffer!r})",
                "it names no buffer",
                '("write", 0) or ("read", 0)',
            )
        many = written if buffer[0] == "write" else state.reads(stage)
        tensor = _of(state, block, many, buffer[1], f"{buffer[0]}s")
    else:
        tensor = _of(state, block, [*written, *state.reads(stage)], buffer, "accesses")
    lay_out_memory(state.stage(tensor.op), index_map)


@primitive
def rolling_buffer(self: Schedule, block: BlockRV, write_buffer_index: int) -> None:
    """Compute of a block in a loop of another only what the loop's steps before have not.

    The text has a condition and whole buffers; the program keeps what one step reads, in a circle.

    >>> A = te.placeholder((18,), name="A")
    >>> T = te.compute((18,), lambda i: A[i] * 2.0, name="T")
    >>> U = te.compute((16,), lambda i: T[i] + T[i + 1] + T[i + 2], name="U")
    >>> sch = tir.Schedule(te.create_prim_func([A, U]))
    >>> sch.compute_at(sch.get_block("T"), sch.get_loops(sch.get_block("U"))[0])
    >>> print(loops(sch))
    for i in range(16):
        for i_1 in range(3):
            with T.block("T"):
                vi = T.axis.spatial(18, i + i_1)
        with T.block("U"):
            vi = T.axis.spatial(16, i)
    >>> sch.rolling_buffer(sch.get_block("T"), 0)
    >>> print(loops(sch))
    for i in range(16):
        for i_1 in range(3):
            with T.block("T"):
                vi = T.axis.spatial(18, i + i_1)
                T.where(T.max(i * -2 + 3, 1) * -1 - i_1 + 3 < 1)
        with T.block("U"):
            vi = T.axis.spatial(16, i)

    Args:
        block: is computed at a loop of a block that reads it.
        write_buffer_index: which of ``T.writes``.

    Raises:
        ScheduleError: for a result; where the loop's steps need nothing in common, move along
            several dimensions, or do not follow each other.
    """
    state, stage = self.block(block)
    outputs = [Tensor(stage.op, k) for k in range(stage.op.num_outputs)]
    _of(state, block, outputs, write_buffer_index, "writes")
    stage.rolling_buffer()


@primitive
def storage_align(
    self: Schedule, block: BlockRV, buffer_index: int, axis: int, factor: int, offset: int
) -> None:
    """Let the steps of a dimension of what a block writes be ``factor * n + offset`` elements.

    Raises:
        ScheduleError: for another dimension, and for a result.
    """
    state, stage = self.block(block)
    outputs = [Tensor(stage.op, k) for k in range(stage.op.num_outputs)]
    written = _of(state, block, outputs, buffer_index, "writes")
    buffer_index = next(k for k, t in enumerate(outputs) if t is written)
    rank = len(stage.op.axis)
    if not all(isinstance(x, int) for x in (axis, factor, offset)):
        raise ScheduleError(
            f"storage_align({state.names()[stage]}, axis={axis!r}, {factor!r}, {offset!r})",
            "a dimension, its factor and its offset are integers",
        )
    place = axis + rank if axis < 0 else axis
    if not 0 <= place < rank:
        raise ScheduleError(
            f"storage_align({state.names()[stage]}, axis={axis})", f"it has {rank} dimensions"
        )
    stage.storage_align(stage.op.axis[place], factor, offset)
    notes = state.view.notes.setdefault(stage.origin_op, {})
    many = [x for x in notes.get("buffer_dim_align", []) if x[1] != place]
    notes["buffer_dim_align"] = [*many, [buffer_index, place, factor, offset]]
