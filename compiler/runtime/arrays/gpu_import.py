"""Others' arrays on a GPU taken for Whet's own: DLPack and `__cuda_array_interface__`.

Whoever hands memory on sees to it that the work on it so far is done, or before later work, in the
stream that the taker names (https://dmlc.github.io/dlpack, NumPy's data interchange; version 3 of
https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from whet.compiler.abi.layout import SCALARS, numpy_dtype
from whet.compiler.errors import ArgumentError, WhetError
from whet.compiler.runtime.arrays.device import Device, context_of
from whet.compiler.runtime.arrays.device_array import DeviceArray, describe
from whet.compiler.runtime.arrays.dlpack import (
    DL_CUDA,
    Taken,
    capsule_of,
    check_stored,
    dtype_of,
)
from whet.compiler.runtime.arrays.ndarray import SHARE
from whet.compiler.runtime.gpu.driver.interface import driver_of
from whet.compiler.runtime.gpu.driver.streams import current_handle


def is_shared(source: object) -> bool:
    """True where an object offers memory of an NVIDIA GPU."""
    if isinstance(source, DeviceArray):
        return True
    where = getattr(source, "__dlpack_device__", None)
    if where is not None:
        try:
            return where()[0] == DL_CUDA
        except (RuntimeError, ValueError, TypeError, BufferError):
            return False  # as_numpy() says why
    return hasattr(source, "__cuda_array_interface__")


def taken_array(source: Any, device: Device | None = None) -> DeviceArray:
    """The array that shares the memory of an object on a GPU.

    Args:
        source: an array, an object with ``__dlpack__`` or ``__cuda_array_interface__``, or a
            DLPack capsule.
        device: where it is, for what does not tell; by default the driver is asked.

    Raises:
        ArgumentError: it cannot be shared, or kernels have no such elements.
        TargetError: Whet cannot use the GPU.
    """
    if isinstance(source, DeviceArray):
        return source
    if type(source).__name__ == "PyCapsule":
        return _from_capsule(source)
    if not hasattr(source, "__dlpack__"):
        return _from_interface(source, device)
    where = Device("cuda", source.__dlpack_device__()[1])
    try:
        check_stored(source)
        return _from_capsule(capsule_of(source, stream=current_handle(context_of(where))))
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, WhetError):
            raise
        raise ArgumentError(
            f"sharing the memory of a {type(source).__name__}", str(error), "copy it"
        ) from None


class _Owner:
    """Keeps somebody else's memory until it goes."""

    __slots__ = ("__weakref__",)


def _from_capsule(capsule: Any) -> DeviceArray:
    taken = Taken(capsule)
    tensor = taken.tensor
    name = dtype_of(tensor)
    kind, rank = SCALARS[name], tensor.ndim
    strides = [step * kind.bytes for step in tensor.strides[:rank]] if tensor.strides else None
    shape = tensor.shape[:rank]
    device = Device("cuda", tensor.device_id)
    context = context_of(device)
    _check_strides("sharing memory by DLPack", shape, strides, kind.bytes)
    described = describe(shape, numpy_dtype(name), strides, taken.read_only)
    taken.keep()
    owner = _Owner()
    weakref.finalize(owner, taken.give_back).atexit = False
    return DeviceArray(device, context, (tensor.data or 0) + tensor.byte_offset, described, owner)


def _check_strides(
    request: str, shape: Sequence[int], strides: Sequence[int] | None, itemsize: int
) -> None:
    """Refuse elements that lie before the first one, where an array begins, or astride others."""
    if strides is None:
        return
    if any(n > 1 and (step < 0 or step % itemsize) for n, step in zip(shape, strides)):
        raise ArgumentError(request, f"it has strides of {tuple(strides)} bytes", "copy it")


def _from_interface(source: Any, device: Device | None) -> DeviceArray:
    request = f"sharing the memory of a {type(source).__name__}"
    interface = source.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise ArgumentError(request, "kernels have no masked arrays", "copy it")
    dtype = np.dtype(interface["typestr"])
    if str(dtype) not in SCALARS:
        raise ArgumentError(
            request, f"kernels have no elements of dtype {dtype}", ", ".join(SCALARS)
        )
    address, read_only = interface["data"]
    device = device or Device("cuda", driver_of("cuda").device_of(address))
    context = context_of(device)
    if address and not context.has(address):
        raise ArgumentError(
            request,
            f"its memory is of another CUDA context than {device}'s primary one, in which kernels "
            "run here",
            "with pycuda: import pycuda.autoprimaryctx in the place of pycuda.autoinit",
        )
    theirs, mine = interface.get("stream"), current_handle(context)
    if theirs not in (None, mine):
        context.order(theirs, mine)
    _check_strides(request, interface["shape"], interface.get("strides"), dtype.itemsize)
    described = describe(interface["shape"], dtype, interface.get("strides"), read_only)
    return DeviceArray(device, context, address, described, source)


def _share(source: object) -> DeviceArray | None:
    return taken_array(source) if is_shared(source) else None


SHARE.append(_share)
