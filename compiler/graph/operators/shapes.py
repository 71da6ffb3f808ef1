"""Operators that move elements and compute nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler import te, topi
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, const
from whet.compiler.tir.expr import IntImm

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
    """Part of a tensor along axes of symbolic extents; bounds are within these."""
    shape, first = list(x.shape), {}
    for low, high, by, a in zip(begin, end, step, axes):
        if by != 1:
            raise ArgumentError(f"slice of {x}", f"it takes steps of {by} along an open axis")
        extent = x.shape[a]
        if isinstance(low, int) and low < 0:
            low = extent + low
        if isinstance(high, int):
            high = extent if high >= _FAR else extent + high if high < 0 else high
        first[a], shape[a] = low, high - low
    return te.compute(
        shape,
        lambda *i: x(*(k + first[a] if a in first else k for a, k in enumerate(i))),
        "T_slice",
        topi.tag.INJECTIVE,
    )


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
    "one_hot": _one_hot,
    "pad": _pad,
    "reshape": lambda x, shape: topi.reshape(x, shape),
    "slice": _slice,
    "space_to_depth": lambda x, block: topi.nn.space_to_depth(x, block),
    "take": _take,
    "tile": lambda x, repeats: topi.tile(x, repeats),
    "transpose": lambda x, axes: topi.transpose(x, axes),
    "trilu": lambda x, upper, k=0: topi.trilu(x, k, upper),
}
"""Name -> function."""
