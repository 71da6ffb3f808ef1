"""Arrays in a device's memory."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from whet.compiler.errors import ArgumentError, OutOfMemoryError
from whet.compiler.runtime.arrays.device import Device, context_of
from whet.compiler.runtime.arrays.foreign import let_owner_wait
from whet.compiler.runtime.arrays.gpu_export import check_shared, give_array, interface_of
from whet.compiler.runtime.arrays.ndarray import CREATE, NDArray, new_array, on_device
from whet.compiler.runtime.arrays.placement import checked_device
from whet.compiler.runtime.gpu.driver.interface import DRIVERS, Context
from whet.compiler.runtime.gpu.driver.properties import ALIGNMENT
from whet.compiler.runtime.gpu.driver.streams import current_handle, current_stream
from whet.compiler.runtime.gpu.driver.workspace import workspace_of

_numbers = itertools.count()
_layouts: dict[tuple, int] = {}
_MOST_LAYOUTS = 1 << 16


class Memory:
    """Memory of a device, which goes when nobody refers to it any more.

    Attributes:
        address: where it starts.
    """

    __slots__ = ("_context", "address")

    def __init__(self, context: Context, nbytes: int) -> None:
        self._context = context
        try:
            self.address = context.alloc(nbytes)
        except OutOfMemoryError:
            self.address = workspace_of(context).alloc(nbytes)

    def __del__(self) -> None:
        if hasattr(self, "address"):
            self._context.free(self.address)


class DeviceArray(NDArray):
    """An array in the memory of a GPU, or of the emulator.

    Args:
        device: where it is.
        context: of that device.
        address: of its first element.
        described: a numpy array with its shape, dtype, strides and writability; its elements are
            never looked at.
        owner: keeps the memory alive.
    """

    # Calls read `_layout`, a number that stands for all that a kernel checks, and `_address`.
    __slots__ = ("_address", "_context", "_described", "_layout", "_owner")

    def __init__(
        self,
        device: Device,
        context: Context,
        address: int,
        described: np.ndarray,
        owner: object,
    ) -> None:
        self._device = device
        self._context = context
        self._address = address
        self._described = described
        self._owner = owner
        self._layout = _layout(described, context, address)

    @property
    def address(self) -> int:
        """The address of the first element in the device's memory."""
        return self._address

    @property
    def context(self) -> Context:
        """The context that the memory belongs to."""
        return self._context

    @property
    def described(self) -> np.ndarray:
        """Shape, dtype, strides and writability; the elements are not there."""
        return self._described

    @property
    def nbytes(self) -> int:
        """Size of all elements in bytes."""
        return self._described.nbytes

    @property
    def span_bytes(self) -> int:
        """Bytes from the first element's first to the last element's last."""
        return _span(self._described) * self._described.itemsize

    def numpy(self) -> np.ndarray:
        """A copy as a numpy array, after the work of the current stream."""
        stream = current_stream(self._context)
        if stream is not None:
            stream.synchronize()
        if self._described.flags.c_contiguous:
            made = np.empty(self.shape, self._described.dtype)
            self._context.copy_out(made, self._address)
            return made
        span = np.empty(_span(self._described), self._described.dtype)
        self._context.copy_out(span, self._address)
        strided = np.lib.stride_tricks.as_strided(span, self.shape, self._described.strides)
        return strided.copy()

    def copyfrom(self, source: object) -> NDArray:
        """Copy the elements of an array-like of the same shape into this array, cast to its dtype.

        From an array on a device, or in page-locked memory (``whet.device("cuda_host")``) and of
        this dtype, the copy goes to the current stream and is not waited for.

        Raises:
            ArgumentError: the shapes differ, the elements are no numbers, or this array is
                read-only or not compact.
        """

        if not self._described.flags.c_contiguous:
            strides = f"this array has strides {self._described.strides} bytes"
            raise ArgumentError("NDArray.copyfrom()", strides, "copy it first")
        taken = on_device(source)
        if not isinstance(taken, DeviceArray) or not self._takes(taken):
            return super().copyfrom(source if taken is None else taken)
        self._copy_between(taken)
        if taken is not source:
            let_owner_wait(source, taken, self._context)
        return self

    def _store(self, source: object, values: np.ndarray) -> None:
        stream, fits = current_stream(self._context), self._fits(values)
        held = values if fits else np.ascontiguousarray(values, self._described.dtype)
        self._context.copy_in(self._address, held, stream)
        if stream is not None and not (fits and _is_pinned(source)):
            stream.synchronize()

    def copyto(self, target: NDArray | Device, mem_scope: str | None = None) -> NDArray:
        """Copy the elements to another array of the same shape, or to a new array on a device.

        To an array in page-locked memory of this dtype, the copy goes to the current stream and is
        not waited for.

        Raises:
            ArgumentError: the shapes differ, or the device does not exist.
        """
        if type(target) is NDArray and _is_pinned(target) and self._fits(target._array):
            self._context.copy_out(target._array, self._address, current_stream(self._context))
            return target
        return super().copyto(target, mem_scope)

    def _fits(self, other: np.ndarray) -> bool:
        """True where bytes can be copied as they are."""
        mine = self._described
        return (
            mine.shape == other.shape
            and mine.dtype == other.dtype
            and mine.flags.c_contiguous
            and other.flags.c_contiguous
        )

    def _takes(self, source: DeviceArray) -> bool:
        """True where another array's bytes can be copied without the host."""
        drivers = source.context.driver, self._context.driver
        return (
            drivers[0] is drivers[1]
            and self._fits(source.described)
            and self._described.flags.writeable
        )

    def _copy_between(self, source: DeviceArray) -> None:
        own, other = self._context, source.context
        stream = current_stream(own)
        if other is own:
            own.copy(self._address, source.address, self.nbytes, stream)
            return
        mine, theirs = current_handle(own), current_handle(other)
        own.order(theirs, mine, other)
        own.copy(self._address, source.address, self.nbytes, stream, other)
        other.order(mine, theirs, own)

    def _viewed(self, shape: tuple[int, ...]) -> DeviceArray:
        read_only = not self._described.flags.writeable
        described = describe(shape, self._described.dtype, None, read_only)
        return DeviceArray(self._device, self._context, self._address, described, self._owner)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return give_array(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        check_shared(self, "DLPack")
        return self._device.device_type, self._device.index

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return interface_of(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError(f"an array on {self._device} turns into numpy's by a copy only")
        made = self.numpy()
        return made if dtype is None else made.astype(dtype, copy=False)

    def __reduce__(self) -> tuple:
        return _placed, (self.numpy(), self._device)


def _empty(device: Device, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
    context, described = context_of(device), describe(shape, dtype)
    memory = Memory(context, described.nbytes)
    return DeviceArray(device, context, memory.address, described, memory)


def _pinned(device: Device, shape: tuple[int, ...], dtype: np.dtype) -> NDArray:
    """An array in page-locked memory of the host, which needs a GPU to copy to."""
    nbytes = math.prod(shape) * dtype.itemsize
    memory = context_of(Device("cuda")).pinned(nbytes)
    return NDArray(memory[:nbytes].view(dtype).reshape(shape), device)


CREATE.update({kind: _empty for kind in DRIVERS} | {"cuda_host": _pinned})


def _placed(values: np.ndarray, device: Device) -> NDArray:
    """An unpickled array, on its device again."""
    where = checked_device(device, None)
    return new_array(where, values.shape, values.dtype).copyfrom(values)


def describe(
    shape: Sequence[int],
    dtype: np.dtype,
    strides: Sequence[int] | None = None,
    read_only: bool = False,
) -> np.ndarray:
    """A numpy array with a shape, a dtype and strides in bytes, and no elements to look at."""
    return _described(tuple(shape), dtype, None if strides is None else tuple(strides), read_only)


@functools.lru_cache(maxsize=4096)
def _described(
    shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...] | None, read_only: bool
) -> np.ndarray:
    if strides is None:
        steps = [dtype.itemsize] * len(shape)
        for d in range(len(shape) - 2, -1, -1):
            steps[d] = steps[d + 1] * max(1, shape[d + 1])
        strides = tuple(steps)
    one = np.empty(1, dtype)
    return np.lib.stride_tricks.as_strided(one, shape, strides, writeable=not read_only)


def _span(described: np.ndarray) -> int:
    """Elements from the first to the last one in memory."""
    if not described.size:
        return 0
    steps = (s // described.itemsize for s in described.strides)
    return 1 + sum((n - 1) * step for n, step in zip(described.shape, steps))


def _layout(described: np.ndarray, context: Context, address: int) -> int:
    """A number that two arrays share only where one call's checks serve for both."""
    key = (
        described.dtype,
        described.shape,
        described.strides,
        described.flags.writeable,
        address % ALIGNMENT,
        context,
    )
    number = _layouts.get(key)
    if number is None:
        if len(_layouts) >= _MOST_LAYOUTS:
            _layouts.clear()  # numbers are never used again
        number = _layouts[key] = next(_numbers)
    return number


def _is_pinned(source: object) -> bool:
    return isinstance(source, NDArray) and source.device.type == "cuda_host"
