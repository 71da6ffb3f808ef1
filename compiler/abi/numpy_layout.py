"""Where CPython, numpy and NDArray keep the fields that generated calls read, checked at import."""

from __future__ import annotations

import ctypes
import functools
import sys
from dataclasses import dataclass

import numpy as np

# PyArray flags.
CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400

# Of the 8 bytes of a dtype's object that hold kind, type, byte order, flags and the type's number:
# all but the flags.
DTYPE_MASK = 0xFFFFFFFF_00FFFFFF


@dataclass(frozen=True, slots=True)
class Layout:
    """Offsets in bytes inside the objects, and the addresses of the two exact types."""

    type: int = 8
    data: int = 16
    nd: int = 24
    dimensions: int = 32
    descr: int = 56
    flags: int = 64
    dtype_word: int = 24
    float_value: int = 16
    wrapper_slot: int = 16
    ndarray_type: int = 0
    wrapper_type: int = 0


@functools.cache
def layout() -> Layout | None:
    """The layout in this process, or None where the objects are not laid out as expected."""
    from whet.compiler.runtime.arrays.ndarray import NDArray

    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    where = Layout(ndarray_type=id(np.ndarray), wrapper_type=id(NDArray))
    samples: list[np.ndarray] = [
        np.empty((3, 5), np.float32),
        np.empty((2, 3, 4), np.int64)[:, ::2],
        np.empty((), np.float64),
        np.empty((7,), np.bool_),
        np.empty((2,), ">i2"),
    ]
    samples[3].flags.writeable = False
    if not all(_array_agrees(a, where) for a in samples):
        return None
    if _word(id(1.5) + where.type) != id(float) or _double(1.5, where) != 1.5:
        return None
    wrapper = NDArray(samples[0])
    slot = next(
        (
            k
            for k in range(16, NDArray.__basicsize__, 8)
            if _word(id(wrapper) + k) == id(samples[0])
        ),
        None,
    )
    if slot is None or _word(id(wrapper) + where.type) != id(NDArray):
        return None
    return Layout(ndarray_type=id(np.ndarray), wrapper_type=id(NDArray), wrapper_slot=slot)


def _array_agrees(array: np.ndarray, where: Layout) -> bool:
    at = id(array)
    if _word(at + where.type) != id(np.ndarray) or _word(at + where.data) != array.ctypes.data:
        return False
    if ctypes.c_int.from_address(at + where.nd).value != array.ndim:
        return False
    if _word(at + where.descr) != id(array.dtype) or not _dtype_agrees(array.dtype, where):
        return False
    dims = _word(at + where.dimensions)
    if any(_word(dims + 8 * i) != extent for i, extent in enumerate(array.shape)):
        return False
    return ctypes.c_int.from_address(at + where.flags).value == array.flags.num


def _dtype_agrees(dtype: np.dtype, where: Layout) -> bool:
    word = _word(id(dtype) + where.dtype_word) & DTYPE_MASK
    told = f"{dtype.kind}{dtype.char}{dtype.byteorder}\0".encode()
    return word == int.from_bytes(told, "little") | dtype.num << 32


def dtype_words(dtype: np.dtype, where: Layout) -> list[int]:
    """What objects of a dtype hold at ``where.dtype_word``, under :data:`DTYPE_MASK`.

    Objects of one dtype may be many: an unpickled array has one of its own. There are several words
    where C has several types of one kind and size: ``long`` and ``long long``.
    """
    same = [np.dtype(code) for code in "?bhilqBHILQefd"]
    found = [dtype, *(other for other in same if other == dtype)]
    return list(dict.fromkeys(_word(id(d) + where.dtype_word) & DTYPE_MASK for d in found))


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _double(value: float, where: Layout) -> float:
    return ctypes.c_double.from_address(id(value) + where.float_value).value
