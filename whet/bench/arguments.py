"""Arrays for the tensors of a task, which its kernel is called with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import MeasureError

if TYPE_CHECKING:
    import numpy as np

    from whet.autotune import Task
    from whet.compiler.runtime.module import Module

PERIOD = 4_194_301
"""Elements that are drawn at most: a prime number, so that no two rows of a table are alike."""


@dataclass(frozen=True)
class Arrays:
    """Arrays of one call, weights as they are before they are packed.

    Attributes:
        values: in the order of the template's tensors.
        computed: for each whether it is an output; those hold what no kernel would write.
        gathered: the first one is read as far as the second one, of indices, says.
    """

    values: tuple[np.ndarray, ...]
    computed: tuple[bool, ...]
    gathered: bool = False

    @property
    def inputs(self) -> tuple[np.ndarray, ...]:
        """The arrays that are read."""
        return tuple(compress(self.values, map(not_, self.computed)))

    @property
    def outputs(self) -> tuple[np.ndarray, ...]:
        """The arrays that are written."""
        return tuple(compress(self.values, self.computed))

    @property
    def traffic(self) -> tuple[int, int]:
        """Bytes that a call reads, and that it writes."""
        read, written = (sum(x.nbytes for x in xs) for xs in (self.inputs, self.outputs))
        if self.gathered:  # elements of the output, each from another place
            table, indices = self.inputs
            read = min(table.nbytes, written) + indices.nbytes
        return read, written

    def spoil(self) -> None:
        """Make the outputs such that a kernel that does not write them is found out."""
        for out in self.outputs:
            out[...] = out.dtype.type(-77) if out.dtype.kind in "iub" else float("nan")


def packs_ahead(kernel: Module) -> bool:
    """True for a kernel of a task whose weights are packed before it is called."""
    return kernel.get_function(kernel.entry_name).signature.ahead is not None


def call_of(kernel: Module, values: Sequence[Any]) -> Callable[[], Any]:
    """A call of a kernel with arrays; its weights are packed here and now.

    Args:
        kernel: of a task.
        values: in the order of the template's tensors, where the kernel runs.
    """
    arguments = packed_arguments(kernel, values)
    return lambda: kernel(*arguments)


def packed_arguments(kernel: Module, values: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments of a kernel, whose weights are packed here and now.

    Args:
        kernel: of a task.
        values: in the order of the template's tensors, where the kernel runs.
    """
    ahead = kernel.get_function(kernel.entry_name).signature.ahead
    arguments = tuple(values)
    if ahead is not None:
        made = kernel.pack_weights(*(values[k] for k in ahead.weights))
        packed = dict(zip(ahead.packed, made if isinstance(made, tuple) else (made,)))
        arguments = tuple(packed.get(k, values[place]) for k, place in enumerate(ahead.places))
    return arguments


def arrays_of(task: Task, seed: int = 0) -> Arrays:
    """Arrays for a task's tensors: those that are computed are outputs.

    They begin where lines of the caches do, as the tensors that PyTorch makes do. What is longer
    than :data:`PERIOD` repeats itself: drawing would take longer than all the rest.

    Args:
        task: its tensors have extents that are numbers.
        seed: the same seed gives the same inputs.
    """
    import numpy as np

    from whet.bench.operators.table import GATHERS
    from whet.compiler.runtime.arrays.aligned import aligned_empty
    from whet.compiler.te import PlaceholderOp
    from whet.measure.stage.arguments import random_values

    _, tensors = task.instantiate()
    values, computed = [], []
    for index, tensor in enumerate(tensors):
        shape = tuple(int(extent) for extent in tensor.shape)
        rng = np.random.default_rng([seed, index])
        op = tensor.op
        array = aligned_empty(shape, np.dtype(tensor.dtype))
        if isinstance(op, PlaceholderOp):
            drawn = (min(array.size, PERIOD),)
            _repeat(array, random_values(rng, drawn, array.dtype, op.value_range))
        values.append(array)
        computed.append(not isinstance(op, PlaceholderOp))
    arrays = Arrays(tuple(values), tuple(computed), task.name in GATHERS)
    arrays.spoil()
    return arrays


def _repeat(array: np.ndarray, some: np.ndarray) -> None:
    """Fill a compact array with elements, again and again."""
    flat = array.reshape(-1)
    for start in range(0, flat.size, max(some.size, 1)):
        part = flat[start : start + some.size]
        part[...] = some[: part.size]


def check_work(task: Task) -> None:
    """Refuse a task without elements: no peer, no limit and no ratio means anything there.

    Raises:
        MeasureError: a tensor of it has none.
    """
    for place, tensor in enumerate(task.instantiate()[1]):
        shape = tuple(int(extent) for extent in tensor.shape)
        if 0 in shape:
            raise MeasureError(
                f"comparison of {task.workload}",
                f"tensor {place} has the shape {shape}: 0 elements take no time",
                "give it extents of at least 1; kernels of size 0 are built and called as others",
            )
