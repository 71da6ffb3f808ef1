"""split_heads: products whose columns are heads of attention give each head a matrix of its own.

    transpose(reshape(matmul(x, W) + b)) * c    W (K, H * D), result (B, H, T, D)
    matmul(reshape(x), W') + b'                 W' (H, K, D), x as (B, 1, T, K)

so that no transpose stands between them and the products that read them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whet.compiler.graph.ir import Graph, Node, Value
from whet.compiler.graph.passes.rewriting import Rewriting, rewritten

_HEADS, _TURNED = (0, 2, 1, 3), (0, 2, 3, 1)  # (B, T, H, D) as (B, H, T, D) and (B, H, D, T)


@dataclass(frozen=True, eq=False)
class _Product:
    """``x * weight + bias``.

    Attributes:
        x: of rows.
        weight: (K, N).
        bias: of N numbers; None: there is none.
        name: of the weights.
    """

    x: Value
    weight: np.ndarray
    bias: np.ndarray | None
    name: str


def split_heads(graph: Graph) -> Graph:
    """The graph with such products; those that others read too stay as they are."""
    found: list[Value] = []

    def rule(work: Rewriting, node: Node) -> Value | None:
        made = None
        if node.operator == "multiply":
            x, number = _times(work, node)
            made = None if x is None else _split(work, work.maker(x), number, node)
        elif node.operator == "transpose" and not _is_scaled(work, node):
            made = _split(work, node, 1.0, node)
        found.extend([] if made is None else [made])
        return made

    made = rewritten(graph, rule)
    return made.pruned() if found else graph


def _times(work: Rewriting, node: Node) -> tuple[Value | None, float]:
    """The value that a node multiplies with a known number, and the number; None: it does not."""
    for x, other in (node.inputs, node.inputs[::-1]):
        number = work.known(other)
        if x is None or number is None or number.size != 1:
            continue
        if x.shape == node.output.shape and x.dtype == node.output.dtype:
            return x, float(number.reshape(-1)[0])
    return None, 1.0


def _is_scaled(work: Rewriting, node: Node) -> bool:
    """True if all that is read of a node is its product with a number."""
    readers = work.graph.readers.get(node.output, ())
    if len(readers) != 1 or not work.read_once(node.output):
        return False
    return readers[0].operator == "multiply" and _times(work, readers[0])[0] is not None


def _split(work: Rewriting, node: Node | None, by: float, like: Node) -> Value | None:
    """A transposed product's heads times a number, each with weights of its own."""
    if node is None or node.operator != "transpose":
        return None
    axes = tuple(node.attrs["axes"])
    cut = work.maker(node.inputs[0])
    if axes not in (_HEADS, _TURNED) or cut is None or cut.operator != "reshape":
        return None
    if like is not node and not work.read_once(node.output):
        return None
    batch, rows, heads, width = cut.output.shape
    product = _product(work, cut.inputs[0]) if work.read_once(cut.output) else None
    if product is None or product.weight.shape[1] != heads * width:
        return None
    depth, dtype = product.weight.shape[0], product.x.dtype
    weight = product.weight.reshape(depth, heads, width).transpose(1, 0, 2)
    x = work.add("reshape", [product.x], like, shape=(batch, 1, rows, depth))
    made = work.add("matmul", [x, _constant(work, weight, by, dtype, product.name)], like)
    if product.bias is not None:
        bias = product.bias.reshape(heads, 1, width)
        bias_name = f"{product.name}.bias"
        made = work.add("add", [made, _constant(work, bias, by, dtype, bias_name)], like)
    return made if axes == _HEADS else work.add("transpose", [made], like, axes=(0, 1, 3, 2))


def _constant(work: Rewriting, array: np.ndarray, by: float, dtype: str, name: str) -> Value:
    if by != 1.0:
        array = (array.astype(np.float64) * by).astype(array.dtype)
    return work.constant(np.ascontiguousarray(array), name)


def _product(work: Rewriting, v: Value | None) -> _Product | None:
    """The product with constant weights that makes a value which is read once; None: none does."""
    node = work.maker(v)
    if v is None or node is None or not work.read_once(v) or v.dtype[:5] != "float":
        return None
    bias = None
    if node.operator == "add":
        for x, other in (node.inputs, node.inputs[::-1]):
            bias = _row(work.known(other), v)
            if bias is not None and x is not None and x.shape == v.shape and work.read_once(x):
                node = work.maker(x)
                break
        else:
            return None
    if node is None or node.operator not in ("matmul", "gemm"):
        return None
    x, w = node.inputs[:2]
    weight, attrs = work.known(w), node.attrs
    plain = attrs.get("alpha", 1.0) == attrs.get("beta", 1.0) == 1.0
    if x is None or w is None or weight is None or weight.ndim != 2 or not plain:
        return None
    if attrs.get("transpose_a") or len(x.shape) < 2 or x.dtype != v.dtype:
        return None
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        bias = None if bias is not None else _row(work.known(node.inputs[2]), v)
        if bias is None:
            return None
    return _Product(x, weight.T if attrs.get("transpose_b") else weight, bias, w.name)


def _row(array: np.ndarray | None, v: Value) -> np.ndarray | None:
    """The numbers of a constant that differs by column only; None: it is another one."""
    if array is None or array.size not in (1, v.shape[-1]) or str(array.dtype) != v.dtype:
        return None
    if array.ndim and array.shape[-1] != array.size:
        return None
    return np.broadcast_to(array.reshape(-1), (v.shape[-1],))
