"""fold_constants: elementwise operators and moves of known arrays are computed by numpy, here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from whet.compiler.graph.ir import Graph, Node, Value
from whet.compiler.graph.passes.rewriting import Rewriting, rewritten

MOST_BYTES = 1 << 28  # of a result: what is larger, as an expanded constant, is computed later

_OPERATORS: Mapping[str, Callable[..., Any]] = {
    "abs": np.abs,
    "add": np.add,
    "cast": lambda x, dtype: x.astype(dtype),
    "ceil": lambda x: _rounded(np.ceil, x),
    "concat": lambda *x, axis: np.concatenate(x, axis),
    "cos": lambda x: _rounded(np.cos, x),
    "divide": lambda x, y: np.divide(x, y) if x.dtype.kind == "f" else None,
    "exp": lambda x: _rounded(np.exp, x),
    "expand": lambda x, shape: np.broadcast_to(x, shape),
    "flip": lambda x, axis: np.flip(x, axis),
    "floor": lambda x: _rounded(np.floor, x),
    "identity": lambda x: x,
    "log": lambda x: _rounded(np.log, x),
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "negative": np.negative,
    "reshape": lambda x, shape: x.reshape(shape),
    "rsqrt": lambda x: _rounded(lambda y: 1 / np.sqrt(y), x),
    "sin": lambda x: _rounded(np.sin, x),
    "slice": lambda x, begin, end, step, axes: x[_slices(x, begin, end, step, axes)],
    "sqrt": np.sqrt,
    "subtract": np.subtract,
    "tanh": lambda x: _rounded(np.tanh, x),
    "transpose": lambda x, axes: x.transpose(axes),
}


def _rounded(function: Callable[..., Any], x: np.ndarray) -> np.ndarray | None:
    """A function of floats, computed in float64 and rounded once."""
    if x.dtype.kind != "f":
        return None
    with np.errstate(all="ignore"):
        made: np.ndarray = function(x.astype(np.float64)).astype(x.dtype)
    return made


def fold_constants(graph: Graph) -> Graph:
    """The graph with constants in the place of such nodes."""

    def rule(work: Rewriting, node: Node) -> Value | None:
        compute = _OPERATORS.get(node.operator)
        arrays = [work.known(v) for v in node.inputs]
        if compute is None or any(a is None for a in arrays) or node.output.bytes > MOST_BYTES:
            return None
        made = compute(*arrays, **node.attrs)
        if made is None or made.shape != node.output.shape:
            return None
        array = np.ascontiguousarray(made, dtype=node.output.dtype).reshape(made.shape)
        return work.constant(array, node.output.name)

    return rewritten(graph, rule)


def _slices(x: Any, begin: Any, end: Any, step: Any, axes: Any) -> tuple[slice, ...]:
    found = [slice(None)] * x.ndim
    for b, e, s, a in zip(begin, end, step, axes):
        found[a] = slice(b, None if s < 0 and e < -x.shape[a] else e, s)
    return tuple(found)
