"""The passes of a graph, in order, each with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from whet.compiler.graph.ir import Graph
from whet.compiler.graph.passes.canonical import canonicalize
from whet.compiler.graph.passes.common import merge_common
from whet.compiler.graph.passes.fold import fold_constants
from whet.compiler.graph.passes.scales import fold_scales


@dataclass(frozen=True)
class GraphPass:
    """A pass.

    Attributes:
        name: verb and noun.
        run: from a graph to another one that computes the same.
        why: the reason it stands where it does.
    """

    name: str
    run: Callable[[Graph], Graph]
    why: str


PASSES: tuple[GraphPass, ...] = (
    GraphPass("fold_constants", fold_constants, "what is known is computed once, here"),
    GraphPass("canonicalize", canonicalize, "one form for what is written in many"),
    GraphPass("fold_scales", fold_scales, "scales of channels, batch norms too, go into weights"),
    GraphPass("merge_common", merge_common, "the same node on the same operands runs once"),
    GraphPass("fold_constants_again", fold_constants, "of what these passes have made"),
)
"""In order."""


def optimized(graph: Graph) -> Graph:
    """The graph after all passes, checked."""
    for one in PASSES:
        graph = one.run(graph).pruned()
    graph.check()
    return graph
