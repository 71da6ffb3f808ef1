"""Operators that look elements up, or put them down, where other arrays say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler import te, topi
from whet.compiler.te import Tensor, const


def _top(x: Tensor, k: int, axis: int, largest: bool) -> Any:
    """The largest or least k elements along an axis, in order; and their places, as int64."""
    return topi.topk(x, k, axis, "both", not largest, "int64") if k else _none(x, axis)


def _none(x: Tensor, axis: int) -> list[Tensor]:
    shape = (*x.shape[:axis], 0, *x.shape[axis + 1 :])
    return [topi.full(shape, kind, 0) for kind in (x.dtype, "int64")]


def _scatter(x: Tensor, indices: Tensor, updates: Tensor, axis: int, reduction: str) -> Tensor:
    return topi.scatter_elements(x, indices, updates, axis, _updating(reduction))


def _scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, reduction: str) -> Tensor:
    """Update ``u[i, ...]`` goes to ``x[indices[i], ...]``."""
    return topi.scatter_nd(x, indices, updates, _updating(reduction), -1)


def _updating(reduction: str) -> str:
    return "update" if reduction == "none" else reduction


def _tensor_scatter(
    x: Tensor, update: Tensor, begins: Tensor | None, axis: int, circular: bool
) -> Tensor:
    """A cache in which the steps from ``begins[b]`` on along an axis are those of ``update``."""
    extent, steps = x.shape[axis], update.shape[axis]

    def element(*i: Any) -> Any:
        begin = const(0, "int64") if begins is None else te.cast("int64", begins(i[0]))
        at = te.cast("int64", i[axis]) - begin
        at = te.floormod(at, te.cast("int64", extent)) if circular else at
        own = update(*i[:axis], at, *i[axis + 1 :])
        return te.if_then_else(te.all(at >= 0, at < steps), own, x(*i))

    return te.compute(x.shape, element, "T_tensor_scatter", topi.tag.INJECTIVE)


def _resample(
    x: Tensor, places: Tensor, weights: Tensor, axis: int, factor: float | None = None
) -> Tensor:
    """Sums along an axis of elements at places; by a factor, these do not depend on the extent.

    The result has ``floor(factor * extent)`` elements then.
    """
    return topi.image.resample(x, places, weights, axis)


def _reverse_sequence(x: Tensor, lengths: Tensor, seq_axis: int, batch_axis: int) -> Tensor:
    return topi.reverse_sequence(x, lengths, seq_axis, batch_axis)


OPERATORS: dict[str, Callable[..., Any]] = {
    "affine_grid": topi.image.affine_grid,
    "argsort": lambda x, axis, ascend=True: topi.argsort(x, None, axis, ascend, "int64"),
    "grid_sample": lambda x, grid, method, padding, corners: topi.image.grid_sample(
        x, grid, method, padding_mode=padding, align_corners=corners
    ),
    "resample": _resample,
    "reverse_sequence": _reverse_sequence,
    "roi_align": topi.image.roi_align,
    "scatter": _scatter,
    "scatter_nd": _scatter_nd,
    "searchsorted": topi.searchsorted,
    "sort": lambda x, axis, ascend=True: topi.sort(x, axis, ascend),
    "tensor_scatter": _tensor_scatter,
    "top_k": _top,
}
"""Name -> function."""
