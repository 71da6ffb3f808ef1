"""conv1d_as_conv2d: convolutions along one dimension as those of images of one row.

Images have two layouts, rules for both, and a choice between them; a sound is an image of one row.
What is element by element between two such convolutions is of images, too.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from whet.compiler.graph.ir import Graph, Node, Value
from whet.compiler.graph.operators import elementwise
from whet.compiler.graph.passes.canonical import canonicalize
from whet.compiler.graph.passes.fold import fold_constants
from whet.compiler.graph.passes.rewriting import Rewriting, rewritten

_RANK = 3


def conv1d_as_conv2d(graph: Graph, names: Collection[str]) -> Graph:
    """The graph in which some convolutions along one dimension are of images.

    Args:
        graph: after its passes.
        names: of what the convolutions make.
    """
    images: dict[Value, Value] = {}  # what has three dimensions -> the same with a row more

    def image(work: Rewriting, v: Value, like: Node) -> Value:
        if v not in images:
            shape = (*v.shape[:-1], 1, v.shape[-1])
            images[v] = work.add("reshape", [v], _named(like, v.name), shape=shape)
        return images[v]

    def follows(node: Node) -> bool:
        """True for what is element by element of images."""
        if node.operator not in elementwise.OPERATORS or len(node.output.shape) != _RANK:
            return False
        wide = [v for v in node.reads if v.size != 1]
        return bool(wide) and all(
            v in images or (v in graph.constants and len(v.shape) == _RANK) for v in wide
        )

    def rule(work: Rewriting, node: Node) -> Value | None:
        is_conv = node.operator == "conv" and node.output.name in names
        if not is_conv and not follows(node):
            return None
        inputs, attrs = list(node.inputs), dict(node.attrs)
        if is_conv:
            (stride,), (before, after) = attrs["strides"], attrs["padding"]
            attrs |= {"strides": (1, stride), "padding": (0, before, 0, after)}
            attrs["dilation"] = (1, *attrs["dilation"])
        for k, v in enumerate(inputs):
            if v is not None and len(v.shape) == _RANK and (is_conv or v.size != 1):
                inputs[k] = image(work, v, node)
        made = work.add(node.operator, inputs, _named(node, node.output.name), **attrs)
        back = work.add("reshape", [made], node, shape=node.output.shape)
        images[back] = made
        return back

    made = rewritten(graph, rule).pruned()
    for one in (canonicalize, fold_constants):
        made = one(made).pruned()
    return made


def _named(node: Node, name: str) -> Node:
    """The node in whose place another one stands that makes an image."""
    return replace(node, outputs=(replace(node.output, name=f"{name}.image"),))
