"""What one function is called with on a device: its packed arrays among the others.

As on a processor, candidates share all arrays but those that are computed ahead; these are made of
the weights once, before anything is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.abi.signature import BufferParam, KernelSignature
from whet.compiler.runtime.device import Device
from whet.compiler.runtime.gpu.driver.interface import Context
from whet.measure.gpu.memory import DeviceArguments, DeviceBuffer, stray_writes
from whet.measure.stage.arguments import among
from whet.measure.stage.buffers import fixed_shape


class DeviceCall:
    """The arguments of a function that takes packed arrays, or none.

    Args:
        signature: the function's.
        arguments: what it shares with other candidates, the weights among them.
        packed: its packed arrays, in the order of the function that makes them.

    Attributes:
        values: arrays and numbers in the order of the signature.
    """

    def __init__(
        self,
        signature: KernelSignature,
        arguments: DeviceArguments,
        packed: Sequence[DeviceBuffer] = (),
    ) -> None:
        self.arguments = arguments
        self._packed = packed
        if signature.ahead is None:
            self.values: tuple[Any, ...] = arguments.at(range(len(signature.params)))
        else:
            self.values = among(signature.ahead, [one.array for one in packed], arguments.at)

    def stray_writes(self) -> list[str]:
        """What was written that is no output: margins of arrays, and inputs."""
        return [*self.arguments.stray_writes(), *stray_writes(self._packed)]


def packed_on(
    device: Device,
    context: Context,
    signature: KernelSignature,
    arguments: DeviceArguments,
    bind: Callable[[tuple], Callable[[int], None]],
) -> list[DeviceBuffer]:
    """The packed arrays that a function takes, made of the weights; no one may write them.

    Args:
        device: where.
        context: of that device.
        signature: of the function that takes them.
        arguments: with the weights.
        bind: makes a call of the function that packs.

    Raises:
        MeasureError: a packed array has a symbolic shape.
        OutOfMemoryError: the device has no room for them.
    """
    link = signature.ahead
    assert link is not None
    made = []
    for k in link.packed:
        param = signature.params[k]
        assert isinstance(param, BufferParam)
        shape = fixed_shape(signature.name, param)
        room = np.empty(shape, numpy_dtype(param.dtype))
        made.append(DeviceBuffer(device, context, param, shape, room))
        made[-1].poison()
    bind((*arguments.at(link.weights), *(one.array for one in made)))(1)
    context.synchronize()
    for one in made:
        one.freeze()
    return made
