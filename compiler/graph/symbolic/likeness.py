"""Graphs of one model at several sizes made alike, where the same is written in two ways."""

from __future__ import annotations

from dataclasses import replace

from whet.compiler.graph.ir import Graph, Node, Value

_SHORT = 1 << 14  # elements: sizes decide of no more


def short_constants(graph: Graph) -> set[tuple[int, int]]:
    """Where nodes read short constants: the node's place, and the operand's.

    Equal constants are one. What places rows are read from and what places columns are is the same
    where an image is square, and not at other sizes.
    """
    return {
        (k, i)
        for k, n in enumerate(graph.nodes)
        for i, v in enumerate(n.inputs)
        if v is not None and v in graph.constants and 1 < v.size <= _SHORT
    }


def with_own_constants(graph: Graph, places: set[tuple[int, int]]) -> Graph:
    """The graph in which the nodes at some places read constants of their own."""
    constants, nodes = dict(graph.constants), list(graph.nodes)
    for k, i in places:
        n = nodes[k] if k < len(nodes) else None
        v = n.inputs[i] if n is not None and i < len(n.inputs) else None
        if n is None or v is None or v not in constants:
            continue  # another model, which is refused
        own = Value(f"{v.name}.{k}.{i}", v.shape, v.dtype)
        constants[own] = constants[v]
        inputs = tuple(own if j == i else x for j, x in enumerate(n.inputs))
        nodes[k] = replace(n, inputs=inputs)
    return replace(graph, nodes=tuple(nodes), constants=constants)


def with_transposes(graph: Graph, first: Graph) -> Graph:
    """The graph with transposes where another one has them and it has reshapes that are the same.

    Passes write a transpose that moves nothing but axes of 1 as a reshape: an image's, at the sizes
    at which a single pixel is left of it.
    """
    if len(graph.nodes) != len(first.nodes):
        return graph
    pairs = zip(graph.nodes, first.nodes)
    return replace(graph, nodes=tuple(_as_transpose(n, like) for n, like in pairs))


def _as_transpose(node: Node, like: Node) -> Node:
    """A reshape as a transpose like another one, where it is one."""
    if (node.operator, like.operator) != ("reshape", "transpose"):
        return node
    shape, axes = node.reads[0].shape, like.attrs["axes"]
    if len(axes) != len(shape) or node.output.shape != tuple(shape[a] for a in axes):
        return node
    moved = [a for a in axes if shape[a] != 1]
    is_one = moved == sorted(moved)
    return replace(node, operator="transpose", attrs=like.attrs) if is_one else node
