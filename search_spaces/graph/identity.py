"""The identity of a compute graph: the digest of its structure, and the numbers that it leaves out.

Structure is what is computed: operations, types, who reads whom, in which order the kernel takes
its arguments; names are left out. Numbers are extents, and constants that go with them (``i < 130``
of a padded image). The same code for other extents gives the same structure and other numbers. One
number stands for all dimensions that are equal because one indexes the other: a matmul has three.

Structure and numbers together say everything: equal ones compute the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from whet.compiler.te.lang.graph import post_order
from whet.compiler.te.lang.tensor import ComputeOp, ExternOp, Operation, Tensor
from whet.compiler.tir.expr import (
    Call,
    CommReducer,
    FloatImm,
    IntImm,
    Let,
    Mul,
    PrimExpr,
    ProducerLoad,
    Reduce,
    StringImm,
    Var,
)
from whet.compiler.tir.printer import Printer
from whet.compiler.tir.visit.rewrite import nodes
from whet.search_spaces.graph.access import accesses
from whet.search_spaces.graph.stages import int_extent

# Offsets of stencils and small windows belong to the structure, larger constants are numbers.
_SMALL = 4


@dataclass(frozen=True)
class Identity:
    """The identity of a graph.

    Attributes:
        digest: hex digits of the structure.
        numbers: the extents, in the order in which inputs and stages are met, then the constants.
    """

    digest: str
    numbers: tuple[int, ...]


def identity_of(outputs: Sequence[Tensor], args: Sequence[Tensor]) -> Identity:
    """The identity of the kernel that computes ``outputs`` and takes ``args``."""
    ops = post_order([t.op for t in (*outputs, *args)])
    writer = _Writer(ops)
    for op in ops:
        writer.operation(op)
    for word, tensors in (("outputs", outputs), ("args", args)):
        writer.line(word, *(f"{writer.place[t.op]}.{t.value_index}" for t in tensors))
    digest = hashlib.sha256("\n".join(writer.lines).encode()).hexdigest()[:12]
    return Identity(digest, tuple(writer.numbers))


class _Writer:
    """Writes a graph, line by line; numbers are left out and collected."""

    def __init__(self, ops: Sequence[Operation]) -> None:
        self.place = {op: k for k, op in enumerate(ops)}
        self.lines: list[str] = []
        self.numbers: list[int] = []
        self._dimension, extents = _dimensions(ops)
        self._number_of: dict[int, int] = {}
        order: dict[int, int] = {}
        for op in ops:
            for d in _own_dimensions(op):
                root = self._dimension[d]
                if root not in order:
                    order[root] = len(self.numbers)
                    self.numbers.append(extents[d])
        self._dimension = {d: order[root] for d, root in self._dimension.items()}
        for k, n in enumerate(self.numbers):
            self._number_of.setdefault(n, k)
        self._products = {
            prod(int_extent(a) for a in op.reduce_axis): f"#window{self.place[op]}"
            for op in ops
            if isinstance(op, ComputeOp) and len(op.reduce_axis) > 1
        }

    def line(self, *words: object) -> None:
        """Write one line."""
        self.lines.append(" ".join(map(str, words)))

    def operation(self, op: Operation) -> None:
        """Write what an operation is."""
        if isinstance(op, ExternOp):
            self._extern(op)
            return
        shape = [f"#{self._dimension[d]}" for d in _own_dimensions(op)]
        if not isinstance(op, ComputeOp):
            self.line("input", op.output_dtype(0), *shape)
            return
        self.line("compute", len(op.axis), len(op.reduce_axis), *shape)
        known = {a.var: f"i{k}" for k, a in enumerate((*op.axis, *op.reduce_axis))}
        for k, a in enumerate((*op.axis, *op.reduce_axis)):
            assert a.dom is not None
            self.line("axis", k, a.dtype, self._integer(int(a.dom.min), False))
        known_nodes: dict[int, str] = {}
        for body in op.body:
            self.line("body", self._expression(body, known, known_nodes))

    def _expression(self, root: PrimExpr, known: dict, done: dict[int, str]) -> str:
        """A name for an expression; each node is written once."""
        for n in nodes((root,)):
            if id(n) in done or type(n) is IntImm:
                continue
            done[id(n)] = self._node(n, known, done)
        return self._part(root, None, done)

    def _node(self, n: PrimExpr, known: dict, done: dict[int, str]) -> str:
        if isinstance(n, Var):
            return known[n]
        if isinstance(n, FloatImm):
            return f"{n.dtype} {self._float(n.value)}"
        if isinstance(n, StringImm):
            return repr(n.value)
        parts = [self._part(p, n, done) for p in n.parts]
        words: list[object] = [type(n).__name__, n.dtype]
        if isinstance(n, ProducerLoad):
            words.append(f"{self.place[n.producer.op]}.{n.producer.value_index}")
        elif isinstance(n, Call):
            words.append(str(n.op))
        elif isinstance(n, Let):
            words.append(known.setdefault(n.var, f"let{len(known)}"))
        elif isinstance(n, Reduce):
            words += [n.value_index, len(n.source), self._combiner(n.combiner, done)]
            words += [known[a.var] for a in n.axis]
        name = f"%{len(self.lines)}"
        self.line(name, *words, *parts)
        return name

    def _combiner(self, c: CommReducer, done: dict[int, str]) -> str:
        if id(c) in done:
            return done[id(c)]
        inside = {v: f"v{k}" for k, v in enumerate((*c.lhs, *c.rhs))}
        own: dict[int, str] = {}
        parts = [self._expression(x, inside, own) for x in (*c.result, *c.identity)]
        done[id(c)] = name = f"%{len(self.lines)}"
        self.line(name, "combine", *(v.dtype for v in c.lhs), *parts)
        return name

    def _part(self, n: PrimExpr, parent: PrimExpr | None, done: dict[int, str]) -> str:
        if isinstance(n, IntImm):
            return f"{n.dtype} {self._integer(n.value, isinstance(parent, Mul))}"
        return done[id(n)]

    def _integer(self, value: int, is_factor: bool) -> str:
        """A constant of the structure as it is; of the sizes as the number of a number."""
        if abs(value) <= _SMALL or is_factor:
            return str(value)
        if value not in self._number_of:
            self._number_of[value] = len(self.numbers)
            self.numbers.append(value)
        return f"#{self._number_of[value]}"

    def _float(self, value: float) -> str:
        """A constant as it is; the size of what a mean is taken over as that size."""
        if _SMALL < abs(value) < 2.0**53 and value == int(value):
            name = self._size(int(value))
            return repr(value) if name is None else name
        if value == 0 or not 2.0**-53 < abs(value) < 1 / _SMALL:
            return repr(value)
        n = round(1 / value)
        name = self._size(n)
        for form, exact in (("64", 1 / n), ("32", float(np.float32(1 / n)))):
            if name is not None and exact == value:
                return f"1/{name} in {form}"
        return repr(value)

    def _size(self, n: int) -> str | None:
        if n in self._number_of:
            return f"#{self._number_of[n]}"
        return self._products.get(n)

    def _extern(self, op: ExternOp) -> None:
        """An extern statement is of the structure with all its numbers."""
        p = Printer()
        buffers = (*op.input_placeholders, *op.output_placeholders)
        for b in buffers:
            self.line("buffer", f"{p.name(b)}: {b.dtype}[{p.list(b.shape)}]")
        reads = (f"{self.place[t.op]}.{t.value_index}" for t in op.inputs)
        p.stmt(op.body, 1)
        self.line("extern", len(op.input_placeholders), *reads)
        self.lines += p.lines


Dimension = tuple[int, int]  # an operation (by its id), and which of its dimensions


def _own_dimensions(op: Operation) -> list[Dimension]:
    """The dimensions of a tensor and of its reduction; none of an extern's."""
    if isinstance(op, ExternOp):
        return []
    return [(id(op), k) for k in range(len(op.output_shape(0)) + len(op.reduce_axis))]


def _dimensions(ops: Sequence[Operation]) -> tuple[dict[Dimension, int], dict[Dimension, int]]:
    """Each dimension's class, and its extent: an axis is of the class of what it indexes whole."""
    extents: dict[Dimension, int] = {}
    for op in ops:
        sizes = [int(d) for d in op.output_shape(0)] + [int_extent(a) for a in op.reduce_axis]
        extents.update(zip(_own_dimensions(op), sizes))
    parent = {d: d for d in extents}

    def root(d: Dimension) -> Dimension:
        while parent[d] != d:
            parent[d] = d = parent[parent[d]]
        return d

    for op in ops:
        if not isinstance(op, ComputeOp):
            continue
        axes = {a.var: (id(op), k) for k, a in enumerate((*op.axis, *op.reduce_axis))}
        for access in accesses(op):
            if isinstance(access.tensor.op, ExternOp):
                continue
            for k, index in enumerate(access.indices):
                variable = None if index is None else index.variable
                axis = None if variable is None else axes.get(variable)
                read = (id(access.tensor.op), k)
                if axis is not None and extents[axis] == extents[read]:
                    parent[root(axis)] = root(read)
    number = {d: k for k, d in enumerate(extents)}
    return {d: number[root(d)] for d in extents}, extents
