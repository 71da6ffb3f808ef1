"""The right outputs on a device: by PyTorch in float64 where it sees it, else by numpy."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from whet.bench.references.operators import expected
from whet.compiler.errors import MeasureError

if TYPE_CHECKING:
    import numpy as np

    from whet.autotune import Task
    from whet.compiler.runtime.arrays.device import Device

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
