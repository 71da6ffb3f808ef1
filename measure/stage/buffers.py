"""A kernel's arguments while it is measured: seeded inputs, poisoned outputs, walls around both.

Inputs cannot be written (the pages are read-only), nothing behind a buffer can be touched (the next
page does not exist), and bytes just before it are watched: a kernel that strays is caught at once
instead of spoiling its successors' numbers.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.errors import MeasureError

PROT_NONE, PROT_READ, PROT_WRITE = 0, 1, 2
ALIGN = 64  # what numpy and our arrays give large buffers
FRONT = 256  # watched bytes before each buffer, at least
CANARY = 0xA5
HUGE = 4 << 20  # numpy asks for huge pages from this size on; measure under the same conditions
SMALLEST = 2.0**-10  # inputs nearer to zero are replaced: products of half floats stay normal

_libc = ctypes.CDLL(None, use_errno=True)


class GuardedBuffer:
    """One C-contiguous array whose end touches an inaccessible page.

    Args:
        shape: the array's shape.
        dtype: its element type.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        page = mmap.PAGESIZE
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        padded = -(-size // ALIGN) * ALIGN
        self._inside = -(-(padded + FRONT) // page) * page
        self._map = mmap.mmap(-1, self._inside + page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        if size >= HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            self._map.madvise(mmap.MADV_HUGEPAGE, 0, self._inside)
        _protect(self._base + self._inside, page, PROT_NONE)
        bytes_ = np.frombuffer(self._map, np.uint8, self._inside)
        begin = self._inside - padded
        self._walls = (bytes_[begin - FRONT : begin], bytes_[begin + size :])
        for wall in self._walls:
            wall[:] = CANARY
        self.bytes = bytes_[begin : begin + size]
        self.array: np.ndarray = self.bytes.view(dtype).reshape(shape)

    def freeze(self) -> None:
        """Make the array's pages read-only: a kernel that writes them dies of a fault."""
        _protect(self._base, self._inside, PROT_READ)

    def intact(self) -> bool:
        """Whether the watched bytes around the array are untouched."""
        return all(bool((wall == CANARY).all()) for wall in self._walls)


Param = BufferParam | ScalarParam


class Arguments:
    """Arguments of one workload, reused by all candidates that take the same ones.

    Args:
        params: place -> what stands there; every shape must be made of numbers.
        seed: the same seed gives the same inputs, whatever stands at other places.
        name: the kernel's, for the error.

    Raises:
        MeasureError: a shape is symbolic.
    """

    def __init__(self, params: Mapping[int, Param], seed: int, name: str = "a kernel") -> None:
        self._buffers: list[tuple[BufferParam, GuardedBuffer]] = []
        self._values: dict[int, Any] = {}
        self._initial: dict[str, np.ndarray] = {}
        for place, param in params.items():
            rng = np.random.default_rng([seed, place])
            dtype = numpy_dtype(param.dtype)
            if isinstance(param, ScalarParam):
                self._values[place] = random_values(rng, (1,), dtype)[0].item()
                continue
            buffer = GuardedBuffer(fixed_shape(name, param), dtype)
            initial = random_values(rng, buffer.array.shape, dtype, param.value_range)
            if param.written:
                self._initial[param.name] = initial
            else:
                buffer.array[...] = initial
                buffer.freeze()
            self._buffers.append((param, buffer))
            self._values[place] = buffer.array

    @staticmethod
    def places(signature: KernelSignature, packs: KernelSignature | None) -> dict[int, Param]:
        """What the arguments of a kernel are made of: weights instead of packed arrays.

        Args:
            signature: the kernel's.
            packs: that of the function which makes its packed arrays; None where it takes none.
        """
        link = signature.ahead
        if link is None or packs is None:
            return dict(enumerate(signature.params))
        own = {p: link.places[k] for k, p in enumerate(signature.params) if k not in link.packed}
        return {place: p for p, place in own.items()} | dict(zip(link.weights, packs.params))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        held = [buffer.array.nbytes for _, buffer in self._buffers]
        return sum(held) + sum(array.nbytes for array in self._initial.values())

    def at(self, places: Iterable[int]) -> tuple[Any, ...]:
        """The arrays and numbers that stand at some places."""
        return tuple(self._values[k] for k in places)

    def outputs(self) -> dict[str, np.ndarray]:
        """The written arrays by name (not copies)."""
        return {param.name: buffer.array for param, buffer in self._buffers if param.written}

    def poison(self, finite: bool = False) -> None:
        """Spoil the outputs, so that a kernel that does not write them is found out.

        Args:
            finite: fill them with seeded numbers instead of NaN, for kernels that read them first.
        """
        for param, buffer in self._buffers:
            if not param.written:
                continue
            if finite:
                buffer.array[...] = self._initial[param.name]
            elif np.issubdtype(buffer.array.dtype, np.inexact) or buffer.array.dtype.kind == "V":
                buffer.array[...] = np.nan
            else:
                buffer.bytes[...] = 1 if buffer.array.dtype.kind == "b" else 0x5A

    def stray_writes(self) -> list[str]:
        """Names of the buffers around which memory was written."""
        return [param.name for param, buffer in self._buffers if not buffer.intact()]


def random_values(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    dtype: np.dtype,
    value_range: tuple[float, float] | None = None,
) -> np.ndarray:
    """Numbers that exercise a kernel: floats in [-1, 1] without denormals, integers in [-8, 8].

    Args:
        rng: where they come from.
        shape: of the result.
        dtype: of the result; unsigned integers are in [0, 8].
        value_range: the least and the largest number, for an input that takes no others.
    """
    if value_range is not None:
        low, high = value_range
        if np.issubdtype(dtype, np.integer):
            return rng.integers(int(low), int(high), shape, dtype=dtype, endpoint=True)
        return (low + (high - low) * rng.random(shape)).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if np.issubdtype(dtype, np.integer):
        low = 0 if np.issubdtype(dtype, np.unsignedinteger) else -8
        return rng.integers(low, 9, shape).astype(dtype)
    wide = np.float64 if dtype.itemsize >= 8 else np.float32
    values = rng.random(shape, dtype=wide)
    values *= 2
    values -= 1
    values[np.abs(values) < SMALLEST] = 0.5
    return values.astype(dtype)


def fixed_shape(name: str, param: BufferParam) -> tuple[int, ...]:
    """The shape of a parameter of the kernel ``name``.

    Raises:
        MeasureError: it is symbolic.
    """
    shape = tuple(dim for dim in param.shape if isinstance(dim, int))
    if len(shape) != len(param.shape):
        raise MeasureError(
            f"measurement of {name}",
            f"{param.name} has the symbolic shape {param.shape}",
            "give the template sizes that are numbers",
        )
    return shape


def _protect(address: int, size: int, access: int) -> None:
    if _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), access):
        raise MemoryError(f"mprotect: {os.strerror(ctypes.get_errno())}")
