"""Values that only scripts have: arrays, scalars that are assigned, loops and allocations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, IntImm, PrimExpr
from whet.compiler.tir.ops import ops

INPUT, OUTPUT, ALLOCATED = "input", "output", "allocated"


@dataclass(slots=True, eq=False)
class Array:
    """An array of a script: an input, an output, or what ``allocate`` made.

    Attributes:
        buffer: its memory.
        role: INPUT, OUTPUT or ALLOCATED.
        whole: True where it is made outside of all loops, so that it can be returned.
        writable: False for an input that another stage computes.
        returned: True once the script returned it.
    """

    buffer: Buffer
    role: str
    whole: bool = True
    writable: bool = True
    returned: bool = False

    @property
    def name(self) -> str:
        """The name that it has in the script."""
        return self.buffer.name

    @property
    def shape(self) -> tuple[Any, ...]:
        """Extents, numbers where they are known."""
        return tuple(plain(d) for d in self.buffer.shape)

    @property
    def dtype(self) -> str:
        """Element type."""
        return self.buffer.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.buffer.shape)

    def indices(self, given: Sequence[Any]) -> tuple[PrimExpr, ...]:
        """Indices of one element.

        Raises:
            ArgumentError: for too many or too few, and for what is no integer.
        """
        if len(given) != self.ndim:
            raise ArgumentError(
                self.name, f"{len(given)} indices were given for {self.ndim} dimensions"
            )
        out = []
        for i, d in zip(given, self.shape):
            x = ops.convert(i)
            if not dt.is_int(x.dtype):
                raise ArgumentError(
                    self.name, f"an index is a {x.dtype}, not an integer", "int32(x) converts x"
                )
            if isinstance(x, IntImm) and isinstance(d, int) and not 0 <= x.value < d:
                raise ArgumentError(
                    self.name, f"the index {x.value} is outside of a dimension of {d}"
                )
            out.append(x if x.dtype in ("int32", "int64") else ops.cast("int64", x))
        return tuple(out)

    def load(self, given: Sequence[Any]) -> Any:
        """An element; a part of the array where indices are missing."""
        if len(given) < self.ndim:
            return Part(self, tuple(given))
        return BufferLoad(self.buffer, self.indices(given), self.dtype)


@dataclass(slots=True, eq=False)
class Part:
    """An array with its first indices given."""

    array: Array
    given: tuple[Any, ...]

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents of the other dimensions."""
        return self.array.shape[len(self.given) :]

    @property
    def dtype(self) -> str:
        """Element type."""
        return self.array.dtype


@dataclass(slots=True, eq=False)
class Scalar:
    """A local variable that is assigned, in memory of its own."""

    buffer: Buffer

    def load(self) -> PrimExpr:
        """Its value."""
        return BufferLoad(self.buffer, (ops.const(0),), self.buffer.dtype)


@dataclass(slots=True, eq=False)
class NewArray:
    """An array that ``allocate`` or ``output_tensor`` asks for; the assignment names it."""

    role: str
    shape: tuple[PrimExpr, ...]
    dtype: str
    scope: str


@dataclass(slots=True, eq=False)
class Loop:
    """The range of a loop: ``begin``, ``begin + step``, ...

    ``kind`` is a kind of the loop IR, "const" for a loop that is written out while the script is
    read, or the tag of threads.
    """

    kind: str
    begin: Any
    extent: Any
    step: int = 1
    steps: list[Any] = field(default_factory=list)


def plain(x: Any) -> Any:
    """An int32 constant as Python's int: it takes the type of what it meets."""
    return x.value if isinstance(x, IntImm) and x.dtype == "int32" else x
