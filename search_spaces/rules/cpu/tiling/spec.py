"""A reduction in numbers, for the tiled rule: extents, and how each operand's index moves.

A :class:`TiledSpec` is plain numbers, so that tiles, choices and defaults are worked out once for
each computation and kept.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.te.lang.tensor import ComputeOp, Operation, Tensor
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import Add, FloorDiv, FloorMod, IntImm, Mul, ProducerLoad, Sub, Var
from whet.compiler.tir.visit.rewrite import nodes, variables
from whet.search_spaces.graph.stages import int_extent, unique

Terms = tuple[tuple[int, int], ...]  # (axis, coefficient), by axis


@dataclass(frozen=True)
class Dim:
    """One index of an operand: ``sum of coefficient * axis + const``.

    Axes are numbered: data axes first, then reduction axes.

    Attributes:
        extent: of the tensor's dimension.
        terms: the axes of an affine index and their coefficients; for another one the axes that it
            depends on, each with coefficient 1.
        const: the constant part.
        affine: whether the index is affine.
    """

    extent: int
    terms: Terms
    const: int
    affine: bool

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that the index depends on."""
        return tuple(a for a, _ in self.terms)

    def span(self, box: Collection[int] | tuple[int, ...]) -> int:
        """How many places the index takes while each axis makes ``box[axis]`` steps."""
        sizes = tuple(box)
        if not self.affine:
            return min(self.extent, max((sizes[a] for a, _ in self.terms), default=1))
        return min(self.extent, 1 + sum(abs(c) * (sizes[a] - 1) for a, c in self.terms))


@dataclass(frozen=True)
class Operand:
    """A tensor that the reduction reads, at one index.

    Attributes:
        name: the tensor's.
        dims: its indices, outermost first.
        itemsize: bytes of an element.
        produced: whether a stage computes it that can be put into its reader.
        costly: whether reading it through that stage costs more than a load: it has a condition.
    """

    name: str
    dims: tuple[Dim, ...]
    itemsize: int
    produced: bool
    costly: bool

    def depends(self, axis: int) -> bool:
        """True if an index depends on an axis."""
        return any(axis in d.axes for d in self.dims)

    def stride(self, axis: int) -> int:
        """How far apart in memory two neighbours of an axis are; -1 where it is not known."""
        step, unit = 0, 1
        for d in reversed(self.dims):
            for a, c in d.terms:
                if a == axis:
                    if not d.affine:
                        return -1
                    step += c * unit
            unit *= d.extent
        return step

    def coupled(self, axis: int) -> bool:
        """True if an axis shares an index with others, as ``y`` in ``y * 2 + ry`` does."""
        return any(
            axis in d.axes and (len(d.terms) > 1 or not d.affine or d.terms[0][1] != 1)
            for d in self.dims
        )


