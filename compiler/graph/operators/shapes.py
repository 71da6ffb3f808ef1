"""Operators that move elements and compute nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler import te, topi
from whet.compiler.te import Tensor, const
from whet.compiler.tir.expr import IntImm
from whet.compiler.topi.image.blocks import image_tiles, tiles_image
from whet.compiler.topi.shapes import is_at_least, quotient_of

_FAR = 1 << 31  # an end that is behind any axis


def _concat(*parts: Tensor, axis: int) -> Tensor:
    return topi.concatenate(list(parts), axis)


def _slice(
    x: Tensor, begin: Sequence[Any], end: Sequence[Any], step: Sequence[int], axes: Sequence[int]
) -> Tensor:
    """Part of a tensor by numpy's rules; ``end`` past the front is less than -the extent."""
    if not all(isinstance(x.shape[a], IntImm) for a in axes) or not _numbers(begin, end):
        return _open_slice(x, begin, end, step, axes)
    return topi.strided_slice(x, begin, end, step, axes)


def _numbers(*many: Sequence[Any]) -> bool:
    return all(isinstance(n, int) for some in many for n in some)


def _open_slice(
    x: Tensor, begin: Sequence[Any], end: Sequence[Any], step: Sequence[int], axes: Sequence[int]
) -> Tensor:
    """Part of a tensor along axes of symbolic extents; bounds are within these, or far beyond."""
    shape, parts = list(x.shape), {}
    for low, high, by, a in zip(begin, end, step, axes):
        extent = x.shape[a]
        first, last = _open_bound(low, extent, by), _open_bound(high, extent, by)
        many = last - first if by > 0 else first - last
        shape[a], parts[a] = quotient_of(many, abs(by) - 1, abs(by)), (first, by)

    def element(*i: Any) -> Any:
        at = list(i)
        for a, (first, by) in parts.items():
            at[a] = first + i[a] * by
        return x(*at)

    return te.compute(shape, element, "T_slice", topi.tag.INJECTIVE)


def _open_bound(at: Any, extent: Any, by: int) -> Any:
    """Where a slice begins or ends, along an axis of a symbolic extent."""
    if not isinstance(at, int):
        return extent + at if is_at_least(-1 - at, 0) else at
    if abs(at) >= _FAR:  # beyond the end, or beyond the front
        return (extent if by > 0 else extent - 1) if at > 0 else (0 if by > 0 else -1)
    return extent + at if at < 0 else at


def _pad(
    x: Tensor, before: Sequence[int], after: Sequence[int], value: float = 0, mode: str = "constant"
) -> Tensor:
    """Padded; negative numbers cut elements off."""
    rank = range(len(before))
    if any(n < 0 for n in (*before, *after)):
        begin = [max(-n, 0) for n in before]
        shape = [int(d) if isinstance(d, IntImm) else d for d in x.shape]
        end = [d - max(-n, 0) for d, n in zip(shape, after)]
        x = _slice(x, begin, end, [1] * len(begin), list(rank))
    low, high = ([max(n, 0) for n in many] for many in (before, after))
    return topi.nn.pad(x, low, high, value, mode=mode)


def _one_hot(indices: Tensor, depth: int, values: Sequence[float], axis: int, dtype: str) -> Tensor:
    """``values`` are (off, on); a negative index counts from the end."""
    return topi.one_hot(indices, values[1], values[0], depth, axis, dtype)


def _take(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Parts along an axis; a negative index counts from the end."""
    n, kind = x.shape[axis], indices.dtype
    extent = const(n.value, kind) if isinstance(n, IntImm) else te.cast(kind, n)
    negative = topi.less(indices, const(0, kind))
    counted = topi.where(negative, topi.add(indices, extent), indices)
    return topi.take(x, counted, axis)


OPERATORS: dict[str, Callable[..., Any]] = {
    "concat": _concat,
    "depth_to_space": lambda x, block, mode="DCR": topi.nn.depth_to_space(x, block, "NCHW", mode),
    "expand": lambda x, shape: topi.broadcast_to(x, shape),
    "flip": topi.flip,
    "gather": lambda x, indices, axis: topi.gather(x, axis, indices),
    "gather_nd": lambda x, indices, batch_dims=0: topi.gather_nd(
        x, indices, batch_dims, -1, "count"
    ),
    "image_tiles": image_tiles,
    "one_hot": _one_hot,
    "pad": _pad,
    "reshape": lambda x, shape: topi.reshape(x, shape),
    "slice": _slice,
    "space_to_depth": lambda x, block: topi.nn.space_to_depth(x, block),
    "take": _take,
    "tile": lambda x, repeats: topi.tile(x, repeats),
    "tiles_image": tiles_image,
    "transpose": lambda x, axes: topi.transpose(x, axes),
    "trilu": lambda x, upper, k=0: topi.trilu(x, k, upper),
}
"""Name -> function."""
