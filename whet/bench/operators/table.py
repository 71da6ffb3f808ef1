"""All operators by their names, and their right results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import SimpleNamespace as Args
from typing import TYPE_CHECKING

import numpy as np

from whet.bench.operators.contractions import CONTRACTIONS
from whet.bench.operators.convolutions import CONVOLUTIONS
from whet.bench.operators.images import IMAGES
from whet.bench.operators.operator import Array, Operator
from whet.bench.operators.rows import ROWS, gelu, sigmoid
from whet.search_spaces.operators.arguments import BYTES

if TYPE_CHECKING:
    from whet.autotune import Task

OPERATORS: dict[str, Operator] = {**CONTRACTIONS, **CONVOLUTIONS, **IMAGES, **ROWS}
REFERENCES = {name: operator.reference for name, operator in OPERATORS.items()}
PRODUCTS = (*CONTRACTIONS, *CONVOLUTIONS)
"""Operators that multiply, and sum up in a type that may be wider."""


def by_name(task: Task) -> Args:
    """The template's arguments as attributes, defaults filled in."""
    bound = inspect.signature(task.template.func).bind(*task.args)
    bound.apply_defaults()
    return Args(**bound.arguments)


def of_bytes(task: Task) -> bool:
    """True for a task that multiplies bytes: other libraries' operators sum bytes up in bytes."""
    return task.name in PRODUCTS and getattr(by_name(task), "dtype", "") in BYTES


def expected(task: Task, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...] | None:
    """The right outputs of a task in float64; None for an operator without a reference.

    Args:
        task: made from a named template.
        inputs: the kernel's inputs, with weights as they are before they are packed.
    """
    operator = OPERATORS.get(task.name)
    if operator is None:
        return None
    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
    if task.name in PRODUCTS:  # bytes, whose sums are wider
        wide = [x.astype(np.int64) if x.dtype.kind in "iu" else x for x in wide]
    a = by_name(task)
    steps = tuple(getattr(a, "epilogue", ()) or ())
    operands = len(wide) - sum(step in ("bias", "residual") for step in steps)
    result = operator.reference(a, *wide[:operands])
    return (_after(result, steps, wide[operands:], operator.channels),)


def _after(x: Array, steps: tuple, brought: list, channels: tuple[int, ...]) -> Array:
    """``x`` after an epilogue; a bias belongs to the axes ``channels``."""
    rest = list(brought)
    for step in steps:
        name = step if isinstance(step, str) else step[0]
        if name == "bias":
            shape = [1] * x.ndim
            for k in channels:
                shape[k] = x.shape[k]
            x = x + rest.pop(0).reshape(shape)
        elif name == "residual":
            x = x + rest.pop(0)
        elif name == "clip":
            x = np.clip(x, step[1], step[2])
        elif name != "cast":
            x = _ACTIVATIONS[name](x)
    return x


_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: x.clip(0),
    "gelu": gelu,
    "silu": lambda x: x * sigmoid(x),
    "sigmoid": sigmoid,
}
