"""Matrix multiplication."""

from __future__ import annotations

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor


def matmul(a: Tensor, b: Tensor, name: str = "C") -> Tensor:
    """The product of ``a`` (N, K) and ``b`` (K, M), of ``a``'s dtype.

    Raises:
        ArgumentError: if they are not two matrices of one dtype that fit together.
    """
    asked = f"matmul({a}, {b})"
    if a.ndim != 2 or b.ndim != 2:
        raise ArgumentError(asked, "both must have two dimensions")
    if a.dtype != b.dtype:
        raise ArgumentError(asked, f"the dtypes {a.dtype} and {b.dtype} differ")
    if not a.shape[1] == b.shape[0]:
        raise ArgumentError(asked, "the columns of the first are not the rows of the second")
    k = te.reduce_axis((0, a.shape[1]), name="k")
    return te.compute(
        (a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name=name
    )
