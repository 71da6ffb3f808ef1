"""conv_by_tiles: 3x3 convolutions of open images as those of a batch of small images of one size.

An image of any size is covered by squares of 6 x 6 pixels that overlap, each of which gives 4 x 4
pixels of the result: so many as Winograd's algorithm makes at once, which needs sizes that are
known. The squares are rows of a group, which has kernels for some numbers of them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from whet.compiler.graph.ir import Graph, Node, Value
from whet.compiler.graph.passes.rewriting import Rewriting, rewritten

STEP = 4
_WINDOW = 3
_SIZE = STEP + _WINDOW - 1
_LEAST_CHANNELS = 16
_MOST_WEIGHTS = 20 << 20  # bytes of transformed weights: more of them take longer than is saved
_MOST_HALVED = 16  # times: extents of squares are quotients by at most 4 times as much
_MOST_OVER = 1.5  # times the image's rows and columns that squares have at its greatest size


def conv_by_tiles(graph: Graph, names: Collection[str]) -> Graph:
    """The graph in which some convolutions are computed square by square.

    Args:
        graph: after :func:`~whet.compiler.graph.passes.channels_last.with_channels_last`.
        names: of what they make.
    """

    def rule(work: Rewriting, node: Node) -> Value | None:
        if node.output.name not in names:
            return None
        x, weights, *bias = node.reads
        n, height, width, channels = node.output.shape
        (top, left, bottom, right), like = node.attrs["padding"], node.output.name
        tiles = work.add(
            "image_tiles", [x], _named(node, f"{like}.squares"), size=_SIZE, step=STEP,
            before=(top, left), after=(bottom, right),
        )  # fmt: skip
        _, rows, columns, *square = tiles.shape
        flat = work.add(
            "reshape", [tiles], _named(node, f"{like}.batch"), shape=(n * rows * columns, *square)
        )
        attrs = {**node.attrs, "padding": (0,) * 4}
        made = work.add("conv", [flat, weights, *bias], _named(node, f"{like}.tiles"), **attrs)
        shape = (n, rows, columns, STEP, STEP, channels)
        back = work.add("reshape", [made], _named(node, f"{like}.results"), shape=shape)
        return work.add("tiles_image", [back], node, height=height, width=width)

    return rewritten(graph, rule).pruned()


def worth_tiles(graph: Graph, node: Node) -> bool:
    """True for a convolution with the channels last that is faster square by square.

    Args:
        graph: at its greatest sizes. node: one of its nodes.
    """
    attrs = node.attrs
    if node.operator != "conv" or not attrs.get("channels_last") or attrs.get("groups", 1) != 1:
        return False
    x, weights = node.reads[:2]
    plain = set(attrs["strides"]) == {1} == set(attrs["dilation"]) and weights in graph.constants
    if not plain or tuple(weights.shape[:2]) != (_WINDOW, _WINDOW) or x.dtype != "float32":
        return False
    channels, made = weights.shape[2:]
    transformed = _SIZE * _SIZE * channels * made * 4
    if min(channels, made) < _LEAST_CHANNELS or transformed > _MOST_WEIGHTS:
        return False
    image = node.output.shape[1:3]
    over = 1.0
    for d in image:
        over *= -(-d // STEP) * STEP / d
    widest = max((d for v in graph.inputs for d in v.shape[2:]), default=0)
    return over <= _MOST_OVER and widest <= _MOST_HALVED * min(image)


def is_of_tiles(node: Node) -> bool:
    """True for a convolution of the squares of :func:`conv_by_tiles`."""
    return node.operator == "conv" and node.output.name.endswith(".tiles")


def _named(node: Node, name: str) -> Node:
    return replace(node, outputs=(replace(node.output, name=name),))
