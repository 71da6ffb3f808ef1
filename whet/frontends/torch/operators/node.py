"""A node of an FX graph of ATen operators, as the functions that translate it see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from whet.compiler.errors import ArgumentError
from whet.compiler.graph import GraphBuilder, Value
from whet.frontends.onnx.operators.elementwise import TYPES
from whet.frontends.torch.operators.arrays import numpy_type


class AtenNode:
    """One call of an operator.

    Args:
        target: the operator: ``aten.add.Tensor``.
        origin: the node, for messages.
        args: its arguments by the names of the operator's schema; tensors are values.
        metas: the same, where tensors are PyTorch's, without data.
        results: shape and type of each result; None for what is no tensor.
        builder: takes what it becomes.
    """

    def __init__(
        self,
        target: str,
        origin: str,
        args: Mapping[str, Any],
        metas: Mapping[str, Any],
        results: Sequence[tuple[tuple[int, ...], str] | None],
        builder: GraphBuilder,
    ) -> None:
        self.target, self.origin = target, origin
        self.args, self.metas = args, metas
        self.results, self.builder = results, builder

    @property
    def shape(self) -> tuple[int, ...]:
        """Of its first result."""
        return self._result()[0]

    @property
    def dtype(self) -> str:
        """Of its first result."""
        return self._result()[1]

    def _result(self) -> tuple[tuple[int, ...], str]:
        found = self.results[0]
        if found is None:
            raise self.refused("its result is no tensor")
        return found

    def refused(self, why: str, way_out: str = "") -> ArgumentError:
        """The error that it cannot be translated."""
        return ArgumentError(f"{self.target} ({self.origin})", why, way_out)

    def __getitem__(self, name: str) -> Any:
        return self.args[name]

    def get(self, name: str, default: Any = None) -> Any:
        """An argument; a default where its operator has none of this name."""
        return self.args.get(name, default)

    def value(self, name: str, dtype: str | None = None) -> Value:
        """An operand, of a type where one is asked for; a number becomes a constant."""
        return self.as_value(self.args[name], dtype)

    def as_value(self, x: Any, dtype: str | None = None) -> Value:
        """A value, of a type where one is asked for; a number becomes a constant."""
        if isinstance(x, Value):
            return self.cast(x, dtype)
        if x is None:
            raise self.refused("an operand is missing")
        return self.constant(x, dtype)

    def optional(self, name: str, dtype: str | None = None) -> Value | None:
        """An operand that may be left out."""
        return None if self.args.get(name) is None else self.value(name, dtype)

    def cast(self, x: Value, dtype: str | None) -> Value:
        """A value with elements of a type."""
        if dtype is None or x.dtype == dtype:
            return x
        return self.add("cast", [x], dtype=self.known_type(dtype))

    def known_type(self, dtype: str) -> str:
        """A type that graphs have.

        Raises:
            ArgumentError: they have none of it.
        """
        if dtype not in TYPES:
            raise self.refused(f"the element type {dtype} is not supported")
        return dtype

    def common(self, *names: str) -> str:
        """The type to which PyTorch promotes operands."""
        import torch

        return type_name(torch.result_type(*(self.metas[name] for name in names)))

    def ints(self, name: str, rank: int | None = None) -> list[int]:
        """Integers; one stands for all, if there are to be ``rank`` of them."""
        given = self.args[name]
        many = [int(v) for v in given] if isinstance(given, (list, tuple)) else [int(given)]
        return many * rank if rank is not None and len(many) == 1 else many

    def axis(self, value: int, rank: int) -> int:
        """An axis counted from the front."""
        rank = max(rank, 1)
        if not -rank <= value < rank:
            raise self.refused(f"axis {value} of {rank} dimensions")
        return value % rank

    def axes(self, name: str, rank: int) -> list[int]:
        """Axes counted from the front; all where none is named."""
        given = self.args.get(name)
        if given is None or given == []:
            return list(range(rank))
        return sorted(self.axis(a, rank) for a in self.ints(name))

    def add(self, operator: str, inputs: Sequence[Value | None], **attrs: Any) -> Value:
        """A node of the graph; its output."""
        return self.add_all(operator, inputs, **attrs)[0]

    def add_all(
        self, operator: str, inputs: Sequence[Value | None], **attrs: Any
    ) -> tuple[Value, ...]:
        """A node of the graph; all its outputs."""
        return self.builder.add_all(operator, inputs, self.origin, self.target, **attrs)

    def constant(self, array: Any, dtype: str | None = None) -> Value:
        """A constant of the graph."""
        made = np.asarray(array)
        if dtype is not None:
            made = made.astype(numpy_type(self.known_type(dtype)))
        return self.builder.constant(made)

    def reshaped(self, x: Value, shape: Sequence[int]) -> Value:
        """The same elements in another shape; itself where it has that shape already."""
        return x if x.shape == tuple(shape) else self.add("reshape", [x], shape=tuple(shape))

    def part(self, x: Value, axis: int, begin: int, end: int, step: int = 1) -> Value:
        """Elements of an axis; itself where they are all."""
        if (begin, end, step) == (0, x.shape[axis], 1):
            return x
        return self.add("slice", [x], begin=[begin], end=[end], step=[step], axes=[axis])


def type_name(dtype: Any) -> str:
    """The name of an element type of PyTorch: ``float32``."""
    return str(dtype).removeprefix("torch.")


Translate = Callable[[AtenNode], Value | Sequence[Value | None]]
