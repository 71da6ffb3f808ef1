"""What one step of a reduction stores: the values it begins with, and one more value combined.

A reducer of tuples reads all old values before it stores any:

    argmax.v0 = select(B.v1[i] >= A[i, k], B.v0[i], k)
    argmax.v1 = max(B.v1[i], A[i, k])
    B.v0[i] = argmax.v0
    B.v1[i] = argmax.v1
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from whet.compiler.errors import LowerError
from whet.compiler.te.lang.compute import groups
from whet.compiler.te.lang.tensor import nodes
from whet.compiler.te.lower.infer_bound import Bounds
from whet.compiler.te.stage import Stage
from whet.compiler.tir import expr as e
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.stmt import BufferStore, IfThenElse, LetStmt, Stmt, seq
from whet.compiler.tir.visit.rewrite import substitute

Read = Callable[[e.PrimExpr], e.PrimExpr]
Place = tuple[e.PrimExpr, ...]


def check_begin(
    bounds: Bounds, stage: Stage, first_reduce: int, late: dict[Stage, e.IterVar]
) -> None:
    """What a reduction begins with is read before its loops: it must be there by then.

    Args:
        first_reduce: the place of its first loop over a reduction axis.
        late: the stages that are attached at this loop or inside it, and where.

    Raises:
        LowerError: if ``init`` reads one of them.
    """
    if not late:
        return
    first = [x for b in bounds.bodies[stage] if isinstance(b, e.Reduce) for x in b.init]
    for n in nodes(first):
        s = bounds.schedule.stage_map[n.producer.op] if type(n) is e.ProducerLoad else None
        if s is not None and s in late:
            raise LowerError(
                f"compute_at({s.op.name}, {stage.op.name}, {late[s].name})",
                f"the init of {stage.op.name} reads {s.op.name} before the loop over "
                f"{stage.leaf_iter_vars[first_reduce].name} begins",
                f"attach {s.op.name} at a loop outside of the reduction, or at the root",
            )


def begin(
    bodies: Sequence[e.PrimExpr],
    buffers: Sequence[Buffer],
    target: Place,
    read: Read,
    identity: bool = False,
) -> Stmt:
    """Store what each output begins with: its ``init``, or the ``identity``."""
    stores = []
    for body, buffer in zip(bodies, buffers):
        assert isinstance(body, e.Reduce)
        init = () if identity else body.init
        first = (init or body.combiner.identity)[body.value_index]
        stores.append(BufferStore(buffer, read(first), target))
    return seq(*stores)


def update(
    bodies: Sequence[e.PrimExpr], buffers: Sequence[Buffer], target: Place, read: Read
) -> Stmt:
    """Combine each output with the values of one step.

    Args:
        bodies: a reduction for each output.
        buffers: where the outputs are kept.
        target: the element.
        read: from an expression over tensors to one over buffers and loops.
    """
    return seq(*[_combine(bodies, buffers, target, read, group) for group in groups(bodies)])


def merge(
    bodies: Sequence[e.PrimExpr],
    buffers: Sequence[Buffer],
    target: Place,
    other: Place,
    read: Read,
) -> Stmt:
    """Combine each output's element ``target`` with its element ``other``, into ``target``."""
    out = []
    for group in groups(bodies):
        first = bodies[group[0]]
        assert isinstance(first, e.Reduce)
        c, kept = first.combiner, _kept(bodies, buffers, group)
        values: dict[e.Var, e.PrimExpr] = {}
        for v, buffer in kept.items():
            values[c.lhs[v]] = e.BufferLoad(buffer, target, buffer.dtype)
            values[c.rhs[v]] = e.BufferLoad(buffer, other, buffer.dtype)
        results = {v: substitute(read(c.result[v]), values) for v in sorted(kept)}
        out.append(_stores(c.name, kept, results, target))
    return seq(*out)


def result(
    bodies: Sequence[e.PrimExpr],
    buffers: Sequence[Buffer],
    target: Place,
    sums: Sequence[Buffer],
    place: Place,
    read: Read,
) -> Stmt:
    """Store what ``sums`` has at ``place``, combined with each output's ``init`` if it has one."""
    out = []
    for group in groups(bodies):
        first = bodies[group[0]]
        assert isinstance(first, e.Reduce)
        c, kept = first.combiner, _kept(bodies, sums, group)
        loads: dict[int, e.PrimExpr] = {v: e.BufferLoad(b, place, b.dtype) for v, b in kept.items()}
        if first.init:
            begin = {c.lhs[v]: read(first.init[v]) for v in kept}
            begin.update({c.rhs[v]: x for v, x in loads.items()})
            loads = {v: substitute(read(c.result[v]), begin) for v in sorted(kept)}
        out.append(_stores(c.name, _kept(bodies, buffers, group), loads, target))
    return seq(*out)


def _kept(
    bodies: Sequence[e.PrimExpr], buffers: Sequence[Buffer], group: Sequence[int]
) -> dict[int, Buffer]:
    """Component of a reduction -> where it is kept."""
    out: dict[int, Buffer] = {}
    for k in group:
        body = bodies[k]
        assert isinstance(body, e.Reduce)
        out[body.value_index] = buffers[k]
    return out


def _combine(
    bodies: Sequence[e.PrimExpr],
    buffers: Sequence[Buffer],
    target: Place,
    read: Read,
    group: Sequence[int],
) -> Stmt:
    first = bodies[group[0]]
    assert isinstance(first, e.Reduce)
    c = first.combiner
    parts = _kept(bodies, buffers, group)
    values: dict[e.Var, e.PrimExpr] = {}
    for v, buffer in parts.items():
        values[c.lhs[v]] = e.BufferLoad(buffer, target, buffer.dtype)
        values[c.rhs[v]] = read(first.source[v])
    results = {v: substitute(read(c.result[v]), values) for v in sorted(parts)}
    out = _stores(c.name, parts, results, target)
    condition = read(first.condition)
    if isinstance(condition, e.IntImm) and condition.value:
        return out
    return IfThenElse(condition, out, likely=True)


def _stores(
    name: str, parts: dict[int, Buffer], results: dict[int, e.PrimExpr], target: Place
) -> Stmt:
    if len(parts) == 1:
        ((v, buffer),) = parts.items()
        return BufferStore(buffer, results[v], target)
    new = {v: e.Var(f"{name}.v{v}", x.dtype) for v, x in results.items()}
    out = seq(*[BufferStore(parts[v], new[v], target) for v in results])
    for v in reversed(results):
        out = LetStmt(new[v], results[v], out)
    return out
