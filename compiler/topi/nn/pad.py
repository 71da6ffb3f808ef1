"""Padding, with a constant or elements of the tensor itself; gaps; blocks of padded axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from math import prod
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute
from whet.compiler.tir import PrimExpr
from whet.compiler.tir.ops.ops import all_of, cast, const, if_then_else, minimum, negate, select
from whet.compiler.topi.shapes import (
    is_at_least,
    is_constant,
    is_zero,
    nearest_inside,
    remainder,
    static,
)
from whet.compiler.topi.tag import INJECTIVE
from whet.compiler.topi.transform import reshape, strided_slice, transpose


def pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    pad_value: float | PrimExpr = 0.0,
    name: str = "pad",
    attrs: dict[str, Any] | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    """``data``, ``pad_before[d]`` elements in front of dimension ``d``, ``pad_after[d]`` behind it.

    Args:
        data: any tensor.
        pad_before, pad_after: one int >= 0 a dimension; the latter is the former unless given.
        pad_value: what the new elements are in mode ``"constant"``.
        name, attrs: of the operation.
        mode: numpy's ``"constant"``, ``"edge"`` (the nearest element), ``"reflect"`` (mirrored at
            the last element), ``"symmetric"`` (mirrored behind it), ``"wrap"`` (the other end).

    Raises:
        ArgumentError: numbers that do not fit the dimensions, or another mode.
    """
    before, after = pad_before, pad_before if pad_after is None else pad_after
    request = f"pad({data.name}, {list(before)}, {list(after)})"
    if len(before) != data.ndim or len(after) != data.ndim:
        raise ArgumentError(
            request, f"{data.name} has {data.ndim} dimensions: give as many numbers"
        )
    if min([*before, *after], default=0) < 0:
        raise ArgumentError(request, "padding must not be negative")
    shape = [d + (b + a) for d, b, a in zip(data.shape, before, after)]
    if mode != "constant":
        return _mirrored(data, tuple(before), tuple(after), mode, shape, name, attrs)
    if isinstance(pad_value, PrimExpr):
        value = cast(data.dtype, pad_value)
    else:
        value = const(pad_value, data.dtype)

    def element(*index: PrimExpr) -> PrimExpr:
        tests = []
        source = []
        for i, d, b, a in zip(index, data.shape, before, after):
            source.append(i - b if b else i)
            if b:
                tests.append(i >= b)
            if a:
                tests.append(i < d + b)
        inside = data(*source)
        if not tests:
            return inside
        return if_then_else(te.all(*tests), inside, value)

    return compute(shape, element, name, "injective,pad", attrs=attrs)


def _reflect(x: Any, n: Any) -> Any:
    back = select(x < 0, negate(x), x)
    return minimum(back, (n - 1) * 2 - back)


def _symmetric(x: Any, n: Any) -> Any:
    back = select(x < 0, const(-1) - x, x)
    return minimum(back, n * 2 - 1 - back)


# mode -> from a place outside to the one inside; and from an extent to the most that may be padded
_MODES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[int], int]]] = {
    "edge": (nearest_inside, lambda n: 2**31 if n else 0),
    "reflect": (_reflect, lambda n: max(n - 1, 0)),
    "symmetric": (_symmetric, lambda n: n),
    "wrap": (remainder, lambda n: 2**31 if n else 0),
}


def _mirrored(
    data: Tensor,
    before: tuple[int, ...],
    after: tuple[int, ...],
    mode: str,
    shape: Sequence[Any],
    name: str,
    attrs: dict[str, Any] | None,
) -> Tensor:
    request = f"pad({data.name}, {list(before)}, {list(after)}, mode={mode!r})"
    if mode not in _MODES:
        raise ArgumentError(
            request, "there is no such mode", f"modes: constant, {', '.join(_MODES)}"
        )
    inside, most = _MODES[mode]
    for k, (d, b, a) in enumerate(zip(data.shape, before, after)):
        many = max(b, a)
        if not is_constant(d):
            # an open size is surely large enough, or has to be a number
            if many and not is_at_least(d, next(n for n in count() if many <= most(n))):
                static(d, request)
        elif many > most(int(d)):
            raise ArgumentError(
                request,
                f"dimension {k} of {d} elements has no {many} to repeat",
                f"at most {most(int(d))} here, or mode='constant'",
            )

    def element(*index: PrimExpr) -> PrimExpr:
        parts = zip(index, data.shape, before, after)
        return data(*[inside(i - b, d) if b or a else i for i, d, b, a in parts])

    return compute(shape, element, name, INJECTIVE, attrs=attrs)


def mirror_pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    mode: str = "SYMMETRIC",
    name: str = "MirrorPadInput",
) -> Tensor:
    """Padding that is mirrored, at the last element (``"REFLECT"``) or behind it (``"SYMMETRIC"``).

    Raises:
        ArgumentError: another mode, or more than there is to mirror.
    """
    if mode not in ("REFLECT", "SYMMETRIC"):
        raise ArgumentError(
            f"mirror_pad({data}, mode={mode!r})", "modes are 'REFLECT' and 'SYMMETRIC'"
        )
    return pad(data, pad_before, pad_after, name=name, mode=mode.lower())


def reflect_pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    name: str = "ReflectPadInput",
) -> Tensor:
    """Padding that is mirrored at the last element, which is not repeated."""
    return pad(data, pad_before, pad_after, name=name, mode="reflect")


def replicate_pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    name: str = "ReplicatePadInput",
) -> Tensor:
    """Padding that repeats the nearest element."""
    return pad(data, pad_before, pad_after, name=name, mode="edge")


def circular_pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    name: str = "CircularPadInput",
) -> Tensor:
    """Padding with what stands at the other end."""
    return pad(data, pad_before, pad_after, name=name, mode="wrap")


def dilate(
    data: Tensor,
    strides: Sequence[int],
    dilation_value: float = 0.0,
    name: str = "DilatedInput",
) -> Tensor:
    """``data`` with ``strides[d] - 1`` times ``dilation_value`` between two neighbours along ``d``.

    Raises:
        ArgumentError: not one stride for each dimension, or one below 1.
    """
    if len(strides) != data.ndim or any(x < 1 for x in strides):
        raise ArgumentError(
            f"dilate({data}, {list(strides)})", f"give {data.ndim} strides, at least 1"
        )

    def element(*i: Any) -> Any:
        hit = [(x % k).equal(0) for x, k in zip(i, strides) if k > 1]
        one = data(*[x // k if k > 1 else x for x, k in zip(i, strides)])
        if not hit:
            return one
        return if_then_else(all_of(*hit), one, const(dilation_value, data.dtype))

    shape = [d if is_zero(d) else (d - 1) * k + 1 for d, k in zip(data.shape, strides)]
    return compute(shape, element, name, f"{INJECTIVE},dilate")


def space_to_batch_nd(
    data: Tensor,
    block_shape: Sequence[int],
    pad_before: Sequence[int],
    pad_after: Sequence[int],
    pad_value: float = 0.0,
) -> Tensor:
    """Blocks of the axes behind the first put into the batch.

    Args:
        data: (N, spatial ..., rest ...).
        block_shape: the block along each spatial axis.
        pad_before, pad_after: elements added to each spatial axis before it is cut.
        pad_value: what they hold.

    Returns:
        (N * product of the blocks, padded extent / block ..., rest ...).

    Raises:
        ArgumentError: a block does not divide what it cuts.
    """
    request, rank = f"space_to_batch_nd({data}, {list(block_shape)})", len(block_shape)
    over = [0] * (data.ndim - rank - 1)
    wide = pad(data, [0, *pad_before, *over], [0, *pad_after, *over], pad_value)
    n, *sizes = (static(d, request) for d in wide.shape)
    if any(b < 1 or size % b for size, b in zip(sizes, block_shape)):
        raise ArgumentError(request, f"the blocks do not divide {sizes[:rank]}")
    cut = [x for size, b in zip(sizes, block_shape) for x in (size // b, b)]
    outer, inner = range(1, 2 * rank, 2), range(2, 2 * rank + 1, 2)
    rest = range(2 * rank + 1, 2 * rank + 1 + len(over))
    parts = transpose(reshape(wide, (n, *cut, *sizes[rank:])), (*inner, 0, *outer, *rest))
    return reshape(parts, (n * prod(block_shape), *cut[::2], *sizes[rank:]))


def batch_to_space_nd(
    data: Tensor,
    block_shape: Sequence[int],
    crop_begin_list: Sequence[int],
    crop_end_list: Sequence[int],
) -> Tensor:
    """The inverse of :func:`space_to_batch_nd`: blocks of the batch put into the axes behind it.

    Args:
        data: (N * product of the blocks, spatial ..., rest ...).
        block_shape: the block along each spatial axis.
        crop_begin_list, crop_end_list: elements taken from each spatial axis in the end.

    Raises:
        ArgumentError: the blocks do not divide the batch.
    """
    request, rank = f"batch_to_space_nd({data}, {list(block_shape)})", len(block_shape)
    n, *sizes = (static(d, request) for d in data.shape)
    if min(block_shape) < 1 or n % prod(block_shape):
        raise ArgumentError(request, f"the blocks do not divide a batch of {n}")
    n //= prod(block_shape)
    order = [rank, *(x for k in range(rank) for x in (rank + 1 + k, k))]
    order += range(2 * rank + 1, rank + 1 + len(sizes))
    parts = transpose(reshape(data, (*block_shape, n, *sizes)), order)
    whole = [size * b for size, b in zip(sizes, block_shape)]
    made = reshape(parts, (n, *whole, *sizes[rank:]))
    begin = [0, *crop_begin_list]
    end = [n, *(size - c for size, c in zip(whole, crop_end_list))]
    return strided_slice(made, [*begin, *[0] * len(sizes[rank:])], [*end, *sizes[rank:]])
