"""Sparse matrices in compressed rows."""

from __future__ import annotations

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, extern
from whet.compiler.tir import Buffer, Stmt, ir_builder
from whet.compiler.tir.ops.ops import cast, const
from whet.compiler.topi.algebra.products import sparse_dense
from whet.compiler.topi.shapes import check_integers, static
from whet.compiler.topi.tag import BROADCAST
from whet.compiler.topi.transform import transpose


def sparse_transpose(
    sparse_data: Tensor, sparse_indices: Tensor, sparse_indptr: Tensor
) -> list[Tensor]:
    """The transpose of a square matrix in compressed rows (CSR); columns of a row are in order.

    Args:
        sparse_data: (elements,).
        sparse_indices: (elements,), the column of each; not checked.
        sparse_indptr: (N + 1,), where each row begins.

    Returns:
        data, columns and beginnings of the transpose, of the same shapes and types.

    Raises:
        ArgumentError: shapes or types do not fit.
    """
    request = f"sparse_transpose({sparse_data}, {sparse_indices}, {sparse_indptr})"
    for t in (sparse_indices, sparse_indptr):
        check_integers(t, request)
    if (sparse_data.ndim, sparse_indices.ndim, sparse_indptr.ndim) != (1, 1, 1):
        raise ArgumentError(request, "give three vectors")
    count, rows = static(sparse_data.shape[0], request), static(sparse_indptr.shape[0], request) - 1
    if rows < 1:
        raise ArgumentError(request, "there is no row", "sparse_indptr has one element more")
    places, begins_as = sparse_indices.dtype, sparse_indptr.dtype

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = ir_builder.create()
        data, columns, begins = (ib.buffer_ptr(b) for b in ins)
        made, made_columns, made_begins = (ib.buffer_ptr(b) for b in outs)
        free = ib.allocate("int32", rows, name="free", scope="global")
        with ib.for_range(0, rows + 1, name="i") as i:
            made_begins[i] = const(0, begins_as)
        with ib.for_range(0, count, name="k") as k:
            column = ib.let("column", cast("int32", columns[k]))
            made_begins[column + 1] = made_begins[column + 1] + const(1, begins_as)
        with ib.for_range(0, rows, name="i") as i:
            free[i] = cast("int32", made_begins[i])
            made_begins[i + 1] = made_begins[i + 1] + made_begins[i]
        with ib.for_range(0, rows, name="i") as i:
            begin, end = (ib.let(f"end{j}", cast("int32", begins[i + j])) for j in (0, 1))
            with ib.for_range(begin, end, name="k") as k:
                column = ib.let("column", cast("int32", columns[k]))
                place = ib.let("place", free[column])
                made[place] = data[k]
                made_columns[place] = cast(places, i)
                free[column] = place + 1
        return ib.get()

    given = [sparse_data, sparse_indices, sparse_indptr]
    shapes = [t.shape for t in given]
    return list(extern(shapes, given, body, "T_sparse_transpose", [t.dtype for t in given]))


def sparse_add(
    dense_data: Tensor, sparse_data: Tensor, sparse_indices: Tensor, sparse_indptr: Tensor
) -> Tensor:
    """``dense_data`` plus a matrix in compressed rows (CSR).

    Args:
        dense_data: (M, N).
        sparse_data: (elements,), of the same type.
        sparse_indices: (elements,), the column of each; not checked.
        sparse_indptr: (M + 1,), where each row begins.

    Raises:
        ArgumentError: shapes or types do not fit.
    """
    request = f"sparse_add({dense_data}, {sparse_data}, {sparse_indices}, {sparse_indptr})"
    for t in (sparse_indices, sparse_indptr):
        check_integers(t, request)
    if (dense_data.ndim, sparse_data.ndim) != (2, 1) or dense_data.dtype != sparse_data.dtype:
        raise ArgumentError(request, "give a matrix and three vectors, of one type")
    rows, columns = (static(d, request) for d in dense_data.shape)
    if static(sparse_indptr.shape[0], request) != rows + 1:
        raise ArgumentError(request, f"{rows} rows begin and end at {rows + 1} places")

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = ir_builder.create()
        dense, data, column, begins = (ib.buffer_ptr(b) for b in ins)
        made = ib.buffer_ptr(outs[0])
        with ib.for_range(0, rows, name="i", kind="parallel") as i:
            with ib.for_range(0, columns, name="j") as j:
                made[i, j] = dense[i, j]
            begin, end = (ib.let(f"end{j}", cast("int32", begins[i + j])) for j in (0, 1))
            with ib.for_range(begin, end, name="k") as k:
                j = ib.let("column", cast("int32", column[k]))
                made[i, j] = made[i, j] + data[k]
        return ib.get()

    given = [dense_data, sparse_data, sparse_indices, sparse_indptr]
    return extern((rows, columns), given, body, "T_sparse_add", dense_data.dtype)


def csrmm(
    data: Tensor, indices: Tensor, indptr: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """A matrix in compressed rows (CSR) times ``weight`` (K, N), plus ``bias`` (M,) by rows.

    Args:
        data: (elements,).
        indices: (elements,), the column of each; not checked.
        indptr: (M + 1,), where each row begins.
        weight: (K, N).
        bias: added to all of a row, or None.

    Returns:
        (M, N), of the type of ``weight``.

    Raises:
        ArgumentError: shapes or types do not fit.
    """
    out = transpose(sparse_dense(transpose(weight, (1, 0)), data, indices, indptr), (1, 0))
    if bias is None:
        return out
    return compute(out.shape, lambda i, j: out(i, j) + bias(i), "T_csrmm_bias", BROADCAST)


def csrmv(
    data: Tensor, indices: Tensor, indptr: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """:func:`csrmm` of one column: ``weight`` (K, 1)."""
    return csrmm(data, indices, indptr, weight, bias)
