"""Matrix products by the library that numpy was built with, as stages of a computation."""

from __future__ import annotations

from typing import Any

from whet.compiler import te, tir
from whet.compiler.errors import ArgumentError
from whet.compiler.te.lang.tensor import Tensor

__all__ = ["batch_matmul", "matmul"]


def matmul(
    lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, **options: Any
) -> Tensor:
    """``op(lhs) @ op(rhs)`` of matrices, by the packed function ``tvm.contrib.cblas.matmul``.

    Args:
        lhs: of shape ``(m, k)``, or ``(k, m)`` with ``transa``.
        rhs: of shape ``(k, n)``, or ``(n, k)`` with ``transb``.
        transa, transb: whether they are transposed first.
        options: for ``te.extern``, e.g. ``dtype``, ``name``.

    Raises:
        ArgumentError: the tensors are no matrices.
    """
    return _product("matmul", 2, lhs, rhs, transa, transb, options)


def batch_matmul(
    lhs: Tensor,
    rhs: Tensor,
    transa: bool = False,
    transb: bool = False,
    iterative: bool = False,
    **options: Any,
) -> Tensor:
    """:func:`matmul` for each pair of matrices of two batches.

    Args:
        lhs: of shape ``(batch, m, k)``, or ``(batch, k, m)`` with ``transa``.
        rhs: of shape ``(batch, k, n)``, or ``(batch, n, k)`` with ``transb``.
        transa, transb: whether they are transposed first.
        iterative: TVM's way to call the library matrix by matrix; the numbers are the same.
        options: for ``te.extern``.

    Raises:
        ArgumentError: the tensors do not have three dimensions.
    """
    return _product("batch_matmul", 3, lhs, rhs, transa, transb, options)


def _product(
    name: str,
    rank: int,
    lhs: Tensor,
    rhs: Tensor,
    transa: bool,
    transb: bool,
    options: dict[str, Any],
) -> Tensor:
    for t in (lhs, rhs):
        if not isinstance(t, Tensor) or len(t.shape) != rank:
            shape = getattr(t, "shape", type(t).__name__)
            raise ArgumentError(f"cblas.{name}(...)", f"{shape} is no tensor of {rank} dimensions")
    rows = lhs.shape[-1 if transa else -2]
    columns = rhs.shape[-2 if transb else -1]
    return te.extern(
        (*lhs.shape[:-2], rows, columns),
        [lhs, rhs],
        lambda ins, outs: tir.call_packed(
            f"tvm.contrib.cblas.{name}", ins[0], ins[1], outs[0], bool(transa), bool(transb)
        ),
        **{"name": "C", **options},
    )
