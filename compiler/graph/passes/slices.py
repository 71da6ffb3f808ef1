"""with_slices: parts of a model that run for some images of a batch at a time.

    conv, conv of 8 images      conv, conv of image 0; conv, conv of image 1; ...

What lies between two nodes of one slice is still in the caches when it is read. Slices of inputs
and the concatenations behind them are views (:mod:`whet.compiler.graph.views`): nothing is copied.
The first axis is the batch: which nodes treat its places alike follows from their loops.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import WhetError
from whet.compiler.graph.builder import made_node
from whet.compiler.graph.ir import Graph, Node, Value
from whet.compiler.graph.operators import computed
from whet.compiler.te import placeholder
from whet.compiler.te.lang.graph import post_order
from whet.compiler.te.lang.tensor import ComputeOp, Operation
from whet.compiler.tir.expr import ProducerLoad, Var

if TYPE_CHECKING:
    import numpy as np

Run = tuple[Sequence[Node], int]
"""Nodes that follow one another, and how many places of the batch they compute at a time."""

_SHAPED = ("expand", "reshape")  # whose attribute ``shape`` is the result's


def batch_of(graph: Graph) -> int:
    """The extent of the first input's first axis; 1 where it has none."""
    return graph.inputs[0].shape[0] if graph.inputs and graph.inputs[0].shape else 1


Sliceable = Mapping[Node, frozenset[Value]]
"""Nodes that can be sliced, and the constants that are sliced with each."""


def batched(graph: Graph) -> tuple[set[Value], Sliceable]:
    """The values that hold something for each place of the batch, and the nodes that can be sliced.

    A node can be where each place of its result follows from the same place of what it reads; that
    may be a constant, such as a token that is put in front of each sequence.
    """
    many = batch_of(graph)
    values = {v for v in graph.inputs if v.shape[:1] == (many,)}
    held = frozenset(v for v in graph.constants if v.shape[:1] == (many,))
    found: dict[Node, frozenset[Value]] = {}
    known: dict[Any, bool] = {}
    for node in graph.nodes:
        if values.isdisjoint(node.reads) or any(v.shape[:1] != (many,) for v in node.outputs):
            continue
        none: frozenset[Value] = frozenset()
        for own in dict.fromkeys((none, held.intersection(node.reads))):
            whole = values | own
            key = _structure(node, whole)
            if key not in known:
                known[key] = _by_places(node, whole, many) and _sliced(node, whole, 1) is not None
            if known[key]:
                found[node] = own
                values.update(node.outputs)
                break
    return values, found


def _structure(node: Node, values: Collection[Value]) -> Any:
    operands = tuple(None if v is None else (v.shape, v.dtype, v in values) for v in node.inputs)
    return node.operator, operands, repr(sorted(node.attrs.items()))


def _by_places(node: Node, values: Collection[Value], many: int) -> bool:
    """True if the loops of a node read, at each place of the batch, that place alone."""
    if node.operator == "reshape":
        return True  # rows stay rows
    operands = [None if v is None else placeholder(v.shape, v.dtype, v.name) for v in node.inputs]
    made = computed(node.operator, operands, node.attrs)
    inside: set[Operation] = {
        t.op for t, v in zip(operands, node.inputs) if t is not None and v in values
    }
    for op in post_order([t.op for t in made]):
        if inside.isdisjoint(t.op for t in op.input_tensors):
            continue
        if not isinstance(op, ComputeOp) or not op.axis or int(op.output_shape(0)[0]) != many:
            return False
        if not all(_reads_by_place(e, op.axis[0].var, inside) for e in op.body):
            return False
        inside.add(op)
    return all(t.op in inside for t in made)


def _reads_by_place(body: Any, place: Var, inside: Collection[Operation]) -> bool:
    """True if an expression uses its place to read what is inside there, and for nothing else."""
    waiting, seen = [body], set()
    while waiting:
        n = waiting.pop()
        if n is place:
            return False
        if id(n) in seen:
            continue
        seen.add(id(n))
        parts = list(n.parts)
        if type(n) is ProducerLoad and n.producer.op in inside:
            if n.indices[0] is not place:
                return False
            parts = list(n.indices[1:])
        waiting.extend(parts)
    return True


