"""A device as a place of contests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from whet.bench.contest import Limit, Place
from whet.bench.gpu.clock import EventClock
from whet.bench.gpu.libraries import peers_on
from whet.bench.gpu.limits import CopyProbe, PeakProbe
from whet.bench.gpu.right import exact_of

if TYPE_CHECKING:
    import numpy as np

    from whet.bench.arguments import Arrays
    from whet.compiler.runtime.arrays.device import Device
    from whet.compiler.runtime.arrays.ndarray import NDArray
    from whet.compiler.runtime.gpu.driver.interface import Context


def gpu(device: Device, flush: bool = True) -> Place:
    """A device, on whose clock contestants are timed.

    Its limits are the rate of a kernel that only multiplies and adds in float32, and the copy
    bandwidth: copying as many bytes within the device as the task reads and writes. The peers are
    PyTorch, which computes float32 as float32 here (no TF32), and Triton with its autotuner.

    Args:
        device: where all of it runs.
        flush: whether the device's L2 cache is emptied before each call.

    Raises:
        TargetError: there is no such device, or what drives it is missing.
    """
    from whet.compiler.runtime.arrays import nd
    from whet.compiler.runtime.arrays.device import context_of

    context = context_of(device)
    return Place(
        name=context.properties.name,
        threads=1,
        environment=dict,  # the host's load does not disturb a device
        pinned=nullcontext,
        peers=partial(peers_on, device),
        exact=partial(exact_of, device),
        put=lambda array: nd.array(array, device),
        read=partial(_read, device),
        timing=partial(_timing, device, context, flush),
    )


@contextmanager
def _timing(
    device: Device, context: Context, flush: bool, arrays: Arrays
) -> Iterator[tuple[EventClock, Limit, Limit]]:
    from whet.compiler.runtime.gpu.driver.interface import driver_of

    moved = sum(arrays.traffic)
    with (
        closing(PeakProbe(driver_of(device.type), context)) as peak,
        closing(CopyProbe(context, moved)) as copy,
        closing(EventClock(context, flush)) as clock,
    ):
        scale = moved / copy.bytes
        yield (
            clock,
            Limit(peak, lambda sample: tuple(peak.flop / s for s in sample.seconds)),
            Limit(copy, lambda sample: tuple(s * scale for s in sample.seconds)),
        )


def _read(device: Device, array: NDArray) -> np.ndarray:
    device.sync()
    return array.numpy()
