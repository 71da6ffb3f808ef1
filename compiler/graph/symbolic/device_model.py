"""A compiled model for GPUs some of whose sizes are symbols: the launches follow from a call's."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

from whet.compiler.abi.artifact import Resources
from whet.compiler.abi.extent import Shape, Symbol, evaluate
from whet.compiler.abi.signature import BufferParam
from whet.compiler.errors import ArgumentError
from whet.compiler.graph.device_constants import DeviceConstants, array_of, device_bytes
from whet.compiler.graph.device_model import DeviceModel
from whet.compiler.graph.executor import ARENA, Place
from whet.compiler.graph.ir import Value
from whet.compiler.graph.launches import ModelLaunch, functions_of, launches_of, numbers_of
from whet.compiler.graph.memory import Arena
from whet.compiler.graph.model import Call
from whet.compiler.graph.symbolic.executor import RowStep, SizedStep
from whet.compiler.graph.symbolic.model import SymbolicCall, SymbolicModel
from whet.compiler.graph.symbolic.sizes import Dynamic
from whet.compiler.runtime.arrays.device import Device
from whet.compiler.runtime.arrays.device_array import DeviceArray
from whet.compiler.runtime.module import Module

_MOST_SIZES = 16  # sets of sizes whose launches are ready


@dataclass(frozen=True)
class SizedCall(Call):
    """A kernel's call at some sizes.

    Attributes:
        numbers: sizes that the kernel takes behind its arrays.
    """

    numbers: tuple[int, ...] = ()


def calls_at(
    steps: Sequence[SizedStep | RowStep],
    groups: Sequence[SymbolicCall],
    sizes: Mapping[str, int],
    scale: int,
) -> list[SizedCall]:
    """The calls of a run for some sizes.

    Of blocks of rows the largest is taken of which there is one; the last one reaches back over
    rows that are done. So there are few launches, and none is smaller than it has to be.

    Args:
        steps, groups: of a model, in order.
        sizes: symbol -> its number.
        scale: by which places in the arena are further behind.
    """
    found = []
    for step, group in zip(steps, groups, strict=True):
        if isinstance(step, SizedStep):
            numbers = tuple(evaluate(n, sizes) for n in step.numbers)
            places = tuple(_moved(p, scale, 0) for p in step.places)
            found.append(_call(step.kernel, group, places, numbers))
            continue
        rows = evaluate(step.rows, sizes)
        block = next(b for b in step.blocks if b.rows <= rows)
        for k in range(-(-rows // block.rows)):
            at = min(k * block.rows, rows - block.rows)
            moved = zip(block.places, block.strides)
            places = tuple(_moved(p, scale, at * stride) for p, stride in moved)
            found.append(_call(block.kernel, group, places, ()))
    return found


def _moved(p: Place, scale: int, behind: int) -> Place:
    return replace(p, offset=p.offset * (scale if p.argument == ARENA else 1) + behind)


def _call(
    kernel: str, group: SymbolicCall, places: tuple[Place, ...], numbers: tuple[int, ...]
) -> SizedCall:
    by = next(iter(group.tuned_by), None)
    return SizedCall(group.name, kernel, group.origins, places, group.outputs, 0, 0, by, numbers)


class _AtSizes(DeviceModel):
    """The launches of a model for some sizes, over memory that all sizes share."""

    def share(self, between: DeviceArray | None) -> None:
        """Take the arena that another one has."""
        self._between = between

    def _views(self, call: Call, memory: Mapping[str, DeviceArray]) -> list[Any]:
        """A call's arguments: arrays in these memories, then numbers."""
        function = functions_of(self._kernels[call.kernel])[0]
        known = numbers_of(call, function)
        params = [p for p in function.signature.params if isinstance(p, BufferParam)]
        sized = [replace(p, shape=tuple(evaluate(d, known) for d in p.shape)) for p in params]
        arrays = [array_of(memory[p.argument], p.offset, q) for p, q in zip(call.places, sized)]
        return [*arrays, *known.values()]


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
        steps: Sequence[SizedStep | RowStep],
        scaled: bool,
    ) -> None:
        self.inputs, self.outputs, self.arena = tuple(inputs), tuple(outputs), arena
        self.ranges, self.shapes, self.groups = dict(ranges), dict(shapes), tuple(groups)
        self._kernels, self._held = dict(kernels), constants
        self._steps, self._scaled = tuple(steps), scaled
        self._open = [
            (k, d, size.name)
            for k, v in enumerate(inputs)
            for d, size in enumerate(self.shapes[v.name])
            if isinstance(size, Symbol)
        ]
        self._ready: OrderedDict[tuple[int, ...], _AtSizes] = OrderedDict()

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self._held.device

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
        if sizes.keys() != self.ranges.keys():
            raise ArgumentError(
                f"launches_at({', '.join(f'{n}={k}' for n, k in sizes.items())})",
                f"the model's symbols are {', '.join(self.ranges)}",
                f"launches_at({', '.join(f'{n}={r.high}' for n, r in self.ranges.items())})",
            )
        self._check_ranges(sizes)
        return launches_of(self._calls(sizes), self._kernels)

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

    @cached_property
    def _between(self) -> DeviceArray:
        """The arena, which is as long as the greatest sizes need it."""
        return device_bytes(self.arena.size, self._held.checked())

    def _calls(self, sizes: Mapping[str, int]) -> list[SizedCall]:
        scale = prod(sizes.values()) if self._scaled else 1
        return calls_at(self._steps, self.groups, sizes, scale)

    def _for(self, ordered: Sequence[Any]) -> _AtSizes:
        """The launches for the sizes of some inputs."""
        sizes = self._sizes_of(ordered)
        for v, x in zip(self.inputs, ordered):
            self._check_rank(v, x)
        key = tuple(sizes[name] for name in self.ranges)
        found = self._ready.get(key)
        if found is None:
            inputs, outputs = (
                [replace(v, shape=tuple(evaluate(d, sizes) for d in self.shapes[v.name]))
                 for v in many]
                for many in (self.inputs, self.outputs)
            )  # fmt: skip
            found = _AtSizes(
                inputs, outputs, self._kernels, self._held, self.arena, self._calls(sizes)
            )
            found.share(self._between)
            if len(self._ready) >= _MOST_SIZES:
                self._ready.popitem(last=False)
            self._ready[key] = found
        self._ready.move_to_end(key)
        return found
