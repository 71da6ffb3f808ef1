"""Vector loads and stores: how many elements go at once, and as what.

CUDA moves 2, 4, 8 or 16 bytes at once where the address is a multiple of as much. Memory of the
device, and a shared buffer, begins at such an address; an index is one where each of its terms is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from whet.compiler.arith import Analyzer
from whet.compiler.codegen.cuda.lanes import choice_of, lane_form, multiple_of
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import Broadcast, BufferLoad, Cast, Let, PrimExpr, Ramp, Shuffle, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import BufferStore
from whet.compiler.tir.visit.rewrite import nodes_of

#: the most bytes that one instruction moves
MOST_BYTES = 16


def vector_type(dtype: str, lanes: int) -> str:
    """The prelude's name of a vector, e.g. ``float32x4``; lanes: 2, 4, 8 or 16."""
    return f"{dt.element(dtype)}x{lanes}"


def piece_lanes(buffer: Buffer, index: PrimExpr, analyzer: Analyzer) -> int:
    """The consecutive elements of one access; 1 where there is no vector access.

    It divides the vector's lanes.
    """
    form = _consecutive(buffer, index)
    if form is None:
        return 1
    lanes, size = dt.lanes(index.dtype), dt.itemsize(buffer.dtype)
    for piece in (16, 8, 4, 2):
        bytes_moved = piece * size
        if lanes % piece or bytes_moved > MOST_BYTES or buffer.data_alignment % bytes_moved:
            continue
        if multiple_of(form, piece, analyzer) and multiple_of(buffer.elem_offset, piece, analyzer):
            return piece
    return 1


def scattered(n: BufferStore, analyzer: Analyzer) -> list[str]:
    """The stores and copies of a vector that go one by one for want of alignment: neighbours in
    memory whose address is a multiple of nothing, e.g. ``"stores to C"``.

    What arithmetic reads is left out: of ``A[i - 1] + A[i + 1]`` no vector is aligned however wide
    it is, and a store of its results is worth it all the same.

    Args:
        n: a store of a vector.
        analyzer: knows the loops around it.
    """
    if n.mask is not None:
        return []  # a tile's edge
    found = []
    if _is_apart(n.buffer, n.indices, analyzer):
        found.append(f"stores to {n.buffer.name}")
    value = _copied(n.value)
    if value is not None and _is_apart(value.buffer, value.indices, analyzer):
        found.append(f"copies from {value.buffer.name}")
    return found


def _is_apart(buffer: Buffer, indices: Sequence[PrimExpr], analyzer: Analyzer) -> bool:
    """True if neighbours of memory that has addresses go one by one."""
    if len(indices) != 1 or _consecutive(buffer, indices[0]) is None:
        return False
    return piece_lanes(buffer, indices[0], analyzer) == 1


def _copied(n: PrimExpr) -> BufferLoad | None:
    """The vector that a value is, whatever its type, inside the array's bounds."""
    while isinstance(n, Cast):
        n = n.value
    choice = choice_of(n)
    if choice:
        return _copied(choice[1])
    return n if isinstance(n, BufferLoad) and n.mask is None and dt.lanes(n.dtype) > 1 else None


def _consecutive(buffer: Buffer, index: PrimExpr) -> PrimExpr | None:
    """The index of the first of neighbours in memory that has addresses: registers have none."""
    form = lane_form(index)
    if form is None or form[1] != 1 or not buffer.storage_scope.startswith(("global", "shared")):
        return None
    return form[0]


def block_lanes(value: PrimExpr, dtype: str) -> int:
    """Lanes of a vector that are written together: the shortest type fills what moves at once."""
    sizes = [dt.itemsize(dtype), *(dt.itemsize(x.buffer.dtype) for x in vector_loads(value))]
    return MOST_BYTES // min(sizes)


def vector_loads(n: PrimExpr) -> list[BufferLoad]:
    """The loads of vectors in a value."""
    return [x for x in nodes_of(n, BufferLoad) if dt.lanes(x.dtype) > 1]


def can_part(n: PrimExpr) -> bool:
    """True if :func:`part` can take lanes out of a vector."""
    if isinstance(n, (Let, Shuffle)) or (isinstance(n, Var) and dt.lanes(n.dtype) > 1):
        return False
    return all(map(can_part, n.parts))


def part(n: PrimExpr, first: int, count: int) -> PrimExpr:
    """``count`` lanes of a vector, from ``first`` on, as a vector; a scalar stays itself."""
    if dt.lanes(n.dtype) == 1:
        return n
    kind = dt.vector(dt.element(n.dtype), count)
    if isinstance(n, Ramp):
        return Ramp(ops.add(n.base, first * n.stride), n.stride, count, kind)
    if isinstance(n, Broadcast):
        return Broadcast(n.value, count, kind)
    return replace(n.with_parts(tuple(part(x, first, count) for x in n.parts)), dtype=kind)
