"""Kernels that take sizes as numbers: for groups that no fixed blocks of rows compute.

Derived spaces are of known extents: a tile is chosen for the loop that it is of. Here tiles are a
vector wide and four deep, whatever the size, and a guard does what is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from whet.compiler import driver, te
from whet.compiler.abi.extent import Extent, evaluate, symbols_of
from whet.compiler.abi.extent_expr import from_expr, to_expr
from whet.compiler.errors import ArgumentError, WhetError
from whet.compiler.graph.fusion import Fused
from whet.compiler.graph.ir import Node, Value
from whet.compiler.graph.kinds import tensors_of
from whet.compiler.graph.symbolic.family import SymbolicGraph, buckets_of, integers
from whet.compiler.graph.symbolic.rows import sized
from whet.compiler.graph.symbolic.sizes import Sizes, is_open
from whet.compiler.runtime.module import Module
from whet.compiler.target import Target
from whet.compiler.te import ComputeOp, Operation, Schedule, Stage, Tensor
from whet.compiler.te.lang.graph import post_order
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import PrimExpr, ProducerLoad, Var
from whet.compiler.tir.visit.rewrite import nodes

_THREADS = 128  # of a block of a GPU
_DEPTH = 4  # rows of a contraction's tile


class NeedsNumbers(ArgumentError):
    """Groups of a model have no kernel for any size.

    Attributes:
        values: the names of what they make.
    """

    values: tuple[str, ...] = ()


def symbols_in(sizes: SymbolicGraph, group: Fused) -> tuple[str, ...]:
    """The symbols in a group's sizes, in the order of their ranges."""
    found: set[str] = set()
    for v in (*group.inputs, *(v for n in group.nodes for v in n.outputs)):
        found |= {s for d in sizes.shapes[v] for s in symbols_of(d)}
    for n in group.nodes:
        found |= {s for d in integers(sizes.attrs[n]) for s in symbols_of(d)}
    return tuple(s for s in sizes.ranges if s in found)


def open_kernel(
    sizes: SymbolicGraph, group: Fused, points: Sequence[Sizes], target: Target, name: str
) -> Module:
    """The kernel of a group; it takes the arrays, then the group's symbols as int64 numbers.

    Args:
        sizes: of the group's graph.
        group: one of its groups.
        points: sizes at which the kernel's own shapes are compared with the group's.
        target: canonical.
        name: its symbol.

    Raises:
        NeedsNumbers: an operator of the group needs sizes that are numbers.
    """
    symbols = symbols_in(sizes, group)
    by_name = {s: te.var(f"s{k}", "int64") for k, s in enumerate(symbols)}
    try:
        tensors, outputs = _computed(sizes, group, by_name)
        _check(sizes, group, outputs, {v: s for s, v in by_name.items()}, points)
        with target:
            schedule = scheduled(outputs, target)
            args: list[Any] = [*tensors, *outputs, *by_name.values()]
            return driver.build(schedule, args, target, name=name)
    except (WhetError, TypeError, ValueError, AttributeError) as error:
        origins = ", ".join(n.origin or n.operator for n in group.nodes)
        (why, *_) = str(error).splitlines() or [type(error).__name__]
        refused = NeedsNumbers(
            f"a kernel for any {', '.join(symbols)} of: {origins}",
            f"an operator needs sizes that are numbers: {why}",
            buckets_of({s: sizes.ranges[s] for s in symbols}),
        )
        refused.values = tuple(v.name for n in group.nodes for v in n.outputs)
        raise refused from error


def _computed(
    sizes: SymbolicGraph, group: Fused, symbols: Mapping[str, PrimExpr]
) -> tuple[list[Tensor], list[Tensor]]:
    """The inputs and outputs of a group as tensors of symbolic extents."""
    extents = {d for v in sizes.shapes for d in sizes.shapes[v] if is_open(d)}
    extents |= {d for n in group.nodes for d in integers(sizes.attrs[n]) if is_open(d)}
    known: dict[Extent, Any] = {}
    for d in extents:
        if symbols_of(d) <= symbols.keys():
            known[d] = to_expr(d, symbols)
    own, _ = sized(sizes, group, known)
    tensors = [te.placeholder(v.shape, v.dtype, f"p{k}") for k, v in enumerate(own.inputs)]
    made = tensors_of(_with_copies(own.nodes), dict(zip(own.inputs, tensors)))
    return tensors, [made[v] for v in own.outputs]


