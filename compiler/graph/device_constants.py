"""The constants of models in a device's memory: uploaded and packed there before the first run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.abi.signature import BufferParam
from whet.compiler.errors import TargetError
from whet.compiler.runtime.arrays.device import Device, context_of
from whet.compiler.runtime.arrays.device_array import DeviceArray, describe
from whet.compiler.runtime.arrays.nd import array as copied_to
from whet.compiler.runtime.arrays.nd import empty
from whet.compiler.runtime.module import Module


@dataclass(frozen=True, eq=False)
class Upload:
    """Constants that come into a device's memory before the first run.

    Attributes:
        sources: arrays of the host.
        offsets: bytes of the constants, for each array that arises.
        packs: the module whose kernel takes them packed; None: the source as it is.
    """

    sources: tuple[np.ndarray, ...]
    offsets: tuple[int, ...]
    packs: Module | None = None


class DeviceConstants:
    """The constants of models in a device's memory, filled when they are first asked for.

    Args:
        size: bytes of all.
        uploads: what they hold; forgotten once it is there.
        device: whose memory; it need not be there before.

    Attributes:
        size, device: as given.
    """

    def __init__(self, size: int, uploads: Sequence[Upload], device: Device) -> None:
        self.size, self.device = size, device
        self._uploads = tuple(uploads)
        self._memory: DeviceArray | None = None

    def checked(self) -> Device:
        """The device, which has to be there by now.

        Raises:
            TargetError: it is not.
        """
        try:
            context_of(self.device)
        except TargetError as error:
            raise TargetError(
                f"running a model on {self.device}",
                f"this machine has no such device: {error}",
                "it is built: model.launches, model.resources() and model.get_source() need no "
                'GPU; whet.compile(..., device="cuda-emulator") runs it without one',
            ) from None
        return self.device

    def uploads(self) -> tuple[Upload, ...]:
        """The uploads that fill the memory: those given, or all bytes as they are there by now."""
        if self._memory is None:
            return self._uploads
        return (Upload((self._memory.numpy(),), (0,)),)

    def memory(self) -> DeviceArray:
        """All bytes."""
        if self._memory is None:
            made = device_bytes(self.size, self.checked())
            for upload in self._uploads:
                self._upload(upload, made)
            self._memory, self._uploads = made, ()
        return self._memory

    def _upload(self, upload: Upload, memory: DeviceArray) -> None:
        if upload.packs is None:
            (source,), (offset,) = upload.sources, upload.offsets
            whole = np.require(source, requirements="C")  # keeps a rank of 0
            view_of(memory, offset, whole.shape, whole.dtype).copyfrom(whole)
            return
        weights = [copied_to(a, memory.device) for a in upload.sources]
        pack = upload.packs.entry_func.ahead
        assert pack is not None
        params = pack.signature.params[len(weights) :]
        pack(*weights, *(array_of(memory, o, p) for o, p in zip(upload.offsets, params)))


def device_bytes(size: int, device: Device) -> DeviceArray:
    """Memory of a device, of one byte at least."""
    made = empty((max(size, 1),), "uint8", device)
    assert isinstance(made, DeviceArray)
    return made


def array_of(memory: DeviceArray, offset: int, param: Any) -> DeviceArray:
    """An argument of a kernel in a memory."""
    assert isinstance(param, BufferParam)
    shape = tuple(int(str(d)) for d in param.shape)
    return view_of(memory, offset, shape, numpy_dtype(param.dtype))


def view_of(
    memory: DeviceArray, offset: int, shape: tuple[int, ...], dtype: np.dtype
) -> DeviceArray:
    """An array in a device's memory, so many bytes behind its beginning."""
    described = describe(shape, dtype)
    assert offset + described.nbytes <= memory.nbytes
    address = memory.address + offset
    return DeviceArray(memory.device, memory.context, address, described, memory)
