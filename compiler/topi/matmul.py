"""Matrix multiplication."""

from __future__ import annotations

from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.tir.ops import ops
from whet.compiler.topi.halves import stored, summed_in


def matmul(
    a: Tensor, b: Tensor, transp_a: bool = False, transp_b: bool = False, name: str = "C"
) -> Tensor:
    """The product of ``a`` (N, K) and ``b`` (K, M), of ``a``'s dtype; sums of halves are float32.

    Args:
        a, b: two matrices of one dtype.
        transp_a: ``a`` is (K, N).
        transp_b: ``b`` is (M, K).
        name: of the result.

    Raises:
        ArgumentError: if they are not two matrices of one dtype that fit together.
    """
    asked = f"matmul({a}, {b})"
    if a.ndim != 2 or b.ndim != 2:
        raise ArgumentError(asked, "both must have two dimensions")
    if a.dtype != b.dtype:
        raise ArgumentError(asked, f"the dtypes {a.dtype} and {b.dtype} differ")
    n, length = reversed(a.shape) if transp_a else a.shape
    rows, m = reversed(b.shape) if transp_b else b.shape
    if not length == rows:
        raise ArgumentError(asked, "the columns of the first are not the rows of the second")
    k = te.reduce_axis((0, length), name="k")
    kind = summed_in(a.dtype)

    def element(i: Any, j: Any) -> Any:
        left = a[k, i] if transp_a else a[i, k]
        right = b[j, k] if transp_b else b[k, j]
        return te.sum(ops.cast(kind, left) * ops.cast(kind, right), axis=k)

    return stored(te.compute((n, m), element, name=name), a.dtype)
