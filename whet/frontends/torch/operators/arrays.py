"""Tensors of PyTorch as arrays, and back: the same memory, not a copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from whet.compiler.errors import ArgumentError


def numpy_type(name: str) -> np.dtype:
    """Numpy's element type of this name; bfloat16 is that of ``ml_dtypes``."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def as_array(tensor: Any) -> np.ndarray:
    """The memory of a compact tensor on the CPU; of another one a copy.

    Raises:
        ArgumentError: it is on another device, or sparse.
    """
    import torch

    if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        raise ArgumentError(
            f"a tensor of shape {list(tensor.shape)}",
            f"it is {tensor.layout} on {tensor.device}: compiled models take tensors in the CPU's "
            "memory",
            "tensor.cpu()",
        )
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if plain.dtype is torch.bfloat16:
        made: np.ndarray = plain.view(torch.int16).numpy().view(numpy_type("bfloat16"))
        return made
    found: np.ndarray = plain.numpy()
    return found


def as_tensor(array: np.ndarray) -> Any:
    """A tensor of an array's memory."""
    import torch

    if not array.flags.writeable:  # PyTorch warns; nothing here writes
        array = array.copy()
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
