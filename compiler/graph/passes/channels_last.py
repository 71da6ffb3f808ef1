"""with_channels_last: some nodes compute images (N, H, W, C); the others (N, C, H, W), as before.

Which nodes, another one says, who knows costs. Where a node of one layout reads what one of the
other makes, the graph has a transpose; constants, weights above all, are transposed here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from whet.compiler.graph.ir import Graph, Node, Value
from whet.compiler.graph.operators import elementwise
from whet.compiler.graph.passes.canonical import canonicalize
from whet.compiler.graph.passes.common import merge_common
from whet.compiler.graph.passes.fold import fold_constants
from whet.compiler.graph.passes.rewriting import Rewriting, rewritten

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
"""The axes of the transposes between the layouts."""

_WEIGHTS = (2, 3, 1, 0)  # (O, I, H, W) -> (H, W, I, O)
_RANK = 4
_REDUCTIONS = ("max", "mean", "min", "prod", "sum")


def images_of(graph: Graph, node: Node) -> tuple[Value, ...] | None:
    """The images that a node reads in either layout; None: it can compute in one only.

    Args:
        graph: whose constants are known.
        node: one of its nodes.
    """
    is_elementwise = node.operator in elementwise.OPERATORS
    ranked = node.outputs if is_elementwise else node.reads[:1]
    if len(node.outputs) != 1 or not ranked or len(ranked[0].shape) != _RANK:
        return None
    if _attributes(node) is None:
        return None
    if is_elementwise:
        for v in node.reads:
            if len(v.shape) != _RANK and v.size != 1 and v not in graph.constants:
                return None
    if node.operator == "conv":
        x, weights = node.reads[:2]
        return (x,) if weights in graph.constants else None
    return tuple(v for v in node.reads if len(v.shape) == _RANK and v not in graph.constants)


def makes_image(node: Node) -> bool:
    """True if what a node makes has the layout of what it reads."""
    return node.operator not in _REDUCTIONS or bool(node.attrs.get("keepdims", True))


def with_channels_last(graph: Graph, nodes: Collection[Node]) -> Graph:
    """The graph in which some nodes have the channels last, transposes where layouts meet.

    Args:
        graph: after its passes.
        nodes: of those that have :func:`images_of`.
    """
    chosen = {n.output for n in nodes}
    turned: dict[Value, Value] = {}

    def last(work: Rewriting, v: Value, like: Node) -> Value:
        """A value of four dimensions with the channels last."""
        made = work.maker(v)
        if made is not None and made.operator == "transpose" and made.output in firsts:
            return made.reads[0]
        if v not in turned:
            turned[v] = work.add("transpose", [v], _named(like, v.name), axes=TO_LAST)
        return turned[v]

    firsts: set[Value] = set()

    def rule(work: Rewriting, node: Node) -> Value | None:
        if node.output not in chosen:
            return None
        found = _attributes(node)
        assert found is not None
        operator, attrs = found
        inputs = [
            None if v is None else _operand(work, node, k, v, last)
            for k, v in enumerate(node.inputs)
        ]
        if not makes_image(node):
            return work.add(operator, inputs, node, **attrs)
        made = work.add(operator, inputs, _named(node, node.output.name), **attrs)
        first = work.add("transpose", [made], node, axes=TO_FIRST)
        firsts.add(first)
        return first

    made = rewritten(graph, rule).pruned()
    for one in (canonicalize, fold_constants, merge_common):
        made = one(made).pruned()
    return made


def pointwise_as_matmul(graph: Graph, names: Collection[str]) -> Graph:
    """The graph in which convolutions of single pixels are products of matrices.

    Args:
        graph: after :func:`with_channels_last`.
        names: of what the convolutions made before it.
    """
    wanted = {f"{name}.nhwc" for name in names}

    def rule(work: Rewriting, node: Node) -> Value | None:
        attrs = node.attrs
        if node.operator != "conv" or node.output.name not in wanted:
            return None
        x, weights, *bias = node.reads
        one = attrs.get("channels_last") and attrs.get("groups", 1) == 1
        one = one and set(attrs["strides"]) == {1} and set(attrs["padding"]) == {0}
        if not one or weights.shape[:2] != (1, 1):
            return None
        matrix = work.add("reshape", [weights], _named(node, weights.name), shape=weights.shape[2:])
        if not bias:
            return work.add("matmul", [x, matrix], node)
        sums = work.add("matmul", [x, matrix], _named(node, node.output.name))
        return work.add("add", [sums, *bias], node)

    return fold_constants(rewritten(graph, rule).pruned()).pruned()


def _operand(
    work: Rewriting, node: Node, k: int, v: Value, last: Callable[[Rewriting, Value, Node], Value]
) -> Value:
    """An operand of a node that has the channels last."""
    if node.operator == "conv" and k == 1:
        return work.add("transpose", [v], _named(node, v.name), axes=_WEIGHTS)
    if len(v.shape) == _RANK:
        return last(work, v, node)
    if node.operator not in elementwise.OPERATORS or v.size == 1:
        return v
    shape = (*[1] * (_RANK - len(v.shape)), *v.shape)
    full = work.add("reshape", [v], _named(node, v.name), shape=shape)
    return work.add("transpose", [full], _named(node, v.name), axes=TO_LAST)


def _named(node: Node, name: str) -> Node:
    """The node in whose place another one stands that makes something with the channels last."""
    return replace(node, outputs=(replace(node.output, name=f"{name}.nhwc"),))


def _attributes(node: Node) -> tuple[str, Mapping[str, Any]] | None:
    """The operator and attributes of a node with the channels last; None: it has no such form."""
    if node.operator in elementwise.OPERATORS:
        return node.operator, node.attrs
    form = _FORMS.get(node.operator)
    return None if form is None else form(node)


def _place(axis: int) -> int:
    """Where an axis of (N, C, H, W) is with the channels last."""
    return TO_LAST.index(axis % _RANK)


def _conv(node: Node) -> tuple[str, Mapping[str, Any]] | None:
    if node.attrs.get("channels_last"):
        return None
    return "conv", {**node.attrs, "channels_last": True}


def _pool(node: Node) -> tuple[str, Mapping[str, Any]] | None:
    attrs = node.attrs
    if len(attrs["window"]) != 2 or attrs.get("ceil_mode") or attrs.get("channels_last"):
        return None
    return "pool", {**attrs, "channels_last": True}


def _adaptive_pool(node: Node) -> tuple[str, Mapping[str, Any]] | None:
    if node.attrs.get("channels_last"):
        return None
    return "adaptive_pool", {**node.attrs, "channels_last": True}


def _global_pool(node: Node) -> tuple[str, Mapping[str, Any]]:
    kind = "max" if node.attrs["kind"] == "max" else "mean"
    return kind, {"axes": (1, 2), "keepdims": True}


def _reduction(node: Node) -> tuple[str, Mapping[str, Any]] | None:
    """A reduction whose result has the same axes in the same order in either layout."""
    axes = [_place(a) for a in node.attrs["axes"]]
    kept = [_place(a) for a in range(_RANK) if _place(a) not in axes]
    if not makes_image(node) and kept != sorted(kept):
        return None
    return node.operator, {**node.attrs, "axes": tuple(sorted(axes))}


def _concat(node: Node) -> tuple[str, Mapping[str, Any]]:
    return "concat", {"axis": _place(node.attrs["axis"])}


def _slice(node: Node) -> tuple[str, Mapping[str, Any]]:
    return "slice", {**node.attrs, "axes": tuple(_place(a) for a in node.attrs["axes"])}


def _pad(node: Node) -> tuple[str, Mapping[str, Any]] | None:
    sides = {k: tuple(node.attrs[k][a] for a in TO_LAST) for k in ("before", "after")}
    return "pad", {**node.attrs, **sides}


_FORMS: Mapping[str, Callable[[Node], tuple[str, Mapping[str, Any]] | None]] = {
    "adaptive_pool": _adaptive_pool,
    "concat": _concat,
    "conv": _conv,
    "global_pool": _global_pool,
    "pad": _pad,
    "pool": _pool,
    "slice": _slice,
    **dict.fromkeys(_REDUCTIONS, _reduction),
}
