"""Vector loads and stores: where they are aligned, and by which type they go.

CUDA moves 2, 4, 8 or 16 bytes at once where the address is a multiple of as much. Memory of the
device, and a shared buffer, begins at such an address; an index is one where each of its terms is.
"""

from __future__ import annotations

from dataclasses import replace

from whet.compiler.arith import Analyzer
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir import ops
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.rewrite import TABLE

#: the most bytes that one instruction moves
MOST_BYTES = 16
_TYPES = {
    "float32": "float",
    "int32": "int",
    "uint32": "uint",
    "float64": "double",
    "int64": "longlong",
    "uint64": "ulonglong",
}
_SHORT = {"float16": "half2", "bfloat16": "__nv_bfloat162"}
_BY_BYTES = {2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}


def component_type(dtype: str, lanes: int) -> str | None:
    """The type with members x, y.. that holds ``lanes`` elements; None where there is none."""
    if dtype in _SHORT:
        return _SHORT[dtype] if lanes == 2 else None
    if dtype not in _TYPES or lanes not in (2, 4) or lanes * dt.itemsize(dtype) > MOST_BYTES:
        return None
    return f"{_TYPES[dtype]}{lanes}"


def copy_type(dtype: str, lanes: int) -> str | None:
    """A type that moves ``lanes`` elements as they are; None where there is none."""
    return component_type(dtype, lanes) or _BY_BYTES.get(lanes * dt.itemsize(dtype))


def is_aligned(buffer: Buffer, index: e.PrimExpr, analyzer: Analyzer) -> bool:
    """Whether a vector of consecutive elements surely stands at a multiple of its size."""
    if not isinstance(index, e.Ramp) or index.stride != 1:
        return False
    size = index.lanes * dt.itemsize(buffer.dtype)
    if size > MOST_BYTES or buffer.data_alignment % size != 0:
        return False
    if buffer.storage_scope != "global" and not buffer.storage_scope.startswith("shared"):
        return False  # registers have no address
    form = analyzer.affine(index.base)
    numbers = [form.const, *(factor for _, factor in form.terms.values())]
    return all(n % index.lanes == 0 for n in numbers)


def can_part(n: e.PrimExpr) -> bool:
    """Whether :func:`part` can take lanes out of a vector."""
    if isinstance(n, (e.Let, e.Shuffle)) or (isinstance(n, e.Var) and dt.lanes(n.dtype) > 1):
        return False
    return all(can_part(x) for x in TABLE[type(n)][0](n))


def part(n: e.PrimExpr, first: int, count: int) -> e.PrimExpr:
    """``count`` lanes of a vector, from ``first`` on, as a vector; a scalar stays itself."""
    if dt.lanes(n.dtype) == 1:
        return n
    kind = dt.vector(dt.element(n.dtype), count)
    if isinstance(n, e.Ramp):
        return e.Ramp(ops.add(n.base, first * n.stride), n.stride, count, kind)
    if isinstance(n, e.Broadcast):
        return e.Broadcast(n.value, count, kind)
    parts, make = TABLE[type(n)]
    return replace(make(n, tuple(part(x, first, count) for x in parts(n))), dtype=kind)
