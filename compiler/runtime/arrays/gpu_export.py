"""A GPU's arrays given to others in this process: DLPack and `__cuda_array_interface__`.

Whoever hands memory on sees to it that the work on it so far is done, or before later work, in the
stream that the taker names (https://dmlc.github.io/dlpack, NumPy's data interchange; version 3 of
https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError
from whet.compiler.runtime.arrays.dlpack import (
    give,
    give_memory,
)
from whet.compiler.runtime.gpu.driver.streams import DEFAULT, current_handle

if TYPE_CHECKING:
    from whet.compiler.runtime.arrays.device_array import DeviceArray


class NotShared(ArgumentError, BufferError, AttributeError):
    """An array cannot be shared in the way that was asked for."""


def check_shared(array: DeviceArray, how: str) -> None:
    """Refuse to share what nobody else can reach.

    Raises:
        NotShared: the memory is the emulator's.
    """
    if not array.context.driver.shares_memory:
        raise NotShared(
            f"sharing an array on {array.device} by {how}",
            "its memory is an emulated GPU's, and nobody else's GPU can reach it",
            "a.numpy() copies it",
        )


def give_array(
    array: DeviceArray,
    stream: int | None,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """A DLPack capsule of an array; the arguments are those of ``__dlpack__``.

    Raises:
        NotShared: the memory is the emulator's.
        BufferError: the array is on another device, and a copy is not wanted.
    """
    versioned = max_version is not None and max_version[0] >= 1
    if dl_device is not None and tuple(dl_device) == (1, 0) and copy is not False:
        return give(array.numpy(), versioned)
    own = array.__dlpack_device__()
    if dl_device is not None and tuple(dl_device) != own:
        raise BufferError(f"the array is on {array.device}, not on DLPack's device {dl_device}")
    given: Any = array.copyto(array.device) if copy else array
    mine, theirs = current_handle(given.context), stream or DEFAULT
    if theirs not in (-1, mine):  # -1: the taker sees to it
        given.context.order(mine, theirs)
    return give_memory(given.described, given.address, own, given, versioned)


def interface_of(array: DeviceArray) -> dict[str, Any]:
    """``__cuda_array_interface__`` of an array.

    Raises:
        NotShared: the memory is the emulator's, or the interface has no word for the dtype.
    """
    check_shared(array, "__cuda_array_interface__")
    described = array.described
    if described.dtype.kind == "V":
        raise NotShared(
            "sharing a bfloat16 array by __cuda_array_interface__",
            "the interface has no such dtype",
            "use DLPack: from_dlpack(a)",
        )
    return {
        "version": 3,
        "shape": described.shape,
        "typestr": described.dtype.str,
        "data": (array.address if described.size else 0, not described.flags.writeable),
        "strides": None if described.flags.c_contiguous else described.strides,
        "stream": current_handle(array.context),
    }
