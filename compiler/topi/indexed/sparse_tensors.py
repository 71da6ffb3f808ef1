"""Sparse tensors as TensorFlow has them: the places of the elements that are stored, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, extern
from whet.compiler.tir import Buffer, Stmt, ir_builder
from whet.compiler.tir.ops.ops import all_of, cast, const, floordiv, floormod, maximum, minimum
from whet.compiler.topi.indexed.scatter import nest
from whet.compiler.topi.shapes import check_integers, static


def sparse_to_dense(
    sparse_indices: Tensor,
    output_shape: Sequence[int],
    sparse_values: Tensor,
    default_value: float = 0,
) -> Tensor:
    """A tensor of ``default_value`` with other elements at places that are data.

    Args:
        sparse_indices: integers (N, dimensions), or (N,) of a vector, or one without axes. A place
            outside is left out; of equal ones the last counts.
        output_shape: of the result.
        sparse_values: (N,), or one for all places without axes.
        default_value: of the other elements; a number or a tensor without axes.

    Raises:
        ArgumentError: shapes do not fit, or the indices are no integers.
    """
    request = f"sparse_to_dense({sparse_indices}, {output_shape}, {sparse_values})"
    check_integers(sparse_indices, request)
    rank, sizes = sparse_indices.ndim, [static(d, request) for d in output_shape]
    own = static(sparse_indices.shape[1], request) if rank == 2 else 1
    if rank > 2 or own != len(sizes) or sparse_values.ndim > min(rank, 1):
        raise ArgumentError(request, f"{own} indices for {len(sizes)} dimensions")
    many = sparse_indices.shape[0] if rank else const(1)
    dtype = sparse_values.dtype
    given = [sparse_indices, sparse_values]
    if isinstance(default_value, Tensor):
        given.append(default_value)

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = ir_builder.create()
        index, value, *other = (ib.buffer_ptr(b) for b in ins)
        made = ib.buffer_ptr(outs[0])
        nothing = other[0][()] if other else const(default_value, dtype)

        def filled(at: list[Any]) -> None:
            made[tuple(at)] = cast(dtype, nothing)

        nest(ib, sizes, filled)
        with ib.for_range(0, many, name="n") as n:
            read = ((n, k) if rank == 2 else (n,) * rank for k in range(own))
            place = [ib.let(f"p{k}", cast("int64", index[r])) for k, r in enumerate(read)]
            with ib.if_scope(all_of(*(c for p, d in zip(place, sizes) for c in (p >= 0, p < d)))):
                made[tuple(place)] = value[(n,) if sparse_values.ndim else ()]
        return ib.get()

    said = {"default_value": str(default_value)}
    return extern(tuple(sizes), given, body, "T_sparse_to_dense", dtype, attrs=said)


def sparse_reshape(
    sparse_indices: Tensor,
    prev_shape: Tensor,
    new_shape: Tensor,
    new_sparse_indices_shape: Sequence[int],
    new_shape_shape: Sequence[int],
) -> list[Tensor]:
    """The places of a sparse tensor's elements after a reshape.

    Args:
        sparse_indices: (N, old dimensions), integers.
        prev_shape: (old dimensions,), extents as data.
        new_shape: (new dimensions,); one may be -1 and takes what is left.
        new_sparse_indices_shape: (N, new dimensions).
        new_shape_shape: (new dimensions,).

    Returns:
        The new places and the new shape, int64; ArgumentError where shapes do not fit.
    """
    request = f"sparse_reshape({sparse_indices}, {prev_shape}, {new_shape})"
    for t in (sparse_indices, prev_shape, new_shape):
        check_integers(t, request)
    many, old, new = (
        static(new_sparse_indices_shape[0], request),
        *(static(t.shape[0], request) for t in (prev_shape, new_shape)),
    )
    if [static(d, request) for d in sparse_indices.shape] != [many, old]:
        raise ArgumentError(request, f"the indices are not ({many}, {old})")
    if [*new_sparse_indices_shape] != [many, new] or [*new_shape_shape] != [new]:
        raise ArgumentError(request, f"the results are ({many}, {new}) and ({new},)")

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = ir_builder.create()
        index, before, wanted = (ib.buffer_ptr(b) for b in ins)
        made, extents = (ib.buffer_ptr(b) for b in outs)
        sizes = [ib.let(f"size{k}", cast("int64", before[k])) for k in range(old)]
        left = ib.allocate("int64", 2, name="left", scope="local")
        left[0], left[1] = const(1, "int64"), const(1, "int64")
        for size in sizes:
            left[0] = left[0] * size
        for k in range(new):
            left[1] = left[1] * maximum(cast("int64", wanted[k]), const(1, "int64"))
        for k in range(new):
            with ib.if_scope(wanted[k] >= 0):
                extents[k] = cast("int64", wanted[k])
            with ib.else_scope():
                extents[k] = floordiv(left[0], left[1])
        with ib.for_range(0, many, name="n") as n:
            left[0] = const(0, "int64")
            for k, size in enumerate(sizes):
                left[0] = left[0] * size + cast("int64", index[n, k])
            for k in reversed(range(new)):
                made[n, k] = floormod(left[0], extents[k]) if k else left[0]
                left[0] = floordiv(left[0], extents[k])
        return ib.get()

    given = [sparse_indices, prev_shape, new_shape]
    return list(extern([(many, new), (new,)], given, body, "T_sparse_reshape", ["int64"] * 2))


def sparse_fill_empty_rows(
    sparse_indices: Tensor,
    sparse_values: Tensor,
    dense_shape: Tensor,
    default_value: Tensor,
    new_sparse_indices_shape: Sequence[int],
    new_sparse_values_shape: Sequence[int],
    empty_row_indicator_shape: Sequence[int],
) -> list[Tensor]:
    """A sparse tensor with an element, ``default_value``, in each row that had none.

    Args:
        sparse_indices: (N, dimensions), integers; the rows ascend.
        sparse_values: (N,).
        dense_shape: (dimensions,), extents as data.
        default_value: (1,).
        new_sparse_indices_shape: (elements with the new ones, dimensions); more than there are
            have -1.
        new_sparse_values_shape: (elements with the new ones,).
        empty_row_indicator_shape: (rows,).

    Returns:
        The places (int64), the values, and 1 for each row that was empty (int64).

    Raises:
        ArgumentError: shapes or types do not fit.
    """
    request = f"sparse_fill_empty_rows({sparse_indices}, {sparse_values}, {dense_shape})"
    check_integers(sparse_indices, request)
    have, rank = (static(d, request) for d in sparse_indices.shape)
    many, rows = (
        static(d, request) for d in (new_sparse_values_shape[0], empty_row_indicator_shape[0])
    )
    if [*new_sparse_indices_shape] != [many, rank]:
        raise ArgumentError(request, f"the new indices are ({many}, {rank})")
    dtype = sparse_values.dtype

    body = partial(_rows_filled, (have, rank, many, rows), dtype)
    given = [sparse_indices, sparse_values, dense_shape, default_value]
    shapes, kinds = [(many, rank), (many,), (rows,)], ["int64", dtype, "int64"]
    return list(extern(shapes, given, body, "T_sparse_fill_empty_rows", kinds))


def _rows_filled(sizes: tuple[int, ...], dtype: str, ins: list[Buffer], outs: list[Buffer]) -> Stmt:
    """The elements row by row, and the default value in rows without one."""
    have, rank, many, rows = sizes
    ib = ir_builder.create()
    index, value, _, default = (ib.buffer_ptr(b) for b in ins)
    places, values, empty = (ib.buffer_ptr(b) for b in outs)
    at = ib.allocate("int32", 2, name="at", scope="local")  # in the old ones, in the new ones
    at[0], at[1] = 0, 0

    def put(place: list[Any], one: Any) -> None:
        with ib.if_scope(at[1] < many):
            for k, p in enumerate(place):
                places[at[1], k] = cast("int64", p)
            values[at[1]] = cast(dtype, one)
        at[1] = at[1] + 1

    with ib.for_range(0, rows, name="row") as row:
        begin = ib.allocate("int32", 1, name="begin", scope="local")
        begin[0] = at[0]
        if have:
            own = all_of(at[0] < have, index[minimum(at[0], have - 1), 0] <= row)
            with ib.while_loop(own):
                put([index[at[0], k] for k in range(rank)], value[at[0]])
                at[0] = at[0] + 1
        with ib.if_scope(begin[0].equal(at[0])):
            put([row, *[const(0)] * (rank - 1)], default[0])
            empty[row] = const(1, "int64")
        with ib.else_scope():
            empty[row] = const(0, "int64")
    with ib.for_range(at[1], many, name="n") as n:
        for k in range(rank):
            places[n, k] = const(-1, "int64")
        values[n] = const(0, dtype)
    return ib.get()
