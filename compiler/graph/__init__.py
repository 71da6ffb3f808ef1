"""The graph of a model: typed values, operators on them, passes, and the function that runs it."""

from __future__ import annotations

from whet.compiler.graph.builder import GraphBuilder
from whet.compiler.graph.ir import Graph, Node, Value

__all__ = ["Graph", "GraphBuilder", "Node", "Value"]
