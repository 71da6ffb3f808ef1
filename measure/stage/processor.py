"""Arrays of a call, in a processor's memory or in a device's."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from whet.compiler.abi.signature import BufferParam

CANARY = 0xA5
"""The byte of watched memory around arrays."""


class Buffer(Protocol):
    """One array of a call, with watched memory around it.

    Attributes:
        param: the kernel's parameter.
        array: the array, as a kernel takes it.
        nbytes: bytes that it holds, here and on a device.
    """

    param: BufferParam
    array: Any

    @property
    def nbytes(self) -> int: ...
    def restore(self) -> None:
        """Give it its first contents again."""

    def poison(self) -> None:
        """Spoil it, so that a kernel that does not write it fails the check."""

    def freeze(self) -> None:
        """Take its contents for those of an input, which no kernel may change."""

    def read(self) -> np.ndarray:
        """Its contents; on a processor the array itself."""

    def intact(self) -> bool:
        """True if the memory around it is untouched."""

    def changed(self) -> bool:
        """True if a kernel wrote this input; it then has its own contents again."""


def poison_byte(dtype: np.dtype) -> int:
    """The byte that poisons an array: floats of 0xFF are NaN."""
    return {"b": 1, "i": 0x5A, "u": 0x5A}.get(dtype.kind, 0xFF)
