"""The names of TVM's ``topi.sparse``: products with matrices in compressed rows."""

from __future__ import annotations

from whet.compiler.te import Tensor
from whet.compiler.topi.algebra.products import sparse_dense
from whet.compiler.topi.algebra.sparse import csrmm, csrmv
from whet.compiler.topi.elementwise import add


def dense(
    data: Tensor, indices: Tensor, indptr: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """``weight`` (M, K) times the transpose of a matrix (N, K) in compressed rows, plus ``bias``.

    Raises:
        ArgumentError: shapes or types do not fit.
    """
    out = sparse_dense(weight, data, indices, indptr)
    return out if bias is None else add(out, bias)


__all__ = ["csrmm", "csrmv", "dense"]
