"""A kernel's arguments while it is measured: seeded inputs, poisoned outputs, packed arrays.

Candidates share all arrays but prepacked ones, whose layout is a candidate's own. These are made of
the weights once, before anything is timed; then the kernel can no more write them than its other
inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import ceil
from typing import Any

import numpy as np

from whet.compiler.abi.checks import tuple_text
from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.errors import MeasureError
from whet.compiler.runtime.arrays.aligned import ALIGNMENT, aligned_empty
from whet.measure.stage.memory import Buffer
from whet.measure.stage.processor import HOST, Processor, Run

COLD = 128 << 20
"""Bytes of all copies of packed weights: more than most third caches have for one core."""
LEAST = 256 << 10
"""Bytes of weights below which they may be in a cache: the time to take turns would tell more."""
SMALLEST = 2.0**-10  # inputs nearer to zero are replaced: products of half floats stay normal

Param = BufferParam | ScalarParam


class Arguments:
    """Arguments of one workload, reused by all candidates that take the same ones.

    Args:
        params: by their places; every shape must be made of numbers.
        seed: the same seed gives the same inputs on every processor, whatever stands elsewhere.
        name: the kernel's, for the error.
        processor: holds the arrays.

    Attributes:
        buffers: the arrays, in the order of ``params``.

    Raises:
        MeasureError: a shape is symbolic.
        OutOfMemoryError: the processor has no room for them.
    """

    def __init__(
        self,
        params: Mapping[int, Param],
        seed: int,
        name: str = "a kernel",
        processor: Processor = HOST,
    ) -> None:
        self.buffers: list[Buffer] = []
        self._values: dict[int, Any] = {}
        for place, param in params.items():
            rng = np.random.default_rng([seed, place])
            dtype = numpy_dtype(param.dtype)
            if isinstance(param, ScalarParam):
                self._values[place] = random_values(rng, (1,), dtype)[0].item()
                continue
            shape = fixed_shape(name, param)
            initial = random_values(rng, shape, dtype, param.value_range)
            buffer = processor.buffer(param, shape, initial)
            self.buffers.append(buffer)
            self._values[place] = buffer.array

    @staticmethod
    def places(signature: KernelSignature, packs: KernelSignature | None) -> dict[int, Param]:
        """The parameters of a kernel's arguments: weights instead of packed arrays.

        Args:
            signature: the kernel's.
            packs: that of the function which makes its packed arrays; None where it takes none.
        """
        link = signature.ahead
        if link is None or packs is None:
            return dict(enumerate(signature.params))
        own = {p: link.places[k] for k, p in enumerate(signature.params) if k not in link.packed}
        return {place: p for p, place in own.items()} | dict(zip(link.weights, packs.params))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(buffer.nbytes for buffer in self.buffers)

    def at(self, places: Iterable[int]) -> tuple[Any, ...]:
        """The arrays and numbers at some places."""
        return tuple(self._values[k] for k in places)

    def outputs(self) -> dict[str, np.ndarray]:
        """The written arrays by name; on a processor not copies."""
        return {x.param.name: x.read() for x in self.buffers if x.param.written}

    def poison(self, finite: bool = False) -> None:
        """Spoil the outputs, so that a kernel that does not write them fails the check.

        Args:
            finite: fill them with seeded numbers instead of NaN, for kernels that read them first.
        """
        for buffer in self.buffers:
            if buffer.param.written:
                buffer.restore() if finite else buffer.poison()


@dataclass(frozen=True)
class Call:
    """The arguments of one kernel.

    Attributes:
        values: arrays and numbers in the order of its signature.
        arguments: those that it shares with other candidates, the weights among them.
        packed: its own packed arrays.
    """

    values: tuple[Any, ...]
    arguments: Arguments
    packed: Sequence[Buffer] = ()

    def in_turns(self, bind: Callable[[tuple], Run]) -> Run:
        """A kernel's calls, each on packed weights that were not read for long.

        Such weights are a model's. Between two calls of a kernel its other kernels read theirs, so
        that no cache holds them any more; a config that is best where they are at hand may be far
        from it there.

        Args:
            bind: makes of arguments what runs the kernel on them.
        """
        arrays = [buffer.array for buffer in self.packed]
        sizes = [-(-a.nbytes // ALIGNMENT) * ALIGNMENT for a in arrays]
        if sum(sizes) < LEAST:
            return bind(self.values)
        copies = ceil(COLD / sum(sizes))
        memory, runs = aligned_empty((copies, sum(sizes)), np.dtype(np.uint8)), [bind(self.values)]
        for row in memory:
            own, place = {}, 0
            for array, size in zip(arrays, sizes):
                copy = row[place : place + array.nbytes].view(array.dtype).reshape(array.shape)
                copy[...] = array
                own[id(array)], place = copy, place + size
            runs.append(bind(tuple(own.get(id(x), x) for x in self.values)))
        turn = cycle(runs)

        def run(number: int) -> None:
            for _ in range(number):
                next(turn)(1)

        return run


def stray_writes(buffers: Sequence[Buffer]) -> list[str]:
    """The memory around arrays, and the inputs, that a kernel wrote; inputs are restored."""
    outside = [x.param.name for x in buffers if not x.intact()]
    changed = [x.param.name for x in buffers if not x.param.written and x.changed()]
    around = [f"memory outside of {', '.join(outside)}"] if outside else []
    return around + [f"its input {name}" for name in changed]


def random_values(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    dtype: np.dtype,
    value_range: tuple[float, float] | None = None,
) -> np.ndarray:
    """Numbers that exercise a kernel: floats in [-1, 1] without denormals, integers in [-8, 8].

    Args:
        rng: their generator.
        shape: of the result.
        dtype: of the result; unsigned integers are in [0, 8].
        value_range: the least and the largest number, for an input that takes no others.
    """
    if value_range is not None:
        low, high = value_range
        if np.issubdtype(dtype, np.integer):
            return rng.integers(int(low), int(high), shape, dtype=dtype, endpoint=True)
        return (low + (high - low) * rng.random(shape)).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if np.issubdtype(dtype, np.integer):
        low = 0 if np.issubdtype(dtype, np.unsignedinteger) else -8
        return rng.integers(low, 9, shape).astype(dtype)
    wide = np.float64 if dtype.itemsize >= 8 else np.float32
    values = rng.random(shape, dtype=wide)
    values *= 2
    values -= 1
    values[np.abs(values) < SMALLEST] = 0.5
    return values.astype(dtype)


def fixed_shape(name: str, param: BufferParam) -> tuple[int, ...]:
    """The shape of a parameter of the kernel ``name``.

    Raises:
        MeasureError: it is symbolic.
    """
    shape = tuple(dim for dim in param.shape if isinstance(dim, int))
    if len(shape) != len(param.shape):
        raise MeasureError(
            f"measurement of {name}",
            f"{param.name} has the symbolic shape {tuple_text(param.shape)}",
            "give the template sizes that are numbers",
        )
    return shape
