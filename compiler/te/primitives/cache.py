"""The primitives that copy a tensor: cache_read before it is read, cache_write after it is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whet.compiler.arith import Analyzer
from whet.compiler.errors import ScheduleError, Text
from whet.compiler.te.bounds.extents import (
    AffineSizes,
    axis_extents,
    map_down,
    pass_up,
    touched,
)
from whet.compiler.te.bounds.ragged import renamed_domains
from whet.compiler.te.lang.axes import axis_over
from whet.compiler.te.lang.graph import made_by
from whet.compiler.te.lang.relations import with_guards
from whet.compiler.te.lang.tensor import ComputeOp, Tensor
from whet.compiler.te.primitives.checks import (
    Request,
    check_loops,
    check_scope,
    loops_of,
    on_schedule,
)
from whet.compiler.tir.expr import DATA_PAR, LT, IterVar, PrimExpr, ProducerLoad, Reduce, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import Rewriter, substitute

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule
    from whet.compiler.te.stage import Stage


@on_schedule
def cache_write(schedule: Schedule, tensor: Any, scope: str) -> Any:
    """Compute a tensor in ``scope`` first and copy it to its place afterwards.

    The cache has an axis for each data-parallel loop that the stage has by then: splits and
    reorders made before change the cache's layout. The stage that copies begins anew, with
    one loop an axis. All outputs of an operation are given together, in a list.

    >>> A = te.placeholder((4, 6), name="A")
    >>> k = te.reduce_axis((0, 6), name="k")
    >>> B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    >>> s = te.create_schedule(B.op)
    >>> print(lower(s, [A, B]))
    def main(A: float32[24], B: float32[4]):
        for i in range(4):
            B[i] = float32(0.0)
            B_acc = allocate([1], "float32", "local")
            B_acc[0] = B[i]
            for k in range(6):
                B_acc[0] = B_acc[0] + A[i * 6 + k]
            B[i] = B_acc[0]
    >>> cached = s.cache_write(B, "local")
    >>> print(lower(s, [A, B]))
    def main(A: float32[24], B: float32[4]):
        B_local = allocate([4], "float32", "local")
        for i_c in range(4):
            B_local[i_c] = float32(0.0)
            for k in range(6):
                B_local[i_c] = B_local[i_c] + A[i_c * 6 + k]
        for i in range(4):
            B[i] = B_local[i]

    Returns:
        The new tensor, whose stage does the computing; the old one's stage copies. A list of
        them for a list.

    Raises:
        ScheduleError: for an input, some of an operation's outputs, or a reduction that was
            split or fused already.
    """
    many = list(tensor) if isinstance(tensor, (list, tuple)) else [tensor]
    stage = _one_stage(schedule, many, f"cache_write({tensor!r})")
    old = _cacheable(stage, many, scope)
    cache, indices = (_relaid if stage.relations else _alike)(stage, old, scope)
    new = [Tensor(cache, k) for k in range(cache.num_outputs)]
    copy = replace(old, reduce_axis=(), body=tuple(t(*indices) for t in new))
    schedule.insert_stage(stage, cache, scope, stage)
    schedule.replace_op(stage, copy)
    out = [new[t.value_index] for t in many]
    schedule.record("cache_write", stage, (tensor, scope), {}, out, old)
    return out if isinstance(tensor, (list, tuple)) else out[0]


def _cacheable(stage: Stage, many: Sequence[Tensor], scope: str) -> ComputeOp:
    """The operation of a stage, if ``cache_write`` can copy all of its results."""
    old = stage.op
    request = Request(stage, "cache_write", scope)
    check_scope(scope, request)
    check_loops(stage, request)
    if not isinstance(old, ComputeOp):
        raise ScheduleError(request, f"{old.name} is no computation of elements")
    if sorted(t.value_index for t in many) != list(range(old.num_outputs)):
        raise ScheduleError(
            request,
            f"the operation has {old.num_outputs} outputs, and all are cached together",
            "give a list of them",
        )
    if any(not touched(a, stage.relations) <= {a} for a in old.reduce_axis):
        raise ScheduleError(
            request,
            "a reduction was split or fused already; only data axes can be by then",
            lambda: f"call cache_write first\n{loops_of(stage)()}",
        )
    return old


@on_schedule
def cache_read(schedule: Schedule, tensor: Tensor, scope: str, readers: Any) -> Tensor:
    """Copy a tensor to ``scope`` and let ``readers`` read the copy.

    >>> A = te.placeholder((4, 6), name="A")
    >>> k = te.reduce_axis((0, 6), name="k")
    >>> B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    >>> s = te.create_schedule(B.op)
    >>> print(lower(s, [A, B]))
    def main(A: float32[24], B: float32[4]):
        for i in range(4):
            B[i] = float32(0.0)
            B_acc = allocate([1], "float32", "local")
            B_acc[0] = B[i]
            for k in range(6):
                B_acc[0] = B_acc[0] + A[i * 6 + k]
            B[i] = B_acc[0]
    >>> cached = s.cache_read(A, "local", [B])
    >>> s[cached].compute_at(s[B], B.op.axis[0])
    >>> print(lower(s, [A, B]))
    def main(A: float32[24], B: float32[4]):
        for i in range(4):
            A_local = allocate([6], "float32", "local")
            for ax1 in range(6):
                A_local[ax1] = A[i * 6 + ax1]
            B[i] = float32(0.0)
            B_acc = allocate([1], "float32", "local")
            B_acc[0] = B[i]
            for k in range(6):
                B_acc[0] = B_acc[0] + A_local[k]
            B[i] = B_acc[0]

    Returns:
        The copy.

    Raises:
        ScheduleError: if a reader does not read the tensor, or there is no such scope.
    """
    stage = _one_stage(schedule, [tensor], f"cache_read({tensor!r})")
    request = Request(stage, "cache_read", scope)
    check_scope(scope, request)
    many = _readers(schedule, stage, readers, request)
    axis = tuple(axis_over(f"ax{k}", d) for k, d in enumerate(tensor.shape))
    body = (tensor(*[a.var for a in axis]),)
    copy = Tensor(ComputeOp(f"{tensor.name}.{scope}", axis, (), body), 0)
    first = min(many, key=schedule.stages.index)
    redirected = [_reading(schedule, r, stage, tensor.value_index, copy, request) for r in many]
    schedule.insert_stage(first, copy.op, scope, stage)
    for r, op in zip(many, redirected):
        schedule.replace_body(r, op)
    origins = [r.origin_op for r in many]
    schedule.record("cache_read", stage, (tensor, scope, origins), {}, (copy,))
    return copy


def _readers(schedule: Schedule, stage: Stage, readers: Any, request: Text) -> list[Stage]:
    """The stages of some readers, each of which reads ``stage``."""
    many = [schedule[r] for r in (readers if isinstance(readers, (list, tuple)) else [readers])]
    if not many:
        raise ScheduleError(request, "no reader was given")
    for r in many:
        if not any(x is stage for x in schedule.inputs(r)):
            raise ScheduleError(
                request,
                f"{r.op.name} does not read {stage.op.name}",
                "readers: " + ", ".join(s.op.name for s in schedule.consumers(stage)),
            )
    return many


def _reading(
    schedule: Schedule, reader: Stage, stage: Stage, index: int, copy: Tensor, request: Text
) -> ComputeOp:
    """A reader's operation, reading the copy."""
    op = reader.op
    if not isinstance(op, ComputeOp):
        raise ScheduleError(
            request,
            f"{op.name} {made_by(op)}, which reads whole tensors",
            "make the copy with te.compute and give it to it",
        )

    def redirect(n: ProducerLoad) -> PrimExpr:
        n = rewrite.children(n)
        same = schedule.stage_map[n.producer.op] is stage and n.producer.value_index == index
        return ProducerLoad(copy, n.indices, n.dtype) if same else n

    rewrite = Rewriter({ProducerLoad: redirect})
    return replace(op, body=tuple(rewrite(b) for b in op.body))


