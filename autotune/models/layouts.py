"""Layouts of images across a model: (N, C, H, W) or (N, H, W, C), whichever costs least.

Each node that can compute in either layout costs what the rules' estimates say of it; where nodes
of different layouts meet, a transpose costs the bytes that it moves. A minimum cut finds the
cheapest choice of all. Inputs and outputs of a model keep the layout that it gives them.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from whet.autotune.models.cut import Cut
from whet.compiler.graph.ir import Graph, Node, Value
from whet.compiler.graph.passes.channels_last import (
    TO_FIRST,
    TO_LAST,
    images_of,
    makes_image,
    with_channels_last,
)
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.forms.widened_sum import DTYPES
from whet.search_spaces.rules.cpu.conv.algorithms import least_cycles
from whet.search_spaces.rules.cpu.conv.depthwise import cycles_of_depthwise
from whet.search_spaces.rules.cpu.conv.estimate.costs import Costs, costs_of

_BETWEEN = 5_000.0  # cycles that are lost where nodes in two layouts cannot be one kernel
_OPEN = 3.0  # times as long as with the channels last a convolution of an open image takes
_OUTSIDE = "outside"
"""Stands for all that has the channels first: inputs, outputs, nodes of one layout."""


def laid_out(graph: Graph, target: Target) -> Graph:
    """The graph with the channels last where that costs less.

    Args:
        graph: after its passes.
        target: canonical; for GPUs nothing changes.
    """
    last = channels_last_of(graph, target)
    return with_channels_last(graph, last) if last else graph


def channels_last_of(graph: Graph, target: Target, opened: Collection[Node] = ()) -> list[Node]:
    """The nodes of a graph that compute with the channels last.

    Args:
        graph, target: as of :func:`laid_out`.
        opened: convolutions whose images are of any size: rows of pixels have no whole vectors.
    """
    if target.kind not in ("llvm", "c"):
        return []
    free = {n: images for n in graph.nodes if (images := _images(graph, n)) is not None}
    if not any(n.operator == "conv" for n in free):
        return []
    cut, costs = Cut(), costs_of(target)
    cut.keep(_OUTSIDE)
    for node in free:
        if node.operator == "conv":
            first, last = _conv_cycles(node, target)
            cut.cost(node, _OPEN * last if node in opened else first, last)
    for v, readers in graph.readers.items():
        if len(v.shape) != 4 or v in graph.constants:
            continue
        made = graph.producers.get(v)
        own = made if made in free and makes_image(made) else _OUTSIDE
        if made is not None and _turns(made, TO_FIRST):
            own = made
        sides = [r if v in free.get(r, ()) or _turns(r, TO_LAST) else _OUTSIDE for r in readers] + [
            _OUTSIDE
        ] * (v in graph.outputs)
        cut.any_apart(own, list(dict.fromkeys(sides)), _transposed(v, costs))
    for node in graph.nodes:
        if _turns(node, TO_LAST) or _turns(node, TO_FIRST):
            cut.cost(node, _transposed(node.output, costs), 0)
    return [n for n in cut.there() if n in free]


def _images(graph: Graph, node: Node) -> tuple[Value, ...] | None:
    """The images that a node reads in either layout; None: it computes in one."""
    if node.operator == "conv" and node.output.dtype not in DTYPES:
        return None
    return images_of(graph, node)


def _turns(node: Node, axes: tuple[int, ...]) -> bool:
    """True for the transpose between the layouts: it does nothing where one side has the other."""
    return node.operator == "transpose" and tuple(node.attrs["axes"]) == axes


def _transposed(v: Value, costs: Costs) -> float:
    """The cycles of a transpose between the layouts; few where memory stays as it is."""
    _, channels, *image = v.shape
    if channels == 1 or prod(image) == 1:
        return _BETWEEN
    return _BETWEEN + v.size * costs.square + 2 * v.bytes / costs.caches.rate(2 * v.bytes)


def _conv_cycles(node: Node, target: Target) -> tuple[float, float]:
    """The cycles of a convolution with the channels first, and with them last."""
    return (_cycles(_shape(node, "NCHW"), target), _cycles(_shape(node, "NHWC"), target))


def _cycles(shape: ConvShape, target: Target) -> float:
    if shape.ci_group == 1 and shape.groups > 1:
        return cycles_of_depthwise(shape, target)
    return least_cycles(shape, target, True)


def _shape(node: Node, layout: str) -> ConvShape:
    x, weight = node.reads[:2]
    n, ci, *image = x.shape
    co, _, *window = weight.shape
    attrs, out = node.attrs, node.output.shape[2:]
    before = tuple(attrs["padding"][:2])
    after = tuple(
        max(0, (o - 1) * s + (k - 1) * d + 1 - i - b)
        for o, s, k, d, i, b in zip(out, attrs["strides"], window, attrs["dilation"], image, before)
    )
    return ConvShape(
        layout, n, ci, tuple(image), co, tuple(window), tuple(attrs["strides"]), before, after,
        tuple(attrs["dilation"]), attrs.get("groups", 1), dt.check(x.dtype),
    )  # fmt: skip
