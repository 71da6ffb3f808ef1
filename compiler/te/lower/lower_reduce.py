"""Stores of a reduction: its first values, and one more value combined.

A reducer of tuples reads all values once, and before it stores any:

    argmax.x0, argmax.x1, argmax.y0, argmax.y1 = B.v0[i], B.v1[i], k, A[i, k]
    argmax.v0 = select(argmax.x1 >= argmax.y1, argmax.x0, argmax.y0)
    argmax.v1 = max(argmax.x1, argmax.y1)
    B.v0[i] = argmax.v0
    B.v1[i] = argmax.v1

A name keeps an `and` of comparisons from being a branch around what it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from whet.compiler.arith import Affine
from whet.compiler.errors import LowerError
from whet.compiler.te.bounds.infer_bound import Bounds
from whet.compiler.te.lang.compute import groups
from whet.compiler.te.lower.ordered_steps import ordered_result
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import (
    COMM_REDUCE,
    BufferLoad,
    IntImm,
    IterVar,
    PrimExpr,
    ProducerLoad,
    Reduce,
    Var,
)
from whet.compiler.tir.stmt import UNROLLED, BufferStore, IfThenElse, LetStmt, Stmt, seq
from whet.compiler.tir.visit.rewrite import nodes, substitute

if TYPE_CHECKING:
    from whet.compiler.te.stage import Stage

Read = Callable[[PrimExpr], PrimExpr]
Place = tuple[PrimExpr, ...]

_LARGEST_TREE = 16  # values, which registers hold


def check_begin(bounds: Bounds, stage: Stage, late: dict[Stage, IterVar]) -> None:
    """The init value must be available before the reduction loops.

    Args:
        late: the stages that are attached at this loop or inside it, and where.

    Raises:
        LowerError: if ``init`` reads one of them.
    """
    if not late:
        return
    first = [x for b in bounds.bodies[stage] if isinstance(b, Reduce) for x in b.init]
    for n in nodes(first):
        s = bounds.schedule.stage_map[n.producer.op] if type(n) is ProducerLoad else None
        if s is not None and s in late:
            raise LowerError(
                f"compute_at({s.op.name}, {stage.op.name}, {late[s].name})",
                f"the init of {stage.op.name} reads {s.op.name} before the loop over "
                f"{stage.leaf_iter_vars[stage.first_reduce].name} begins",
                f"attach {s.op.name} at a loop outside of the reduction, or at the root",
            )


@dataclass(frozen=True)
class Outputs:
    """A stage's reductions and where their values are.

    Attributes:
        bodies: a reduction for each output.
        buffers: where the outputs are kept.
        read: from an expression over tensors to one over buffers and loops.
    """

    bodies: Sequence[PrimExpr]
    buffers: Sequence[Buffer]
    read: Read

    def groups(self) -> Iterator[tuple[Reduce, dict[int, Buffer]]]:
        """One reduction of each tuple, with the buffers of its components by their numbers."""
        for group in groups(self.bodies):
            reductions = [_reduction(self.bodies[k]) for k in group]
            yield (
                reductions[0],
                {r.value_index: self.buffers[k] for r, k in zip(reductions, group)},
            )


def _reduction(body: PrimExpr) -> Reduce:
    assert isinstance(body, Reduce)
    return body


def begin(out: Outputs, target: Place, identity: bool = False) -> Stmt:
    """Store the first value of each output: its ``init``, or the ``identity``."""
    stores = []
    for body, buffer in zip(map(_reduction, out.bodies), out.buffers):
        init = () if identity else body.init
        first = (init or body.combiner.identity)[body.value_index]
        stores.append(BufferStore(buffer, out.read(first), target))
    return seq(*stores)


def update(out: Outputs, target: Place, bounds: Bounds, stage: Stage) -> Stmt:
    """Combine each output's element ``target`` with the values of one step."""
    steps = []
    for first, kept in out.groups():
        lets: list[tuple[Var, PrimExpr]] = []
        loads = _named(first, "x", _loads(kept, target), lets)
        source = {v: out.read(first.source[v]) for v in kept}
        result = ordered_result(bounds, stage, first, source) if len(kept) > 1 else None
        values = _named(first, "y", source, lets)
        step = _store(first, kept, target, _combined(out, first, loads, values, result))
        step = _under(lets, step)
        condition = out.read(first.condition)
        if not (isinstance(condition, IntImm) and condition.value):
            step = IfThenElse(condition, step, likely=True)
        steps.append(step)
    return seq(*steps)


