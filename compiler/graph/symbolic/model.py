"""A compiled model some of whose sizes are symbols: a call's arrays say what they are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from whet.compiler.abi.extent import Shape, Symbol, evaluate
from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.abi.tuned_by import TunedBy
from whet.compiler.errors import ArgumentError, ArtifactError
from whet.compiler.graph.ir import Value
from whet.compiler.graph.memory import Arena
from whet.compiler.graph.model import Call, Model, fitting, new_array
from whet.compiler.graph.symbolic.sizes import Dynamic
from whet.compiler.runtime.module import Module


@dataclass(frozen=True)
class SymbolicCall:
    """A group's calls, as a plan lists them.

    Attributes:
        name: of the operators that it computes.
        kernels: their symbols.
        origins: what its nodes were in the model's file.
        outputs: the names of the values that it makes.
        how: how its sizes are met, in words.
        tuned_by: where the configs come from; empty: no log was asked, or there are no configs.
    """

    name: str
    kernels: tuple[str, ...]
    origins: tuple[str, ...]
    outputs: tuple[str, ...]
    how: str
    tuned_by: tuple[TunedBy, ...] = ()


class SymbolicModel(Model):
    """A model for any sizes of some ranges: one build, and a call compiles nothing.

    Args:
        ranges: symbol -> its range.
        shapes: of the inputs and outputs: name -> extents.
        inputs, outputs, function, kernels, constants, arena: as of a :class:`Model`, at the
            greatest sizes.
        groups: what it does, in order.

    Attributes:
        ranges, shapes, groups: as given.
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
    ) -> None:
        super().__init__(inputs, outputs, function, kernels, constants, arena, ())
        self.ranges, self.shapes, self.groups = dict(ranges), dict(shapes), tuple(groups)
        self._open = [
            (k, d, size.name)
            for k, v in enumerate(inputs)
            for d, size in enumerate(self.shapes[v.name])
            if isinstance(size, Symbol)
        ]

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
        out = []
        for v in self.outputs:
            shape = tuple(evaluate(d, sizes) for d in self.shapes[v.name])
            out.append(new_array(replace(v, shape=shape))(shape, numpy_dtype(v.dtype)))
        self._run(given, out)
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
        self._run(given, out)

    def sizes(self, *args: Any, **named: Any) -> dict[str, int]:
        """The number of each symbol for some inputs.

        Args:
            args, named: as of a call.

        Raises:
            ArgumentError: as of a call.
        """
        return self._bound(args, named)[1]

    def _run(self, inputs: Sequence[Any], out: Sequence[Any]) -> None:
        memory = self._taken()
        try:
            self._function(*inputs, *out, self._constants, memory)
        finally:
            self._free.append(memory)

    def _bound(
        self, args: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, int]]:
        """The inputs in order, compact and of their types; and the symbols' numbers."""
        ordered = self._in_order(args, named)
        shapes = [tuple(getattr(x, "shape", None) or np.shape(x)) for x in ordered]
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
        for name, n in sizes.items():
            r = self.ranges[name]
            if not r.low <= n <= r.high:
                why = (
                    f"the model is for {name} from {r.low} to {r.high}, and a call compiles nothing"
                )
                wider = f"whet.dynamic({min(n, r.low) or 1}, {max(n, r.high)})"
                raise ArgumentError(
                    f"model(...) with {name}={n}",
                    f"{why}, and a call compiles nothing",
                    f"{{{name!r}: {wider}}}",
                )
        found = []
        for v, x in zip(self.inputs, ordered):
            wanted = tuple(evaluate(d, sizes | self._missing(sizes)) for d in self.shapes[v.name])
            found.append(fitting(replace(v, shape=wanted), x))
        return found, sizes

    def _missing(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Numbers of symbols that no array has, because it has too few dimensions."""
        return {name: r.low for name, r in self.ranges.items() if name not in sizes}

    def dump(self, *args: Any, **named: Any) -> dict[str, np.ndarray]:
        """Refused: values are looked at in a model of fixed sizes.

        Raises:
            ArgumentError: always.
        """
        raise self._refused("dump")

    def profile(self, *args: Any, rounds: int = 10, **named: Any) -> list[tuple[Call, float]]:
        """Refused: kernels are timed in a model of fixed sizes.

        Raises:
            ArgumentError: always.
        """
        raise self._refused("profile")

    def export(
        self, path: str | os.PathLike[str], name: str = "", more: Sequence[Model] = ()
    ) -> None:
        """Refused: a package holds a model of fixed sizes.

        Raises:
            ArtifactError: always.
        """
        names = ", ".join(self.ranges)
        raise ArtifactError(
            f"export({str(path)!r})",
            f"a package holds a model of fixed sizes, and {names} of this one are symbols",
            "export models of the sizes that are needed: shapes={'batch': 1}",
        )

    def _refused(self, method: str) -> ArgumentError:
        names = ", ".join(self.ranges)
        return ArgumentError(
            f"model.{method}(...)", f"{names} of this model are symbols: it has no list of calls",
            f"compile(..., shapes={{{next(iter(self.ranges))!r}: 8}}) has one for this size",
        )  # fmt: skip
