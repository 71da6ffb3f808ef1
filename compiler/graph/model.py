"""A compiled model: its function, constants and arena, called with arrays."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.compiler.abi.extent import evaluate
from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.abi.signature import BufferParam, ScalarParam
from whet.compiler.errors import ArgumentError, OutOfMemoryError, WhetError, nearest
from whet.compiler.graph.executor import ARENA, CONSTANTS, Place
from whet.compiler.graph.ir import Value
from whet.compiler.homes import imported
from whet.compiler.runtime.arrays.aligned import aligned_empty
from whet.compiler.runtime.arrays.dlpack import shared
from whet.compiler.tir import dtype as dt

if TYPE_CHECKING:
    from whet.compiler.abi.tuned_by import TunedBy
    from whet.compiler.graph.memory import Arena
    from whet.compiler.runtime.module import Module


@dataclass(frozen=True)
class Call:
    """A kernel's call, as a plan lists it.

    Attributes:
        name: of the operators that it computes.
        kernel: its symbol.
        origins: what its nodes were in the model's file.
        places: of its arguments.
        outputs: the names of the values that it makes.
        flop: its arithmetic operations; 0 of a kernel that takes sizes.
        moved: bytes of its arguments.
        tuned_by: where its config comes from; None: no log was asked.
        numbers: sizes that the kernel takes behind its arrays.
    """

    name: str
    kernel: str
    origins: tuple[str, ...]
    places: tuple[Place, ...]
    outputs: tuple[str, ...]
    flop: int
    moved: int
    tuned_by: TunedBy | None
    numbers: tuple[int, ...] = ()


class Stepper:
    """Runs a model's kernels one by one.

    Args:
        kernels: symbol -> the kernel's module.
        memory: the bytes of what places name.
    """

    def __init__(self, kernels: Mapping[str, Module], memory: Mapping[str, np.ndarray]) -> None:
        self._kernels, self._memory = kernels, memory

    def run(self, call: Call) -> None:
        """Run a kernel."""
        self._kernels[call.kernel](*self._arrays(call), *call.numbers)

    def outputs(self, call: Call) -> list[np.ndarray]:
        """Copies of what a kernel has made."""
        return [a.copy() for a in self._arrays(call)[-len(call.outputs) :]]

    def value(self, call: Call, k: int, place: Place, shape: tuple[int, ...]) -> np.ndarray:
        """A copy of a whole value, of which a call makes a part.

        Args:
            call: whose output ``k`` it is, counted from the end.
            place: where it is. shape: of it.
        """
        return self._array(place, shape, self._arrays(call)[k].dtype).copy()

    def profiled(self, calls: Sequence[Call], rounds: int) -> list[tuple[Call, float]]:
        """The least seconds of each call of some rounds."""
        given = [(*self._arrays(call), *call.numbers) for call in calls]
        best = [float("inf")] * len(calls)
        for _ in range(rounds):
            for k, (call, arguments) in enumerate(zip(calls, given)):
                kernel = self._kernels[call.kernel]
                begin = time.perf_counter()
                kernel(*arguments)
                best[k] = min(best[k], time.perf_counter() - begin)
        return list(zip(calls, best))

    def _arrays(self, call: Call) -> list[np.ndarray]:
        """A kernel's arrays."""
        params = self._kernels[call.kernel].artifact.signatures[0].params
        return [
            self._array(place, shape, numpy_dtype(dtype))
            for place, (shape, dtype) in zip(call.places, arrays_of(call, params))
        ]

    def _array(self, place: Place, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        size = prod(shape) * dtype.itemsize
        part = self._memory[place.argument][place.offset : place.offset + size]
        return part.view(dtype).reshape(shape)


def arrays_of(call: Call, params: Sequence[Any]) -> list[tuple[tuple[int, ...], str]]:
    """The shapes and dtypes of a call's arrays.

    Args:
        params: of its kernel.
    """
    known = numbers_of(call, params)
    arrays = [p for p in params if isinstance(p, BufferParam)]
    return [(tuple(evaluate(d, known) for d in p.shape), p.dtype) for p in arrays]


def numbers_of(call: Call, params: Sequence[Any]) -> dict[str, int]:
    """The sizes that a call gives its kernel, by the names of its parameters."""
    return dict(zip((p.name for p in params if isinstance(p, ScalarParam)), call.numbers))


class Model:
    """A model that runs in this process.

    Args:
        inputs, outputs: what it takes and gives.
        function: the module of the function that runs it.
        kernels: symbol -> the kernel's module, kept while the model lives.
        constants: bytes that the kernels read.
        arena: the places of what lives between them.
        calls: what it does, in order.

    Attributes:
        inputs, outputs, arena, calls: as given.

    Threads may call one model at the same time: each call has an arena of its own while it runs.
    """

    on_device = False
    """True if kernels of a GPU run it."""

    def __init__(
        self,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        function: Module,
        kernels: Mapping[str, Module],
        constants: np.ndarray,
        arena: Arena[Any],
        calls: Sequence[Call],
    ) -> None:
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.calls = tuple(calls)
        self._function, self._kernels = function, dict(kernels)
        self._constants, self.arena = constants, arena
        self._memory = self._arena()
        self._free = [self._memory]  # arenas that no call uses: as many as ran at once
        self._shapes = [v.shape for v in self.inputs]
        self._dtypes = [numpy_dtype(v.dtype) for v in self.inputs]
        self._made = [(v.shape, numpy_dtype(v.dtype), new_array(v)) for v in self.outputs]

    def __repr__(self) -> str:
        """Its inputs and outputs: ``<whet model: x: float32[1, 3] -> y: float32[1, 10]>``."""
        taken, given = (", ".join(map(self._described, v)) for v in (self.inputs, self.outputs))
        return f"<whet model: {taken} -> {given}>"

    def _described(self, v: Value) -> str:
        """An input or an output as errors name it."""
        return str(v).removeprefix("%")

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The outputs for some inputs, as new arrays.

        Args:
            args: arrays in the order of :attr:`inputs`.
            named: arrays by the inputs' names.

        Returns:
            An array; a tuple of them where the model has several outputs.

        Raises:
            ArgumentError: an array is missing, or of another shape or type.
        """
        out = [new(shape, dtype) for shape, dtype, new in self._made]
        self.run(self._given(args, named), out)
        return out[0] if len(out) == 1 else tuple(out)

    def run(self, inputs: Sequence[Any], out: Sequence[Any]) -> None:
        """Compute the outputs into arrays that are there already.

        Args:
            inputs: arrays in the order of :attr:`inputs`.
            out: arrays in the order of :attr:`outputs`, which overlap no input.

        Raises:
            ArgumentError: an array is missing, or of another shape or type.
        """
        memory = self._taken()
        try:
            self._function(*inputs, *out, self._constants, memory)
        finally:
            self._free.append(memory)

    def _taken(self) -> np.ndarray:
        """An arena that no other call uses; who took it gives it back."""
        try:
            return self._free.pop()  # one step for all threads
        except IndexError:
            return self._arena()

    def _arena(self) -> np.ndarray:
        try:
            return aligned_empty((max(self.arena.size, 1),), np.dtype(np.uint8))
        except (MemoryError, ValueError) as error:  # numpy counts to 2 ** 63
            raise no_memory("model(...)", self.arena.size) from error

    def export(
        self, path: str | os.PathLike[str], name: str = "", more: Sequence[Model] = ()
    ) -> None:
        """Write a package, which :func:`whet.load` and C programs run without a compiler.

        Args:
            path: the file, by custom in ``.whet``.
            name: the model's name in it; by default the file's.
            more: the same model compiled for other processors: what loads the file takes the
                widest code that its machine runs.

        Raises:
            ArtifactError: it cannot be written, ``more`` are other models, or there is no C
                compiler to link its code.
        """
        imported("whet.compiler.graph.package:write")(self, path, name, more)

    def _more_of_description(self) -> dict[str, Any]:
        """The facts that a package adds for such a model, as JSON-able data."""
        return {}

    def dump(self, *args: Any, **named: Any) -> dict[str, np.ndarray]:
        """All values that kernels make, by their names: the kernels run one by one.

        Args:
            args, named: as of a call.
        """
        made: dict[str, np.ndarray] = {}
        stepper = self._stepper(self._given(args, named))
        for call in self.calls:
            stepper.run(call)
            made |= zip(call.outputs, stepper.outputs(call))
        return made

    def profile(self, *args: Any, rounds: int = 10, **named: Any) -> list[tuple[Call, float]]:
        """The least seconds of each kernel of ``rounds`` runs, in order, one by one.

        Args:
            args, named: as of a call.
            rounds: how often the model runs.
        """
        return self._stepper(self._given(args, named)).profiled(self.calls, rounds)

    def _stepper(self, inputs: Sequence[np.ndarray], outputs: Sequence[Value] = ()) -> Stepper:
        """The stepper over some inputs, with an arena of its own.

        Args:
            inputs: in order.
            outputs: of these sizes; none: of the model's.
        """
        arrays = dict(zip((v.name for v in self.inputs), inputs))
        made = outputs or self.outputs
        arrays |= {v.name: aligned_empty(v.shape, numpy_dtype(v.dtype)) for v in made}
        found = {name: a.reshape(-1).view(np.uint8) for name, a in arrays.items()}
        # its own arena, which nobody gives back: what is made of it may live on
        memory = {**found, ARENA: self._taken(), CONSTANTS: self._constants}
        return Stepper(self._kernels, memory)

    def _given(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The inputs in order, compact and of their types."""
        if (
            not named
            and are_compact(args, self._dtypes)
            and all([array.shape == shape for array, shape in zip(args, self._shapes)])
        ):
            return list(args)
        return [fitting(v, x) for v, x in zip(self.inputs, self._in_order(args, named))]

    def _in_order(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The inputs in order, as they were given."""
        names = [v.name for v in self.inputs]
        for name in named:
            if name not in names:
                raise ArgumentError(
                    f"model({name}=...)", "it has no such input",
                    f"{nearest(name, names)}{self._way_to_call()}",
                )  # fmt: skip
        given = dict(zip(names, args)) | dict(named)
        if len(args) > len(names) or len(given) < len(names):
            raise ArgumentError(
                f"model(...) with {len(args) + len(named)} arrays",
                f"it takes {len(names)}: {', '.join(map(self._described, self.inputs))}",
                self._way_to_call(),
            )
        return [given[name] for name in names]

    def _way_to_call(self) -> str:
        """A call as it is written."""
        return f"model({', '.join(v.name for v in self.inputs)}) takes an array for each input"


def are_compact(arrays: Sequence[Any], dtypes: Sequence[np.dtype]) -> bool:
    """True for arrays of numpy as kernels take them: of these types, compact in memory."""
    if len(arrays) != len(dtypes):
        return False
    for array, dtype in zip(arrays, dtypes):
        if type(array) is not np.ndarray or array.dtype != dtype or not array.flags.c_contiguous:
            return False
    return True


def fitting(v: Value, given: Any) -> np.ndarray:
    """An array as the model takes it: compact, of its type."""
    if getattr(given, "requires_grad", False) and hasattr(given, "detach"):
        given = given.detach()  # PyTorch exports no tensor that records gradients
    if isinstance(given, np.ndarray) and not given.dtype.isnative:
        given = given.astype(given.dtype.newbyteorder("="))
    try:
        # numpy itself takes no bfloat16 of another library's, and gives none of its own
        is_other = hasattr(given, "__dlpack__") and not isinstance(given, np.ndarray)
        array = shared(given) if is_other else np.asarray(given)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, WhetError):
            raise
        raise ArgumentError(
            f"model({v.name}=...)",
            f"there is no array of it: {error}",
            f"an array of numpy, or of a library that shares its memory by DLPack: {v}",
        ) from error
    if array.shape != v.shape or dt.check(array.dtype) != v.dtype:
        shape = list(array.shape)
        raise ArgumentError(
            f"model({v.name}=...)", f"the array is {array.dtype}{shape}, the input {v}",
            _way_to_fit(array, v),
        )  # fmt: skip
    return np.require(array, requirements="C")


def _way_to_fit(array: np.ndarray, v: Value) -> str:
    """The way out where an array is not the input that was asked for."""
    if array.shape == v.shape:
        return f"{v.name}.astype({v.dtype!r})"
    return "compile the model for arrays of this shape: shapes={name: its size}"


def no_memory(request: str, size: int, way_out: str = "") -> OutOfMemoryError:
    """The error of an arena that no memory holds.

    Args:
        request: what asked for it.
        size: its bytes.
        way_out: what asks for less.
    """
    return OutOfMemoryError(
        request, f"what lives between kernels takes {size:,} bytes, and there is no such memory",
        way_out or "compile it for smaller sizes, or end what holds memory",
    )  # fmt: skip


_PAGE = 4096


def new_array(v: Value) -> Callable[[tuple[int, ...], np.dtype], np.ndarray]:
    """The maker of an output's array: numpy where it is small and lines of caches matter not."""
    return np.empty if v.bytes < _PAGE else aligned_empty
