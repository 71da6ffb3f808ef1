"""Passes: graph to graph, in one ordered table."""

from __future__ import annotations

from whet.compiler.graph.passes.table import PASSES, GraphPass, optimized

__all__ = ["PASSES", "GraphPass", "optimized"]
