"""The representation of a model: plain data in SSA form.

A :class:`Value` is an array that one node makes, or an input, or a constant. A :class:`Graph` lists
its nodes, producers first; passes make new graphs and change none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt

if TYPE_CHECKING:
    import numpy as np

_SHOWN = 4  # elements of a constant that a printed graph shows


@dataclass(frozen=True, eq=False)
class Value:
    """An array in a graph; each is one object, and equal to itself only.

    Attributes:
        name: unique in its graph; the model's own where it has one.
        shape: extents, outermost first.
        dtype: of the elements.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of a compact array."""
        return self.size * dt.itemsize(self.dtype)

    def __str__(self) -> str:
        return f"%{self.name}: {self.dtype}{list(self.shape)}"


@dataclass(frozen=True, eq=False)
class Node:
    """An operator applied to values.

    Attributes:
        operator: its name in :data:`whet.compiler.graph.operators.OPERATORS`.
        inputs: what it reads; None where an optional operand is left out.
        outputs: what it makes.
        attrs: its other arguments, plain data.
        origin: what it was in the model's file, for messages.
    """

    operator: str
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""

    @property
    def output(self) -> Value:
        """Its first output."""
        return self.outputs[0]

    @property
    def reads(self) -> tuple[Value, ...]:
        """The operands that are given."""
        return tuple(v for v in self.inputs if v is not None)

    def reading(self, instead: Mapping[Value, Value]) -> Node:
        """The node with other operands; itself where none of them is replaced."""
        inputs = tuple(v if v is None else instead.get(v, v) for v in self.inputs)
        return self if inputs == self.inputs else replace(self, inputs=inputs)

    def __str__(self) -> str:
        made = ", ".join(map(str, self.outputs))
        given = ["_" if v is None else f"%{v.name}" for v in self.inputs]
        given += [f"{name}={value!r}" for name, value in self.attrs.items()]
        return f"{made} = {self.operator}({', '.join(given)})"


@dataclass(frozen=True, eq=False)
class Graph:
    """A model.

    Attributes:
        inputs: what its caller gives, in order.
        outputs: what its caller gets, in order.
        nodes: producers first.
        constants: values that are known, as arrays that nobody changes.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[Value, np.ndarray] = field(default_factory=dict)

    @cached_property
    def producers(self) -> Mapping[Value, Node]:
        """Value -> the node that makes it."""
        return {v: n for n in self.nodes for v in n.outputs}

    @cached_property
    def readers(self) -> Mapping[Value, tuple[Node, ...]]:
        """Value -> the nodes that read it, in order; each once."""
        found: dict[Value, dict[Node, None]] = {}
        for n in self.nodes:
            for v in n.reads:
                found.setdefault(v, {})[n] = None
        return {v: tuple(many) for v, many in found.items()}

    @cached_property
    def values(self) -> Mapping[str, Value]:
        """Name -> value."""
        return {v.name: v for v in self._each_value()}

    def check(self) -> None:
        """Check that names are unique, and that nothing is read before it is made.

        Raises:
            ArgumentError: it is not so, or a constant is another array than its value says.
        """
        names: set[str] = set()
        for v in self._each_value():
            if v.name in names:
                raise ArgumentError("a graph", f"two of its values are named {v.name!r}")
            names.add(v.name)
        known = {*self.inputs, *self.constants}
        for n in self.nodes:
            for v in n.reads:
                if v not in known:
                    raise ArgumentError(f"{n}", f"nothing makes %{v.name} before it is read")
            known.update(n.outputs)
        for v in self.outputs:
            if v not in known:
                raise ArgumentError("a graph", f"nothing makes its output %{v.name}")
        for v, array in self.constants.items():
            if (array.shape, dt.check(array.dtype)) != (v.shape, v.dtype):
                raise ArgumentError(f"constant {v}", f"its array is {array.dtype}{array.shape}")

    def pruned(self) -> Graph:
        """The graph without what no output needs."""
        needed = set(self.outputs)
        kept: list[Node] = []
        for n in reversed(self.nodes):
            if not needed.isdisjoint(n.outputs):
                kept.append(n)
                needed.update(n.reads)
        constants = {v: array for v, array in self.constants.items() if v in needed}
        return replace(self, nodes=tuple(reversed(kept)), constants=constants)

    def _each_value(self) -> Iterator[Value]:
        yield from self.inputs
        yield from self.constants
        for n in self.nodes:
            yield from n.outputs

    def __str__(self) -> str:
        lines = [f"graph({', '.join(map(str, self.inputs))}) {{"]
        for v, array in self.constants.items():
            lines.append(f"  {v} = {_shown(array)}")
        lines += [f"  {n}" for n in self.nodes]
        lines.append(f"  return {', '.join('%' + v.name for v in self.outputs)}")
        return "\n".join([*lines, "}"])


def digest(array: np.ndarray) -> str:
    """The identity of an array: its bytes, shape and dtype."""
    import numpy as np

    content = hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    content.update(f"{array.dtype} {array.shape}".encode())
    return content.hexdigest()[:24]


def _shown(array: np.ndarray) -> str:
    first: Sequence[Any] = array.reshape(-1)[:_SHOWN].tolist()
    texts = [f"{x:.6g}" if isinstance(x, float) else str(x) for x in first]
    return f"constant({', '.join(texts)}{', ...' if array.size > _SHOWN else ''})"
