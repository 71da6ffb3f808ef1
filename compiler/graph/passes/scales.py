"""fold_scales: scales and shifts of channels behind a convolution or a product go into its weights.

A batch norm of known statistics is such a scale and shift. The weights are scaled in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whet.compiler.graph.ir import Graph, Node, Value
from whet.compiler.graph.passes.rewriting import Rewriting, rewritten


@dataclass(frozen=True, eq=False)
class _Affine:
    """``scale * x + shift`` of each channel, in float64.

    Attributes:
        of: x.
        scale, shift: one number a channel.
    """

    of: Value
    scale: np.ndarray
    shift: np.ndarray


def fold_scales(graph: Graph) -> Graph:
    """The graph with the weights scaled; what has no weights in front is scaled and shifted."""

    def rule(work: Rewriting, node: Node) -> Value | None:
        found = _batch_norm(work, node) or _scaled(work, node)
        if found is None:
            return None
        made = work.maker(found.of)
        if made is not None and made.operator in _WEIGHTS and work.read_once(found.of):
            return _into_weights(work, made, found, node)
        return _as_affine(work, found, node) if node.operator == "batch_norm" else None

    return rewritten(graph, rule)


def _batch_norm(work: Rewriting, node: Node) -> _Affine | None:
    if node.operator != "batch_norm":
        return None
    arrays = [work.known(v) for v in node.inputs[1:]]
    if any(a is None for a in arrays):
        return None
    scale, bias, mean, variance = (a.astype(np.float64) for a in arrays if a is not None)
    factor = scale / np.sqrt(variance + node.attrs["epsilon"])
    x = node.inputs[0]
    assert x is not None
    return _Affine(x, factor, bias - mean * factor)


def _scaled(work: Rewriting, node: Node) -> _Affine | None:
    """A product with, or a sum of, one number a channel."""
    if node.operator not in ("multiply", "add"):
        return None
    for x, other in (node.inputs, node.inputs[::-1]):
        array = work.known(other)
        if x is None or array is None or x.shape != node.output.shape:
            continue
        made = work.maker(x)
        if made is None or made.operator not in _WEIGHTS or x.dtype[:5] != "float":
            continue
        channel = 1 if made.operator == "conv" else len(x.shape) - 1
        numbers = _per_channel(array, x.shape, channel)
        if numbers is not None:
            one = np.ones_like(numbers)
            is_sum = node.operator == "add"
            return _Affine(x, one if is_sum else numbers, numbers if is_sum else 0 * one)
    return None


def _per_channel(array: np.ndarray, shape: Sequence[int], channel: int) -> np.ndarray | None:
    """The numbers of an operand that differs along one axis only; None: it is another one."""
    full = array.reshape((1,) * (len(shape) - array.ndim) + array.shape)
    if any(d != 1 for k, d in enumerate(full.shape) if k != channel):
        return None
    return np.broadcast_to(full.reshape(-1).astype(np.float64), (shape[channel],))


_WEIGHTS = ("conv", "gemm", "matmul")


def _into_weights(work: Rewriting, made: Node, by: _Affine, node: Node) -> Value | None:
    """The convolution or the product with its weights and bias scaled; None: it cannot be."""
    x, w = made.inputs[:2]
    weight = work.known(w)
    assert w is not None
    if weight is None or (made.operator == "matmul" and len(w.shape) != 2):
        return None
    bias = work.known(made.inputs[2]) if len(made.inputs) > 2 else None
    if len(made.inputs) > 2 and made.inputs[2] is not None and bias is None:
        return None
    attrs = dict(made.attrs)
    if made.operator == "conv":
        scale = by.scale.reshape(-1, *[1] * (weight.ndim - 1))
    else:
        if attrs.pop("alpha", 1.0) != 1.0 or attrs.pop("beta", 1.0) != 1.0:
            return None
        scale = by.scale.reshape(-1, 1) if attrs.get("transpose_b") else by.scale
    total = by.shift if bias is None else bias.astype(np.float64) * by.scale + by.shift
    if total.shape != by.scale.shape:
        if total.size != by.scale.size:
            return None
        total = total.reshape(-1)
    kind = weight.dtype
    name = w.name
    scaled = work.constant((weight.astype(np.float64) * scale).astype(kind), name)
    shift = work.constant(total.astype(kind), f"{name}.bias")
    if made.operator == "matmul":
        if len(made.output.shape) < 2:
            return None
        product = work.add("matmul", [x, scaled], node, **attrs)
        return work.add("add", [product, shift], node)
    return work.add(made.operator, [x, scaled, shift], node, **attrs)


def _as_affine(work: Rewriting, by: _Affine, node: Node) -> Value:
    x = by.of
    shape = (-1, *[1] * (len(x.shape) - 2))
    scale, shift = (
        work.constant(a.astype(x.dtype).reshape(shape), f"{node.output.name}.{word}")
        for a, word in ((by.scale, "scale"), (by.shift, "shift"))
    )
    return work.add("add", [work.add("multiply", [x, scale], node), shift], node)
