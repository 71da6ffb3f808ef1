"""Arrays of int4 and uint4 as kernels take them: bytes that hold two elements each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from whet.compiler.abi.extent import packed_shape
from whet.compiler.errors import ArgumentError, CodegenError
from whet.compiler.installed import install_extra
from whet.compiler.runtime.arrays.ndarray import extents_of

#: the least and the greatest value of the types of which two elements are a byte
NIBBLES = {"int4": (-8, 7), "uint4": (0, 15)}


def pack(values: Any, dtype: str = "") -> np.ndarray:
    """Elements of four bits as a kernel's argument has them: two a byte, the even one low.

    >>> pack([[1, 2, 3, -1]], "int4")
    array([[ 33, 243]], dtype=uint8)

    Args:
        values: an array of integers, or of ``ml_dtypes.int4`` or ``uint4``.
        dtype: ``"int4"`` or ``"uint4"``; by default that of the array.

    Returns:
        uint8, the last dimension half as long; where that is odd, one dimension of bytes, whose
        last one has 0 in its upper half.

    Raises:
        ArgumentError: another dtype, no integers, or one that four bits do not hold.
    """
    array = np.asarray(values)
    name = _checked("nd.pack", dtype or array.dtype.name)
    if array.dtype.name in NIBBLES or not array.size:
        array = array.astype(np.int8)
    low, high = NIBBLES[name]
    whole = array.dtype.kind in "iub"
    if not whole or (array.size and not low <= int(array.min()) <= int(array.max()) <= high):
        raise ArgumentError(
            f"nd.pack(array of {array.dtype}, {name!r})",
            f"{name} holds the integers from {low} to {high}",
            "np.clip the values, and round them",
        )
    halves = array.astype(np.uint8).reshape(-1) & 15
    halves = np.append(halves, np.zeros(halves.size % 2, np.uint8))
    wanted: Any = packed_shape(array.shape)
    return (halves[0::2] | halves[1::2] << 4).reshape(wanted)


def unpack(packed: Any, shape: int | Sequence[int], dtype: str = "int4") -> np.ndarray:
    """The elements of an array that :func:`pack` made, or that a kernel wrote.

    >>> unpack(pack([1, -2, 3], "int4"), (3,)).astype("int8")
    array([ 1, -2,  3], dtype=int8)

    Args:
        packed: bytes (uint8), on any device.
        shape: of the elements; a number is one dimension.
        dtype: ``"int4"`` or ``"uint4"``.

    Returns:
        An array of ``ml_dtypes.int4`` or ``uint4``, a byte an element.

    Raises:
        ArgumentError: another dtype, no shape, or bytes of another number.
        CodegenError: ml_dtypes is not installed.
    """
    name, shape = _checked("nd.unpack", dtype), extents_of("nd.unpack", shape)
    held = packed.numpy() if hasattr(packed, "numpy") else np.asarray(packed)
    size = math.prod(shape)
    if held.dtype != np.uint8 or held.size != (size + 1) // 2:
        raise ArgumentError(
            f"nd.unpack({held.dtype} array of shape {held.shape}, {shape})",
            f"{size} elements of {name} are {(size + 1) // 2} bytes",
            "pass the array of uint8 that the kernel took",
        )
    flat = held.reshape(-1)
    halves = np.stack([flat & 15, flat >> 4], axis=-1).reshape(-1)[:size].reshape(shape)
    signed = (halves ^ 8).astype(np.int8) - 8 if name == "int4" else halves
    return signed.astype(_dtype(name))


def _dtype(name: str) -> np.dtype:
    """The dtype of ml_dtypes of that name.

    Raises:
        CodegenError: ml_dtypes is not installed.
    """
    try:
        import ml_dtypes  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise CodegenError(
            f"an array of {name}", f"numpy has no {name}", install_extra("bfloat16")
        ) from None
    return np.dtype(getattr(ml_dtypes, name))


def _checked(request: str, dtype: str) -> str:
    if dtype in NIBBLES:
        return dtype
    raise ArgumentError(
        f"{request}(dtype={dtype!r})",
        "two elements a byte are those of int4 and uint4",
        'pass dtype="int4" or dtype="uint4"',
    )
