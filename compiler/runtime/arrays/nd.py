"""``whet.nd``: arrays and devices by TVM's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whet.compiler.abi.extent import packed_shape
from whet.compiler.abi.layout import SCALARS, numpy_dtype
from whet.compiler.errors import ArgumentError
from whet.compiler.runtime.arrays.device import (
    Device,
    context,
    cpu,
    cuda,
    device,
    ext_dev,
    gpu,
    metal,
    opencl,
    rocm,
    vulkan,
)
from whet.compiler.runtime.arrays.dlpack import on_gpu, take
from whet.compiler.runtime.arrays.gpu_import import is_shared, taken_array
from whet.compiler.runtime.arrays.ndarray import (
    NDArray,
    as_numpy,
    elements,
    extents_of,
    new_array,
    on_device,
)
from whet.compiler.runtime.arrays.nibbles import NIBBLES, pack, unpack
from whet.compiler.runtime.arrays.placement import checked_device, device_or_ctx

__all__ = [
    "Device",
    "NDArray",
    "array",
    "context",
    "cpu",
    "cuda",
    "device",
    "empty",
    "ext_dev",
    "from_dlpack",
    "gpu",
    "metal",
    "opencl",
    "pack",
    "rocm",
    "unpack",
    "vulkan",
]


def array(
    source: object,
    device: Device | None = None,
    mem_scope: str | None = None,
    ctx: Device | None = None,
) -> NDArray:
    """A new array with a copy of ``source``'s elements.

    Args:
        source: a numpy array, an NDArray, an object with ``__dlpack__``, or nested lists, which
            numpy gives a dtype: Python floats are float64, integers int64, as in TVM. Elements of
            ``ml_dtypes.int4`` and ``uint4`` are packed two a byte, as :func:`pack` does.
        device: where it shall live; the CPU by default. ``whet.device("cuda_host")`` is the
            host's page-locked memory, which GPUs copy from and to without waiting.
        mem_scope: the kind of memory; there is ``"global"`` only.
        ctx: TVM's old name of ``device``, deprecated.

    Raises:
        ArgumentError: the device or the kind of memory does not exist, kernels do not have the
            source's dtype, or its lists are not of one length.
    """
    device = device_or_ctx("nd.array", device, ctx)
    there = on_device(source)
    held = elements("nd.array(...)", source) if there is None else there.described
    if held.dtype.name in NIBBLES:
        source = held = pack(held)
    native = held.dtype.newbyteorder("=")
    _check_dtype(native)
    made = new_array(checked_device(device, mem_scope), held.shape, native)
    return made.copyfrom(held if there is None else source)


def empty(
    shape: Sequence[int] | int,
    dtype: str | type | np.dtype = "float32",
    device: Device | None = None,
    mem_scope: str | None = None,
    ctx: Device | None = None,
) -> NDArray:
    """A new array with whatever its memory holds.

    Args:
        shape: extents of the dimensions.
        dtype: the elements' dtype: its name, numpy's, or a type such as ``np.float32``; the lanes
            of a vector's, ``"float32x4"``, are one more dimension, the last; of ``"int4"`` and
            ``"uint4"`` it is an array of their bytes, see :func:`pack`.
        device: where it shall live; the CPU by default.
        mem_scope: the kind of memory; there is ``"global"`` only.
        ctx: TVM's old name of ``device``, deprecated.

    Raises:
        ArgumentError: the shape is none, or the device or the kind of memory does not exist.
        CodegenError: kernels do not have the dtype.
        OutOfMemoryError: there is not so much memory.
    """
    device = device_or_ctx("nd.empty", device, ctx)
    from whet.compiler.tir.dtype import (  # heavy: a deployed library does without
        PARTS_OF_BYTES,
        check,
        usual,
    )

    extents = extents_of("nd.empty", shape)
    name = np.dtype(dtype).name if isinstance(dtype, (type, np.dtype)) else usual(str(dtype))
    element, _, lanes = name.partition("x")
    if lanes.isdecimal() and int(lanes):  # of vectors: their lanes are the last dimension
        name, extents = usual(element), (*extents, int(lanes))
    if name in PARTS_OF_BYTES:
        check(name)  # refuses it, and says what to do
    if name in NIBBLES:
        name, extents = "uint8", packed_shape(extents)  # type: ignore[assignment]
    return new_array(checked_device(device, mem_scope), extents, numpy_dtype(name))


def from_dlpack(source: Any) -> NDArray:
    """An array that shares the memory of any object with ``__dlpack__``, or of a DLPack capsule.

    The memory is the CPU's or a GPU's; on GPUs ``__cuda_array_interface__`` serves, too.

    Raises:
        ArgumentError: the object offers neither, lives on another kind of device, or kernels do
            not have its dtype.
        TargetError: it lives on a GPU that Whet cannot use.
    """

    if type(source).__name__ == "PyCapsule":
        return taken_array(source) if on_gpu(source) else NDArray(take(source))
    if is_shared(source):
        return taken_array(source)
    held = as_numpy(source)
    if held is None:
        raise ArgumentError(
            f"from_dlpack({type(source).__name__})", "the object has no __dlpack__ method"
        )
    _check_dtype(held.dtype)
    return NDArray(held)


def _check_dtype(dtype: np.dtype) -> None:
    if str(dtype) not in SCALARS:
        swapped = str(dtype.newbyteorder("=")) in SCALARS
        raise ArgumentError(
            f"an array of dtype {dtype}",
            "kernels have no such elements",
            "copy it: nd.array(...)" if swapped else ", ".join(SCALARS),
        )
