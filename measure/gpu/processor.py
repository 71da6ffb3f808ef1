"""GPUs and the emulator as processors that measure: a device's memory and its clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from whet.compiler.errors import KernelError, MeasureError
from whet.measure.device.identity import named_device
from whet.measure.device.names import EMULATOR
from whet.measure.gpu import gpu_state
from whet.measure.gpu.events import EventTimer
from whet.measure.gpu.memory import DeviceBuffer
from whet.measure.stage.processor import Clock, Processor, Run
from whet.measure.values import Json, MeasureOptions

if TYPE_CHECKING:
    from whet.compiler.abi.signature import BufferParam


class GpuProcessor(Processor):
    """One GPU, or the emulator, whose kernels are run for their numbers alone.

    Args:
        name: such as ``"cuda:0"``.

    Attributes:
        context: the device's.

    Raises:
        MeasureError: the text names no device.
        TargetError: there is no such device here.
    """

    def __init__(self, name: str) -> None:
        from whet.compiler.runtime.arrays.device import context_of

        device = named_device(name)
        if device is None:
            raise MeasureError(f"measurement on {name!r}", "this names no device")
        self.name, self._device = str(device), device
        self.context = context_of(device)
        self._emulated = device.type == EMULATOR
        # The emulator's checks refuse a kernel that reads what nobody wrote: an accumulation does.
        self.refusals = (KernelError,) if self._emulated else ()

    def buffer(
        self, param: BufferParam, shape: tuple[int, ...], initial: np.ndarray | None
    ) -> DeviceBuffer:
        """An array in the device's memory."""
        return DeviceBuffer(self._device, self.context, param, shape, initial)

    def synchronize(self) -> None:
        """Wait for the device."""
        self.context.synchronize()

    def clock(self, run: Run, options: MeasureOptions) -> Clock:
        """The device's clock; the emulator has none."""
        if self._emulated:
            return _EmulatorClock(run)
        return EventTimer(self.context, run, options.flush_l2)

    def environment(self) -> Json:
        """The machine, and the GPU's clocks, temperature and driver as they are now."""
        facts = super().environment()
        if self._emulated:
            return facts
        properties = self.context.properties
        state = gpu_state.state_of(properties.pci_bus_id)
        gpu = {"name": properties.name, "cuda": properties.driver_version, **state}
        if properties.pci_bus_id:
            gpu["bus"] = properties.pci_bus_id  # tells those that share a search
        return facts | {"gpu": gpu}


class _EmulatorClock(Clock):
    """Runs a kernel for its numbers: the emulator, which waits for it, has no times that count."""

    times = False
