"""Views: values that are part of another one's memory, so that nothing is copied.

    y = reshape(x)           y is x's memory, read with another shape
    y = slice(x, rows)       y is where those rows are in x
    y = concat(a, b)         a and b are computed where they are in y

A slice or a concatenation is a view where its parts lie whole in memory, one behind the other:
along the first axis whose extent is not 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from whet.compiler.graph.ir import Graph, Node, Value
from whet.compiler.graph.kinds import Kind, kind_of
from whet.compiler.graph.memory import ALIGNMENT
from whet.compiler.tir import dtype as dt

_LARGE = 1 << 14  # bytes of a concatenation that is not better fused with what reads it


@dataclass(frozen=True)
class View:
    """Where a value is.

    Attributes:
        base: the value whose memory it is.
        offset: bytes from there.
    """

    base: Value
    offset: int = 0


@dataclass(frozen=True)
class Views:
    """The views of a graph.

    Attributes:
        nodes: that are no kernels.
        places: value -> where it is; those that have memory of their own are left out.
    """

    nodes: frozenset[Node]
    places: Mapping[Value, View]

    def __getitem__(self, v: Value) -> View:
        return self.places.get(v) or View(v)


def views(graph: Graph, parts: bool = True) -> Views:
    """The views of a graph.

    Args:
        graph: whose.
        parts: whether parts of values are views, too, and not only what is reshaped.

    An output of the graph has memory of its own, which the caller gives. What is reshaped to one is
    computed there, if nobody else gave it a place; else the reshape is a copy, and no view.
    """
    found = _Finder(graph)
    for node in graph.nodes:
        find = _FINDERS.get(node.operator)
        if not parts and node.operator != "reshape":
            continue
        if find is not None and node.output.size and find(found, node):
            found.nodes.add(node)
    return Views(frozenset(found.nodes), {v: found.view(v) for v in found.within})


class _Finder:
    """Views so far.

    Args:
        graph: whose.

    Attributes:
        nodes: that are no kernels.
        within: value -> the value that it is part of, and its place there.
        taken: values that cannot be moved into another one.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: set[Node] = set()
        self.within: dict[Value, View] = {}
        self.outputs = set(graph.outputs)
        self.taken: set[Value] = {*graph.inputs, *graph.outputs, *graph.constants}

    def view(self, v: Value) -> View:
        """Where a value is, as things stand."""
        offset = 0
        while v in self.within:
            offset += self.within[v].offset
            v = self.within[v].base
        return View(v, offset)

    def whole(self, v: Value) -> Value | None:
        """The value that may move and whose whole memory another one is; None: there is none."""
        base = self.view(v).base
        return base if base.bytes == v.bytes and base not in self.taken else None


def _reshape(found: _Finder, node: Node) -> bool:
    (source,) = node.reads
    if node.output in found.outputs:
        base = found.whole(source)
        if base is None:
            return False
        found.taken.add(base)
    found.within[node.output] = View(source)
    return True


def _slice(found: _Finder, node: Node) -> bool:
    """A slice is a view for what it cannot be fused with."""
    (source,) = node.reads
    begin = _first(node)
    if begin is None or node.output in found.outputs:
        return False
    base, offset = (at := found.view(source)).base, at.offset + begin
    if offset % ALIGNMENT or base in found.graph.constants:
        return False
    if all(_fuses(n) for n in found.graph.readers.get(node.output, ())):
        return False
    found.within[node.output] = View(source, begin)
    return True


def _fuses(reader: Node) -> bool:
    """True for a node that reads what a slice moves as cheaply as the slice itself."""
    return reader.operator != "reshape" and kind_of(reader) <= Kind.INJECTIVE


def _concat(found: _Finder, node: Node) -> bool:
    """The parts of a large concatenation are computed in their places, if all of them can be."""
    made = node.output
    if made.bytes < _LARGE or prod(made.shape[: node.attrs["axis"] % len(made.shape)]) != 1:
        return False
    offset, parts = 0, {}
    for v in node.reads:
        base = found.whole(v)
        if base is None or base in parts or offset % ALIGNMENT or not v.size:
            return False
        parts[base] = View(made, offset)
        offset += v.bytes
    found.within.update(parts)
    return True


def _first(node: Node) -> int | None:
    """The byte of its operand with which a slice begins; None: its elements lie apart."""
    (x,) = node.reads
    attrs, made = node.attrs, node.output
    changed = [a for a, (n, m) in enumerate(zip(x.shape, made.shape)) if n != m]
    if len(changed) > 1 or any(s != 1 for s in attrs["step"]):
        return None
    if not changed:
        return 0
    (axis,) = changed
    if prod(x.shape[:axis]) != 1:
        return None
    (begin,) = (b for b, a in zip(attrs["begin"], attrs["axes"]) if a % len(x.shape) == axis)
    begin = max(0, begin + x.shape[axis]) if begin < 0 else begin
    return int(begin) * prod(x.shape[axis + 1 :]) * dt.itemsize(x.dtype)


_FINDERS = {"concat": _concat, "reshape": _reshape, "slice": _slice}