@dataclass(frozen=True)
class TiledSpec:
    """A reduction as numbers.

    Attributes:
        names: of the axes: data axes, then reduction axes.
        data: extents of the data axes. reduce: extents of the reduction axes.
        operands: what it reads.
        itemsize: bytes of an element of the result.
        epilogue: whether elementwise stages follow.
        lanes: elements of the result in a vector register.
        registers: vector registers.
        threads: of the target.
        caches: usable bytes of each cache, and the bytes that come out of the one behind it in a
            cycle.
    """

    names: tuple[str, ...]
    data: tuple[int, ...]
    reduce: tuple[int, ...]
    operands: tuple[Operand, ...]
    itemsize: int
    epilogue: bool
    lanes: int
    registers: int
    threads: int
    caches: tuple[tuple[float, float], ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Whatever is kept for a reduction is looked up by it, many times for each config.
        return hash((self.names, self.data, self.reduce, self.operands))

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """Extents of all axes."""
        return self.data + self.reduce

    @cached_property
    def last(self) -> int:
        """The data axis in which the result is contiguous: the last of extent above 1."""
        wide = [a for a, n in enumerate(self.data) if n > 1]
        return wide[-1] if wide else len(self.data) - 1

    @cached_property
    def reuse(self) -> tuple[int, ...]:
        """Data axes of extent above 1 that some operand does not depend on, or shares."""
        return tuple(
            a
            for a, n in enumerate(self.data)
            if n > 1 and any(not o.depends(a) or o.coupled(a) for o in self.operands)
        )

    def packable(self, operand: int) -> bool:
        """True if a copy of an operand is read more often than it is written."""
        o = self.operands[operand]
        moves = any(o.depends(r) for r in range(len(self.data), len(self.extents)))
        reused = any(n > 1 and (not o.depends(a) or o.coupled(a)) for a, n in enumerate(self.data))
        return bool(o.dims) and (o.produced or (reused and moves))


class Loads:
    """The loads of a reduction.

    Attributes:
        of_operand: one for each tensor and index, in the order of their first use.
        operand: a load's ``id`` -> the number of its operand.
    """

    def __init__(self, anchor: ComputeOp) -> None:
        analyzer = Analyzer()
        numbers: dict[object, int] = {}
        self.anchor = anchor
        self.of_operand: list[ProducerLoad] = []
        self.operand: dict[int, int] = {}
        for n in nodes(anchor.body):
            if type(n) is not ProducerLoad:
                continue
            places = tuple(analyzer.affine(i).key for i in n.indices)
            k = numbers.setdefault((n.producer.op, n.producer.value_index, places), len(numbers))
            self.operand[id(n)] = k
            if k == len(self.of_operand):
                self.of_operand.append(n)


def spec_of(
    loads: Loads,
    inlinable: Collection[Operation],
    epilogue: bool,
    vector_bytes: int,
    registers: int,
    threads: int,
    caches: tuple[tuple[float, float], ...],
) -> TiledSpec:
    """The numbers of a reduction of constant extents.

    Args:
        loads: of the reduction.
        inlinable: the producers that can be put into their reader.
        epilogue: whether elementwise stages follow it.
        vector_bytes, registers, threads: of the target. caches: as the estimate sees them.
    """
    anchor = loads.anchor
    axes = (*anchor.axis, *anchor.reduce_axis)
    numbers = {a.var: k for k, a in enumerate(axes)}
    analyzer = Analyzer()
    for a in axes:
        assert a.dom is not None
        analyzer.bind_loop(a.var, a.dom.min, a.dom.extent)
    operands = tuple(_operand(n, numbers, analyzer, inlinable) for n in loads.of_operand)
    size = dt.itemsize(anchor.body[0].dtype)
    return TiledSpec(
        names=unique([a.var.name for a in axes], "{}{}", 2),
        data=tuple(map(int_extent, anchor.axis)),
        reduce=tuple(map(int_extent, anchor.reduce_axis)),
        operands=operands,
        itemsize=size,
        epilogue=epilogue,
        lanes=max(vector_bytes // size, 1),
        registers=registers,
        threads=threads,
        caches=caches,
    )


def _operand(
    load: ProducerLoad,
    numbers: dict[Var, int],
    analyzer: Analyzer,
    inlinable: Collection[Operation],
) -> Operand:
    tensor: Tensor = load.producer
    produced = any(tensor.op is op for op in inlinable)
    dims = tuple(
        _dim(analyzer.affine(i), int(d), numbers)
        for i, d in zip(load.indices, tensor.shape, strict=True)
    )
    return Operand(
        tensor.name,
        dims,
        max(dt.itemsize(tensor.dtype), 1),
        produced,
        produced and _is_costly(tensor.op),
    )


def _dim(form: Affine, extent: int, numbers: dict[Var, int]) -> Dim:
    atoms = [(atom, c) for atom, c in form.terms.values()]
    if all(isinstance(atom, Var) and atom in numbers for atom, _ in atoms):
        terms = tuple(sorted((numbers[atom], c) for atom, c in atoms))
        return Dim(extent, terms, form.const, True)
    used = {numbers[v] for atom, _ in atoms for v in variables(atom) if v in numbers}
    return Dim(extent, tuple((a, 1) for a in sorted(used)), 0, False)


def _is_costly(op: Operation) -> bool:
    """True if a producer does more than move elements."""
    assert isinstance(op, ComputeOp)
    moves = (ProducerLoad, Var, IntImm, Add, Sub, Mul, FloorDiv, FloorMod)
    return not all(isinstance(n, moves) for n in nodes(op.body))
