"""Determinants, by elimination."""

from __future__ import annotations

from math import prod

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, extern
from whet.compiler.tir import Buffer, Stmt, ir_builder
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.ops.mathematics import abs as absolute
from whet.compiler.tir.ops.ops import cast, const, select
from whet.compiler.topi.half_precision import summed_in
from whet.compiler.topi.shapes import static
from whet.compiler.topi.transform import reshape


def det(data: Tensor) -> Tensor:
    """The determinant of each matrix (..., n, n), as numpy's; of shape (...).

    Elimination with the largest pivot of each column: n ** 3 / 3 products.

    Raises:
        ArgumentError: the last two dimensions differ, or the type is no float.
    """
    request = f"det({data})"
    shape = [static(d, request) for d in data.shape]
    if data.ndim < 2 or shape[-1] != shape[-2] or not dt.is_float(data.dtype):
        raise ArgumentError(request, "give square matrices of floats")
    n, many, wide = shape[-1], prod(shape[:-2]), summed_in(data.dtype)

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = ir_builder.create()
        source = ib.buffer_ptr(ins[0], shape=(many, n, n))
        made = ib.buffer_ptr(outs[0])
        if not many:
            ib.emit(const(0))
            return ib.get()
        with ib.for_range(0, many, name="b", kind="parallel") as b:
            matrix = ib.allocate(wide, max(n * n, 1), name="matrix", scope="global")
            with ib.for_range(0, n * n, name="t") as t:
                matrix[t] = cast(wide, source[b, t // n, t % n])
            total = ib.allocate(wide, 1, name="total", scope="local")
            row = ib.allocate("int32", 1, name="row", scope="local")
            total[0] = const(1, wide)
            with ib.for_range(0, n, name="k") as k:
                row[0] = k
                with ib.for_range(k + 1, n, name="i") as i:
                    better = absolute(matrix[i * n + k]) > absolute(matrix[row[0] * n + k])
                    row[0] = select(better, i, row[0])
                pivot = ib.let("pivot", matrix[row[0] * n + k])
                swapped = ib.let("swapped", row[0])
                total[0] = select(swapped.equal(k), total[0], -total[0]) * pivot
                with ib.for_range(k, n, name="j") as j:
                    other = ib.let("other", matrix[k * n + j])
                    matrix[k * n + j] = matrix[swapped * n + j]
                    matrix[swapped * n + j] = other
                below = select(pivot.equal(const(0, wide)), n, k + 1)  # nothing to eliminate by
                with ib.for_range(below, n, name="i") as i:
                    factor = ib.let("factor", matrix[i * n + k] / pivot)
                    with ib.for_range(k + 1, n, name="j") as j:
                        at = i * n + j
                        matrix[at] = matrix[at] - factor * matrix[k * n + j]
            made[b] = cast(data.dtype, total[0])
        return ib.get()

    found = extern((many,), [data], body, "T_det", data.dtype)
    return found if data.ndim == 3 else reshape(found, data.shape[:-2])