def _with_copies(given: Sequence[Node]) -> list[Node]:
    """Nodes whose products read no operand along the rows of what they make.

    ``a @ b.T`` reads both along memory: elements beside each other are sums of their own, without
    vectors. A transposed copy of ``b`` costs next to nothing beside that.
    """
    found: list[Node] = []
    for n in given:
        b = n.inputs[1] if n.attrs.get("transpose_b") else None
        if b is None:
            found.append(n)
            continue
        axes = [*range(len(b.shape) - 2), len(b.shape) - 1, len(b.shape) - 2]
        turned = Value(f"{b.name}.transposed", tuple(b.shape[k] for k in axes), b.dtype)
        found.append(Node("transpose", (b,), (turned,), {"axes": tuple(axes)}))
        inputs = (n.inputs[0], turned, *n.inputs[2:])
        found.append(replace(n, inputs=inputs, attrs={**n.attrs, "transpose_b": False}))
    return found


def _check(
    sizes: SymbolicGraph, group: Fused, made: Sequence[Tensor], names: Mapping[Any, str],
    points: Sequence[Sizes],
) -> None:  # fmt: skip
    """Compare the shapes that operators give with those of the model."""
    for v, t in zip(group.outputs, made):
        found = [from_expr(d, lambda x: names[x]) for d in t.shape]
        for point in points:
            shapes = [tuple(evaluate(d, point) for d in s) for s in (sizes.shapes[v], found)]
            if shapes[0] != shapes[1]:
                raise ArgumentError(f"{v}", f"at {dict(point)} it is {shapes[1]}, not {shapes[0]}")


def scheduled(outputs: Sequence[Tensor], target: Target) -> Schedule:
    """A schedule that holds for any extents.

    Args:
        outputs: what is computed.
        target: canonical.
    """
    s = te.create_schedule([t.op for t in outputs])
    ops = [op for op in post_order([t.op for t in outputs]) if isinstance(op, ComputeOp)]
    kept = {t.op for t in outputs}
    readers: dict[Operation, list[ComputeOp]] = {}
    for op in ops:
        for t in op.input_tensors:
            readers.setdefault(t.op, []).append(op)
    for op in ops:
        if op in kept:
            continue
        again = any(r.reduce_axis for r in readers.get(op, ())) and not _only_moves(op)
        if not op.reduce_axis and op.num_outputs == 1 and not again:
            s[op].compute_inline()
        else:
            kept.add(op)
    for op in ops:
        if op in kept and target.kind.row.has_threads:
            _threads(s[op], op)
        elif op in kept and op.axis:
            _loops(s[op], op, target)
    return s


def _only_moves(op: ComputeOp) -> bool:
    """True for a stage that copies elements, those along its last axis in the order of memory.

    A contraction that read through a transpose would have no vectors: it reads a copy.
    """
    reads = [b for b in op.body if isinstance(b, ProducerLoad) and b.indices]
    if not op.axis or len(reads) < len(op.body):
        return False
    last = op.axis[-1].var
    return all(any(x is last for x in nodes((b.indices[-1],))) for b in reads)


def _threads(stage: Stage, op: ComputeOp) -> None:
    """A GPU's thread for each element, which sums by itself."""
    every = list(op.axis)
    if not every:
        raise ArgumentError(f"{op.name}", "a result without dimensions has no threads")
    whole = stage.fuse(*every) if len(every) > 1 else every[0]
    block, thread = stage.split(whole, _THREADS)
    stage.bind(block, te.thread_axis("blockIdx.x"))
    stage.bind(thread, te.thread_axis("threadIdx.x"))


def _loops(stage: Stage, op: ComputeOp, target: Target) -> None:
    """Blocks of the outer axes for the threads, vectors along the last one."""
    axes = list(op.axis)
    lanes = max(1, target.vector_bytes // dt.itemsize(op.output_dtype(0)))
    last = axes.pop()
    contraction = op.reduce_axis and not _along(op, last.var)
    if (op.reduce_axis and not contraction) or op.output_dtype(0) == "bool" or op.num_outputs > 1:
        outer = [*axes, last]
    else:
        block, lane = stage.split(last, lanes)
        if contraction and axes:
            row, deep = stage.split(axes.pop(), _DEPTH)
            stage.reorder(*axes, row, block, *op.reduce_axis, deep, lane)
            stage.unroll(deep)
            outer = [*axes, row]
        else:
            if contraction:
                stage.reorder(block, *op.reduce_axis, lane)
            outer = [*axes, block]
        stage.vectorize(lane)
    if target.num_threads != 1 and outer:
        stage.parallel(stage.fuse(*outer) if len(outer) > 1 else outer[0])


def _along(op: ComputeOp, last: Var) -> bool:
    """True for a reduction along memory: what it reads does not move with its last axis there."""
    reads = [n for n in nodes(op.body) if type(n) is ProducerLoad and n.indices]
    return not any(any(x is last for x in nodes((n.indices[-1],))) for n in reads)
