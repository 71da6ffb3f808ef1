"""Memory of arrays that begins where a line of the caches does."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence

import numpy as np

ALIGNMENT = 64
"""Bytes: a line of the caches, the widest vector."""


def aligned_empty(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """A new C-contiguous array that begins at a multiple of :data:`ALIGNMENT` bytes.

    numpy's own begin 16 bytes behind one where they are large: vectors then lie across two lines,
    and kernels that store whole lines past the caches cannot.

    Args:
        shape: the extents.
        dtype: of the elements, which are whatever the memory holds.
    """
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    begin = -memory.__array_interface__["data"][0] % ALIGNMENT
    return memory[begin : begin + size].view(dtype).reshape(shape)


def give_back() -> None:
    """Give memory that is free back to the system: the C library keeps pieces below 32 MiB."""
    trim = getattr(_process(), "malloc_trim", None)  # of glibc
    if trim is not None:
        trim(0)


@functools.cache
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)
