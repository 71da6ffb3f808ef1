"""The graphs of a model at several sizes as one graph whose sizes are polynomials of symbols.

A model's file says by arithmetic on shapes what its sizes are, and front ends compute it for given
sizes. So a model is looked at with several: the graphs must be alike but for integers, each of
which is a polynomial of the symbols, or a quotient by strides. What is not, is refused by the name
of its node.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from whet.compiler.abi.extent import Extent, Shape
from whet.compiler.errors import ArgumentError, WhetError
from whet.compiler.graph.ir import Graph, Node, Value
from whet.compiler.graph.symbolic.advice import (
    buckets_of,
    graph_at,
    other_ranges,
    request_of,
    sizes_text,
)
from whet.compiler.graph.symbolic.factors import factors_of, wrong_extent
from whet.compiler.graph.symbolic.likeness import (
    short_constants,
    with_own_constants,
    with_transposes,
)
from whet.compiler.graph.symbolic.sizes import Dynamic, Sizes, is_open, looked_at, ones
from whet.compiler.graph.symbolic.strides import Forms, Row, forms_of

_MOST_DOUBTS = 48  # sizes that are looked at beyond the first ones, to tell forms apart
_NO_SIZE = (bool, str, float, type(None))


@dataclass(frozen=True, eq=False)
class SymbolicGraph:
    """A graph whose sizes depend on symbols.

    Attributes:
        graph: at the greatest sizes.
        ranges: symbol -> its range.
        shapes: value -> its extents.
        attrs: node -> its attributes, with extents in the place of integers.
    """

    graph: Graph
    ranges: Mapping[str, Dynamic]
    shapes: Mapping[Value, Shape]
    attrs: Mapping[Node, Mapping[str, Any]]

    def is_fixed(self, values: Sequence[Value], nodes: Sequence[Node] = ()) -> bool:
        """True if no symbol stands in the sizes of values and nodes."""
        extents = [d for v in values for d in self.shapes[v]]
        extents += [d for n in nodes for d in integers(self.attrs[n])]
        return not any(map(is_open, extents))


def generalised(
    at: Callable[[Sizes], Graph],
    passed: Callable[[Graph], Graph],
    ranges: Mapping[str, Dynamic],
) -> SymbolicGraph:
    """One graph for all sizes of some ranges.

    Args:
        at: gives the graph as the model's file has it, for sizes.
        passed: gives the graph after its passes; it is called with the greatest sizes first.
        ranges: symbol -> its range.

    Raises:
        ArgumentError: the graphs differ in more than sizes, or a size has none.
    """
    try:
        return _generalised(at, passed, ranges)
    except _Refused as error:

        def works(others: Mapping[str, Dynamic]) -> bool:
            with contextlib.suppress(_Refused, WhetError):
                _generalised(at, passed, others)
                return True
            return False

        way = other_ranges(ranges, works)
        why = error.why if way else f"{error.why}; no narrower range helps"
        raise ArgumentError(error.request, why, way + buckets_of(ranges)) from error


class _Refused(Exception):
    """A model that is not one for all sizes."""

    def __init__(self, request: str, why: str) -> None:
        super().__init__(request, why)
        self.request, self.why = request, why


def _generalised(
    at: Callable[[Sizes], Graph],
    passed: Callable[[Graph], Graph],
    ranges: Mapping[str, Dynamic],
) -> SymbolicGraph:
    """As :func:`generalised`, without a way out."""
    inside, more = looked_at(ranges), looked_at(ranges, beyond=True)
    try:
        return _found(at, passed, ranges, more)
    except (_Refused, WhetError):
        if len(more) == len(inside):
            raise
    # what is beyond a short range is another model: its own sizes are all that counts
    return _found(at, passed, ranges, inside + ones(ranges))


def _found(
    at: Callable[[Sizes], Graph],
    passed: Callable[[Graph], Graph],
    ranges: Mapping[str, Dynamic],
    points: Sequence[Sizes],
) -> SymbolicGraph:
    """The graph that is right at some sizes, and in the file's own form also where sizes are 1."""
    file, made = _Alike(ranges), _Alike(ranges)
    ahead = list(points)
    seen = set()
    while ahead:
        point = ahead.pop(0)
        seen.add(tuple(point.values()))
        graph = graph_at(at, ranges, point)
        file.add(graph, point)
        made.add(passed(graph), point)
        if not ahead and len(seen) < len(points) + _MOST_DOUBTS:
            doubt = made.doubt(file) or file.doubt(file)
            if doubt is not None and tuple(doubt.values()) not in seen:
                ahead.append(doubt)
    for point in ones(ranges):
        if point not in points:
            file.add(graph_at(at, ranges, point), point)
    file.graph(file)  # also where a size is 1, for which passes make another one
    whole = made.graph(file)
    wrong = wrong_extent(whole.graph.nodes, whole.shapes, ranges)
    if wrong is not None:
        node, why = wrong
        raise _Refused(request_of(ranges), f"{node.origin or node}: {why}")
    return _with_slices(whole, [v for v, is_cut in made.cut.items() if is_cut])


