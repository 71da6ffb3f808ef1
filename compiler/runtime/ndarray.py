"""NDArray: an array on a device; on the CPU a thin hold on a numpy array, shared without copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from whet.compiler.errors import ArgumentError
from whet.compiler.runtime.device import Device, cpu


@final
class NDArray:
    """An array that kernels take.

    Args:
        array: the numpy array that is held, not copied.
        device: where it lives.
    """

    # Generated calls read `_array` at its slot's offset and know the type by identity.
    __slots__ = ("__weakref__", "_array", "_device")

    _array: np.ndarray
    _device: Device

    def __init__(self, array: np.ndarray, device: Device | None = None) -> None:
        self._array = array
        self._device = cpu(0) if device is None else device

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the dimensions."""
        return self._array.shape

    @property
    def dtype(self) -> str:
        """Name of the elements' dtype."""
        return str(self._array.dtype)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._array.ndim

    @property
    def device(self) -> Device:
        """Where it lives."""
        return self._device

    def numpy(self) -> np.ndarray:
        """A copy as a numpy array."""
        return self._array.copy()

    def copyfrom(self, source: object) -> NDArray:
        """Copy the elements of an array-like of the same shape into this array.

        Raises:
            ArgumentError: the shapes differ.
        """
        held = as_numpy(source)
        values = np.asarray(source) if held is None else held
        if values.shape != self.shape:
            raise ArgumentError(
                "NDArray.copyfrom()",
                f"the source has shape {values.shape}, this array has {self.shape}",
            )
        self._array[...] = values
        return self

    def copyto(self, target: NDArray | Device) -> NDArray:
        """Copy the elements to another array of the same shape, or to a new array on a device.

        Returns:
            The array that was written.

        Raises:
            ArgumentError: the shapes differ.
        """
        if isinstance(target, Device):
            return array(self._array, target)
        return target.copyfrom(self)

    def same_as(self, other: object) -> bool:
        """Whether ``other`` is this very object."""
        return self is other

    def __setitem__(self, where: object, value: object) -> None:
        if where != slice(None) and where is not ...:
            raise ArgumentError(
                f"NDArray[{where!r}] = …", "only the whole array can be set", "use a[:] = values"
            )
        self.copyfrom(
            np.broadcast_to(np.asarray(value), self.shape) if np.isscalar(value) else value
        )

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device.device_type, self._device.index

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy:
            return np.array(self._array, dtype=dtype, copy=True)
        return np.asarray(self._array, dtype=dtype)

    def __len__(self) -> int:
        return len(self._array)

    def __reduce__(self) -> tuple:
        return NDArray, (self._array, self._device)

    def __repr__(self) -> str:
        return f"<whet.nd.NDArray {self.dtype} {self.shape} on {self._device}>\n{self._array!r}"


def array(source: object, device: Device | None = None) -> NDArray:
    """A new array with a copy of ``source``'s elements.

    Args:
        source: a numpy array, an NDArray, an object with ``__dlpack__``, or nested lists. Python
            floats become float32, as in TVM.
        device: where it shall live; the CPU by default.
    """
    held = as_numpy(source)
    if held is None:
        held = np.asarray(source)
        if held.dtype == np.float64 and not isinstance(source, np.generic):
            held = held.astype(np.float32)
    return NDArray(np.array(held, order="C", copy=True), _on_cpu(device))


def empty(
    shape: Sequence[int] | int, dtype: str = "float32", device: Device | None = None
) -> NDArray:
    """A new array with whatever its memory holds.

    Args:
        shape: extents of the dimensions.
        dtype: name of the elements' dtype.
        device: where it shall live; the CPU by default.
    """
    from whet.compiler.codegen.llvm.abi import numpy_dtype

    return NDArray(np.empty(shape, numpy_dtype(str(dtype))), _on_cpu(device))


def from_dlpack(source: Any) -> NDArray:
    """An array that shares the memory of any object with ``__dlpack__``.

    Raises:
        ArgumentError: the object has no ``__dlpack__`` or lives on another device.
    """
    held = as_numpy(source)
    if held is None:
        raise ArgumentError(
            f"from_dlpack({type(source).__name__})", "the object has no __dlpack__ method"
        )
    return NDArray(held)


def as_numpy(value: object) -> np.ndarray | None:
    """The numpy array that shares ``value``'s memory, or None when it is no array.

    Raises:
        ArgumentError: ``value`` offers DLPack, but not memory of this CPU.
    """
    if isinstance(value, NDArray):
        return value._array
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, np.generic) or not hasattr(value, "__dlpack__"):
        return None
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentError(
            f"sharing the memory of a {type(value).__name__}", str(error), "move it to the CPU"
        ) from None


def _on_cpu(device: Device | None) -> Device:
    where = cpu(0) if device is None else device
    if not where.exist:
        raise ArgumentError(f"an array on {where}", "this machine has no such device", "use cpu(0)")
    return where
