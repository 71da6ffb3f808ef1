"""Kernels for the arrays of other libraries; kernels take PyTorch's tensors as they are, too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from whet.compiler.runtime.arrays.nd import from_dlpack
from whet.compiler.runtime.arrays.ndarray import NDArray

__all__ = ["convert_func", "to_pytorch_func"]


def convert_func(
    tvm_func: Callable[..., Any], tensor_type: type, to_dlpack_func: Callable[[Any], Any]
) -> Callable[..., Any]:
    """A kernel whose arguments of one type are handed over by DLPack, without a copy.

    Args:
        tvm_func: the kernel, or any function of arrays.
        tensor_type: the type of the arguments that are converted; others stay as they are.
        to_dlpack_func: from such an argument to what ``nd.from_dlpack`` takes.
    """

    def shared(x: Any) -> Any:
        return from_dlpack(to_dlpack_func(x)) if isinstance(x, tensor_type) else x

    return _of_arguments(tvm_func, shared)


def to_pytorch_func(tvm_func: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that takes PyTorch's tensors and writes into them; it shares their memory."""

    def shared(x: Any) -> Any:
        foreign = hasattr(x, "__dlpack__") and not isinstance(x, (NDArray, np.ndarray))
        return from_dlpack(x) if foreign else x

    return _of_arguments(tvm_func, shared)


def _of_arguments(function: Callable[..., Any], shared: Callable[[Any], Any]) -> Callable[..., Any]:
    @functools.wraps(function, assigned=("__name__", "__doc__"), updated=())
    def converted(*args: Any) -> Any:
        return function(*map(shared, args))

    return converted
