"""transposed_as_conv: transposed convolutions whose windows do not meet, as those of single pixels.

Each pixel makes a square of its own, of as many pixels as the stride in each direction: a
convolution of single pixels gives them as channels, which are put side by side.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from whet.compiler.graph.ir import Graph, Node, Value
from whet.compiler.graph.passes.rewriting import Rewriting, rewritten

_RANK = 4


def is_apart(graph: Graph, node: Node) -> bool:
    """True for a transposed convolution whose windows are squares that do not meet.

    Args:
        graph: whose constants are known; weights are one of them.
        node: one of its nodes.
    """
    if node.operator != "conv_transpose" or len(node.output.shape) != _RANK:
        return False
    attrs, weights = node.attrs, node.reads[1]
    height, width = attrs["strides"]
    spread = attrs.get("dilation", 1)
    plain = not any((*attrs["padding"], *attrs["output_padding"]))
    plain = plain and set(spread if isinstance(spread, tuple | list) else (spread,)) == {1}
    square = height == width > 1 and tuple(weights.shape[2:]) == (height, width)
    return plain and square and weights in graph.constants


def transposed_as_conv(graph: Graph, names: Collection[str]) -> Graph:
    """The graph in which some transposed convolutions are convolutions of single pixels.

    Args:
        graph: after its passes.
        names: of what they make; those that :func:`is_apart` is true for.
    """

    def rule(work: Rewriting, node: Node) -> Value | None:
        if node.output.name not in names or not is_apart(graph, node):
            return None
        x, weights, *bias = node.reads
        array, (block, _) = graph.constants[weights], node.attrs["strides"]
        many = array.shape[1] * block * block
        points = array.transpose(2, 3, 1, 0).reshape(many, array.shape[0], 1, 1)
        inputs = [x, work.constant(points, f"{weights.name}.points")]
        attrs = {"strides": (1, 1), "padding": (0,) * 4, "dilation": (1, 1), "groups": 1}
        like = replace(node, outputs=(replace(node.output, name=f"{node.output.name}.points"),))
        if bias and (known := graph.constants.get(bias[0])) is not None:
            each = known.repeat(block * block).reshape(-1, block * block).T.reshape(-1)
            inputs.append(work.constant(each, f"{bias[0].name}.points"))
        elif bias:
            return None
        made = work.add("conv", inputs, like, **attrs)
        return work.add("depth_to_space", [made], node, block=block)

    return rewritten(graph, rule).pruned()
