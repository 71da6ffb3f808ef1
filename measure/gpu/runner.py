"""What a GPU's worker does: load one artifact, check its numbers, time it by the GPU's clock."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import KernelError, MeasureError
from whet.measure.device.identity import describe, named_device
from whet.measure.device.names import EMULATOR
from whet.measure.gpu import nvml
from whet.measure.gpu.events import EventTimer
from whet.measure.gpu.memory import DeviceArguments
from whet.measure.gpu.packed import DeviceCall, packed_on
from whet.measure.stage.buffers import Arguments
from whet.measure.stage.lru_cache import Kept
from whet.measure.stage.machine import environment
from whet.measure.stage.reference import Expected, other_arguments
from whet.measure.stage.runner import RunReport
from whet.measure.stage.timing import repeat_facts, time_kernel
from whet.measure.values import OK, MeasureOptions
from whet.measure.worker.error_text import error_text

if TYPE_CHECKING:
    from whet.compiler.abi.artifact import Artifact
    from whet.compiler.abi.signature import KernelSignature
    from whet.compiler.runtime.device import Device
    from whet.compiler.runtime.gpu.driver.interface import Context

KEPT = 2 << 30
"""Bytes of arguments, and as many of references' outputs, that a worker keeps for its next call."""

_expected: Kept[tuple[list[Expected], bool, Mapping[int, Any]]] = Kept(KEPT)
_arguments: Kept[DeviceArguments] = Kept(KEPT)


@dataclass(frozen=True)
class DeviceKernel:
    """One loaded function and where it runs.

    Attributes:
        device: where.
        context: of that device.
        signature: the function's parameters.
        bind: makes of arguments a function that queues that many calls.
        packs: the function that makes what this one takes in place of weights; None: it takes none.
    """

    device: Device
    context: Context
    signature: KernelSignature
    bind: Callable[[tuple], Callable[[int], None]]
    packs: DeviceKernel | None = None

    @property
    def emulated(self) -> bool:
        """Whether it runs in the emulator, whose times mean nothing."""
        return self.device.type == EMULATOR

    @staticmethod
    def load(artifact: Artifact, name: str) -> DeviceKernel:
        """The entry function of an artifact, ready on a device of this process.

        Raises:
            TargetError: there is no such device here.
        """
        from whet.compiler.runtime import Module
        from whet.compiler.runtime.gpu.driver.interface import context_of

        device = named_device(name)
        if device is None:
            raise MeasureError(f"measurement on {name!r}", "this names no device")
        entry: Any = Module.from_artifact(artifact).entry_func
        context, ahead = context_of(device), entry.ahead
        packs = None
        if ahead is not None:
            packs = DeviceKernel(device, context, ahead.signature, ahead.repeater)
        return DeviceKernel(device, context, entry.signature, entry.repeater, packs)

    @property
    def places(self) -> dict[int, Any]:
        """Its parameters, weights instead of packed arrays, by their places."""
        packs = None if self.packs is None else self.packs.signature
        return Arguments.places(self.signature, packs)

    def arguments(self, seed: int) -> DeviceArguments:
        """Its arguments, weights as they are, kept for the next candidate that takes the same."""
        params = self.places
        key = f"{seed} {self.device} {params}"
        if key not in _arguments:
            name = self.signature.name
            made = DeviceArguments(self.device, self.context, params, seed, name)
            _arguments.keep(key, made, made.nbytes)
        return _arguments[key]

    def on(self, arguments: DeviceArguments) -> DeviceCall:
        """What it is called with; its weights are packed now."""
        if self.packs is None:
            return DeviceCall(self.signature, arguments)
        device, context, bind = self.device, self.context, self.packs.bind
        packed = packed_on(device, context, self.signature, arguments, bind)
        return DeviceCall(self.signature, arguments, packed)


def describe_device(name: str, target: dict[str, Any]) -> dict[str, Any]:
    """What a device of this process is, as a log keeps it.

    Args:
        name: such as ``"cuda:0"``.
        target: the canonical target as JSON.
    """
    device = named_device(name)
    assert device is not None
    return describe(device, target)


def wake(device: str) -> None:
    """Make the context of a device, and use it: a GPU that fell from its bus says so here.

    Args:
        device: where.

    Raises:
        TargetError: there is no such device, or its context cannot be made.
        KernelError: it does not work.
    """
    from whet.compiler.runtime.gpu.driver.interface import context_of

    named = named_device(device)
    assert named is not None
    _use(context_of(named))


def prepare_reference(
    key: str, artifact: Artifact, options: MeasureOptions, device: str
) -> tuple[str, ...]:
    """Run the reference once and keep its outputs in this worker, as long as there is room.

    Args:
        key: names the reference in later calls of :func:`run_candidate`.
        artifact: the reference's compiled kernels.
        options: seed and tolerance.
        device: where.

    Returns:
        The keys of all references that the worker has now.
    """
    return remember(key, DeviceKernel.load(artifact, device), options)


