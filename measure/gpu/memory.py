"""Arrays of a kernel's call in a device's memory, with watched margins."""

from __future__ import annotations

import numpy as np

from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.abi.signature import BufferParam
from whet.compiler.runtime.arrays.device import Device
from whet.compiler.runtime.arrays.device_array import DeviceArray, Memory
from whet.compiler.runtime.gpu.driver.interface import Context
from whet.measure.device.names import EMULATOR
from whet.measure.stage.memory import CANARY, poison_byte

MARGIN = 4096
"""Watched bytes on either side of an array. The emulator needs none: it knows where arrays end."""


class DeviceBuffer:
    """One array on a device, with its margins.

    Args:
        device: holds it.
        context: of that device.
        param: the kernel's parameter.
        shape: the array's shape.
        initial: its first contents, kept on the host; None: it is poisoned.

    Attributes:
        param: the kernel's parameter.
        array: the array.
    """

    def __init__(
        self,
        device: Device,
        context: Context,
        param: BufferParam,
        shape: tuple[int, ...],
        initial: np.ndarray | None,
    ) -> None:
        self.param = param
        self._initial = np.empty(shape, numpy_dtype(param.dtype)) if initial is None else initial
        self._context = context
        self._margin = 0 if device.type == EMULATOR else MARGIN
        self._memory = Memory(context, self._initial.nbytes + 2 * self._margin)
        self._address = self._memory.address + self._margin
        for place in self._margins():
            context.fill(place, CANARY, self._margin)
        described = np.empty(0, self._initial.dtype)
        described = np.lib.stride_tricks.as_strided(described, shape, self._initial.strides)
        self.array = DeviceArray(device, context, self._address, described, self._memory)
        if initial is None:
            self.poison()
        else:
            self.restore()

    @property
    def nbytes(self) -> int:
        """Bytes that it holds, here and there."""
        return 2 * self._initial.nbytes + 2 * self._margin

    def restore(self) -> None:
        """Give it its first contents again."""
        if self._initial.nbytes:
            self._context.copy_in(self._address, self._initial)

    def poison(self) -> None:
        """Spoil it, so that a kernel that does not write it fails the check."""
        nbytes = self._initial.nbytes
        if nbytes:
            self._context.fill(self._address, poison_byte(self._initial.dtype), nbytes)
            self._context.discard(self._address, nbytes)

    def freeze(self) -> None:
        """Take its contents for those of an input, which no kernel may change."""
        self._initial = self.read()

    def read(self) -> np.ndarray:
        """A copy of its contents on the host."""
        contents = np.empty(self._initial.shape, self._initial.dtype)
        if contents.nbytes:
            self._context.copy_out(contents, self._address)
        return contents

    def intact(self) -> bool:
        """True if the margins are untouched."""
        margin = np.empty(self._margin, np.uint8)
        for place in self._margins():
            self._context.copy_out(margin, place)
            if not (margin == CANARY).all():
                return False
        return True

    def changed(self) -> bool:
        """True if a kernel wrote this input; it then has its own contents again."""
        if self.read().tobytes() == self._initial.tobytes():
            return False
        self.restore()
        return True

    def _margins(self) -> tuple[int, ...]:
        """The addresses of the margins."""
        if not self._margin:
            return ()
        return self._memory.address, self._address + self._initial.nbytes
