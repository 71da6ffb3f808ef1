"""canonicalize: one form for what models write in many."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from whet.compiler.graph.ir import Graph, Node, Value
from whet.compiler.graph.passes.rewriting import Rewriting, rewritten

Rule = Callable[[Rewriting, Node], "Value | None"]


def canonicalize(graph: Graph) -> Graph:
    """The graph in which nothing copies, reshapes twice, or transposes what a product can read."""

    def rule(work: Rewriting, node: Node) -> Value | None:
        own = _RULES.get(node.operator)
        return None if own is None else own(work, node)

    return rewritten(graph, rule)


def _identity(work: Rewriting, node: Node) -> Value | None:
    """Nothing is copied but an output that is an input or a constant."""
    return node.inputs[0]


def _cast(work: Rewriting, node: Node) -> Value | None:
    (x,) = node.reads
    return x if x.dtype == node.output.dtype else None


def _reshape(work: Rewriting, node: Node) -> Value | None:
    """A reshape of a reshape is one; of the same shape it is none."""
    (x,) = node.reads
    before = work.maker(x)
    if before is not None and before.operator == "reshape":
        (x,) = before.reads
    if x.shape == node.output.shape:
        return x
    if x is not node.inputs[0]:
        return work.add("reshape", [x], node, shape=node.output.shape)
    return None


def _transpose(work: Rewriting, node: Node) -> Value | None:
    """A transpose of a transpose is one; one that only moves axes of 1 is a reshape."""
    (x,) = node.reads
    axes = tuple(node.attrs["axes"])
    before = work.maker(x)
    if before is not None and before.operator == "transpose":
        (x,) = before.reads
        axes = tuple(before.attrs["axes"][a] for a in axes)
    if axes == tuple(range(len(axes))):
        return x
    moved = [a for a in axes if x.shape[a] != 1]
    if moved == sorted(moved):
        return work.add("reshape", [x], node, shape=node.output.shape)
    if x is not node.inputs[0]:
        return work.add("transpose", [x], node, axes=axes)
    return None


def _expand(work: Rewriting, node: Node) -> Value | None:
    (x,) = node.reads
    return x if x.shape == node.output.shape else None


def _binary(neutral: float) -> Rule:
    """An operator with a number that changes nothing."""

    def rule(work: Rewriting, node: Node) -> Value | None:
        for x, other in (node.inputs, node.inputs[::-1]):
            array = work.known(other)
            if x is None or array is None or x.shape != node.output.shape:
                continue
            if x.dtype == node.output.dtype and array.size and np.all(array == neutral):
                return x
        return None

    return rule


def _matmul(work: Rewriting, node: Node) -> Value | None:
    """A product reads its operands' last two axes in either order."""
    inputs, attrs = list(node.inputs), dict(node.attrs)
    for k, name in ((0, "transpose_a"), (1, "transpose_b")):
        made = work.maker(inputs[k])
        if made is None or made.operator != "transpose":
            continue
        axes = list(made.attrs["axes"])
        rank = len(axes)
        if axes == [*range(rank - 2), rank - 1, rank - 2]:
            inputs[k] = made.inputs[0]
            attrs[name] = not attrs.get(name, False)
    if inputs == list(node.inputs):
        return None
    return work.add(node.operator, inputs, node, **attrs)


_RULES: Mapping[str, Rule] = {
    "add": _binary(0.0),
    "cast": _cast,
    "expand": _expand,
    "gemm": _matmul,
    "identity": _identity,
    "matmul": _matmul,
    "multiply": _binary(1.0),
    "reshape": _reshape,
    "transpose": _transpose,
}
