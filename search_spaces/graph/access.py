"""The reads of a stage: each index as an affine form of the stage's axes, if it is one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.te.lang.tensor import ComputeOp, Operation, Tensor
from whet.compiler.tir.expr import (
    Add,
    Cast,
    FloorDiv,
    IntImm,
    IterVar,
    Mul,
    PrimExpr,
    ProducerLoad,
    Sub,
    Var,
)
from whet.compiler.tir.visit.rewrite import Rewriter, nodes


@dataclass(frozen=True)
class Access:
    """One read of a tensor.

    Attributes:
        tensor: what is read.
        indices: for each dimension the affine form of its index; None: it is not affine (a
            quotient, a remainder, an element of another tensor).
    """

    tensor: Tensor
    indices: tuple[Affine | None, ...]

    @property
    def variables(self) -> frozenset[Var]:
        """The variables that the affine indices depend on."""
        return frozenset(v for i in self.indices if i is not None for v in i.atoms)

    @property
    def size(self) -> int:
        """Elements of the tensor."""
        return prod(int(d) for d in self.tensor.shape)

    @property
    def is_affine(self) -> bool:
        """True if every index is an affine form."""
        return None not in self.indices

    def stride(self, variable: Var) -> int | None:
        """Elements between the reads of neighbouring ``variable``; None where nobody knows."""
        step, width = 0, 1
        for index, extent in zip(reversed(self.indices), reversed(self.tensor.shape)):
            if index is None:
                return None
            step += width * index.coefficient(variable)
            width *= int(extent)
        return step


def accesses(op: ComputeOp) -> tuple[Access, ...]:
    """Every different read of an operation, in the order of its first use."""
    found: dict[tuple, Access] = {}
    for n in nodes(op.body):
        if type(n) is ProducerLoad:
            access = Access(n.producer, tuple(affine(i) for i in n.indices))
            key = access if access.is_affine else (access.tensor, id(n))
            found.setdefault((key,), access)
    return tuple(found.values())


def affine(n: PrimExpr) -> Affine | None:
    """An index as an affine form of the variables in it; None if it is not one."""
    if isinstance(n, Var):
        return Affine.atom(n, n)
    if isinstance(n, IntImm):
        return Affine.constant(n.value)
    if isinstance(n, Cast):
        return affine(n.value)
    if not isinstance(n, Add | Sub | Mul):
        return None
    a, b = affine(n.a), affine(n.b)
    if a is None or b is None:
        return None
    if not isinstance(n, Mul):
        return a.plus(b, 1 if isinstance(n, Add) else -1)
    if a.terms and b.terms:
        return None
    return a.scaled(b.const) if b.is_const else b.scaled(a.const)


def bounded(axes: Iterable[IterVar]) -> Analyzer:
    """An analyzer that knows the bounds of a stage's axes."""
    analyzer = Analyzer()
    for axis in axes:
        analyzer.bind_loop(axis.var, axis.domain.min, axis.domain.extent)
    return analyzer


def places(body: Iterable[PrimExpr], analyzer: Analyzer) -> Iterator[Affine]:
    """The place of each read in memory, in elements; what is not affine in it is an atom.

    Quotients and remainders by which another shape is read cancel.
    """
    for n in nodes(body):
        if type(n) is not ProducerLoad:
            continue
        place, pitch = Affine.constant(0), 1
        for index, extent in zip(reversed(n.indices), reversed(n.producer.shape)):
            place += analyzer.affine(index).scaled(pitch)
            pitch *= int(extent)
        yield place


def composed(index: Affine | None, values: Mapping[Var, Affine | None]) -> Affine | None:
    """An index with forms put in for its variables; None where one of those is not affine."""
    if index is None:
        return None
    forms = {v: values.get(v, Affine.atom(v, v)) for v in index.atoms}
    known = {v: f for v, f in forms.items() if f is not None}
    return index.mapped(lambda v: known[v]) if len(known) == len(forms) else None


def read_at(
    reader: Operation, inlined: Collection[Operation], op: Operation
) -> list[tuple[PrimExpr, ...]]:
    """The indices, simplified, of each read of a stage.

    The mean of a group, read by an image whose channels were split into groups:

        mean[(((n * 128 + c) * 56 + y) * 56 + x) // 12544 % 32]     ->     mean[c // 4]

    Args:
        reader: an operation.
        inlined: the operations that are computed in their readers.
        op: the stage's.
    """
    analyzer = bounded(reader.axis)
    reads = [n for n in nodes(expanded(reader, inlined)) if type(n) is ProducerLoad]
    return [_simple(n.indices, analyzer) for n in reads if n.producer.op is op]


def quotient(index: PrimExpr) -> tuple[Var | None, int]:
    """The variable of an index ``v`` or ``v // 4``, and the steps of it that see the same one."""
    if isinstance(index, FloorDiv) and isinstance(index.b, IntImm):
        return (index.a, index.b.value) if isinstance(index.a, Var) else (None, 1)
    return (index, 1) if isinstance(index, Var) else (None, 1)


def plainly_indexed(
    op: ComputeOp, inlined: Collection[Operation], members: Collection[Operation]
) -> ComputeOp:
    """A stage with simple indices, where it reads one of some stages in another shape.

    Loops that are split later leave them simple: ``(c.outer * 4 + c.inner) // 4``.

    Args:
        op: an injective stage's.
        inlined: the operations that are computed in their readers.
        members: the stages.

    Returns:
        Its operation; the same one where it reads all of them plainly.
    """
    body = expanded(op, inlined)
    reads = [n for n in nodes(body) if type(n) is ProducerLoad and n.producer.op in members]
    if all(affine(i) is not None for n in reads for i in n.indices):
        return op
    return simply_indexed(replace(op, body=body))


def expanded(op: Operation, inlined: Collection[Operation]) -> tuple[PrimExpr, ...]:
    """What an operation computes, with what is computed in it in the place of its reads."""
    # a process that only finds a config waits for each module
    from whet.compiler.te.bounds.inlining import Inlining

    assert isinstance(op, ComputeOp)
    return tuple(map(Inlining({o: o for o in inlined}.get).expanded, op.body))


def simply_indexed(op: ComputeOp) -> ComputeOp:
    """An operation with simple indices."""
    analyzer: Analyzer = bounded((*op.axis, *op.reduce_axis))

    def moved(n: ProducerLoad) -> PrimExpr:
        n = rewrite.children(n)
        return ProducerLoad(n.producer, _simple(n.indices, analyzer), n.dtype)

    rewrite = Rewriter({ProducerLoad: moved}, once=True)
    return replace(op, body=tuple(map(rewrite, op.body)))


def _simple(indices: tuple[PrimExpr, ...], analyzer: Analyzer) -> tuple[PrimExpr, ...]:
    """Indices without the quotients and remainders that cancel."""
    return tuple(analyzer.affine(i).to_expr(i.dtype) for i in indices)
