"""Stores of a reduction: its first values, and one more value combined.

A reducer of tuples reads all old values before it stores any:

    argmax.v0 = select(B.v1[i] >= A[i, k], B.v0[i], k)
    argmax.v1 = max(B.v1[i], A[i, k])
    B.v0[i] = argmax.v0
    B.v1[i] = argmax.v1
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from whet.compiler.errors import LowerError
from whet.compiler.te.lang.compute import groups
from whet.compiler.te.lower.infer_bound import Bounds
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, IntImm, IterVar, PrimExpr, ProducerLoad, Reduce, Var
from whet.compiler.tir.stmt import BufferStore, IfThenElse, LetStmt, Stmt, seq
from whet.compiler.tir.visit.rewrite import nodes, substitute

if TYPE_CHECKING:
    from whet.compiler.te.stage import Stage

Read = Callable[[PrimExpr], PrimExpr]
Place = tuple[PrimExpr, ...]


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


def update(out: Outputs, target: Place) -> Stmt:
    """Combine each output's element ``target`` with the values of one step."""
    steps = []
    for first, kept in out.groups():
        loads, values = _loads(kept, target), {v: out.read(first.source[v]) for v in kept}
        step = _store(first, kept, target, _combined(out, first, loads, values))
        condition = out.read(first.condition)
        if not (isinstance(condition, IntImm) and condition.value):
            step = IfThenElse(condition, step, likely=True)
        steps.append(step)
    return seq(*steps)


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


def _combined(out: Outputs, first: Reduce, left: Values, right: Values) -> Values:
    """The combination of two values of each component."""
    c = first.combiner
    values: dict[Var, PrimExpr] = {c.lhs[v]: x for v, x in left.items()}
    values.update({c.rhs[v]: x for v, x in right.items()})
    return {v: substitute(out.read(c.result[v]), values) for v in sorted(left)}


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
