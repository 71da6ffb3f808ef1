"""merge_common: the same operator on the same operands runs once."""

from __future__ import annotations

from whet.compiler.graph.ir import Graph, Node, Value
from whet.compiler.graph.passes.rewriting import Rewriting, rewritten


def merge_common(graph: Graph) -> Graph:
    """The graph without nodes that compute what another one does."""
    seen: dict[tuple[object, ...], Value] = {}

    def rule(work: Rewriting, node: Node) -> Value | None:
        attrs = tuple(sorted((k, repr(v)) for k, v in node.attrs.items()))
        key = node.operator, node.inputs, attrs
        if key in seen:
            return seen[key]
        seen[key] = node.output
        return None

    return rewritten(graph, rule)
