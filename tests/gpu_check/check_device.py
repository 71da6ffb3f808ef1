"""The device that the checks run on: a GPU, the emulator, or a library in the driver's place."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Any

import whet

if TYPE_CHECKING:
    from whet.compiler.runtime.arrays.device import Device

STAND_IN = "stand-in"
"""pycuda on a library that runs kernels in the emulator: all of the runtime but the driver."""


def is_gpu(name: str) -> bool:
    """True for a real device, which large shapes and times are for."""
    return name.startswith("cuda:")


def device_of(name: str) -> Device:
    """The device of a name, ready in this process.

    Args:
        name: ``"cuda:0"``, ``"cuda-emulator"``, ``"stand-in"``.

    Raises:
        TargetError: there is no such device.
    """
    if name != STAND_IN:
        return whet.device(name)
    from whet.compiler.emulator.compile import compile_emulated
    from whet.compiler.runtime.gpu.driver.interface import use_driver
    from whet.compiler.runtime.gpu.driver.pycuda_driver import PycudaDriver

    def compiled(source: str, arch: str) -> bytes:
        return compile_emulated(source, checks=True).read_bytes()

    use_driver("cuda", PycudaDriver(compile=compiled))
    return whet.cuda(0)


def name_of(device: Device) -> str:
    """The name that :func:`device_of` makes such a device of, in another process."""
    from whet.compiler.runtime.gpu.driver.interface import driver_of

    if device.type == "cuda" and not driver_of("cuda").loads_cubins:
        return STAND_IN
    return device.type if device.type != "cuda" else f"cuda:{device.index}"


def launched(device: Device, source: str, threads: int, *arguments: Any) -> None:
    """Compile CUDA C with one kernel, ``check``, run one block of it, and wait for its end.

    Args:
        device: where.
        source: the text, in front of which the prelude goes.
        threads: of the block.
        arguments: arrays on the device, and int32 numbers.
    """
    from whet.compiler.runtime.arrays.device import context_of

    context = context_of(device)
    image = context.load(context.driver.compile(source, context.properties.arch))
    letters = "".join("i" if isinstance(x, int) else "P" for x in arguments)
    packed = struct.pack(
        f"@{letters}", *(x if isinstance(x, int) else x.address for x in arguments)
    )
    context.launch(image.kernel("check"), (1, 1, 1), (threads, 1, 1), packed)
    device.sync()


def environment_of(name: str) -> dict[str, str]:
    """The environment of a process that uses the device."""
    if name != STAND_IN:
        return dict(os.environ)
    from whet.compiler.emulator.standin import folder

    known = os.environ.get("LD_LIBRARY_PATH")
    place = str(folder())
    return {**os.environ, "LD_LIBRARY_PATH": f"{place}:{known}" if known else place}
