"""Elements of tensors at places of their own: windows, queues, several tensors of indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, reduce_axis
from whet.compiler.tir.ops.ops import cast, const, if_then_else, select
from whet.compiler.topi.elementwise import at, broadcast_shape
from whet.compiler.topi.shapes import (
    check_integers,
    counted,
    is_one,
    one_axis,
    product,
    static,
)
from whet.compiler.topi.tag import COMM_REDUCE, INJECTIVE


def adv_index(data: Tensor, indices: Sequence[Tensor]) -> Tensor:
    """``data[indices[0], indices[1], ...]``, numpy's indexing by tensors.

    Args:
        data: any tensor.
        indices: integers for the first dimensions, broadcast against each other; negative ones
            count from the end, and one outside is the nearest.

    Returns:
        (the indices' common shape ..., the other dimensions of ``data`` ...).

    Raises:
        ArgumentError: there are none or too many, they are no integers, or do not broadcast.
    """
    request = f"adv_index({data}, {list(indices)})"
    if not 1 <= len(indices) <= data.ndim:
        raise ArgumentError(request, f"{len(indices)} indices for {data.ndim} dimensions")
    for index in indices:
        check_integers(index, request)
    common: Any = indices[0].shape
    for index in indices[1:]:
        common = broadcast_shape(common, index.shape, request)
    rank = len(common)

    def element(*i: Any) -> Any:
        places = [counted(at(t, i[:rank]), data.shape[k]) for k, t in enumerate(indices)]
        return data(*places, *i[rank:])

    shape = (*common, *data.shape[len(indices) :])
    return compute(shape, element, "T_adv_index", INJECTIVE)


def sliding_window(
    data: Tensor, axis: int, window_shape: Sequence[int], strides: Sequence[int]
) -> Tensor:
    """All windows over ``axis`` and the axes behind it.

    Args:
        data: any tensor.
        axis: the first along which windows slide.
        window_shape: of a window, for ``axis`` and each axis behind it.
        strides: from one window to the next, for the same axes.

    Returns:
        (dimensions in front of ``axis`` ..., windows ..., window_shape ...).

    Raises:
        ArgumentError: lengths differ, a stride is below 1, or a window is larger than the data.
    """
    request = f"sliding_window({data}, {axis}, {list(window_shape)}, {list(strides)})"
    first = one_axis(axis, data.ndim, request)
    rank = data.ndim - first
    if not len(window_shape) == len(strides) == rank:
        raise ArgumentError(request, f"give {rank} extents and {rank} strides, for each axis one")
    sizes = [static(d, request) for d in data.shape[first:]]
    if any(s < 1 for s in strides) or any(not 1 <= w <= n for w, n in zip(window_shape, sizes)):
        raise ArgumentError(request, "windows lie inside, and strides are at least 1")
    many = [(n - w) // s + 1 for n, w, s in zip(sizes, window_shape, strides)]

    def element(*i: Any) -> Any:
        windows, inside = i[first : first + rank], i[first + rank :]
        return data(*i[:first], *(w * s + k for w, s, k in zip(windows, strides, inside)))

    shape = (*data.shape[:first], *many, *window_shape)
    return compute(shape, element, "T_sliding_window", INJECTIVE)


def fifo_buffer(data: Tensor, buffer: Tensor, axis: int) -> Tensor:
    """The last elements along ``axis`` of ``buffer`` and then ``data``: a queue after a step.

    Args:
        data: what comes; no longer than ``buffer`` along ``axis``, else of its shape.
        buffer: what was there.
        axis: along which.

    Returns:
        A tensor of the shape of ``buffer``.

    Raises:
        ArgumentError: the shapes do not fit.
    """
    request = f"fifo_buffer({data}, {buffer}, {axis})"
    k = one_axis(axis, buffer.ndim, request)
    new, old = ([static(d, request) for d in t.shape] for t in (data, buffer))
    if len(new) != len(old) or new[k] > old[k] or new[:k] + new[k + 1 :] != old[:k] + old[k + 1 :]:
        raise ArgumentError(request, f"shapes {new} and {old} do not fit along axis {k}")
    kept = old[k] - new[k]

    def element(*i: Any) -> Any:
        before = (*i[:k], i[k] + new[k], *i[k + 1 :])
        behind = (*i[:k], i[k] - kept, *i[k + 1 :])
        return if_then_else(i[k] < kept, buffer(*before), data(*behind))

    return compute(buffer.shape, element, "T_fifo_buffer", INJECTIVE)


def expand_like(a: Tensor, shape_like: Tensor, axis: Sequence[int]) -> Tensor:
    """``a`` with new axes, as long as those of ``shape_like``.

    Args:
        a: any tensor, whose axes are those of ``shape_like`` that ``axis`` leaves.
        shape_like: gives the shape.
        axis: the axes of ``shape_like`` that are new.

    Raises:
        ArgumentError: there is no such axis, or the dimensions do not add up.
    """
    request = f"expand_like({a}, {shape_like}, {axis})"
    new = {one_axis(x, shape_like.ndim, request) for x in axis}
    one = a.ndim == 1 and len(new) == shape_like.ndim and is_one(a.shape[0])
    if len(new) + a.ndim != shape_like.ndim and not one:
        raise ArgumentError(request, f"{a.ndim} axes and {len(new)} new ones are not all")

    def element(*i: Any) -> Any:
        return a(const(0)) if one else a(*(x for k, x in enumerate(i) if k not in new))

    return compute(shape_like.shape, element, "T_expand_like", INJECTIVE)


def collapse_sum(data: Tensor, target_shape: Sequence[int]) -> Tensor:
    """The sum over what was broadcast from ``target_shape``: broadcasting's derivative.

    Args:
        data: any tensor of numbers.
        target_shape: each of the last dimensions is ``data``'s or 1; those in front may lack.

    Raises:
        ArgumentError: the shapes do not fit.
    """
    request = f"collapse_sum({data}, {target_shape})"
    have = [static(d, request) for d in data.shape]
    want = [static(d, request) for d in target_shape]
    lacks = len(have) - len(want)
    if lacks < 0 or any(w not in (1, h) for w, h in zip(want, have[lacks:])):
        raise ArgumentError(request, f"{want} is not broadcast to {have}")
    over = [k for k, h in enumerate(have) if k < lacks or (want[k - lacks] == 1 and h != 1)]
    axes = {k: reduce_axis((0, have[k]), name=f"k{k}") for k in over}

    def element(*i: Any) -> Any:
        value = data(*(axes[k] if k in axes else i[k - lacks] for k in range(len(have))))
        return te.sum(value, list(axes.values())) if axes else value

    return compute(want, element, "T_collapse_sum", COMM_REDUCE if axes else INJECTIVE)


def shape(array: Tensor, dtype: str = "int32") -> Tensor:
    """The extents of a tensor, as a vector."""

    def element(k: Any) -> Any:
        found: Any = const(0, dtype)
        for axis, extent in enumerate(array.shape):
            found = select(k.equal(axis), cast(dtype, extent), found)
        return found

    return compute((array.ndim,), element, "T_shape", INJECTIVE)


def ndarray_size(array: Tensor, dtype: str = "int32") -> Tensor:
    """The number of elements of a tensor, as a tensor without axes."""
    many = product(array.shape)
    return compute((), lambda: cast(dtype, many), "T_ndarray_size", INJECTIVE)
