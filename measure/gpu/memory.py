"""A kernel's arguments in a device's memory: seeded inputs, poisoned outputs, watched margins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.abi.signature import BufferParam, ScalarParam
from whet.compiler.runtime.device import Device
from whet.compiler.runtime.gpu.array import DeviceArray, Memory
from whet.compiler.runtime.gpu.driver.interface import Context
from whet.measure.device.names import EMULATOR
from whet.measure.stage.buffers import CANARY, Param, fixed_shape, random_values

MARGIN = 4096
"""Watched bytes on either side of an array. The emulator needs none: it knows where arrays end."""
POISON_FLOAT, POISON_BOOL, POISON_INT = 0xFF, 1, 0x5A
"""Bytes that outputs are filled with; floats of 0xFF are NaN."""


class DeviceBuffer:
    """One array on a device, with what surrounds it.

    Args:
        device: where.
        context: of that device.
        param: what the kernel says of it.
        shape: the array's shape.
        initial: what it holds at first; kept on the host.
    """

    def __init__(
        self,
        device: Device,
        context: Context,
        param: BufferParam,
        shape: tuple[int, ...],
        initial: np.ndarray,
    ) -> None:
        self.param = param
        self.initial = initial
        self._context = context
        self._checked = device.type == EMULATOR
        self._margin = 0 if self._checked else MARGIN
        self._memory = Memory(context, initial.nbytes + 2 * self._margin)
        self.address = self._memory.address + self._margin
        for place in self._walls():
            context.fill(place, CANARY, self._margin)
        described = np.empty(0, initial.dtype)
        described = np.lib.stride_tricks.as_strided(described, shape, initial.strides)
        self.array = DeviceArray(device, context, self.address, described, self._memory)
        self.restore()

    @property
    def nbytes(self) -> int:
        """Bytes that it holds, here and there."""
        return 2 * self.initial.nbytes + 2 * self._margin

    def restore(self) -> None:
        """Give it its first contents again."""
        if self.initial.nbytes:
            self._context.copy_in(self.address, self.initial)

    def poison(self) -> None:
        """Spoil it, so that a kernel that does not write it is found out."""
        nbytes, kind = self.initial.nbytes, self.initial.dtype.kind
        if not nbytes:
            return
        byte = {"b": POISON_BOOL, "i": POISON_INT, "u": POISON_INT}.get(kind, POISON_FLOAT)
        self._context.fill(self.address, byte, nbytes)
        self._context.discard(self.address, nbytes)

    def freeze(self) -> None:
        """What it holds now is what it shall hold: who changes it is found out."""
        self.initial = self.read()

    def read(self) -> np.ndarray:
        """What it holds now."""
        found = np.empty(self.initial.shape, self.initial.dtype)
        if found.nbytes:
            self._context.copy_out(found, self.address)
        return found

    def intact(self) -> bool:
        """Whether the margins are untouched."""
        seen = np.empty(self._margin, np.uint8)
        for place in self._walls():
            self._context.copy_out(seen, place)
            if not (seen == CANARY).all():
                return False
        return True

    def _walls(self) -> tuple[int, ...]:
        if not self._margin:
            return ()
        return self._memory.address, self.address + self.initial.nbytes


class DeviceArguments:
    """Arguments of one workload on a device, reused by all candidates that take the same ones.

    Args:
        device: where.
        context: of that device.
        params: place -> what stands there; every shape must be made of numbers.
        seed: the same seed gives the same inputs, the same as on a processor.
        name: the function's, for the error.

    Raises:
        MeasureError: a shape is symbolic.
        OutOfMemoryError: the device has no room for them.
    """

    def __init__(
        self,
        device: Device,
        context: Context,
        params: Mapping[int, Param],
        seed: int,
        name: str = "a function",
    ) -> None:
        self.buffers: list[DeviceBuffer] = []
        self._values: dict[int, Any] = {}
        for place, param in params.items():
            rng = np.random.default_rng([seed, place])
            dtype = numpy_dtype(param.dtype)
            if isinstance(param, ScalarParam):
                self._values[place] = random_values(rng, (1,), dtype)[0].item()
                continue
            shape = fixed_shape(name, param)
            initial = random_values(rng, shape, dtype, param.value_range)
            made = DeviceBuffer(device, context, param, shape, initial)
            self.buffers.append(made)
            self._values[place] = made.array

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(one.nbytes for one in self.buffers)

    def at(self, places: Iterable[int]) -> tuple[Any, ...]:
        """The arrays and numbers that stand at some places."""
        return tuple(self._values[k] for k in places)

    def poison(self, finite: bool = False) -> None:
        """Spoil the outputs, or give them seeded numbers, for kernels that read them first."""
        for one in self._written():
            one.restore() if finite else one.poison()

    def outputs(self) -> dict[str, np.ndarray]:
        """The written arrays by name, copied to the host."""
        return {one.param.name: one.read() for one in self._written()}

    def stray_writes(self) -> list[str]:
        """What was written that is no output: margins of arrays, and inputs."""
        return stray_writes(self.buffers)

    def _written(self) -> Sequence[DeviceBuffer]:
        return [one for one in self.buffers if one.param.written]


def stray_writes(buffers: Sequence[DeviceBuffer]) -> list[str]:
    """What was written that is no output: margins of arrays, and inputs, which are restored."""
    strays = [f"outside of {one.param.name}" for one in buffers if not one.intact()]
    inputs = [one for one in buffers if not one.param.written]
    changed = [one for one in inputs if one.read().tobytes() != one.initial.tobytes()]
    for one in changed:
        one.restore()
    return strays + [f"its input {one.param.name}" for one in changed]