def _sliced(node: Node, values: Collection[Value], size: int) -> Node | None:
    """A node on so many places of the batch; None: it is another one than its own on all."""

    def part(v: Value | None) -> Value | None:
        return replace(v, shape=(size, *v.shape[1:])) if v is not None and v in values else v

    attrs = dict(node.attrs)
    if node.operator in _SHAPED:
        attrs["shape"] = (size, *node.output.shape[1:])
    try:
        made = made_node(node.operator, [*map(part, node.inputs)], attrs, str, "part", node.origin)
    except WhetError:
        return None
    shapes = [(size, *v.shape[1:]) for v in node.outputs]
    return made if [v.shape for v in made.outputs] == shapes else None


def with_slices(graph: Graph, runs: Sequence[Run]) -> Graph:
    """The graph whose runs of nodes are computed slice by slice.

    Args:
        graph: the old one.
        runs: all nodes, in order; their sizes divide the batch. Nodes of smaller sizes can be
            sliced, or read nothing that holds the batch.
    """
    work = _Slicing(graph)
    for nodes, size in runs:
        if size == batch_of(graph):
            work.nodes += nodes
        else:
            work.run(nodes, size)
    made = replace(graph, nodes=tuple(work.nodes), constants={**graph.constants, **work.constants})
    return made.pruned() if work.constants else made


class _Slicing:
    """A graph in the making.

    Args:
        graph: the old one.

    Attributes:
        nodes, constants: so far; those that are new.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.constants: dict[Value, np.ndarray] = {}
        self.values, self.free = batched(graph)
        self._cut: dict[Value, list[Value]] = {}  # a constant -> its different slices
        self._names = set(graph.values)

    def run(self, nodes: Sequence[Node], size: int) -> None:
        """Add a run of nodes, slice by slice, and its results as wholes."""
        self.nodes += [n for n in nodes if n not in self.free]
        own = [n for n in nodes if n in self.free]
        forms = [_sliced(n, self.values | self.free[n], size) for n in own]
        made = {v for n in own for v in n.outputs}
        parts: dict[Value, list[Value]] = {v: [] for v in made}
        for begin in range(0, batch_of(self.graph), size):
            now: dict[Value, Value] = {}
            for node, form in zip(own, forms):
                assert form is not None
                for v in node.reads:
                    if v in self.values and v not in now:
                        now[v] = self._slice(v, begin, size)
                outputs = tuple(self._part(v, begin, size) for v in node.outputs)
                now.update(zip(node.outputs, outputs))
                read = now | {v: self._constant(v, begin, size) for v in self.free[node]}
                inputs = tuple(v if v is None else read.get(v, v) for v in node.inputs)
                self.nodes.append(replace(form, inputs=inputs, outputs=outputs))
            for v in made:
                parts[v].append(now[v])
        inside, outputs_ = set(own), set(self.graph.outputs)
        for node in own:
            for v in node.outputs:
                if v in outputs_ or not inside.issuperset(self.graph.readers.get(v, ())):
                    self.nodes.append(Node("concat", tuple(parts[v]), (v,), {"axis": 0}))

    def _slice(self, v: Value, begin: int, size: int) -> Value:
        made = self._part(v, begin, size)
        attrs: Mapping[str, Any] = {
            "begin": [begin], "end": [begin + size], "step": [1], "axes": [0],
        }  # fmt: skip
        self.nodes.append(Node("slice", (v,), (made,), attrs))
        return made

    def _constant(self, v: Value, begin: int, size: int) -> Value:
        """A slice of a constant: one value where slices are equal."""
        import numpy as np

        array = self.graph.constants[v][begin : begin + size]
        for known in self._cut.setdefault(v, []):
            if known.shape[0] == size and np.array_equal(self.constants[known], array):
                return known
        made = self._part(v, begin, size)
        self.constants[made] = array
        self._cut[v].append(made)
        return made

    def _part(self, v: Value, begin: int, size: int) -> Value:
        k, name = 0, f"{v.name}[{begin}]"
        while name in self._names:
            k += 1
            name = f"{v.name}[{begin}].{k}"
        self._names.add(name)
        return Value(name, (size, *v.shape[1:]), v.dtype)
