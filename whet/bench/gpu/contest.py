"""A contest on a device: kernels of one task and their peers, checked and timed in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any

from whet.bench.arguments import Arrays, arrays_of, check_work, taken_by
from whet.bench.check import check_contestants
from whet.bench.comparison import Comparison
from whet.bench.gpu.clock import Clock, Turns
from whet.bench.gpu.libraries import peers_on
from whet.bench.gpu.limits import CopyProbe, PeakProbe
from whet.bench.gpu.right import exact_of
from whet.bench.operators.table import laid_out

if TYPE_CHECKING:
    from whet.autotune import Task
    from whet.compiler.runtime.arrays.device import Device
    from whet.compiler.runtime.arrays.ndarray import NDArray
    from whet.compiler.runtime.module import Module

PEAK, COPY = "FMA peak", "copy"
"""Contestants that are limits."""
LATE = "{} is compared, but its calls take the host longer than the device"


def compare_on(
    device: Device,
    task: Task,
    kernels: Mapping[str, Module],
    rounds: int = 15,
    compiled: bool = True,
    flush: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """Time kernels of a task, its peers and the device's limits in turns, on the device's clock.

    The limits are the rate of a kernel that only multiplies and adds in float32, and the copy
    bandwidth: copying as many bytes within the device as the task reads and writes. The peers are
    PyTorch, which computes float32 as float32 here (no TF32), and Triton with its autotuner.

    Args:
        device: where it all runs.
        task: made from a named template, for ``cuda``.
        kernels: name -> a kernel of the task; the last one is the one that counts.
        rounds: how often each is timed.
        compiled: whether PyTorch's compiler is a peer, too.
        flush: whether the device's L2 cache is emptied before each call.
        say: is told what is being done.

    Raises:
        MeasureError: a kernel's numbers are wrong, or a peer's; there is no work to time.
        TargetError: there is no such device, or what drives it is missing.
    """
    from whet.compiler.runtime.arrays.device import context_of

    check_work(task)
    context_of(device)  # a device that is not there is refused before its peers are made
    arrays = arrays_of(task)
    say("peers")
    peers = peers_on(device, task, arrays.inputs, compiled)
    say("reference")
    exact = exact_of(device, task, arrays.inputs)
    run = partial(_run, device, arrays, on_device(device, arrays))
    calls, errors = check_contestants(
        task, kernels, run, peers.calls, partial(laid_out, task), exact
    )
    say("in turns")
    moved = sum(x.nbytes for x in arrays.values)
    turns, peaks, streams = _timed(device, calls, moved, rounds, flush)
    return Comparison.of(
        task,
        arrays,
        kernels,
        threads=1,
        samples={name: turns.samples[name] for name in calls},
        packed=frozenset(),
        peaks=peaks,
        streams=streams,
        errors=errors,
        left_out=(*peers.left_out, *(LATE.format(name) for name in turns.late)),
        place=context_of(device).properties.name,
    )


def _timed(
    device: Device, calls: Mapping[str, Callable[[], Any]], moved: int, rounds: int, flush: bool
) -> tuple[Turns, tuple[float, ...], tuple[float, ...]]:
    """All contestants and the limits in turns; the FMA peak, FLOP/s; seconds to copy the bytes."""
    from whet.compiler.runtime.arrays.device import context_of
    from whet.compiler.runtime.gpu.driver.interface import driver_of

    context = context_of(device)
    with ExitStack() as held:
        peak = held.enter_context(closing(PeakProbe(driver_of(device.type), context)))
        copy = held.enter_context(closing(CopyProbe(context, moved)))
        clock = held.enter_context(closing(Clock(context, flush)))
        turns = clock.interleaved({**calls, PEAK: peak, COPY: copy}, rounds)
    peaks = tuple(peak.flop / s for s in turns.samples[PEAK].seconds)
    scale = moved / copy.bytes
    return turns, peaks, tuple(s * scale for s in turns.samples[COPY].seconds)


def on_device(device: Device, arrays: Arrays) -> tuple[NDArray, ...]:
    """The arrays of a call, copied to a device."""
    from whet.compiler.runtime.arrays import nd

    return tuple(nd.array(x, device) for x in arrays.values)


def _run(
    device: Device, arrays: Arrays, there: tuple[NDArray, ...], kernel: Module
) -> tuple[Callable[[], Any], Sequence[Any]]:
    """The call of a kernel with arrays of the device, and its outputs."""
    outputs = list(compress(there, arrays.computed))
    for value, array in zip(arrays.outputs, outputs):
        array.copyfrom(value)  # no kernel would write these numbers
    values = taken_by(kernel, there)
    kernel(*values)
    device.sync()
    return lambda: kernel(*values), [out.numpy() for out in outputs]
