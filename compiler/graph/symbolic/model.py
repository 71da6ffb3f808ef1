"""A compiled model some of whose sizes are symbols: a call's arrays say what they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from whet.compiler.abi.extent import Shape, Symbol, evaluate
from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.errors import ArgumentError, MissingName, OutOfMemoryError
from whet.compiler.graph.ir import Value
from whet.compiler.graph.memory import Arena
from whet.compiler.graph.model import (
    Call,
    Model,
    Stepper,
    are_compact,
    arrays_of,
    fitting,
    new_array,
    no_memory,
)
from whet.compiler.graph.symbolic.calls import (
    Steps,
    SymbolicCall,
    calls_at,
    firsts,
    in_turn,
    launched,
)
from whet.compiler.graph.symbolic.sizes import Dynamic
from whet.compiler.homes import imported
from whet.compiler.runtime.module import Module

if TYPE_CHECKING:
    from whet.compiler.graph.device_model import DeviceStepper

_MOST_KNOWN = 1024  # sizes of calls that are remembered
K = TypeVar("K")
T = TypeVar("T")
NewArray = Callable[[tuple[int, ...], np.dtype], np.ndarray]


def too_large(ranges: Mapping[str, Dynamic], size: int) -> OutOfMemoryError:
    """The error of ranges for which there is no memory.

    Args:
        ranges: symbol -> its range.
        size: bytes of the arena.
    """
    sizes = ", ".join(f"{name}={r.high}" for name, r in ranges.items())
    return no_memory(
        f"compile(...) for sizes up to {sizes}", size,
        "ranges that end at smaller sizes: the memory is for the greatest ones",
    )  # fmt: skip


class SymbolicModel(Model):
    """A model for any sizes of some ranges: one build, and a call compiles nothing.

    :attr:`calls` and ``launches`` are refused: what is called depends on a call's sizes, for which
    :meth:`calls_at` lists it.

    Args:
        ranges: symbol -> its range.
        shapes: of the inputs and outputs: name -> extents.
        inputs, outputs, function, kernels, constants, arena: as of a :class:`Model`, at the
            greatest sizes.
        groups: what it does, in order.
        steps: what each group does.
        scaled: places in the arena are for sizes of 1, as of
            :func:`~whet.compiler.graph.symbolic.executor.symbolic_function`.

    Attributes:
        ranges, shapes, groups, steps, scaled: as given.
    """

    def __init__(
        self,
        ranges: Mapping[str, Dynamic],
        shapes: Mapping[str, Shape],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        function: Module,
        kernels: Mapping[str, Module],
        constants: np.ndarray,
        arena: Arena[Any],
        groups: Sequence[SymbolicCall],
        steps: Steps,
        scaled: bool,
    ) -> None:
        super().__init__(inputs, outputs, function, kernels, constants, arena, ())
        del self.calls  # a list of none would say that it does nothing
        self._of_symbols(ranges, shapes, groups, steps, scaled)

    def _of_symbols(
        self,
        ranges: Mapping[str, Dynamic],
        shapes: Mapping[str, Shape],
        groups: Sequence[SymbolicCall],
        steps: Steps,
        scaled: bool,
    ) -> None:
        """Take what symbols add to a model, whose inputs are known."""
        self.ranges, self.shapes, self.groups = dict(ranges), dict(shapes), tuple(groups)
        self.steps, self.scaled = tuple(steps), scaled
        self._open = [
            (k, d, size.name)
            for k, v in enumerate(self.inputs)
            for d, size in enumerate(self.shapes[v.name])
            if isinstance(size, Symbol)
        ]
        # of shapes that were checked in a call before
        self._dtypes = [numpy_dtype(v.dtype) for v in self.inputs]
        self._sizes_known: dict[tuple[tuple[int, ...], ...], dict[str, int]] = {}
        self._outputs_known: dict[
            tuple[int, ...], list[tuple[tuple[int, ...], np.dtype, NewArray]]
        ] = {}

    if not TYPE_CHECKING:  # attributes that are not there are errors of types

        def __getattr__(self, name: str) -> Any:
            """Refuse what models of fixed sizes have, in words."""
            if name in ("calls", "launches") and "groups" in self.__dict__:
                raise MissingName(*self._refusal(name))
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _described(self, v: Value) -> str:
        """An input or an output as errors name it, with its symbols."""
        return f"{v.name}: {v.dtype}[{', '.join(map(str, self.shapes[v.name]))}]"

    def __repr__(self) -> str:
        """Its inputs, outputs and ranges."""
        ranges = ", ".join(f"{n} from {r}" for n, r in self.ranges.items())
        return f"{super().__repr__()[:-1]}; {ranges}>"

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The outputs for some inputs, as new arrays.

        Args:
            args: arrays in the order of :attr:`inputs`.
            named: arrays by the inputs' names.

        Returns:
            An array; a tuple of them where the model has several outputs.

        Raises:
            ArgumentError: an array is missing, of another type, or of no size of the ranges.
        """
        given, sizes = self._bound(args, named)
        out = [new(shape, dtype) for shape, dtype, new in self._outputs_of(sizes)]
        super().run(given, out)
        return out[0] if len(out) == 1 else tuple(out)

    def run(self, inputs: Sequence[Any], out: Sequence[Any]) -> None:
        """Compute the outputs into arrays that are there already.

        Args:
            inputs: arrays in the order of :attr:`inputs`.
            out: arrays in the order of :attr:`outputs`, which overlap no input.

        Raises:
            ArgumentError: an array is missing, of another type, or of no size of the ranges.
        """
        given, _ = self._bound(inputs, {})
        super().run(given, out)

    def sizes(self, *args: Any, **named: Any) -> dict[str, int]:
        """The number of each symbol for some inputs.

        Args:
            args, named: as of a call.

        Raises:
            ArgumentError: as of a call.
        """
        return dict(self._bound(args, named)[1])

    def _outputs_of(
        self, sizes: Mapping[str, int]
    ) -> list[tuple[tuple[int, ...], np.dtype, NewArray]]:
        """How the outputs' arrays are made for some sizes."""
        key = tuple(sizes.values())
        found = self._outputs_known.get(key)
        if found is None:
            sized = self._sized(self.outputs, sizes)
            found = [(v.shape, numpy_dtype(v.dtype), new_array(v)) for v in sized]
            _keep(self._outputs_known, key, found)
        return found

    def _bound(
        self, args: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, int]]:
        """The inputs in order, compact and of their types; and the symbols' numbers."""
        ready = not named and are_compact(args, self._dtypes)
        shapes = tuple([x.shape for x in args]) if ready else ()
        if ready and (known := self._sizes_known.get(shapes)) is not None:
            return list(args), known
        ordered = self._in_order(args, named)
        sizes = self._sizes_of(ordered)
        found = []
        for v, x in zip(self.inputs, ordered):
            self._check_rank(v, x)
            wanted = tuple(evaluate(d, sizes | self._missing(sizes)) for d in self.shapes[v.name])
            found.append(fitting(replace(v, shape=wanted), x))
        if ready:
            _keep(self._sizes_known, shapes, sizes)
        return found, sizes

    def _sizes_of(self, ordered: Sequence[Any]) -> dict[str, int]:
        """The symbols' numbers for some inputs, which are in the ranges."""
        shapes = [_shape(x) for x in ordered]
        sizes: dict[str, int] = {}
        for k, d, name in self._open:
            if d >= len(shapes[k]):
                continue
            known = sizes.setdefault(name, shapes[k][d])
            if known != shapes[k][d]:
                raise ArgumentError(
                    f"model({self.inputs[k].name}=...)",
                    f"its dimension {d} is {name!r}, and is {shapes[k][d]}: another one is {known}",
                )
        self._check_ranges(sizes)
        return sizes

    def _check_ranges(self, sizes: Mapping[str, int]) -> None:
        """Refuse sizes outside of the ranges."""
        for name, n in sizes.items():
            r = self.ranges[name]
            if n not in r:
                raise ArgumentError(
                    f"model(...) with {name}={n}",
                    f"the model is for {name} from {r}, and a call compiles nothing",
                    _nearest(name, n, r),
                )

    def _check_rank(self, v: Value, given: Any) -> None:
        """Refuse an array of another number of dimensions."""
        shape = _shape(given)
        if len(shape) != len(v.shape):
            raise ArgumentError(
                f"model({v.name}=...)",
                f"the array is of shape {list(shape)}, the input {self._described(v)}",
                f"{v.name}.reshape(...), to as many dimensions",
            )

    def _missing(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Numbers of symbols that no array has, because it has too few dimensions."""
        return {name: r.low for name, r in self.ranges.items() if name not in sizes}

    def calls_at(self, **sizes: int) -> tuple[Call, ...]:
        """The kernels' calls of a run for some sizes, in order.

        Args:
            sizes: a number for each symbol.

        Raises:
            ArgumentError: a symbol is missing, or a size is outside of its range.
        """
        self._check_sizes("calls_at", sizes)
        return tuple(chain(*self._calls(sizes)))

    def dump(self, *args: Any, **named: Any) -> dict[str, np.ndarray]:
        """All values that kernels make, by their names: the kernels run one by one.

        Args:
            args, named: as of a call.
        """
        given, sizes = self._bound(args, named)
        return self._dumped(self._stepper(given, self._sized(self.outputs, sizes)), sizes)

    def _dumped(
        self, stepper: Stepper | DeviceStepper, sizes: Mapping[str, int]
    ) -> dict[str, np.ndarray]:
        """All values that kernels make.

        Args:
            stepper: runs them. sizes: of the call.
        """
        made: dict[str, np.ndarray] = {}
        for step, group, calls in zip(self.steps, self.groups, self._calls(sizes)):
            for call in calls:
                stepper.run(call)
            many = len(group.outputs)
            places = firsts(step, self._scale(sizes))[-many:]
            for k, (name, place, shape) in enumerate(zip(group.outputs, places, group.shapes)):
                whole = tuple(evaluate(d, sizes) for d in shape)
                made[name] = stepper.value(calls[0], k - many, place, whole)
        return made

    def profile(self, *args: Any, rounds: int = 10, **named: Any) -> list[tuple[Call, float]]:
        """The least seconds of each kernel's call of ``rounds`` runs, in order, one by one.

        Args:
            args, named: as of a call, whose sizes say what is called.
            rounds: how often the model runs.
        """
        given, sizes = self._bound(args, named)
        stepper = self._stepper(given, self._sized(self.outputs, sizes))
        return stepper.profiled(list(chain(*self._calls(sizes))), rounds)

    def _sized(self, values: Sequence[Value], sizes: Mapping[str, int]) -> list[Value]:
        """Inputs or outputs, of some sizes."""
        return [
            replace(v, shape=tuple(evaluate(d, sizes) for d in self.shapes[v.name])) for v in values
        ]

    def _more_of_description(self) -> dict[str, Any]:
        described: dict[str, Any] = imported("whet.compiler.graph.symbolic.image:described")(self)
        return described

    def _scale(self, sizes: Mapping[str, int]) -> int:
        """By which places in the arena are further behind."""
        return prod(sizes.values()) if self.scaled else 1

    def _calls(self, sizes: Mapping[str, int]) -> list[list[Call]]:
        """The calls of each group."""
        taken = launched if self.on_device else in_turn
        found = calls_at(self.steps, self.groups, sizes, self._scale(sizes), taken)
        return [[replace(c, moved=self._moved(c)) for c in own] for own in found]

    def _moved(self, call: Call) -> int:
        """The bytes of a call's arrays."""
        params = self._kernels[call.kernel].artifact.signatures[0].params
        arrays = arrays_of(call, params)
        return sum(prod(shape) * numpy_dtype(dtype).itemsize for shape, dtype in arrays)

    def _check_sizes(self, method: str, sizes: Mapping[str, int]) -> None:
        """Refuse sizes that are not one for each symbol, in its range."""
        if sizes.keys() != self.ranges.keys():
            raise ArgumentError(
                f"{method}({', '.join(f'{n}={k}' for n, k in sizes.items())})",
                f"the model's symbols are {', '.join(self.ranges)}",
                f"{method}({', '.join(f'{n}={r.high}' for n, r in self.ranges.items())})",
            )
        for name, k in sizes.items():
            if not hasattr(k, "__index__"):
                raise ArgumentError(f"{method}({name}={k!r})", "a size is an int")
        self._check_ranges(sizes)

    def _refusal(self, what: str) -> tuple[str, str, str]:
        """The parts of the error of what needs a list of calls."""
        names = ", ".join(self.ranges)
        sizes = ", ".join(f"{name}={r.high}" for name, r in self.ranges.items())
        return (
            f"model.{what}",
            f"{names} of this model are symbols: what it calls depends on them",
            f"model.groups, model.{what if self.on_device else 'calls'}_at({sizes})",
        )


def _nearest(name: str, n: int, r: Dynamic) -> str:
    """The way out of a size that is in no range."""
    if n == 0:
        return "no range has 0: leave out the call for arrays without elements"
    below = r.at_most(n)
    if below < n < r.high:
        return f"an array of {name}={below}, cut, or of {name}={below + r.step}, padded"
    return f"shapes={{{name!r}: {r.wider(n)!r}}}"


def _keep(known: dict[K, T], key: K, value: T) -> None:
    """Remember a value; of too many all are forgotten."""
    if len(known) >= _MOST_KNOWN:
        known.clear()
    known[key] = value


def _shape(given: Any) -> tuple[int, ...]:
    return tuple(getattr(given, "shape", None) or np.shape(given))