def run_candidate(
    artifact: Artifact,
    options: MeasureOptions,
    reference: str | None,
    best_cost: float | None,
    device: str,
) -> RunReport:
    """Check and time one artifact; an error that leaves the device unusable is marked.

    Args:
        artifact: the candidate's compiled kernels.
        options: how.
        reference: key of a prepared reference; None: the numbers are not checked.
        best_cost: seconds per call of the best so far; a far slower candidate is timed once.
        device: where.
    """
    kernel = DeviceKernel.load(artifact, device)
    try:
        return measure(kernel, options, reference, best_cost)
    except MemoryError:
        raise
    except Exception:
        _arguments.clear()  # nobody knows what was written
        text = error_text()
        return RunReport("run_error", (), text, _facts(kernel), lost=is_lost(kernel.context))


def is_lost(context: Context) -> bool:
    """Whether a context is unusable: after an illegal address, every later call fails."""
    try:
        context.synchronize()
        _use(context)
    except Exception:  # whatever a poisoned driver raises
        return True
    return False


def _use(context: Context) -> None:
    """Let the device write a little memory."""
    address = context.alloc(256)
    context.fill(address, 0, 256)
    context.synchronize()
    context.free(address)


def remember(key: str, kernel: DeviceKernel, options: MeasureOptions) -> tuple[str, ...]:
    """:func:`prepare_reference` for a loaded function."""
    arguments = kernel.arguments(options.seed)
    run = kernel.bind(kernel.on(arguments).values)
    finite = False
    while True:
        arguments.poison(finite)
        # A kernel that reads what it writes, an accumulation, is refused by the emulator's checks.
        with contextlib.suppress(*([KernelError] if kernel.emulated and not finite else [])):
            run(1)
            kernel.context.synchronize()
            outputs = arguments.outputs()
            if finite or not any(_has_nan(array) for array in outputs.values()):
                break
        finite = True
    expected = [Expected(name, array, options.rtol) for name, array in outputs.items()]
    _expected.keep(key, (expected, finite, kernel.places), sum(one.nbytes for one in expected))
    return tuple(_expected)


def measure(
    kernel: DeviceKernel,
    options: MeasureOptions,
    reference: str | None = None,
    best_cost: float | None = None,
) -> RunReport:
    """:func:`run_candidate` for a loaded function."""
    expected: list[Expected] = []
    finite = False
    if reference is not None:
        expected, finite, places = _expected[reference]
        if other := other_arguments(places, kernel.places):
            return RunReport("wrong_answer", (), other, _facts(kernel))
    call = kernel.on(kernel.arguments(options.seed))
    call.arguments.poison(finite)
    run = kernel.bind(call.values)
    if kernel.emulated:
        run(1)
        kernel.context.synchronize()
        wrong = _what_is_wrong(call, expected)
        status = "wrong_answer" if wrong else OK
        return RunReport(status, (), wrong, _facts(kernel) | {"checked": reference is not None})
    timer = EventTimer(kernel.context, run, options.flush_l2)
    first = timer.first()
    if wrong := _what_is_wrong(call, expected):
        return RunReport("wrong_answer", (), wrong, _facts(kernel))
    timing = time_kernel(timer, first, options, best_cost)
    facts = _facts(kernel) | {
        "cost": "measured",
        "checked": reference is not None,
        "flushed": options.flush_l2,
        "number": timing.number,
        **repeat_facts(timing.costs),
        "stopped": timing.stopped,
    }
    if timer.late:
        facts["late"] = True  # the host's time is in the costs
    if stray := _what_is_wrong(call, []):
        return RunReport("wrong_answer", (), stray, facts)
    return RunReport(OK, timing.costs, "", facts)


def _facts(kernel: DeviceKernel) -> dict[str, Any]:
    """The machine, and the GPU's clocks, temperature and driver as they are now."""
    if kernel.emulated:
        return environment()
    properties = kernel.context.properties
    state = nvml.state_of(properties.pci_bus_id)
    gpu = {"name": properties.name, "cuda": properties.driver_version, **state}
    if properties.pci_bus_id:
        gpu["bus"] = properties.pci_bus_id  # which one, where several share a search
    return environment() | {"gpu": gpu}


def _what_is_wrong(call: DeviceCall, expected: list[Expected]) -> str:
    stray = call.stray_writes()
    if stray:
        _arguments.clear()  # the margins are spoilt: the next candidate gets new ones
        return f"the kernel wrote {', '.join(stray)}"
    if not expected:
        return ""
    outputs = call.arguments.outputs()
    if {one.name for one in expected} - outputs.keys():
        return (
            f"the kernel writes {sorted(outputs)}, the reference schedule's "
            f"{sorted(one.name for one in expected)}"
        )
    texts = (one.difference(outputs[one.name]) for one in expected)
    return "\n".join(text for text in texts if text)


def _has_nan(array: Any) -> bool:
    import numpy as np

    return array.dtype.kind not in "biu" and bool(np.isnan(array).any())
