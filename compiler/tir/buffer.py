"""Buffer: a named, typed, shaped piece of memory that the loop IR reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir import ops


@dataclass(slots=True, eq=False)
class Buffer:
    """A dense row-major array.

    Attributes:
        name: for people and generated code.
        shape: extents, outermost first; expressions of an integer type.
        dtype: element type.
        scope: ``"global"`` (memory) or ``"local"`` (registers, as far as they reach).
    """

    name: str
    shape: tuple[e.PrimExpr, ...]
    dtype: str
    scope: str = "global"

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def vload(self, indices: Sequence[Any], dtype: str | None = None) -> e.BufferLoad:
        """``self[indices]``; a vector ``dtype`` reads consecutive elements of the last axis."""
        return e.BufferLoad(self, self._begin(indices, dtype), dtype or self.dtype)

    def _begin(self, indices: Sequence[Any], dtype: str | None) -> tuple[e.PrimExpr, ...]:
        exprs = [ops.convert(i) for i in indices]
        lanes = dt.lanes(dtype or self.dtype)
        if lanes > 1:
            last = exprs[-1]
            exprs[-1] = e.Ramp(last, 1, lanes, dt.vector(last.dtype, lanes))
        return tuple(exprs)

    def __repr__(self) -> str:
        return f"Buffer({self.name}, {len(self.shape)}-d, {self.dtype})"


def decl_buffer(
    shape: Any, dtype: str | None = None, name: str = "buffer", scope: str = "global"
) -> Buffer:
    """A new buffer of ``shape`` (an int, an expression or a tuple of them)."""
    dims = shape if isinstance(shape, (tuple, list)) else (shape,)
    return Buffer(
        name, tuple(ops.convert(d) for d in dims), dt.check(dtype or "float32"), scope or "global"
    )
