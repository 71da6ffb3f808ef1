"""Rewriting a graph node by node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from whet.compiler.graph.builder import made_node
from whet.compiler.graph.ir import Graph, Node, Value, digest


class Rewriting:
    """A new graph in the making: nodes are added in order, values replaced by others.

    Args:
        graph: the old one.

    Attributes:
        graph: the old one.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._nodes: list[Node] = []
        self._constants = dict(graph.constants)
        self._digests: dict[str, Value] = {}
        self._instead: dict[Value, Value] = {}
        self._made: dict[Value, Node] = {}
        self._outputs = set(graph.outputs)
        self._stands: dict[Value, list[Value]] = {}
        self._names = set(graph.values)

    def now(self, v: Value) -> Value:
        """The value that stands for one of the old graph."""
        return self._instead.get(v, v)

    def maker(self, v: Value | None) -> Node | None:
        """The new node that makes a value; None: none does."""
        return None if v is None else self._made.get(v)

    def known(self, v: Value | None) -> np.ndarray | None:
        """The array of a constant; None for any other value."""
        return None if v is None else self._constants.get(v)

    def keep(self, node: Node) -> Node:
        """Add a node of the old graph, reading what stands for its operands now."""
        new = node.reading(self._instead)
        self._nodes.append(new)
        self._made.update(dict.fromkeys(new.outputs, new))
        return new

    def add(self, operator: str, inputs: Sequence[Value | None], like: Node, **attrs: Any) -> Value:
        """Add a new node; its output.

        Args:
            operator, inputs, attrs: the node's.
            like: the old node in whose place it stands: gives its name.
        """
        node = made_node(operator, inputs, attrs, self._unique, like.output.name, like.origin)
        self._nodes.append(node)
        self._made[node.output] = node
        return node.output

    def constant(self, array: np.ndarray, name: str) -> Value:
        """A constant; the same array is one value."""
        key = digest(array)
        if key not in self._digests:
            v = Value(self._unique(name), tuple(array.shape), str(array.dtype))
            self._constants[v] = np.require(array, requirements="C")
            self._digests[key] = v
        return self._digests[key]

    def replace(self, old: Value, new: Value) -> None:
        """Let a value stand for an old one."""
        self._instead[old] = new
        self._stands.setdefault(new, []).append(old)

    def read_once(self, v: Value) -> bool:
        """True if one node, and no caller, reads what a value stands for."""
        olds = [v, *self._stands.get(v, ())]
        if not self._outputs.isdisjoint(olds):
            return False
        return len({n for old in olds for n in self.graph.readers.get(old, ())}) == 1

    def done(self) -> Graph:
        """The new graph. Outputs keep their names."""
        graph = self.graph
        renamed: dict[Value, Value] = {}
        outputs = []
        for v in graph.outputs:
            new = self.now(v)
            if new is v:
                outputs.append(v)
            elif new in self._made and new not in renamed and new not in graph.outputs:
                renamed[new] = v
                outputs.append(v)
            else:
                outputs.append(self._copy(v, new))
        nodes = tuple(_renamed(n, renamed) for n in self._nodes) if renamed else self._nodes
        return replace(graph, nodes=tuple(nodes), outputs=tuple(outputs), constants=self._constants)

    def _copy(self, old: Value, new: Value) -> Value:
        """An output of its own for what is an input, a constant, or another output too."""
        node = Node("identity", (new,), (old,), {})
        self._nodes.append(node)
        return old

    def _unique(self, name: str) -> str:
        k, found = 0, name
        while found in self._names:
            k += 1
            found = f"{name}.{k}"
        self._names.add(found)
        return found


def _renamed(node: Node, names: Mapping[Value, Value]) -> Node:
    """The node with other values of the same shapes and types in the place of some."""
    new = node.reading(names)
    if names.keys().isdisjoint(new.outputs):
        return new
    return replace(new, outputs=tuple(names.get(v, v) for v in new.outputs))


def rewritten(graph: Graph, rule: Callable[[Rewriting, Node], Value | None]) -> Graph:
    """The graph with some nodes replaced.

    Args:
        graph: the old one.
        rule: called with each node, whose operands are new ones; what stands for its output, or
            None: it stays.
    """
    work = Rewriting(graph)
    for node in graph.nodes:
        now = node.reading(work._instead)
        new = rule(work, now) if len(now.outputs) == 1 else None
        if new is None:
            work.keep(node)
        else:
            work.replace(node.output, new)
    return work.done()
