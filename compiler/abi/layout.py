"""How dtypes and DLTensor look to LLVM, C and numpy: the tables behind every kernel call."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from whet.compiler.errors import CodegenError
from whet.compiler.installed import install_extra


@dataclass(frozen=True, slots=True)
class ScalarType:
    """One dtype at the border of a kernel.

    Attributes:
        llvm: type of a scalar argument of the raw kernel; ``bool`` is ``i1``.
        code: DLPack's type code.
        bits: DLPack's bits.
        ctype: what ctypes passes for it, or None (no Python number turns into it directly).
    """

    llvm: str
    code: int
    bits: int
    ctype: Any

    @property
    def word(self) -> int:
        """DLPack's code, bits and one lane, as the 32-bit number that a DLTensor holds."""
        return self.code | self.bits << 8 | 1 << 16

    @property
    def bytes(self) -> int:
        """Size and alignment of an element in memory."""
        return self.bits // 8


SCALARS: dict[str, ScalarType] = {
    "bool": ScalarType("i1", 6, 8, ctypes.c_bool),
    "int8": ScalarType("i8", 0, 8, ctypes.c_int8),
    "int16": ScalarType("i16", 0, 16, ctypes.c_int16),
    "int32": ScalarType("i32", 0, 32, ctypes.c_int32),
    "int64": ScalarType("i64", 0, 64, ctypes.c_int64),
    "uint8": ScalarType("i8", 1, 8, ctypes.c_uint8),
    "uint16": ScalarType("i16", 1, 16, ctypes.c_uint16),
    "uint32": ScalarType("i32", 1, 32, ctypes.c_uint32),
    "uint64": ScalarType("i64", 1, 64, ctypes.c_uint64),
    "float16": ScalarType("half", 2, 16, None),
    "bfloat16": ScalarType("i16", 4, 16, None),
    "float32": ScalarType("float", 2, 32, ctypes.c_float),
    "float64": ScalarType("double", 2, 64, ctypes.c_double),
}

# Offsets of DLTensor's fields in bytes (DLPack 0.2 to 1.x, 64 bits).
DL_DATA, DL_DEVICE, DL_NDIM, DL_CODE, DL_BITS, DL_LANES = 0, 8, 16, 20, 21, 22
DL_SHAPE, DL_STRIDES, DL_BYTE_OFFSET = 24, 32, 40
DL_CPU, DL_PINNED = 1, 3  # the other one is page-locked memory of the host


class DLTensor(ctypes.Structure):
    """DLPack's description of an array, as the compiled entry takes it."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def scalar(dtype: str) -> ScalarType:
    """The entry of ``dtype`` in the table.

    Raises:
        CodegenError: no kernel argument can have that dtype.
    """
    if dtype not in SCALARS:
        raise CodegenError(
            f"a kernel argument of dtype {dtype!r}",
            "it cannot cross a call",
            f"dtypes: {', '.join(SCALARS)}",
        )
    return SCALARS[dtype]


@functools.cache
def numpy_dtype(dtype: str) -> np.dtype:
    """numpy's dtype object of that name; ``bfloat16`` is that of ml_dtypes."""
    scalar(dtype)
    if dtype == "bfloat16":
        try:
            import ml_dtypes  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            raise CodegenError(
                "a bfloat16 array", "numpy has no bfloat16", install_extra("bfloat16")
            ) from None
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(dtype)


def quoted(name: str) -> str:
    """``name`` as LLVM global: quoted, so that any name will do."""
    return '@"' + name.replace("\\", "\\5C").replace('"', "\\22") + '"'
