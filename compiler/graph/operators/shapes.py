"""Operators that move elements and compute nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler import te, topi
from whet.compiler.te import Tensor, const


def _concat(*parts: Tensor, axis: int) -> Tensor:
    return topi.concatenate(list(parts), axis)


def _slice(
    x: Tensor, begin: Sequence[int], end: Sequence[int], step: Sequence[int], axes: Sequence[int]
) -> Tensor:
    """Part of a tensor by numpy's rules; ``end`` past the front is less than -the extent."""
    return topi.strided_slice(x, begin, end, step, axes)


def _pad(
    x: Tensor, before: Sequence[int], after: Sequence[int], value: float = 0, mode: str = "constant"
) -> Tensor:
    """Padded; negative numbers cut elements off."""
    rank = range(len(before))
    if any(n < 0 for n in (*before, *after)):
        begin = [max(-n, 0) for n in before]
        end = [int(d) - max(-n, 0) for d, n in zip(x.shape, after)]
        x = topi.strided_slice(x, begin, end, [1] * len(begin), list(rank))
    low, high = ([max(n, 0) for n in many] for many in (before, after))
    return topi.nn.pad(x, low, high, value, mode=mode)


def _trilu(x: Tensor, upper: bool, k: int = 0) -> Tensor:
    """The upper or the lower triangle of matrices; elsewhere 0."""
    zero = const(0, x.dtype)

    def element(*i: Any) -> Any:
        kept = i[-1] - i[-2] >= k if upper else i[-1] - i[-2] <= k
        return te.if_then_else(kept, x(*i), zero)

    return te.compute(x.shape, element, "T_trilu", topi.tag.INJECTIVE)


def _depth_to_space(x: Tensor, block: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = (int(d) for d in x.shape)
    c //= block * block
    if mode == "DCR":
        parts = topi.reshape(x, (n, block, block, c, h, w))
        turned = topi.transpose(parts, (0, 3, 4, 1, 5, 2))
    else:
        parts = topi.reshape(x, (n, c, block, block, h, w))
        turned = topi.transpose(parts, (0, 1, 4, 2, 5, 3))
    return topi.reshape(turned, (n, c, h * block, w * block))


def _space_to_depth(x: Tensor, block: int) -> Tensor:
    n, c, h, w = (int(d) for d in x.shape)
    parts = topi.reshape(x, (n, c, h // block, block, w // block, block))
    turned = topi.transpose(parts, (0, 3, 5, 1, 2, 4))
    return topi.reshape(turned, (n, c * block * block, h // block, w // block))


def _one_hot(indices: Tensor, depth: int, values: Sequence[float], axis: int, dtype: str) -> Tensor:
    """``values`` are (off, on); a negative index counts from the end."""
    rank = len(indices.shape) + 1
    axis += rank if axis < 0 else 0
    shape = [*indices.shape[:axis], depth, *indices.shape[axis:]]
    off, on = (const(v, dtype) for v in values)

    def element(*i: Any) -> Any:
        at = te.cast("int64", indices(*i[:axis], *i[axis + 1 :]))
        place = te.select(at < 0, at + depth, at)
        return te.select(place.equal(te.cast("int64", i[axis])), on, off)

    return te.compute(tuple(shape), element, "T_one_hot", topi.tag.INJECTIVE)


def _take(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Parts along an axis; a negative index counts from the end."""
    n = int(x.shape[axis])
    zero = const(0, indices.dtype)
    counted = topi.where(
        topi.less(indices, zero), topi.add(indices, const(n, indices.dtype)), indices
    )
    return topi.take(x, counted, axis)


OPERATORS: dict[str, Callable[..., Any]] = {
    "concat": _concat,
    "depth_to_space": _depth_to_space,
    "expand": lambda x, shape: topi.broadcast_to(x, shape),
    "flip": topi.flip,
    "gather": lambda x, indices, axis: topi.gather(x, axis, indices),
    "gather_nd": lambda x, indices, batch_dims=0: _gather_nd(x, indices, batch_dims),
    "one_hot": _one_hot,
    "pad": _pad,
    "reshape": lambda x, shape: topi.reshape(x, shape),
    "slice": _slice,
    "space_to_depth": _space_to_depth,
    "take": _take,
    "tile": lambda x, repeats: topi.tile(x, repeats),
    "transpose": lambda x, axes: topi.transpose(x, axes),
    "trilu": _trilu,
}
"""Name -> function."""


def _gather_nd(x: Tensor, indices: Tensor, batch_dims: int) -> Tensor:
    """ONNX's: the index of an element is the last dimension of ``indices``."""
    rank, depth = len(indices.shape), int(indices.shape[-1])
    kept = range(batch_dims, rank - 1)

    def element(*i: Any) -> Any:
        batch, own, rest = i[:batch_dims], i[: rank - 1], i[rank - 1 :]
        at = []
        for k in range(depth):
            place = te.cast("int64", indices(*own, k))
            n = x.shape[batch_dims + k]
            at.append(te.max(te.min(te.select(place < 0, place + n, place), n - 1), 0))
        return x(*batch, *at, *rest)

    shape = (*indices.shape[:batch_dims], *[indices.shape[k] for k in kept])
    shape += tuple(x.shape[batch_dims + depth :])
    return te.compute(shape, element, "T_gather_nd", topi.tag.INJECTIVE)
