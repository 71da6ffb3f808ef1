"""Elements picked by indices that are data."""

from __future__ import annotations

from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute
from whet.compiler.tir import IntImm
from whet.compiler.tir.ops.ops import const
from whet.compiler.topi.shapes import check_integers, counted, index_at, one_axis, with_axis
from whet.compiler.topi.tag import INJECTIVE


def gather(data: Tensor, axis: int, indices: Tensor) -> Tensor:
    """``data[i0, ..., indices[i0, ..., in], ..., in]``: one index an element, along ``axis``.

    Args:
        data: any tensor.
        axis: along which.
        indices: integers, as many dimensions as ``data``, no longer along the other axes. They are
            not checked: each must be at least 0 and less than the extent.

    Raises:
        ArgumentError: the shapes do not fit, or the indices are no integers.
    """
    request = f"gather({data}, {axis}, {indices})"
    k = one_axis(axis, data.ndim, request)
    check_integers(indices, request)
    if indices.ndim != data.ndim:
        raise ArgumentError(
            request, f"{indices.ndim} dimensions of indices for {data.ndim} of data"
        )
    for d, (x, y) in enumerate(zip(indices.shape, data.shape)):
        if d != k and isinstance(x, IntImm) and isinstance(y, IntImm) and x.value > y.value:
            raise ArgumentError(request, f"dimension {d} has {x} indices for {y} elements")
    if data.shape[k] == 0 and not any(d == 0 for d in indices.shape):
        raise ArgumentError(
            request, f"axis {k} of {data.name} has 0 elements to point at", "indices of no element"
        )

    def element(*i: Any) -> Any:
        return data(*with_axis(i, k, index_at(indices, *i)))

    return compute(indices.shape, element, "T_gather", INJECTIVE)


def gather_nd(
    a: Tensor, indices: Tensor, batch_dims: int = 0, index_axis: int = 0, mode: str = "fast"
) -> Tensor:
    """``a[indices[0, ...], ..., indices[m - 1, ...], ...]``: the first axis has the m indices.

    Args:
        a: any tensor.
        indices: integers; they are not checked: each must be at least 0 and less than its extent.
        batch_dims: dimensions in front of ``a`` that those of the indices behind the first are:
            ``a[y, indices[0, y, ...], ...]``.
        index_axis: 0, or -1: the last axis has the m indices, as ONNX and TensorFlow have it.
        mode: ``"fast"``, or ``"count"``: negative indices count from the end, and one outside is
            the nearest.

    Raises:
        ArgumentError: more indices than dimensions, other dimensions in common, or they are no
            integers.
    """
    request = f"gather_nd({a}, {indices}, batch_dims={batch_dims})"
    check_integers(indices, request)
    if index_axis not in (0, -1) or mode not in ("fast", "count"):
        raise ArgumentError(request, "index_axis is 0 or -1, mode is 'fast' or 'count'")
    if not indices.ndim or not isinstance(indices.shape[index_axis], IntImm):
        raise ArgumentError(request, "the dimension of the indices of an element is no constant")
    own_shape = indices.shape[1:] if index_axis == 0 else indices.shape[:-1]
    count, rank = int(indices.shape[index_axis]), len(own_shape)
    if not isinstance(batch_dims, int) or not 0 <= batch_dims <= min(rank, a.ndim):
        raise ArgumentError(request, f"{batch_dims} dimensions in common, of {rank} and {a.ndim}")
    if not 1 <= count <= a.ndim - batch_dims:
        raise ArgumentError(request, f"{count} indices for {a.ndim - batch_dims} dimensions")
    for d, (x, y) in enumerate(zip(own_shape[:batch_dims], a.shape)):
        if not x == y:
            raise ArgumentError(request, f"dimension {d} has {y} elements and {x} indices")

    def element(*i: Any) -> Any:
        own = []
        for m in range(count):
            place = (const(m), *i[:rank]) if index_axis == 0 else (*i[:rank], const(m))
            index = index_at(indices, *place)
            own.append(index if mode == "fast" else counted(index, a.shape[batch_dims + m]))
        return a(*i[:batch_dims], *own, *i[rank:])

    shape = (*own_shape, *a.shape[batch_dims + count :])
    return compute(shape, element, "T_gather_nd", INJECTIVE)
