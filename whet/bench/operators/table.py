"""All operators by their names, and their right results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace as Args
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.bench.operators.contractions import CONTRACTIONS
from whet.bench.operators.convolutions import CONVOLUTIONS
from whet.bench.operators.images import IMAGES
from whet.bench.operators.onnx_models import MODELS
from whet.bench.operators.operator import Array, Operator, after, brought_by
from whet.bench.operators.rows import ROWS, gelu, sigmoid
from whet.search_spaces.operators.arguments import BYTES

if TYPE_CHECKING:
    from whet.autotune import Task

OPERATORS: dict[str, Operator] = {
    name: replace(operator, onnx=MODELS.get(name))
    for name, operator in {**CONTRACTIONS, **CONVOLUTIONS, **IMAGES, **ROWS}.items()
}
REFERENCES = {name: operator.reference for name, operator in OPERATORS.items()}
PRODUCTS = (*CONTRACTIONS, *CONVOLUTIONS)
"""Operators that multiply, and sum up in a type that may be wider."""
GATHERS = ("take", "gather")
"""Operators that read as many elements of their first input as their indices name."""


def by_name(task: Task) -> Args:
    """The template's arguments as attributes, defaults filled in; none for a graph's task."""
    if task.name not in OPERATORS:
        return Args()
    bound = inspect.signature(task.template.func).bind(*task.args)
    bound.apply_defaults()
    return Args(**bound.arguments)


def of_bytes(task: Task) -> bool:
    """True for a task that multiplies bytes: other libraries' operators sum bytes up in bytes."""
    return task.name in PRODUCTS and getattr(by_name(task), "dtype", "") in BYTES


def laid_out(task: Task, result: Any) -> tuple[Any, ...]:
    """A peer's result in the layout of ours: images of operators come with the channels first."""
    parts = result if isinstance(result, tuple | list) else (result,)
    plain = [x.to_dense() if getattr(x, "is_mkldnn", False) else x for x in parts]
    if task.name not in OPERATORS:  # a graph says itself which layouts it has
        return tuple(plain)
    shape = task.instantiate()[1][-1].shape
    return tuple(OPERATORS[task.name].back(x, int(shape[-1]) if shape else 1) for x in plain)


def expected(
    task: Task, inputs: Sequence[np.ndarray], operator: Operator | None = None
) -> tuple[np.ndarray, ...] | None:
    """The right outputs of a task in float64; None for an operator without a reference.

    Args:
        task: the operator's.
        inputs: the kernel's inputs, with weights as they are before they are packed.
        operator: of a task without a named template.
    """
    operator = operator or OPERATORS.get(task.name)
    if operator is None:
        return None
    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
    if task.name in PRODUCTS:  # bytes, whose sums are wider
        wide = [x.astype(np.int64) if x.dtype.kind in "iu" else x for x in wide]
    a = by_name(task)
    steps = tuple(getattr(a, "epilogue", ()) or ())
    operands = len(wide) - brought_by(steps)
    result = operator.reference(a, *wide[:operands])
    if isinstance(result, tuple):
        return result
    return (after(result, steps, wide[operands:], operator.channels, _STEPS.__getitem__),)


_STEPS: dict[str, Callable[..., Array]] = {
    "relu": lambda x: x.clip(0),
    "gelu": gelu,
    "silu": lambda x: x * sigmoid(x),
    "sigmoid": sigmoid,
    "cast": lambda x, dtype: x,
}
