"""NDArray: an array on a device; on the CPU a thin hold on a numpy array, shared without copies.

What is in a GPU's memory is the subclass in `runtime/arrays/device_array.py`.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whet.compiler.errors import ArgumentError, OutOfMemoryError, WhetError
from whet.compiler.runtime.arrays.aligned import aligned_empty
from whet.compiler.runtime.arrays.device import Device, cpu
from whet.compiler.runtime.arrays.dlpack import give, shared
from whet.compiler.runtime.arrays.placement import checked_device

Create = Callable[[Device, tuple[int, ...], np.dtype], "NDArray"]
"""A new array with whatever its memory holds."""

CREATE: dict[str, Create] = {}
"""Kind of device -> how an array is made there; the module of an array class adds its kinds."""

SHARE: list[Callable[[Any], NDArray | None]] = []
"""Ways to share memory that the CPU cannot reach; each gives None for what it is not for."""


class NDArray:
    """An array that kernels take.

    Args:
        array: the numpy array that is held, not copied.
        device: where it lives.
    """

    # Generated calls read `_array` at its slot's offset and know this very type by identity.
    __slots__ = ("__weakref__", "_array", "_device")

    _array: np.ndarray
    _device: Device

    def __init__(self, array: np.ndarray, device: Device | None = None) -> None:
        self._array = array
        self._device = cpu(0) if device is None else device

    @property
    def described(self) -> np.ndarray:
        """A numpy array with the shape, dtype, strides and writability; of the CPU's the array."""
        return self._array

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the dimensions."""
        return self.described.shape

    @property
    def dtype(self) -> str:
        """Name of the elements' dtype."""
        return str(self.described.dtype)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.described.ndim

    @property
    def device(self) -> Device:
        """Where it lives."""
        return self._device

    def numpy(self) -> np.ndarray:
        """A copy as a numpy array."""
        return self._array.copy()

    def asnumpy(self) -> np.ndarray:
        """TVM's old name of :meth:`numpy`, deprecated."""
        warnings.warn(
            "NDArray.asnumpy() is deprecated: use numpy()", DeprecationWarning, stacklevel=2
        )
        return self.numpy()

    def copyfrom(self, source: object) -> NDArray:
        """Copy the elements of an array-like of the same shape into this array, cast to its dtype.

        Raises:
            ArgumentError: the shapes differ, the elements are no numbers, or this array is
                read-only.
        """
        request = "NDArray.copyfrom()"
        values = elements(request, source)
        if values.shape != self.shape:
            raise ArgumentError(
                request, f"the source has shape {values.shape}, this array has {self.shape}"
            )
        if not self.described.flags.writeable:
            raise ArgumentError(
                request, "this array shares memory that is read-only", "copy it first"
            )
        try:
            self._store(source, values)
        except (TypeError, ValueError, OverflowError) as error:
            raise ArgumentError(
                request, f"the source does not turn into {self.dtype}: {error}"
            ) from None
        return self

    def _store(self, source: object, values: np.ndarray) -> None:
        """Take the elements of a source, ``values``, which has this array's shape."""
        self._array[...] = values

    def copyto(self, target: NDArray | Device, mem_scope: str | None = None) -> NDArray:
        """Copy the elements to another array of the same shape, or to a new array on a device.

        Returns:
            The array that was written.

        Raises:
            ArgumentError: the shapes differ, or the device does not exist.
        """
        if isinstance(target, Device):
            where = checked_device(target, mem_scope)
            return new_array(where, self.shape, self.described.dtype).copyfrom(self)
        if not isinstance(target, NDArray):
            raise ArgumentError(
                f"NDArray.copyto({type(target).__name__})", "the target is an NDArray or a Device"
            )
        return target.copyfrom(self)

    def same_as(self, other: object) -> bool:
        """True where ``other`` is this very object."""
        return self is other

    def _create_view(self, shape: Sequence[int]) -> NDArray:
        """The same memory with another shape of as many elements.

        Raises:
            ArgumentError: the shape has another number of elements, or the array is not compact.
        """
        wanted = extents_of("NDArray._create_view", shape)
        if math.prod(wanted) != self.described.size:
            raise ArgumentError(
                f"NDArray._create_view({wanted})",
                f"this array of shape {self.shape} has {self.described.size} elements",
            )
        if not self.described.flags.c_contiguous:
            raise ArgumentError(
                f"NDArray._create_view({wanted})", "this array is not compact", "copy it first"
            )
        return self._viewed(wanted)

    def _viewed(self, shape: tuple[int, ...]) -> NDArray:
        """The same memory with a shape that fits."""
        return NDArray(self._array.reshape(shape), self._device)

    def __setitem__(self, where: object, value: object) -> None:
        if where is not ... and not (isinstance(where, slice) and where == slice(None)):
            raise ArgumentError(
                f"NDArray[{where!r}] = …", "only the whole array can be set", "use a[:] = values"
            )
        self.copyfrom(
            np.broadcast_to(np.asarray(value), self.shape) if np.isscalar(value) else value
        )

    def to_dlpack(self) -> Any:
        """A DLPack capsule with this array's memory."""
        return self.__dlpack__()

    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the array is on {self._device}, not on DLPack's device {dl_device}")
        given = self._array.copy() if copy else self._array
        return give(given, max_version is not None and max_version[0] >= 1)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device.device_type, self._device.index

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy:
            return np.array(self._array, dtype=dtype, copy=True)
        return np.asarray(self._array, dtype=dtype)

    def __len__(self) -> int:
        if not self.ndim:
            raise ArgumentError("len(NDArray)", "an array of no dimensions has no length")
        return self.shape[0]

    def __bool__(self) -> bool:
        if self.described.size != 1:
            raise ArgumentError(
                "bool(NDArray)",
                f"an array of shape {self.shape} is neither true nor false",
                "a.numpy().any(), a.numpy().all(), or `a is not None`",
            )
        return bool(self.numpy().reshape(-1)[0])

    def __reduce__(self) -> tuple:
        return NDArray, (self._array, self._device)

    def __repr__(self) -> str:
        held = self.numpy()
        return f"<whet.nd.NDArray {self.dtype} {self.shape} on {self._device}>\n{held!r}"