class _Alike:
    """Graphs of one model at several sizes, alike but for integers.

    Attributes:
        cut: constants of which sizes take a part -> True.
    """

    def __init__(self, ranges: Mapping[str, Dynamic]) -> None:
        self.ranges = ranges
        self.cut: dict[Value, bool] = {}
        self._points: list[Sizes] = []
        self._columns: list[list[int]] = []
        self._first: Graph | None = None
        self._own: set[tuple[int, int]] = set()
        self._text: list[Any] = []

    def add(self, graph: Graph, point: Sizes) -> None:
        """Compare one more graph with the first one.

        Raises:
            _Refused: it is not alike.
        """
        if self._first is None:
            self._own = short_constants(graph)
        graph = with_own_constants(graph, self._own)
        if self._first is not None:
            graph = with_transposes(graph, self._first)
        text, numbers = _described(graph)
        if self._first is None:
            self._first, self._text = graph, text
        elif text != self._text:
            raise _different(self._first, graph, self._text, text, self._points[0], point)
        else:
            beyond = any(point[n] > r.high for n, r in self.ranges.items())
            for v, w in zip(_constants(self._first), _constants(graph)):
                array = graph.constants[w]
                if beyond and array.ndim == len(v.shape):  # of a longer one, its first part
                    array = array[tuple(slice(d) for d in v.shape)]
                if not _same(self._first.constants[v], array, v, self.cut):
                    (reader, *_) = (n for n in self._first.nodes if v in n.reads)
                    why = f"the constant %{v.name} of {reader.origin or reader}"
                    why += f" has other elements at {sizes_text(point)}"
                    raise _Refused(request_of(point), why)
        self._points.append(point)
        self._columns.append(numbers)

    def doubt(self, file: _Alike) -> Sizes | None:
        """Sizes that tell more of what a size is; None where all that can be told is.

        Args:
            file: as of :meth:`graph`.
        """
        return self._forms(set(zip(*self._columns)), file).doubt

    def _forms(self, rows: set[Row], file: _Alike) -> Forms:
        known = [] if file is self else file.found()
        assert self._first is not None
        times = factors_of(self._first.nodes)
        return forms_of(self._points, rows, self.ranges, known, times)

    def found(self) -> list[Extent]:
        """The sizes with symbols."""
        forms = self._forms(set(zip(*self._columns)), self).found.values()
        return [d for d in forms if d is not None and is_open(d)]

    def graph(self, file: _Alike) -> SymbolicGraph:
        """The graph of all sizes.

        Args:
            file: the graphs as the model's file has them.
        """
        rows = list(zip(*self._columns))
        known = self._forms(set(rows), file).found
        assert self._first is not None
        return _filled(self._first, iter([known[row] for row in rows]), self.ranges)


def integers(data: Any) -> Iterator[Any]:
    """The integers and extents in a node's attributes."""
    if isinstance(data, Mapping):
        data = list(data.values())
    if isinstance(data, list | tuple):
        for one in data:
            yield from integers(one)
    elif not isinstance(data, _NO_SIZE):
        yield data


def filled(data: Any, change: Callable[[Any], Any]) -> Any:
    """A node's attributes with other integers, in the order of :func:`integers`."""
    if isinstance(data, Mapping):
        return {k: filled(v, change) for k, v in data.items()}
    if isinstance(data, list | tuple):
        return type(data)(filled(x, change) for x in data)
    return data if isinstance(data, _NO_SIZE) else change(data)


