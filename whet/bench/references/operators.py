"""What is right: operators in numpy, in float64, to compare every contestant's numbers with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace as Args
from typing import TYPE_CHECKING, Any

from whet.bench.arguments import by_name
from whet.bench.references.convs import CHANNELS, CONVS
from whet.bench.references.images import IMAGES
from whet.bench.references.rows import ROWS, gelu, sigmoid

if TYPE_CHECKING:
    import numpy as np

    from whet.autotune import Task

Array = Any
Reference = Callable[..., Array]


def expected(task: Task, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...] | None:
    """The right outputs of a task in float64; None for an operator without a reference.

    Args:
        task: made from a named template.
        inputs: the kernel's inputs, with weights as they are before they are packed.
    """
    import numpy as np

    made = REFERENCES.get(task.name)
    if made is None:
        return None
    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
    if task.name in PRODUCTS:  # bytes, whose sums are wider
        wide = [x.astype(np.int64) if x.dtype.kind in "iu" else x for x in wide]
    a = by_name(task)
    operands = len(wide) - sum(step in ("bias", "residual") for step in _steps(a))
    found = made(a, *wide[:operands])
    found = _after(found, _steps(a), wide[operands:], CHANNELS.get(task.name, (-1,)))
    return found if isinstance(found, tuple) else (found,)


def _steps(a: Args) -> tuple:
    return tuple(getattr(a, "epilogue", ()) or ())


def _after(x: Array, steps: tuple, brought: list, channels: tuple[int, ...]) -> Array:
    """``x`` after an epilogue; a bias belongs to the axes ``channels``."""
    import numpy as np

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


def _matmul(a: Args, x: Array, y: Array) -> Array:
    left = x.swapaxes(-1, -2) if a.transpose_a else x
    right = y.swapaxes(-1, -2) if a.transpose_b else y
    return left @ right


PRODUCTS = ("matmul", "batch_matmul", "dense", "matvec", *CONVS)
"""Operators that multiply, and sum up in a type that may be wider."""

REFERENCES: dict[str, Reference] = {
    "matmul": _matmul,
    "batch_matmul": _matmul,
    "dense": lambda a, x, w: x @ w.T,
    "matvec": lambda a, x, y: x @ y,
    **CONVS,
    **IMAGES,
    **ROWS,
}
