"""Images resized by a factor: their extents at all sizes, also where nobody looked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import floor

from whet.compiler.abi.extent import Extent, Shape, evaluate, symbols_of
from whet.compiler.graph.ir import Node, Value
from whet.compiler.graph.symbolic.sizes import Dynamic, Sizes, is_open, widest

_MOST = 1 << 14  # sizes of a range that are compared, from either end


def wrong_extent(
    nodes: tuple[Node, ...],
    shapes: Mapping[Value, Shape],
    ranges: Mapping[str, Dynamic],
) -> tuple[Node, str] | None:
    """A node that resizes, and why it does not at all sizes; None: each does.

    A fraction of a size that is rounded down has a form that fits it at some sizes alone.

    Args:
        nodes: of a graph.
        shapes: value -> its extents.
        ranges: symbol -> its range.
    """
    for node in nodes:
        if node.operator != "resample":
            continue
        axis, factor = node.attrs["axis"], node.attrs.get("factor")
        have, made = shapes[node.reads[0]][axis], shapes[node.output][axis]
        if not is_open(have) and not is_open(made):
            continue
        if factor is None:
            return node, "which elements it reads depends on the size"
        for sizes in _sizes(have, ranges):
            if evaluate(made, sizes) != floor(evaluate(have, sizes) * factor):
                return node, f"a size of it, {factor:g} times another, has no form"
    return None


def factors_of(nodes: Iterable[Node]) -> set[float]:
    """The factors by which nodes resize."""
    found = {n.attrs.get("factor") for n in nodes if n.operator == "resample"}
    return {f for f in found if f is not None}


def _sizes(extent: Extent, ranges: Mapping[str, Dynamic]) -> Iterator[Sizes]:
    """The sizes of the symbols of an extent, one after the other at its ends."""
    top, low = widest(ranges), {n: r.low for n, r in ranges.items()}
    for name in symbols_of(extent):
        r = ranges[name]
        every = range(r.low, r.high + 1, r.step)
        for n in {*every[:_MOST], *every[-_MOST:]}:
            yield {**top, name: n}
            yield {**low, name: n}
