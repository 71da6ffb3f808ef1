"""What one kernel is called with while it is measured: its packed arrays among the others.

Candidates share all arrays but those that are computed ahead, whose layout is a candidate's own.
They are made of the weights once, before anything is timed; then the kernel can no more write them
than its other inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.abi.signature import Ahead, BufferParam, KernelSignature
from whet.measure.stage.buffers import Arguments, GuardedBuffer, fixed_shape

Bind = Callable[[tuple], Callable[[int], None]]


class Call:
    """The arguments of a kernel that takes packed arrays, or none.

    Args:
        signature: the kernel's.
        arguments: what it shares with other candidates, the weights among them.
        packs: the signature of the function that makes its packed arrays; None: it takes none.
        bind: makes a call of that function.

    Attributes:
        values: arrays and numbers in the order of the signature.
    """

    def __init__(
        self,
        signature: KernelSignature,
        arguments: Arguments,
        packs: KernelSignature | None = None,
        bind: Bind | None = None,
    ) -> None:
        self.arguments = arguments
        self._packed: list[tuple[str, GuardedBuffer]] = []
        link = signature.ahead
        if link is None or packs is None or bind is None:
            self.values: tuple[Any, ...] = arguments.at(range(len(signature.params)))
            return
        for param in packs.params[len(link.weights) :]:
            assert isinstance(param, BufferParam)
            dtype = numpy_dtype(param.dtype)
            made = GuardedBuffer(fixed_shape(packs.name, param), dtype)
            made.bytes[...] = 0xFF  # floats that are not written are NaN
            self._packed.append((param.name, made))
        arrays = [buffer.array for _, buffer in self._packed]
        bind((*arguments.at(link.weights), *arrays))(1)
        for _, buffer in self._packed:
            buffer.freeze()
        self.values = among(link, arrays, arguments.at)

    def stray_writes(self) -> list[str]:
        """Names of the buffers around which memory was written."""
        return [
            *self.arguments.stray_writes(),
            *(name for name, buffer in self._packed if not buffer.intact()),
        ]


def among(
    link: Ahead, packed: Sequence[Any], at: Callable[[Iterable[int]], tuple[Any, ...]]
) -> tuple[Any, ...]:
    """What a kernel takes, in order: packed arrays where they stand for weights, and the others.

    Args:
        link: the kernel's.
        packed: in the order of the function that makes them.
        at: the arguments that stand at some places, weights included.
    """
    own = dict(zip(link.packed, packed, strict=True))
    return tuple(own[k] if k in own else at([place])[0] for k, place in enumerate(link.places))
