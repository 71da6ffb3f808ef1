"""Numbers of squares of open images: products of what the squares' own kernel makes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from whet.compiler.abi.extent import Extent, Operation, Shape
from whet.compiler.graph.ir import Value
from whet.compiler.graph.symbolic.family import SymbolicGraph


def with_squares(sizes: SymbolicGraph) -> SymbolicGraph:
    """The graph in which squares are counted by their rows and columns.

    What the kernel of ``image_tiles`` makes is compared with the graph's extents at many sizes;
    how many squares there are in all follows, and is not found from numbers once more.
    """
    shapes: dict[Value, Shape] = dict(sizes.shapes)
    attrs: dict[Any, Any] = dict(sizes.attrs)
    readers = sizes.graph.readers
    for tiles in sizes.graph.nodes:
        if tiles.operator != "image_tiles":
            continue
        front = shapes[tiles.output][:3]
        total = _product(front)
        (flat,) = readers[tiles.output]
        (conv,) = readers[flat.output]
        (back,) = readers[conv.output]
        shapes[flat.output] = (total, *shapes[flat.output][1:])
        shapes[conv.output] = (total, *shapes[conv.output][1:])
        shapes[back.output] = (*front, *shapes[back.output][3:])
        for node in (flat, back):
            attrs[node] = {**attrs[node], "shape": shapes[node.output]}
    return replace(sizes, shapes=shapes, attrs=attrs)


def _product(sizes: Shape) -> Extent:
    found: Extent = 1
    for d in sizes:
        if isinstance(d, int) and isinstance(found, int):
            found *= d
        elif found == 1:
            found = d
        elif d != 1:
            found = Operation("*", found, d)
    return found
