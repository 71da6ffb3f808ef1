"""Control flow and sequences, unrolled at import: branches, loops and lists of tensors.

How often a loop runs, and which element of a sequence is meant, must be known; of a branch whose
condition is computed when the model runs both sides are computed, and one is selected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.compiler.graph import Value
from whet.frontends.onnx.operators.node import OnnxNode
from whet.frontends.onnx.operators.shapes import reshaped

if TYPE_CHECKING:
    from onnx import GraphProto

MOST_UNROLLED = 10_000  # nodes that a loop may become

Values = Sequence[Any]  # a Value, None, or a tuple of values: a sequence of tensors
Scope = dict[str, Any]
Run = Callable[["GraphProto", Scope, Values], list[Any]]
"""From a body, the names around it and its operands to its results."""


def branch(n: OnnxNode, scope: Scope, run: Run) -> list[Any]:
    """If: its branch where the condition is known, else a selection from both."""
    graphs = [n.attr("then_branch"), n.attr("else_branch")]
    condition = n.builder.known(n.input(0))
    if condition is not None:
        return run(graphs[0 if bool(np.asarray(condition).reshape(())) else 1], scope, [])
    made = [run(g, scope, []) for g in graphs]
    found = []
    where = reshaped(n, n.input(0), ())
    for a, b in zip(*made):
        alike = isinstance(a, Value) and isinstance(b, Value)
        if not alike or (a.shape, a.dtype) != (b.shape, b.dtype):
            raise n.refused(
                "its condition is computed when the model runs, and its branches give other types",
                "give the condition's value: constants={name: array}",
            )
        found.append(a if a is b else n.add("where", [where, a, b]))
    return found


def loop(n: OnnxNode, scope: Scope, run: Run) -> list[Any]:
    """Loop: its body so often as is known at import."""
    body = n.attr("body")
    most = int(np.asarray(n.known(0)).reshape(())) if n.has(0) else None
    goes_on = bool(np.asarray(n.known(1)).reshape(())) if n.has(1) else True
    state: list[Any] = list(n.inputs[2:])
    rows: list[list[Any]] = []
    true = n.constant(True)
    k = 0
    while goes_on and (most is None or k < most):
        _check_size(n, k, body)
        made = run(body, scope, [n.constant(np.int64(k)), true, *state])
        known = n.builder.known(made[0]) if isinstance(made[0], Value) else None
        if known is None:
            raise n.refused("how often it runs is computed when the model runs")
        goes_on = bool(np.asarray(known).reshape(()))
        state = made[1 : 1 + len(state)]
        rows.append(made[1 + len(state) :])
        k += 1
    many = len(body.output) - 1 - len(state)
    if many and not rows:
        raise n.refused("it runs no time, and the shapes of what it would collect are not known")
    return [*state, *(_stacked(n, [r[j] for r in rows], 0) for j in range(many))]


def scan(n: OnnxNode, scope: Scope, run: Run) -> list[Any]:
    """Scan: its body once for each element of its operands along their axes."""
    body, many = n.attr("body"), n.attr("num_scan_inputs")
    if n.version < 9:
        raise n.refused("Scan of version 8 has sequences of several lengths")
    count = len(n.inputs) - many
    state, given = list(n.inputs[:count]), [n.input(k) for k in range(count, len(n.inputs))]
    collected = len(body.output) - count
    axes = n.attr("scan_input_axes", [0] * many)
    axes = [n.axis(a, len(v.shape)) for a, v in zip(axes, given)]
    backwards = n.attr("scan_input_directions", [0] * many)
    lengths = {v.shape[a] for a, v in zip(axes, given)}
    if len(lengths) != 1 or not (length := lengths.pop()):
        raise n.refused("its operands have different lengths, or none")
    rows: list[list[Any]] = []
    for k in range(length):
        _check_size(n, k, body)
        parts = []
        for v, a, back in zip(given, axes, backwards):
            at = length - 1 - k if back else k
            part = n.add("slice", [v], begin=[at], end=[at + 1], step=[1], axes=[a])
            parts.append(reshaped(n, part, (*v.shape[:a], *v.shape[a + 1 :])))
        made = run(body, scope, [*state, *parts])
        state = made[:count]
        rows.append(made[count:])
    out_axes = n.attr("scan_output_axes", [0] * collected)
    turned = n.attr("scan_output_directions", [0] * collected)
    found = []
    for j in range(collected):
        column = [r[j] for r in rows]
        found.append(_stacked(n, column[::-1] if turned[j] else column, out_axes[j]))
    return [*state, *found]


def _check_size(n: OnnxNode, times: int, body: Any) -> None:
    if times * max(len(body.node), 1) > MOST_UNROLLED:
        raise n.refused(f"unrolled it would be more than {MOST_UNROLLED} nodes")


def _stacked(n: OnnxNode, parts: Sequence[Any], axis: int) -> Value:
    """Values of one shape as one, with a new axis."""
    shape = parts[0].shape
    if any(p.shape != shape for p in parts):
        raise n.refused("what it collects has another shape each time")
    at = n.axis(axis, len(shape) + 1)
    wide = [reshaped(n, p, (*shape[:at], 1, *shape[at:])) for p in parts]
    return wide[0] if len(wide) == 1 else n.add("concat", wide, axis=at)


CONTROL: dict[str, Callable[[OnnxNode, Scope, Run], list[Any]]] = {
    "If": branch,
    "Loop": loop,
    "Scan": scan,
}
"""Operator -> the function that translates a node with bodies."""


def _elements(n: OnnxNode, k: int = 0) -> tuple[Any, ...]:
    found = n.inputs[k]
    if not isinstance(found, tuple):
        raise n.refused(f"its input {k} is no sequence that is known at import")
    return found


def _position(n: OnnxNode, k: int, extent: int) -> int:
    at = int(np.asarray(n.known(k)).reshape(()))
    if not -extent <= at < extent:
        raise n.refused(f"position {at} of {extent} elements")
    return at % extent


def _insert(n: OnnxNode) -> Any:
    items = list(_elements(n))
    at = _position(n, 2, len(items) + 1) if n.has(2) else len(items)
    if n.has(2) and int(np.asarray(n.known(2)).reshape(())) < 0:
        at = (at + len(items)) % (len(items) + 1)
    return (*items[:at], n.input(1), *items[at:])


def _erase(n: OnnxNode) -> Any:
    items = _elements(n)
    at = _position(n, 1, len(items)) if n.has(1) else len(items) - 1
    return (*items[:at], *items[at + 1 :])


def _at(n: OnnxNode) -> Any:
    items = _elements(n)
    return items[_position(n, 1, len(items))]


def _concat(n: OnnxNode) -> Any:
    items = _elements(n)
    if not items:
        raise n.refused("its sequence is empty")
    if n.attr("new_axis", 0):
        return _stacked(n, items, n.attr("axis"))
    axis = n.axis(n.attr("axis"), len(items[0].shape))
    return items[0] if len(items) == 1 else n.add("concat", items, axis=axis)


def _split(n: OnnxNode) -> Any:
    x = n.input(0)
    axis = n.axis(n.attr("axis", 0), len(x.shape))
    extent = x.shape[axis]
    sizes = np.asarray(n.known(1, np.int64(1)))
    if sizes.ndim:
        each = [int(s) for s in sizes]
    else:
        size = int(sizes)
        each = [min(size, extent - k) for k in range(0, extent, size)]
    keep = n.has(1) or n.attr("keepdims", 1)
    found, begin = [], 0
    for size in each:
        part = n.add("slice", [x], begin=[begin], end=[begin + size], step=[1], axes=[axis])
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        found.append(part if keep else reshaped(n, part, shape))
        begin += size
    return tuple(found)


def _construct(n: OnnxNode) -> Any:
    return tuple(n.input(k) for k in range(len(n.inputs)))


def _optional(n: OnnxNode) -> Any:
    if not n.inputs or n.inputs[0] is None:
        raise n.refused("it makes an optional value without an element")
    return n.inputs[0]


SEQUENCES: dict[str, Callable[[OnnxNode], Any]] = {
    "ConcatFromSequence": _concat,
    "Optional": _optional,
    "OptionalGetElement": lambda n: n.inputs[0],
    "OptionalHasElement": lambda n: n.constant(bool(n.inputs) and n.inputs[0] is not None),
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": lambda n: (),
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": lambda n: n.constant(np.int64(len(_elements(n)))),
    "SplitToSequence": _split,
}
"""Operator on sequences -> the function that translates a node; a sequence is a tuple."""
