"""One launch of a kernel from its text: arrays in, arrays out, everything looked at."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whet.compiler.emulator.driver import EmulatedContext, EmulatorDriver
from whet.compiler.emulator.handwritten.adapt import KernelText, adapt
from whet.compiler.errors import ArgumentError

Extents = int | Sequence[int]


@dataclass(frozen=True, slots=True)
class Unwritten:
    """An array that the kernel has to write before it reads it.

    Attributes:
        shape: its dimensions.
        dtype: element type.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"


Argument = np.ndarray | Unwritten | int | float

# C's type -> the code by which struct and numpy know it
_CODES = {
    "bool": "?", "char": "b", "signed char": "b", "unsigned char": "B", "int8_t": "b",
    "uint8_t": "B", "short": "h", "unsigned short": "H", "int16_t": "h", "uint16_t": "H",
    "int": "i", "unsigned": "I", "unsigned int": "I", "int32_t": "i", "uint32_t": "I",
    "long": "q", "unsigned long": "Q", "long long": "q", "unsigned long long": "Q",
    "int64_t": "q", "uint64_t": "Q", "size_t": "Q", "float": "f", "double": "d",
    "half": "e", "__half": "e", "float16": "e", "uchar": "B", "ushort": "H", "uint": "I",
    "longlong": "q", "ulonglong": "Q",
}  # fmt: skip
_VECTOR = re.compile(r"^(u?char|u?short|u?int|u?longlong|float|double|__half|half)[1-4]$")


def run_kernel(
    source: str,
    kernel: str | None,
    grid: Extents,
    block: Extents,
    arguments: Sequence[Argument],
    shared_bytes: int = 0,
) -> list[np.ndarray]:
    """Launch a kernel of a CUDA C text on the CPU, in the emulator, by the options in force.

    Races, barriers that threads miss, accesses out of bounds and reads of unwritten memory are
    errors that name thread and line; ``emulator_options(checks=False)`` looks at nothing and runs
    faster, ``emulator_options(order="backwards")`` lets threads take turns in another order (both
    are in ``whet.compiler.emulator``). It runs in this process, where Ctrl-C does not end a loop
    that never ends: ``whet check-kernel`` runs in one of its own, with a ``--timeout``.

        >>> import numpy, whet
        >>> body = "{ y[threadIdx.x] = 2 * x[threadIdx.x]; }"
        >>> text = f"__global__ void twice(const int *x, int *y) {body}"
        >>> x = numpy.arange(4, dtype="int32")
        >>> whet.run_kernel(text, "twice", 1, 4, [x, whet.Unwritten((4,), "int32")])[1]
        array([0, 2, 4, 6], dtype=int32)

    Args:
        source: CUDA C.
        kernel: its name; None: the only one in the text.
        grid: blocks along x, y, z; a number is along x.
        block: threads of a block along x, y, z; a number is along x.
        arguments: an array or an :class:`Unwritten` for each pointer, a number for each other one.
        shared_bytes: dynamic shared memory of a block.

    Returns:
        The arrays, inputs too, as the kernel left them; new ones.

    Raises:
        ArgumentError: the arguments are not what the kernel takes.
        CodegenError: the text does not compile.
        EmulatorError: the kernel did what it must not do.
    """
    chosen = _chosen(source, kernel)
    if len(arguments) != len(chosen.parameters):
        takes = ", ".join(map(" ".join, zip(chosen.types, chosen.parameters)))
        call = f"{chosen.name} with {len(arguments)} arguments"
        raise ArgumentError(call, f"it takes {len(chosen.parameters)}: {takes}")
    context = EmulatorDriver().context(0)
    packed, arrays = b"", []
    for name, kind, given in zip(chosen.parameters, chosen.types, arguments):
        parameter = f"{chosen.name}'s {name}"
        if kind.endswith("*"):
            _check_elements(parameter, kind, given)
            arrays.append(_placed(context, parameter, given))
            value = struct.pack("<Q", arrays[-1][1])
        else:
            value = _scalar(parameter, kind, given)
        packed += bytes(-len(packed) % len(value)) + value
    image = context.load(source)
    context.launch(image.kernel(chosen.name), _three(grid), _three(block), packed, shared_bytes)
    for array, address in arrays:
        context.copy_out(array, address)
    return [array for array, _ in arrays]


def parameters_of(source: str, kernel: str | None = None) -> tuple[str, ...]:
    """The names of a kernel's parameters.

    Args:
        source: CUDA C.
        kernel: its name; None: the only one in the text.
    """
    return _chosen(source, kernel).parameters


def _chosen(source: str, name: str | None) -> KernelText:
    kernels = adapt(source).kernels
    if name is None and len(kernels) == 1:
        return kernels[0]
    for k in kernels:
        if k.name == name:
            return k
    known = ", ".join(k.name for k in kernels)
    raise ArgumentError(
        "emulating a kernel" if name is None else f"emulating the kernel {name!r}",
        f"the text has {len(kernels)}: {known}",
        "name one of them",
    )


def _check_elements(parameter: str, kind: str, given: Argument) -> None:
    """Elements have the pointer's type, as far as that is a number's or a vector's of numbers."""
    if not isinstance(given, (np.ndarray, Unwritten)):
        return
    pointed = kind.removesuffix(" *")
    code = _CODES.get(_VECTOR.sub(r"\1", re.sub(r"(?<=long|hort) int$", "", pointed)))
    if code is not None and np.dtype(given.dtype) != np.dtype(code):
        raise ArgumentError(
            f"an array of {given.dtype} for {parameter}",
            f"it points to {pointed}",
            f"give an array of {np.dtype(code)}",
        )


def _placed(context: EmulatedContext, what: str, given: Argument) -> tuple[np.ndarray, int]:
    """An array for the results, and the address of its copy on the device."""
    if isinstance(given, Unwritten):
        array = np.empty(given.shape, given.dtype)
        return array, context.alloc(array.nbytes)
    if not isinstance(given, np.ndarray):
        raise ArgumentError(f"{given!r} for {what}", "it is a pointer", "give an array")
    array = np.array(given, order="C")
    address = context.alloc(array.nbytes)
    context.copy_in(address, array)
    return array, address


def _scalar(what: str, kind: str, given: Argument) -> bytes:
    code = _CODES.get(kind)
    if code is None:
        raise ArgumentError(f"{given!r} for {what}", f"{kind} cannot be given from outside")
    if isinstance(given, (np.ndarray, Unwritten)):
        raise ArgumentError(f"an array for {what}", f"it is a number, {kind}")
    try:
        return struct.pack(f"<{code}", float(given) if code in "efd" else given)
    except struct.error as error:
        raise ArgumentError(f"{given!r} for {what}, {kind}", str(error)) from None


def _three(extents: Extents) -> tuple[int, int, int]:
    given = (extents,) if isinstance(extents, int) else tuple(extents)
    if not 1 <= len(given) <= 3 or math.prod(given) < 1:
        raise ArgumentError(
            f"a grid or block of {extents!r}", "it has one to three extents of at least 1"
        )
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z
