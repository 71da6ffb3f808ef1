"""A compiled model for GPUs: its kernels launched in order on one stream of a device.

The plan is the CPU's: the same groups, places and calls. The arena and the constants are memory of
the device, weights are uploaded and packed there before the first run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from whet.compiler.abi.artifact import Resources
from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.errors import ArgumentError
from whet.compiler.graph.device_constants import DeviceConstants, device_bytes, view_of
from whet.compiler.graph.executor import ARENA, CONSTANTS, Place
from whet.compiler.graph.ir import Value
from whet.compiler.graph.launches import ModelLaunch, functions_of, launches_of
from whet.compiler.graph.memory import Arena
from whet.compiler.graph.model import Call, Model, arrays_of
from whet.compiler.runtime.arrays.device import Device
from whet.compiler.runtime.arrays.device_array import DeviceArray
from whet.compiler.runtime.arrays.foreign import let_owner_wait
from whet.compiler.runtime.arrays.gpu_import import is_shared, taken_array
from whet.compiler.runtime.arrays.nd import array as copied_to
from whet.compiler.runtime.arrays.nd import empty
from whet.compiler.runtime.gpu.driver.streams import current_stream
from whet.compiler.runtime.gpu.function import CudaFunction
from whet.compiler.runtime.gpu.replay import Replay, Step
from whet.compiler.runtime.module import Module


class DeviceStepper:
    """Runs a model's kernels one by one in a device's memory.

    Args:
        kernels: symbol -> the kernel's module.
        memory: what places name.
    """

    def __init__(self, kernels: Mapping[str, Module], memory: Mapping[str, DeviceArray]) -> None:
        self._kernels, self._memory = kernels, memory

    def launcher(self, call: Call) -> CudaFunction:
        """The function of a call's kernel."""
        function = self._kernels[call.kernel].entry_func
        assert isinstance(function, CudaFunction)
        return function

    def arguments(self, call: Call) -> list[Any]:
        """A kernel's arrays, and the sizes behind them."""
        return [*self._arrays(call), *call.numbers]

    def run(self, call: Call) -> None:
        """Run a kernel."""
        self.launcher(call)(*self.arguments(call))

    def outputs(self, call: Call) -> list[np.ndarray]:
        """Copies of what a kernel has made."""
        return [a.numpy() for a in self._arrays(call)[-len(call.outputs) :]]

    def value(self, call: Call, k: int, place: Place, shape: tuple[int, ...]) -> np.ndarray:
        """A copy of a whole value, of which a call makes a part, as of a model's stepper."""
        dtype = self._arrays(call)[k].described.dtype
        return view_of(self._memory[place.argument], place.offset, shape, dtype).numpy()

    def profiled(self, calls: Sequence[Call], rounds: int) -> list[tuple[Call, float]]:
        """The least seconds of each call of some rounds between two events."""
        context = self._memory[ARENA].context
        steps = [self.launcher(c).repeater(tuple(self.arguments(c))) for c in calls]
        events = [context.event() for _ in range(len(steps) + 1)]
        best = [float("inf")] * len(steps)
        for _ in range(rounds):
            stream = current_stream(context)
            events[0].record(stream)
            for k, step in enumerate(steps):
                step(1)
                events[k + 1].record(stream)
            events[-1].synchronize()
            for k in range(len(steps)):
                best[k] = min(best[k], events[k + 1].seconds_since(events[k]))
        return list(zip(calls, best))

    def _arrays(self, call: Call) -> list[DeviceArray]:
        params = functions_of(self._kernels[call.kernel])[0].signature.params
        return [
            view_of(self._memory[place.argument], place.offset, shape, numpy_dtype(dtype))
            for place, (shape, dtype) in zip(call.places, arrays_of(call, params))
        ]


