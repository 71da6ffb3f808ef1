"""The form of a sum of products that an instruction computes tiles of.

    instruction   c[i] = sum over k of x[k] * w[i, k]
    stage         C[y, j] = sum over r of A[y, r] * B[r, j]       i is j, k is r, x is A, w is B

Each axis of the instruction is one of the stage's; the others of the stage are loops around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from whet.compiler.te.lang.tensor import ComputeOp, Operation, Tensor
from whet.compiler.te.lang.tensor_intrin import TensorIntrin
from whet.compiler.tir.expr import Add, Cast, IterVar, Mul, PrimExpr, ProducerLoad
from whet.compiler.tir.visit.rewrite import Rewriter, nodes_of, substitute, variables
from whet.search_spaces.forms.widened_sum import operation_of, plain_reduction
from whet.search_spaces.graph.stages import constant_extents, extent_of


@dataclass(frozen=True, eq=False)
class Operand:
    """One factor of the products.

    Attributes:
        load: the stage's read, of an operation as it is now.
        input: the tensor of the instruction that it is.
        dims: which axis of the instruction each dimension of that tensor is.
    """

    load: ProducerLoad
    input: Tensor
    dims: tuple[IterVar, ...]


@dataclass(frozen=True, eq=False)
class InstructionForm:
    """A stage as an instruction computes it.

    Attributes:
        name: of the instruction.
        intrin: the instruction.
        op: the stage.
        source: the product that it sums up.
        operands: its factors.
        axes: instruction's axis -> the stage's.
        place: which of the ways to see the stage so it is.
    """

    name: str
    intrin: TensorIntrin
    op: ComputeOp
    source: PrimExpr
    operands: tuple[Operand, ...]
    axes: dict[IterVar, IterVar]
    place: int

    def is_mapped(self, axis: IterVar) -> bool:
        """True for an axis of the stage that is one of the instruction's."""
        return any(a is axis for a in self.axes.values())

    @property
    def others(self) -> list[IterVar]:
        """The data axes around the instruction."""
        return [a for a in self.op.axis if not self.is_mapped(a)]

    @property
    def other_sums(self) -> list[IterVar]:
        """The axes of the sum around the instruction."""
        return [a for a in self.op.reduce_axis if not self.is_mapped(a)]

    @property
    def data(self) -> list[IterVar]:
        """The instruction's data axes."""
        return list(self.intrin.op.axis)

    @property
    def sums(self) -> list[IterVar]:
        """The instruction's axes of the sum."""
        return list(self.intrin.op.reduce_axis)

    def tiles(self, axis: IterVar) -> int:
        """How many tiles there are along an axis of the instruction, the last one not whole."""
        return -(-extent_of(self.axes[axis]) // extent_of(axis))

    def is_whole(self, axis: IterVar) -> bool:
        """True if its tiles leave no rest."""
        return extent_of(self.axes[axis]) % extent_of(axis) == 0


def forms_of(op: Operation, name: str, intrin: TensorIntrin) -> Iterator[InstructionForm]:
    """The ways to see a stage as tiles of an instruction, the best ones first."""
    body, theirs = plain_reduction(op), plain_reduction(intrin.op)
    if body is None or theirs is None or body.dtype != theirs.dtype:
        return
    if operation_of(body) is not Add or operation_of(theirs) is not Add:
        return
    if not isinstance(op, ComputeOp) or not constant_extents(op) or intrin.scalar_params:
        return
    inputs = _inputs(intrin)
    source = through_casts(body.source[0])
    loads = nodes_of(source, ProducerLoad)
    if not inputs or len(loads) != len(inputs) or not _is_product(source):
        return
    for place, order in enumerate(permutations(loads)):
        if all(x.dtype == t.dtype for x, (t, _) in zip(order, inputs)):
            operands = tuple(Operand(x, t, dims) for x, (t, dims) in zip(order, inputs))
            axes = _axes(op, intrin, operands)
            if axes is not None:
                yield InstructionForm(name, intrin, op, source, operands, axes, place)


def refusal_of(intrin: TensorIntrin) -> tuple[str, str] | None:
    """Why tiles of no product can be an instruction's, and the way out; None: they may be."""
    body = plain_reduction(intrin.op)
    write = "te.compute(..., lambda i: te.sum(x[k] * w[k, i], axis=k))"
    if body is None or operation_of(body) is not Add:
        return f"{intrin.op.name} is no plain sum", f"a sum of products: {write}"
    if intrin.scalar_params:
        names = ", ".join(v.name for v in intrin.scalar_params)
        return (
            f"it has scalar parameters, {names}",
            "leave scalar_params out, or use s[C].tensorize",
        )
    if not _is_product(through_casts(body.source[0])):
        return f"{intrin.op.name} sums up what is no product of inputs", write
    if not _inputs(intrin):
        why = "an input is read twice, or not as a whole at axes that are each an index of its own"
        return why, write
    if intrin.reduce_update is None:
        why = "it has no update: the sum goes on in loops around its tiles"
        return why, "return three statements, (body, reset, update)"
    return None


def through_casts(source: PrimExpr) -> PrimExpr:
    """A product that reads what stages which only convert it read."""

    def load(n: ProducerLoad) -> PrimExpr:
        op = n.producer.op
        if not isinstance(op, ComputeOp) or op.reduce_axis or len(op.body) != 1 or op.attrs:
            return n
        (body,) = op.body
        if not isinstance(body, Cast) or not isinstance(body.value, ProducerLoad):
            return n
        places = {a.var: i for a, i in zip(op.axis, n.indices, strict=True)}
        return Cast(body.dtype, load(substitute(body.value, places)))

    return Rewriter({ProducerLoad: load})(source)


def _inputs(intrin: TensorIntrin) -> list[tuple[Tensor, tuple[IterVar, ...]]]:
    """The inputs of an instruction, and the axis of each dimension; none for another form."""
    axes = {a.var: a for a in (*intrin.op.axis, *intrin.op.reduce_axis)}
    found = []
    (source,) = intrin.op.body[0].source  # type: ignore[attr-defined]
    for t in intrin.inputs:
        reads = [n for n in nodes_of(source, ProducerLoad) if n.producer == t]
        dims = [axes.get(i) for i in reads[0].indices] if len(reads) == 1 else [None]
        plain = [a for a in dims if a is not None]
        whole = [extent_of(a) for a in plain] == [int(d) for d in t.shape]
        if len(plain) != len(dims) or len(set(plain)) != len(plain) or not whole:
            return []
        found.append((t, tuple(plain)))
    return found


def _is_product(n: PrimExpr) -> bool:
    """True where a read of 0 makes 0 of it."""
    if isinstance(n, Mul):
        return _is_product(n.a) and _is_product(n.b)
    return _is_product(n.value) if isinstance(n, Cast) else isinstance(n, ProducerLoad)


def _axes(
    op: ComputeOp, intrin: TensorIntrin, operands: Sequence[Operand]
) -> dict[IterVar, IterVar] | None:
    """The stage's axis that each axis of the instruction is: the last, or the longest of a sum."""
    reads = [variables(x.load) for x in operands]
    found: dict[IterVar, IterVar] = {}
    data: list[Any] = [(a, list(reversed(op.axis))) for a in reversed(intrin.op.axis)]
    longest = sorted(reversed(op.reduce_axis), key=extent_of, reverse=True)
    for axis, choices in (*data, *[(a, longest) for a in intrin.op.reduce_axis]):
        wanted = [axis in x.dims for x in operands]
        for one in choices:
            free = not any(one is a for a in found.values())
            if free and [one.var in r for r in reads] == wanted:
                found[axis] = one
                break
        else:
            return None
    return found