def new_array(device: Device, shape: tuple[int, ...], dtype: np.dtype) -> NDArray:
    """An array on a device that exists, with whatever its memory holds.

    On the CPU it begins where a line of the caches does, as TVM's do.

    Raises:
        ArgumentError: numpy makes no such array.
        TargetError: what drives the device is missing.
        OutOfMemoryError: there is not so much memory.
    """
    if device.type != "cpu":
        return CREATE[device.type](device, shape, dtype)
    try:
        return NDArray(aligned_empty(shape, dtype), device)
    except ValueError as error:
        raise ArgumentError(f"nd.empty({shape})", f"numpy makes no such array: {error}") from None
    except MemoryError as error:
        raise OutOfMemoryError(
            f"nd.empty({shape}, {dtype.name!r})", str(error), "take a smaller array"
        ) from None


def on_device(source: object) -> NDArray | None:
    """The array that shares the memory of an object on a GPU; None of what is elsewhere."""
    if isinstance(source, np.ndarray) or type(source) is NDArray:
        return None
    for share in SHARE:
        array = share(source)
        if array is not None:
            return array
    return None


def as_numpy(value: object) -> np.ndarray | None:
    """The numpy array that shares ``value``'s memory, or None when it is no array.

    Raises:
        ArgumentError: ``value`` offers DLPack, but not memory of this CPU.
    """
    if type(value) is NDArray:
        return value._array
    if isinstance(value, NDArray):
        raise ArgumentError(
            f"sharing the memory of an array on {value.device}",
            "the CPU cannot reach it",
            "a.numpy() copies it",
        )
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, np.generic) or not hasattr(value, "__dlpack__"):
        return None
    try:
        return shared(value)
    except (WhetError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentError(
            f"sharing the memory of a {type(value).__name__}", str(error), "copy it to a CPU array"
        ) from None


def elements(request: str, source: object) -> np.ndarray:
    """The numpy array of an array-like; of one on a GPU a copy.

    Args:
        request: the request, for the error.
        source: see :func:`array`.

    Raises:
        ArgumentError: numpy makes no array of it.
    """
    there = on_device(source)
    if there is not None:
        return there.numpy()
    held = as_numpy(source)
    if held is not None:
        return held
    try:
        return np.asarray(source)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(request, f"numpy makes no array of it: {error}") from None


def extents_of(request: str, shape: object) -> tuple[int, ...]:
    """A shape as integers; one number is a shape of one dimension.

    Raises:
        ArgumentError: it is no shape.
    """
    dims: Any = shape if isinstance(shape, (Sequence, np.ndarray)) else [shape]
    try:
        extents = () if isinstance(shape, str) else tuple(operator.index(d) for d in dims)
    except TypeError:
        extents = (-1,)
    if isinstance(shape, str) or any(d < 0 for d in extents):
        raise ArgumentError(
            f"{request}({shape!r})", "a shape is integers of 0 or more", "e.g. (2, 3)"
        )
    return extents