def _one_stage(schedule: Schedule, tensors: Sequence[Any], request: Text) -> Stage:
    """The stage that makes some tensors."""
    if not tensors or not all(isinstance(t, Tensor) for t in tensors):
        raise ScheduleError(request, "give a tensor, or a list of one operation's tensors")
    stages = [schedule[t] for t in tensors]
    if any(s is not stages[0] for s in stages):
        names = ", ".join(s.op.name for s in stages)
        raise ScheduleError(request, f"the tensors are made by several operations: {names}")
    return stages[0]


def _alike(stage: Stage, old: ComputeOp, scope: str) -> tuple[ComputeOp, list[PrimExpr]]:
    """The same for axes that are loops themselves, in whatever order they stand."""
    leaves = [a for a in stage.leaf_iter_vars if a.iter_type == DATA_PAR]
    axis = [IterVar(a.dom, Var(f"{a.var.name}.c", a.dtype), DATA_PAR) for a in leaves]
    renamed = {a.var: b.var for a, b in zip(leaves, axis)}
    over = renamed_domains(old, renamed)
    body = tuple(_over(substitute(b, renamed), over) for b in old.body)
    cache = ComputeOp(f"{old.name}.{scope}", tuple(axis), over, body, old.tag, old.attrs)
    return cache, [a.var for a in leaves]


