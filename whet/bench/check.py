"""The check of a contest: numbers of kernels and peers against the right ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import MeasureError

if TYPE_CHECKING:
    from whet.autotune import Task
    from whet.compiler.runtime.module import Module

TOLERANCE = {"float16": 2e-2, "bfloat16": 8e-2, "float32": 1e-4, "float64": 1e-11}
"""The largest error of an element, as a part of the largest one; of other dtypes none."""

Contestant = Callable[[], Any]


def check_contestants(
    task: Task,
    kernels: Mapping[str, Module],
    run: Callable[[Module], tuple[Contestant, Sequence[Any]]],
    peers: Mapping[str, Contestant],
    layout: Callable[[Any], Sequence[Any]],
    exact: Sequence[Any] | None,
) -> tuple[dict[str, Contestant], dict[str, float]]:
    """The calls of all contestants, and their errors as parts of the largest number.

    Args:
        task: the operator.
        kernels: name -> a kernel of the task.
        run: makes a kernel's call and calls it; the call, and its outputs.
        peers: name -> a call.
        layout: a peer's result in the layout of ours.
        exact: the right outputs; None: those of the first kernel.

    Raises:
        MeasureError: an output is wrong.
    """
    calls: dict[str, Contestant] = {}
    errors: dict[str, float] = {}
    for name, kernel in kernels.items():
        calls[name], outputs = run(kernel)
        if exact is None:
            exact = tuple(out.copy() for out in outputs)
        else:
            errors[name] = error_of(f"{task.workload}: {name}", outputs, exact)
    assert exact is not None
    for name, call in peers.items():
        errors[name] = error_of(f"{task.workload}: {name}", layout(call()), exact)
        calls[name] = call
    return calls, errors


def error_of(what: str, outputs: Sequence[Any], exact: Sequence[Any]) -> float:
    """The largest error as a part of the largest number.

    Args:
        what: the contestant.
        outputs: its outputs, as numpy's arrays or PyTorch's tensors.
        exact: the right ones, in float64.

    Raises:
        MeasureError: an output has another shape, or its worst element is too wrong.
    """
    worst = 0.0
    for out, right in zip(outputs, exact, strict=True):
        if tuple(out.shape) != tuple(right.shape):
            raise MeasureError(
                what, f"its result has the shape {tuple(out.shape)}, not {tuple(right.shape)}"
            )
        if not math.prod(right.shape):
            continue
        dtype = str(out.dtype).removeprefix("torch.")
        out, right = _alike(out, right)
        largest = float(abs(right).max()) or 1.0
        error = float(abs(out - right).max()) / largest
        allowed = TOLERANCE.get(dtype, 0.0)
        if not error <= allowed:  # NaN is wrong, too
            raise MeasureError(
                what,
                f"its worst element is wrong by {error:.2g} of the largest one; "
                f"{allowed:g} is allowed",
                "a time of wrong numbers means nothing",
            )
        worst = max(worst, error)
    return worst


def _alike(out: Any, right: Any) -> tuple[Any, Any]:
    """Both as float64 in one place: on PyTorch's device if the right one is there."""
    import numpy as np

    if getattr(out, "is_mkldnn", False):
        out = out.to_dense()  # a layout of PyTorch's on CPUs, which nothing else reads
    if not hasattr(right, "detach"):
        return np.asarray(out.detach().cpu() if hasattr(out, "detach") else out, np.float64), right
    right = right.double()
    return out.to(right) if hasattr(out, "detach") else right.new_tensor(out), right