def may_be_tree(stage: Stage, step: IterVar, extent: Affine, inner: Sequence[IterVar]) -> bool:
    """Whether a reduction's only loop is unrolled and short, with no condition at its stores."""
    unrolled = stage.attr(step).kind == UNROLLED and extent.is_const
    if not unrolled or not 2 <= extent.const <= _LARGEST_TREE:
        return False
    return stage.store_predicate is None and all(a.iter_type != COMM_REDUCE for a in inner)


def tree(out: Outputs, target: Place, step: Var, count: int) -> Stmt | None:
    """Store the combination of all steps of one loop, two neighbours at a time.

    No step waits for the one before: of 8 values, three combinations follow each other. Only what
    is read as it is: a product and its sum are one instruction, of which a chain needs fewer.

    Args:
        step: the loop's variable.
        count: of its steps.

    Returns:
        None where a value is more than a read, or a reduction has first values of its own.
    """
    stores = []
    for first, kept in out.groups():
        source = {v: out.read(first.source[v]) for v in kept}
        condition = out.read(first.condition)
        plain = all(isinstance(x, BufferLoad) for x in source.values())
        if first.init or not plain or not (isinstance(condition, IntImm) and condition.value):
            return None
        lets: list[tuple[Var, PrimExpr]] = []
        level: list[Values] = []
        for k in range(count):
            at = {step: IntImm(step.dtype, k)}
            values = {v: substitute(x, at) for v, x in source.items()}
            level.append(_named(first, "x", values, lets))
        while len(level) > 1:
            both = [
                _combined(out, first, level[k], level[k + 1]) for k in range(0, len(level) - 1, 2)
            ]
            rest = level[len(both) * 2 :]
            level = [_named(first, "x", values, lets) for values in both] + rest
        stores.append(_under(lets, _store(first, kept, target, level[0])))
    return seq(*stores)


def _under(lets: list[tuple[Var, PrimExpr]], body: Stmt) -> Stmt:
    for var, value in reversed(lets):
        body = LetStmt(var, value, body)
    return body


def merge(out: Outputs, target: Place, other: Place) -> Stmt:
    """Combine each output's element ``target`` with its element ``other``, into ``target``."""
    return seq(*[
        _store(
            first, kept, target,
            _combined(out, first, _loads(kept, target), _loads(kept, other)),
        )
        for first, kept in out.groups()
    ])  # fmt: skip


def result(out: Outputs, target: Place, sums: Sequence[Buffer], place: Place) -> Stmt:
    """Store what ``sums`` has at ``place``, combined with each output's ``init`` if it has one."""
    stores = []
    partial = replace(out, buffers=sums)
    for (first, kept), (_, parts) in zip(out.groups(), partial.groups()):
        values = _loads(parts, place)
        if first.init:
            values = _combined(out, first, {v: out.read(first.init[v]) for v in parts}, values)
        stores.append(_store(first, kept, target, values))
    return seq(*stores)


Values = dict[int, PrimExpr]
"""Component of a reduction -> its value."""


def _loads(kept: dict[int, Buffer], place: Place) -> Values:
    return {v: BufferLoad(b, place, b.dtype) for v, b in kept.items()}


def _named(first: Reduce, side: str, values: Values, lets: list[tuple[Var, PrimExpr]]) -> Values:
    """The values of a tuple by names, which are appended to ``lets``; one alone as it is."""
    if len(values) == 1:
        return values
    names: Values = {}
    for v, value in values.items():
        var = Var(f"{first.combiner.name}.{side}{v}", value.dtype)
        lets.append((var, value))
        names[v] = var
    return names


def _combined(
    out: Outputs,
    first: Reduce,
    left: Values,
    right: Values,
    result: Sequence[PrimExpr] | None = None,
) -> Values:
    """The combination of two values of each component; by ``result`` where it is given."""
    c = first.combiner
    values: dict[Var, PrimExpr] = {c.lhs[v]: x for v, x in left.items()}
    values.update({c.rhs[v]: x for v, x in right.items()})
    combine = c.result if result is None else result
    return {v: substitute(out.read(combine[v]), values) for v in sorted(left)}


def _store(first: Reduce, kept: dict[int, Buffer], target: Place, values: Values) -> Stmt:
    """Store the components; several are all computed before the first of them is stored."""
    if len(kept) == 1:
        ((v, buffer),) = kept.items()
        return BufferStore(buffer, values[v], target)
    new = {v: Var(f"{first.combiner.name}.v{v}", x.dtype) for v, x in values.items()}
    stores = seq(*[BufferStore(kept[v], new[v], target) for v in values])
    for v in reversed(values):
        stores = LetStmt(new[v], values[v], stores)
    return stores