def _over(body: PrimExpr, axes: tuple[IterVar, ...]) -> PrimExpr:
    return replace(body, axis=axes) if isinstance(body, Reduce) else body


def _relaid(stage: Stage, old: ComputeOp, scope: str) -> tuple[ComputeOp, list[PrimExpr]]:
    """The cache's operation, an axis a data loop; and where each element of the tensor is in it."""
    analyzer = Analyzer()
    for a in old.axis:
        analyzer.bind_loop(a.var, a.domain.min, a.domain.extent)
    sizes = AffineSizes(analyzer)
    extents = axis_extents(stage, sizes)
    places = {a: analyzer.affine(a.var) for a in old.axis}
    map_down(stage.relations, extents, places, sizes)

    leaves = [a for a in stage.leaf_iter_vars if a.iter_type == DATA_PAR]
    axis, values = [], {}
    for leaf in leaves:
        new = axis_over(f"{leaf.var.name}.c", extents[leaf].to_expr(leaf.dtype), leaf.dtype)
        axis.append(new)
        analyzer.bind_loop(new.var, new.domain.min, new.domain.extent)
        values[leaf] = analyzer.affine(new.var)
    guards = pass_up(with_guards(stage.relations), extents, values, sizes)
    inside = [ops.compare(LT, v.to_expr(), n.to_expr()) for v, n in guards]
    renamed: dict[Var, PrimExpr] = {a.var: values[a].to_expr(a.dtype) for a in old.axis}
    renamed.update({leaf.var: a.var for leaf, a in zip(leaves, axis)})
    over = renamed_domains(old, renamed)
    body = tuple(_over(_where(substitute(b, renamed), inside), over) for b in old.body)
    cache = ComputeOp(f"{old.name}.{scope}", tuple(axis), over, body, old.tag, old.attrs)
    own = set(old.axis)
    return cache, [a.var if a in own else places[a].to_expr(a.dtype) for a in leaves]


def _where(body: PrimExpr, inside: list[PrimExpr]) -> PrimExpr:
    """The value where an element exists; the cache has more elements than the tensor."""
    if not inside:
        return body
    if isinstance(body, Reduce):
        return replace(body, condition=ops.all_of(*inside, body.condition))
    return ops.if_then_else(ops.all_of(*inside), body, ops.const(0, body.dtype))
