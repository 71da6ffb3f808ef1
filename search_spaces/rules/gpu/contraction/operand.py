"""An operand of a contraction as blocks load it: which elements lie side by side, and their reads.

places (n, y, x), steps (c)  ->  place // (H * W), place // W % H, place % W, step
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from whet.compiler.arith import Affine
from whet.compiler.te.lang.tensor import ComputeOp, Operation
from whet.compiler.tir.expr import Call, PrimExpr, ProducerLoad, Select, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import nodes, substitute
from whet.search_spaces.forms.contraction import Axis, Contraction, extent_of
from whet.search_spaces.graph.access import Access, affine, composed
from whet.search_spaces.graph.stages import is_ahead
from whet.search_spaces.rules.gpu.contraction.gemm import Operand
from whet.search_spaces.rules.gpu.contraction.gemm_plan import STEPS
from whet.search_spaces.rules.gpu.hardware.lanes import MOST_BYTES, lanes_of

_FAR = 1 << 40


def operand(
    name: str,
    c: Contraction,
    side: int,
    outer: Sequence[Axis],
    steps: Sequence[Axis],
    through: Collection[Operation],
    most: int = MOST_BYTES,
) -> Operand:
    """The left operand of a GEMM, side 0, or the right one, side 1.

    Args:
        name: of the contraction's stage.
        outer, steps: the axes of the reduction, around K and of K.
        through: the stages that are computed where they are read.
        most: elements that a thread copies at once.
    """
    word, value, places = (("left", c.left, c.rows), ("right", c.right, c.columns))[side]
    lead = c.lead
    reads = list(_reads(value, through, {}))
    every = (*lead, *places, *outer, *steps)
    along = _distance(reads, steps) < _distance(reads, places)
    neighbours = steps if along else places
    chain = 0 if _chooses(value, through) else _chain(reads, neighbours)
    inner = neighbours[len(neighbours) - chain :]
    rest = [axis for axis in every if axis not in inner]
    lanes = min(most, _lanes(reads, inner, rest)) if chain else 1

    def read(x: tuple, o: tuple, place: Any, step: Any, lane: Any) -> Any:
        held = {a.var: i for a, i in zip((*lead, *outer), (*x, *o), strict=True)}
        held |= _split(places, place, 1 if along else lanes, lane, chain)
        held |= _split(steps, step, lanes if along else 1, lane, chain)
        known = {v: ops.const(i, v.dtype) if isinstance(i, int) else i for v, i in held.items()}
        return substitute(value, known)

    return Operand(f"{name}.{word}", extent_of(places), lanes, along, read)


def _split(axes: Sequence[Axis], number: Any, lanes: int, lane: Any, chain: int) -> dict[Var, Any]:
    """Each axis at a place, of which ``number`` counts vectors along the last ``chain`` axes."""
    if lanes == 1:
        return _apart(axes, number)
    inner, outer = axes[len(axes) - chain :], axes[: len(axes) - chain]
    rows = 0
    if extent_of(outer) > 1:
        vectors = extent_of(inner) // lanes
        rows, number = number // vectors, number % vectors
    return {**_apart(outer, rows), **_apart(inner, number * lanes + lane)}


def _apart(axes: Sequence[Axis], number: Any) -> dict[Var, Any]:
    """Each axis at a place that is counted through all of them."""
    found: dict[Var, Any] = {}
    wide = [axis for axis in axes if axis.extent > 1]
    for k, axis in reversed(list(enumerate(wide))):
        found[axis.var] = number % axis.extent if k else number
        number = number // axis.extent
    return {axis.var: found.get(axis.var, 0) for axis in axes}


def _reads(
    value: PrimExpr, through: Collection[Operation], at: Mapping[Var, Affine | None]
) -> Iterator[Access]:
    """The reads of memory of an operand, also through stages that are inlined into it."""
    for n in nodes((value,)):
        if type(n) is not ProducerLoad:
            continue
        indices = tuple(composed(affine(i), at) for i in n.indices)
        op = n.producer.op
        if not isinstance(op, ComputeOp) or (op not in through and not _is_moved(op)):
            yield Access(n.producer, indices)
            continue
        inner = {axis.var: i for axis, i in zip(op.axis, indices, strict=True)}
        for body in op.body:
            yield from _reads(body, through, inner)


def _is_moved(op: ComputeOp) -> bool:
    """True if a stage only puts elements elsewhere, so that it is inlined into its readers."""
    return len(op.body) == 1 and type(op.body[0]) is ProducerLoad and not is_ahead(op)


def _chooses(value: PrimExpr, through: Collection[Operation]) -> bool:
    """True if an operand chooses what to read: then neighbours are not all read."""
    for n in nodes((value,)):
        if isinstance(n, Select) or (isinstance(n, Call) and n.op == "if_then_else"):
            return True
        op = n.producer.op if type(n) is ProducerLoad else None
        inside = op.body if isinstance(op, ComputeOp) and op in through else ()
        if any(_chooses(body, through) for body in inside):
            return True
    return False


def _distance(reads: Sequence[Access], axes: Sequence[Axis]) -> int:
    """The stride in memory between neighbours along the innermost of some axes."""
    wide = [axis for axis in axes if axis.extent > 1]
    if not wide or not reads:
        return _FAR
    largest = max(reads, key=lambda a: a.size)
    return largest.stride(wide[-1].var) or _FAR


def _chain(reads: Sequence[Access], axes: Sequence[Axis]) -> int:
    """The number of last axes that are contiguous together."""
    wanted, count = 1, 0
    for axis in reversed(axes):
        steps = {read.stride(axis.var) for read in reads}
        if axis.extent > 1 and steps != {wanted}:
            break
        wanted, count = wanted * axis.extent, count + 1
    return count


def _lanes(reads: Sequence[Access], chain: Sequence[Axis], rest: Sequence[Axis]) -> int:
    """Elements that lie side by side, on one side of a multiple of their number."""
    multiples = [extent_of(chain), STEPS[0]]
    for read in reads:
        if not read.is_affine:
            return 1
        width = 1
        for index, extent in zip(reversed(read.indices), reversed(read.tensor.shape)):
            multiples.append((index.const if index else 0) * width)
            width *= int(extent)
        multiples += [read.stride(axis.var) or 0 for axis in rest if axis.extent > 1]
    return min(lanes_of(read.tensor.dtype, *multiples) for read in reads) if reads else 1
