"""What is right on a device: PyTorch in float64 where it sees the device, else numpy in float64."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from whet.bench.contest import TOLERANCE
from whet.bench.references.operators import expected
from whet.compiler.errors import MeasureError

if TYPE_CHECKING:
    import numpy as np

    from whet.autotune import Task
    from whet.compiler.runtime.device import Device

Exact = tuple[Any, ...]
"""The right outputs in float64: numpy's arrays, or PyTorch's tensors on the device."""


def exact_of(device: Device, task: Task, inputs: Sequence[np.ndarray]) -> Exact:
    """The right outputs of a task.

    float64 on a GPU takes milliseconds for what takes numpy minutes: a layer of images, an `erf`.

    Args:
        device: where PyTorch computes.
        task: made from a named template.
        inputs: the kernel's.

    Raises:
        MeasureError: nothing that is installed says what is right.
    """
    if device.type == "cuda" and find_spec("torch") is not None:
        from whet.bench.gpu.torch_device import exact_by_torch

        found = exact_by_torch(device, task, inputs)
        if found is not None:
            return laid_out(task, found)
    numbers = expected(task, inputs)
    if numbers is None:
        raise MeasureError(
            f"comparison of {task.workload}",
            f"there is no reference of {task.name!r} to check its numbers against",
            "the operators of whet.bench.references.operators have one",
        )
    return numbers


def laid_out(task: Task, found: Any) -> Exact:
    """PyTorch's result in the layout of ours: its images come with the channels first."""
    parts = found if isinstance(found, tuple | list) else (found,)
    if task.name.endswith("_nhwc"):
        return tuple(x.permute(0, 2, 3, 1) for x in parts)
    return tuple(parts)


def error_of(what: str, found: Sequence[Any], exact: Exact) -> float:
    """The largest error as a part of the largest number.

    Args:
        what: whose numbers they are.
        found: outputs, as numpy's arrays or PyTorch's tensors.
        exact: the right ones.

    Raises:
        MeasureError: an output has another shape, or its worst element is too wrong.
    """
    worst = 0.0
    for out, right in zip(found, exact, strict=True):
        if tuple(out.shape) != tuple(right.shape):
            raise MeasureError(
                what, f"its result has the shape {tuple(out.shape)}, not {tuple(right.shape)}"
            )
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
    """Both as float64 in one place: on PyTorch's device if what is right is there."""
    import numpy as np

    if getattr(out, "is_mkldnn", False):
        out = out.to_dense()  # a layout of PyTorch's on CPUs, which nothing else reads
    if not hasattr(right, "detach"):
        return np.asarray(out.detach().cpu() if hasattr(out, "detach") else out, np.float64), right
    import torch

    if not hasattr(out, "detach"):
        out = torch.from_numpy(out)
    return out.to(right.device, torch.float64), right
