"""Building a graph node by node: names, types and shapes of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whet.compiler.errors import WhetError
from whet.compiler.graph.ir import Graph, Node, Value, digest
from whet.compiler.graph.operators.equal import of_equal_nodes
from whet.compiler.te import Tensor
from whet.compiler.tir import dtype as dt


class GraphBuilder:
    """A graph that grows.

    >>> g = GraphBuilder()
    >>> x = g.input("x", (2, 3), "float32")
    >>> print(g.graph([g.add("relu", [x])]))
    graph(%x: float32[2, 3]) {
      %relu: float32[2, 3] = relu(%x)
      return %relu
    }
    """

    def __init__(self) -> None:
        self._inputs: list[Value] = []
        self._nodes: list[Node] = []
        self._constants: dict[Value, np.ndarray] = {}
        self._by_digest: dict[str, Value] = {}
        self._names: dict[str, int] = {}

    def input(self, name: str, shape: Sequence[int], dtype: str) -> Value:
        """An array that the caller gives."""
        v = Value(self._unique(name), tuple(map(int, shape)), dt.check(dtype))
        self._inputs.append(v)
        return v

    def constant(self, array: np.ndarray, name: str = "const") -> Value:
        """An array that is known; the same array is one value, however often it is given."""
        key = digest(array)
        if key not in self._by_digest:
            array = np.require(array, requirements="C")
            v = Value(self._unique(name), tuple(array.shape), dt.check(array.dtype))
            self._constants[v] = array
            self._by_digest[key] = v
        return self._by_digest[key]

    def known(self, v: Value | None) -> np.ndarray | None:
        """The array of a constant; None for any other value."""
        return None if v is None else self._constants.get(v)

    def is_made(self, v: Value) -> bool:
        """True for what a node makes: no input, no constant."""
        return v not in self._constants and all(v is not x for x in self._inputs)

    def add(
        self, operator: str, inputs: Sequence[Value | None], name: str = "", **attrs: Any
    ) -> Value:
        """A node; its first output."""
        return self.add_all(operator, inputs, name, **attrs)[0]

    def add_all(
        self,
        operator: str,
        inputs: Sequence[Value | None],
        name: str = "",
        origin: str = "",
        **attrs: Any,
    ) -> tuple[Value, ...]:
        """A node; all its outputs.

        Args:
            operator: of :data:`whet.compiler.graph.operators.OPERATORS`.
            inputs: its operands.
            name: of its outputs; the operator's by default.
            origin: what it was in a file, for messages.
            attrs: its other arguments.

        Raises:
            ArgumentError: they do not fit, or there is no such operator.
        """
        node = made_node(operator, inputs, attrs, self._unique, name or operator, origin)
        self._nodes.append(node)
        return node.outputs

    def apart(self, outputs: Sequence[Value], names: Sequence[str]) -> list[Value]:
        """Outputs that nodes make, each its own: an input, a constant or a second one is copied."""
        made: list[Value] = []
        copied = set()
        for v, name in zip(outputs, names):
            is_node = v not in copied and self.is_made(v)
            copied.add(v)
            made.append(v if is_node else self.add("identity", [v], name))
        return made

    def graph(self, outputs: Sequence[Value]) -> Graph:
        """The graph of some values."""
        made = Graph(tuple(self._inputs), tuple(outputs), tuple(self._nodes), dict(self._constants))
        return made.pruned()

    def _unique(self, name: str) -> str:
        count = self._names.get(name)
        self._names[name] = (count or 0) + 1
        if count is None:
            return name
        return self._unique(f"{name}.{count}")


def made_node(
    operator: str,
    inputs: Sequence[Value | None],
    attrs: dict[str, Any],
    unique: Any,
    name: str,
    origin: str = "",
) -> Node:
    """A node with outputs of the types and shapes that its operator gives them."""
    try:
        types = of_equal_nodes(_types, operator, inputs, attrs)
    except WhetError as error:
        if origin:
            error.add_note(f"in {origin}")
        raise
    outputs = tuple(Value(unique(name), shape, dtype) for shape, dtype in types)
    return Node(operator, tuple(inputs), outputs, attrs, origin)


def _types(made: Sequence[Tensor]) -> list[tuple[tuple[int, ...], str]]:
    return [(tuple(int(d) for d in t.shape), str(t.dtype)) for t in made]