class DeviceModel(Model):
    """A model that runs on a GPU, or in the emulator.

    Args:
        inputs, outputs: what it takes and gives.
        kernels: symbol -> the kernel's module.
        constants: what the kernels read, in the memory of the device that it runs on.
        arena: the places of what lives between kernels.
        calls: what it does, in order.

    One model is called by one thread at a time: its arena is shared by its calls. Addresses that
    come a second time are captured: from then on such a call is one graph of the driver's.
    """

    on_device = True

    def __init__(
        self,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        kernels: Mapping[str, Module],
        constants: DeviceConstants,
        arena: Arena[Any],
        calls: Sequence[Call],
    ) -> None:
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.calls, self.arena = tuple(calls), arena
        self._kernels, self._held = dict(kernels), constants
        self._between: DeviceArray | None = None
        self._ready: dict[tuple[int, ...], Replay] = {}

    @cached_property
    def launches(self) -> tuple[ModelLaunch, ...]:
        """The launches of a run, in order: their grids, blocks, shared memory and bytes."""
        return launches_of(self.calls, self._kernels)

    def resources(self) -> dict[str, Resources]:
        """The resources of each kernel, as :meth:`whet.runtime.Module.resources`; no GPU needed.

        Raises:
            TargetError, CodegenError: there is no NVRTC here; it refuses the code.
        """
        return {n: r for m in self._kernels.values() for n, r in m.resources().items()}

    def get_source(self, fmt: str = "cuda") -> str:
        """The kernels' code as text, one after the other.

        Args:
            fmt: ``"cuda"``, ``"ptx"`` or ``"sass"``, as of a kernel's module.
        """
        return "\n".join(m.get_source(fmt) for m in self._kernels.values())

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The outputs for some inputs, as new arrays.

        Arrays of the device are read where they are, and the outputs stay there, computed in the
        current stream. Where all inputs are the host's, they are copied to the device, and the
        outputs back.

        Args:
            args: arrays in the order of :attr:`inputs`.
            named: arrays by the inputs' names.

        Returns:
            An array; a tuple of them where the model has several outputs.

        Raises:
            ArgumentError: an array is missing, or of another shape, type or device.
            TargetError: there is no such device.
        """
        inputs = self._in_order(args, named)
        out: list[Any] = [empty(v.shape, v.dtype, self._held.checked()) for v in self.outputs]
        self.run(inputs, out)
        if not any(map(is_shared, inputs)):
            out = [a.numpy() for a in out]
        return out[0] if len(out) == 1 else tuple(out)

    def run(self, inputs: Sequence[Any], out: Sequence[Any]) -> None:
        """Put the launches into the current stream; they fill arrays that are there already.

        Args:
            inputs: arrays in the order of :attr:`inputs`; those of the host are copied.
            out: arrays of the device in the order of :attr:`outputs`, which overlap no input.

        Raises:
            ArgumentError: an array is missing, or of another shape, type or device.
            TargetError: there is no such device.
            KernelError: a launch was refused, or earlier work failed.
        """
        values, given = (*self.inputs, *self.outputs), (*inputs, *out)
        if len(given) != len(values) or len(inputs) != len(self.inputs):
            raise ArgumentError(
                f"model.run({len(inputs)} inputs, {len(out)} outputs)",
                f"it takes {len(self.inputs)}, and gives {len(self.outputs)}",
            )
        arrays = [
            self._on_device(v, x, k >= len(inputs)) for k, (v, x) in enumerate(zip(values, given))
        ]
        replay = self._replay(arrays)
        memory = self._own()[ARENA]
        memory.context.discard(memory.address, memory.nbytes)
        replay.run([a.address for a in arrays])
        for x, taken in zip(given, arrays):
            if taken is not x and is_shared(x):
                let_owner_wait(x, taken, taken.context)

    def dump(self, *args: Any, **named: Any) -> dict[str, np.ndarray]:
        """All values that kernels make, by their names: the kernels run one by one.

        Args:
            args, named: as of a call.
        """
        made: dict[str, np.ndarray] = {}
        stepper = self._device_stepper(args, named)
        for call in self.calls:
            stepper.run(call)
            made |= zip(call.outputs, stepper.outputs(call))
        return made

    def profile(self, *args: Any, rounds: int = 10, **named: Any) -> list[tuple[Call, float]]:
        """The least seconds of each call of ``rounds`` runs between two events of the device.

        The emulator's are the host's, and say nothing about a GPU.

        Args:
            args, named: as of a call.
            rounds: how often the model runs.
        """
        return self._device_stepper(args, named).profiled(self.calls, rounds)

    def _device_stepper(self, args: Sequence[Any], named: Mapping[str, Any]) -> DeviceStepper:
        """The stepper over some inputs, in the device's memory."""
        return DeviceStepper(self._kernels, self._memory_of(args, named))

    def _replay(self, arrays: Sequence[DeviceArray]) -> Replay:
        """The calls, ready for arguments of these layouts."""
        key = tuple(a._layout for a in arrays)
        if key not in self._ready:
            names = [v.name for v in (*self.inputs, *self.outputs)]
            memory = {**self._own(), **dict(zip(names, arrays))}
            steps = [self._step(call, memory, names) for call in self.calls]
            self._ready[key] = Replay(memory[ARENA], steps)
        return self._ready[key]

    def _step(self, call: Call, memory: Mapping[str, DeviceArray], names: list[str]) -> Step:
        stepper = DeviceStepper(self._kernels, memory)
        ready, slots = stepper.launcher(call).prepared(stepper.arguments(call))
        open_slots = [
            (at, names.index(p.argument), p.offset)
            for at, p in enumerate(call.places)
            if p.argument in names
        ]
        return ready, slots, open_slots

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self._held.device

    @property
    def constants(self) -> DeviceConstants:
        """The constants that its kernels read, on the device already or not."""
        return self._held

    def _own(self) -> dict[str, DeviceArray]:
        """The arena and the constants in the device's memory."""
        if self._between is None:
            self._between = device_bytes(self.arena.size, self._held.checked())
        return {ARENA: self._between, CONSTANTS: self._held.memory()}

    def _memory_of(self, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, DeviceArray]:
        """All that places name, for a run on some inputs."""
        found = {v.name: empty(v.shape, v.dtype, self._held.checked()) for v in self.outputs}
        given = self._in_order(args, named)
        inputs = {v.name: self._on_device(v, x, False) for v, x in zip(self.inputs, given)}
        return {**self._own(), **found, **inputs}  # type: ignore[dict-item]

    def _on_device(self, v: Value, given: Any, written: bool) -> DeviceArray:
        """An array as the model takes it: on its device, compact, of its type.

        Args:
            v: the input or the output.
            given: the array.
            written: whether it is an output, which is never copied.
        """
        request = f"model({v.name}=...)"
        shared = is_shared(given)
        if written and not shared:
            raise ArgumentError(
                request, f"an output is filled on {self.device}", "whet.nd.empty(shape, dtype, it)"
            )
        device = self._held.checked()
        array = taken_array(given) if shared else copied_to(np.asarray(given), device)
        assert isinstance(array, DeviceArray)
        if array.device != device:
            raise ArgumentError(request, f"the array is on {array.device}, the model on {device}")
        if tuple(array.shape) != v.shape or str(array.dtype) != v.dtype:
            found = f"{array.dtype}{list(array.shape)}"
            raise ArgumentError(request, f"the array is {found}, the input {v}")
        if not array.described.flags.c_contiguous:
            raise ArgumentError(request, "the array is not compact", "copy it")
        return array
