"""A compiled model for GPUs some of whose sizes are symbols: the launches follow from a call's."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from whet.compiler.abi.artifact import Resources
from whet.compiler.abi.extent import Shape
from whet.compiler.graph.device_constants import DeviceConstants, device_bytes
from whet.compiler.graph.device_model import DeviceModel
from whet.compiler.graph.ir import Value
from whet.compiler.graph.launches import ModelLaunch, launches_of
from whet.compiler.graph.memory import Arena
from whet.compiler.graph.model import Call
from whet.compiler.graph.symbolic.calls import Steps, SymbolicCall
from whet.compiler.graph.symbolic.model import SymbolicModel
from whet.compiler.graph.symbolic.sizes import Dynamic
from whet.compiler.runtime.arrays.device import Device
from whet.compiler.runtime.arrays.device_array import DeviceArray
from whet.compiler.runtime.module import Module

_MOST_SIZES = 16  # sets of sizes whose launches are ready


class _AtSizes(DeviceModel):
    """The launches of a model for some sizes, over memory that all sizes share."""

    def share(self, between: DeviceArray | None) -> None:
        """Take the arena that another one has."""
        self._between = between


class SymbolicDeviceModel(SymbolicModel):
    """A model for any sizes of some ranges, on a GPU: one build, and a call compiles nothing.

    Args:
        ranges, shapes, inputs, outputs, groups: as of a :class:`SymbolicModel`.
        kernels: symbol -> the kernel's module.
        constants: what the kernels read, in the memory of the device that it runs on.
        arena: the places of what lives between kernels.
        steps: what each group does.
        scaled: places in the arena are for sizes of 1, as of :func:`symbolic_function`.

    One model is called by one thread at a time.
    """

    on_device = True

    def __init__(
        self,
        ranges: Mapping[str, Dynamic],
        shapes: Mapping[str, Shape],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        kernels: Mapping[str, Module],
        constants: DeviceConstants,
        arena: Arena[Any],
        groups: Sequence[SymbolicCall],
        steps: Steps,
        scaled: bool,
    ) -> None:
        self.inputs, self.outputs, self.arena = tuple(inputs), tuple(outputs), arena
        self._kernels, self._held = dict(kernels), constants
        self._of_symbols(ranges, shapes, groups, steps, scaled)
        self._ready: OrderedDict[tuple[int, ...], _AtSizes] = OrderedDict()

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self._held.device

    @property
    def constants(self) -> DeviceConstants:
        """The constants that its kernels read, on the device already or not."""
        return self._held

    def resources(self) -> dict[str, Resources]:
        """The resources of each kernel, as of a :class:`DeviceModel`."""
        return {n: r for m in self._kernels.values() for n, r in m.resources().items()}

    def get_source(self, fmt: str = "cuda") -> str:
        """The kernels' code as text, as of a :class:`DeviceModel`."""
        return "\n".join(m.get_source(fmt) for m in self._kernels.values())

    def launches_at(self, **sizes: int) -> tuple[ModelLaunch, ...]:
        """The launches of a run for some sizes, in order; no GPU needed.

        Args:
            sizes: a number for each symbol.

        Raises:
            ArgumentError: a symbol is missing, or a size is outside of its range.
        """
        self._check_sizes("launches_at", sizes)
        return launches_of(list(chain(*self._calls(sizes))), self._kernels)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The outputs for some inputs, as of a :class:`DeviceModel`.

        Args:
            args: arrays in the order of :attr:`inputs`.
            named: arrays by the inputs' names.

        Raises:
            ArgumentError: an array is missing, of another type or device, or of no size of the
                ranges.
            TargetError: there is no such device.
        """
        ordered = self._in_order(args, named)
        return self._for(ordered)(*ordered)

    def run(self, inputs: Sequence[Any], out: Sequence[Any]) -> None:
        """Put the launches into the current stream, as of a :class:`DeviceModel`.

        Args:
            inputs: arrays in the order of :attr:`inputs`; those of the host are copied.
            out: arrays of the device in the order of :attr:`outputs`, which overlap no input.

        Raises:
            ArgumentError, TargetError, KernelError: as of a call, and of a :class:`DeviceModel`.
        """
        self._for(self._in_order(inputs, {})).run(inputs, out)

    def sizes(self, *args: Any, **named: Any) -> dict[str, int]:
        """The number of each symbol for some inputs.

        Args:
            args, named: as of a call.

        Raises:
            ArgumentError: as of a call.
        """
        return self._sizes_of(self._in_order(args, named))

    def dump(self, *args: Any, **named: Any) -> dict[str, np.ndarray]:
        """All values that kernels make, by their names, as of a :class:`DeviceModel`.

        Args:
            args, named: as of a call.
        """
        ordered = self._in_order(args, named)
        return self._dumped(self._for(ordered)._device_stepper(ordered, {}), self.sizes(*ordered))

    def profile(self, *args: Any, rounds: int = 10, **named: Any) -> list[tuple[Call, float]]:
        """The least seconds of each call, as of a :class:`DeviceModel`.

        Args:
            args, named: as of a call, whose sizes say what is called.
            rounds: how often the model runs.
        """
        ordered = self._in_order(args, named)
        return self._for(ordered).profile(*ordered, rounds=rounds)

    @cached_property
    def _between(self) -> DeviceArray:
        """The arena, which is as long as the greatest sizes need it."""
        return device_bytes(self.arena.size, self._held.checked())

    def _for(self, ordered: Sequence[Any]) -> _AtSizes:
        """The launches for the sizes of some inputs."""
        sizes = self._sizes_of(ordered)
        for v, x in zip(self.inputs, ordered):
            self._check_rank(v, x)
        key = tuple(sizes[name] for name in self.ranges)
        found = self._ready.get(key)
        if found is None:
            inputs, outputs = (self._sized(v, sizes) for v in (self.inputs, self.outputs))
            calls = list(chain(*self._calls(sizes)))
            found = _AtSizes(inputs, outputs, self._kernels, self._held, self.arena, calls)
            found.share(self._between)
            if len(self._ready) >= _MOST_SIZES:
                self._ready.popitem(last=False)
            self._ready[key] = found
        self._ready.move_to_end(key)
        return found