def _described(graph: Graph) -> tuple[list[Any], list[int]]:
    """A graph as a list of its nodes without integers, and all integers."""
    place = {v: k for k, v in enumerate(graph.inputs)}
    numbers = [d for v in graph.inputs for d in v.shape]
    text: list[Any] = []
    for n in graph.nodes:
        for v in (*n.reads, *n.outputs):
            if v not in place:
                place[v] = len(place)
                numbers += v.shape
        used = tuple(None if v is None else place[v] for v in n.inputs)
        made = tuple((place[v], len(v.shape), v.dtype) for v in n.outputs)
        text.append((n.operator, used, made, repr(filled(n.attrs, lambda _: 0))))
        numbers += [int(d) for d in integers(n.attrs)]
    text.append(tuple(place[v] for v in graph.outputs))
    return text, numbers


def _constants(graph: Graph) -> list[Value]:
    """The constants in the order of their use."""
    return list(dict.fromkeys(v for n in graph.nodes for v in n.reads if v in graph.constants))


def _filled(
    graph: Graph, found: Iterator[Extent | None], ranges: Mapping[str, Dynamic]
) -> SymbolicGraph:
    """The graph with the extents that were found."""
    shapes: dict[Value, Shape] = {}
    attrs: dict[Node, Mapping[str, Any]] = {}

    def take(what: str) -> Extent:
        one = next(found)
        if one is None:
            names = ", ".join(ranges)
            why = f"a size of {what} is no polynomial of {names}, and none that strides divide"
            raise _Refused(request_of(ranges), why)
        return one

    for v in graph.inputs:
        shapes[v] = tuple(take(str(v)) for _ in v.shape)
    for n in graph.nodes:
        for v in (*n.reads, *n.outputs):
            if v not in shapes:
                shapes[v] = tuple(take(n.origin or str(n)) for _ in v.shape)
        what = n.origin or str(n)
        attrs[n] = filled(n.attrs, partial(_take_for, take, what))
    return SymbolicGraph(graph, ranges, shapes, attrs)


def _take_for(take: Callable[[str], Extent], what: str, _: Any) -> Extent:
    return take(what)


def _same(first: np.ndarray, other: np.ndarray, v: Value, cut: dict[Value, bool]) -> bool:
    """True if a constant is the same, or the first part of the one at the greatest sizes."""
    if first.shape != other.shape:
        cut[v] = True
        part = first[tuple(slice(d) for d in other.shape)]
        return part.shape == other.shape and _equal(part, other)
    return first is other or _equal(first, other)


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def _with_slices(made: SymbolicGraph, cut: Sequence[Value]) -> SymbolicGraph:
    """Constants of which a call uses a part are sliced by the kernels that read them.

    Where that is what stands in front in memory, it is there already.
    """
    graph, shapes, attrs = made.graph, dict(made.shapes), dict(made.attrs)
    nodes, constants = [], dict(graph.constants)
    for v in cut:
        if _is_front(shapes[v]):
            continue
        whole = Value(f"{v.name}.whole", v.shape, v.dtype)
        constants[whole] = constants.pop(v)
        axes = [k for k, d in enumerate(shapes[v]) if is_open(d)]
        own = {
            "begin": [0] * len(axes), "end": [shapes[v][a] for a in axes],
            "step": [1] * len(axes), "axes": axes,
        }  # fmt: skip
        node = Node("slice", (whole,), (v,), {**own, "end": [v.shape[a] for a in axes]})
        nodes.append(node)
        shapes[whole], attrs[node] = v.shape, own
    whole_graph = replace(graph, nodes=(*nodes, *graph.nodes), constants=constants)
    return SymbolicGraph(whole_graph, made.ranges, shapes, attrs)


def _is_front(shape: Shape) -> bool:
    """True if the first elements along each axis of a constant are those in front of it."""
    first = next((k for k, d in enumerate(shape) if d != 1), 0)
    return not any(map(is_open, shape[first + 1 :]))


def _different(
    first: Graph, other: Graph, text: Sequence[Any], own: Sequence[Any], a: Sizes, b: Sizes
) -> _Refused:
    """The error of two graphs that are not alike, with the first nodes that differ."""
    k = next((k for k, (x, y) in enumerate(zip(text, own)) if x != y), min(len(text), len(own)) - 1)
    nodes = [g.nodes[k] if k < len(g.nodes) else None for g in (first, other)]
    said = [str(n and (n.origin or n)) for n in nodes]
    return _Refused(
        request_of(a),
        f"at {sizes_text(a)} and at {sizes_text(b)} the model is not the same: "
        f"{'; '.join(dict.fromkeys(said))}",
    )
