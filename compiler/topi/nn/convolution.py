"""Convolutions of any rank, channels first or last, and their transposes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.tir import IterVar
from whet.compiler.tir.ops import ops
from whet.compiler.topi.halves import stored, summed_in
from whet.compiler.topi.nn.padding import windows
from whet.compiler.topi.pad import pad
from whet.compiler.topi.shapes import quotient, static


def convolution(
    data: Tensor,
    weight: Tensor,
    strides: object,
    padding: Any,
    dilation: object,
    groups: int,
    out_dtype: str | None,
    channels_last: bool,
    operator: str,
    name: str = "conv",
) -> Tensor:
    """What the convolutions of all ranks and layouts have in common.

    Args:
        data: (N, C, spatial ...), or (N, spatial ..., C).
        weight: (O, C / groups, window ...), or (window ..., C / groups, O).
        strides, dilation: an int, or one for each spatial dimension.
        padding: an int, one for each spatial dimension, two (those in front, then those behind),
            ``"VALID"`` or ``"SAME"``.
        groups: of channels, each convolved by itself.
        out_dtype: what is summed up and returned; ``data``'s by default.
        channels_last: the layout.
        operator: its name, for errors and as a tag.
        name: of the result.

    Raises:
        ArgumentError: if shapes, strides, padding or groups do not fit.
    """
    asked = f"{operator}({data}, {weight}, strides={strides}, padding={padding})"
    rank = data.ndim - 2
    if weight.ndim != data.ndim or rank < 1:
        raise ArgumentError(asked, "data and weight must have the same number of dimensions")
    first = 1 if channels_last else 2
    window = weight.shape[:rank] if channels_last else weight.shape[2:]
    ci = data.shape[-1] if channels_last else data.shape[1]
    per, co = weight.shape[-2:] if channels_last else reversed(weight.shape[:2])
    _check_groups(groups, ci, per, co, asked)
    steps, spread = (
        _each(v, w, rank, 1) for v, w in ((strides, "strides"), (dilation, "dilation"))
    )
    reach = [(static(k, asked) - 1) * d + 1 for k, d in zip(window, spread)]
    before, after = _sides(padding, reach)
    image = data.shape[first : first + rank]
    out = [
        windows(n, k, s, b + a, asked)
        for n, k, s, b, a in zip(image, reach, steps, before, after, strict=True)
    ]
    padded = _padded(data, first, before, after)
    result = out_dtype or data.dtype
    kind = summed_in(result)
    channel, places = _axes(per, window)

    def element(*index: Any) -> Any:
        o = index[-1] if channels_last else index[1]
        c = channel if groups == 1 else quotient(o, co // groups) * per + channel
        at = [
            i * s + k * d for i, s, k, d in zip(index[first:], steps, places, spread, strict=False)
        ]
        if channels_last:
            one, own = padded(index[0], *at, c), weight(*places, channel, o)
        else:
            one, own = padded(index[0], c, *at), weight(o, channel, *places)
        return te.sum(ops.cast(kind, one) * ops.cast(kind, own), _order(channel, places, first))

    shape = (data.shape[0], *out, co) if channels_last else (data.shape[0], co, *out)
    return stored(te.compute(shape, element, name=name, tag=operator), result)


def transposed_convolution(
    data: Tensor,
    weight: Tensor,
    strides: object,
    padding: object,
    output_padding: object,
    out_dtype: str | None,
    operator: str,
    name: str = "conv",
) -> Tensor:
    """The transpose of a convolution: each element spreads a window; where they meet, they add.

    Args:
        data: (N, C, spatial ...).
        weight: (C, O, window ...).
        strides: how far the windows of neighbours are apart.
        padding: what is cut off on each side.
        output_padding: what is added behind, less than the strides.
        out_dtype, operator, name: as of :func:`convolution`.

    Raises:
        ArgumentError: if shapes, strides or paddings do not fit.
    """
    asked = f"{operator}({data}, {weight}, strides={strides}, padding={padding})"
    rank = data.ndim - 2
    if weight.ndim != data.ndim or rank < 1:
        raise ArgumentError(asked, "data and weight must have the same number of dimensions")
    ci, co = weight.shape[:2]
    if not ci == data.shape[1]:
        raise ArgumentError(asked, "the input channels of data and weight differ")
    steps, cut = _each(strides, "strides", rank, 1), _each(padding, "padding", rank, 0)
    more = _each(output_padding, "output_padding", rank, 0)
    window, image = [static(k, asked) for k in weight.shape[2:]], data.shape[2:]
    out = [
        (static(n, asked) - 1) * s - 2 * c + k + m
        for n, s, c, k, m in zip(image, steps, cut, window, more, strict=True)
    ]
    if min(out) < 1 or any(m >= s for m, s in zip(more, steps)):
        raise ArgumentError(
            asked, f"the result would be {out}, with output padding {more} for strides {steps}"
        )
    result = out_dtype or data.dtype
    kind = summed_in(result)
    channel, places = _axes(ci, window)

    def element(b: Any, o: Any, *index: Any) -> Any:
        offset = [i + c - k for i, c, k in zip(index, cut, places)]
        tests = [t for i, n, s in zip(offset, image, steps) for t in (i >= 0, i < n * s)]
        tests += [ops.floormod(i, s) == 0 for i, s in zip(offset, steps) if s > 1]
        inside = data(b, channel, *(ops.floordiv(i, s) for i, s in zip(offset, steps)))
        one = te.if_then_else(te.all(*tests), inside, te.const(0, data.dtype))
        own = weight(channel, o, *places)
        return te.sum(ops.cast(kind, one) * ops.cast(kind, own), [channel, *places])

    made = te.compute((data.shape[0], co, *out), element, name=name, tag=operator)
    return stored(made, result)


def _axes(channels: Any, window: Sequence[Any]) -> tuple[IterVar, list[IterVar]]:
    names = ("rz", "ry", "rx")[3 - len(window) :]
    return te.reduce_axis((0, channels), name="rc"), [
        te.reduce_axis((0, k), name=n) for k, n in zip(window, names, strict=True)
    ]


def _order(channel: IterVar, places: list[IterVar], first: int) -> list[IterVar]:
    """Reduction axes in the order of the weights."""
    return [*places, channel] if first == 1 else [channel, *places]


def _padded(data: Tensor, first: int, before: Sequence[int], after: Sequence[int]) -> Tensor:
    if not any(before) and not any(after):
        return data
    behind = data.ndim - first - len(before)
    front, back = ([0] * first + [*side] + [0] * behind for side in (before, after))
    return pad(data, front, back, name="padded")


def _check_groups(groups: int, ci: Any, per: Any, co: Any, asked: str) -> None:
    if not isinstance(groups, int) or groups < 1:
        raise ArgumentError(asked, f"groups={groups!r} must be an int, at least 1")
    if groups == 1 and not ci == per:
        raise ArgumentError(asked, "the input channels of data and weight differ")
    if groups > 1 and (
        static(ci, asked) != static(per, asked) * groups or static(co, asked) % groups
    ):
        raise ArgumentError(
            asked,
            f"{groups} groups do not divide {ci} input and {co} output channels, "
            f"{per} input channels each",
        )


def _each(value: object, what: str, rank: int, least: int) -> list[int]:
    """An int, or one for each spatial dimension, as the latter."""
    items: list[Any] = list(value) if isinstance(value, (tuple, list)) else [value] * rank
    if len(items) != rank or not all(type(v) is int for v in items):
        raise ArgumentError(f"{what}={value!r}", f"give an int, or {rank} ints")
    if min(items) < least:
        raise ArgumentError(f"{what}={value!r}", f"{what} must be at least {least}")
    return items


def _sides(padding: Any, reach: list[int]) -> tuple[list[int], list[int]]:
    """Padding in front and behind; ``"SAME"`` keeps the size at a stride of 1."""
    rank = len(reach)
    if padding == "VALID":
        return [0] * rank, [0] * rank
    if padding == "SAME":
        return [k // 2 for k in reach], [(k - 1) // 2 for k in reach]
    if isinstance(padding, str):
        raise ArgumentError(f"padding={padding!r}", "words for paddings are 'VALID' and 'SAME'")
    if isinstance(padding, (tuple, list)) and len(padding) == 2 * rank:
        sides = _each(padding, "padding", 2 * rank, 0)
        return sides[:rank], sides[rank:]
    return _each(padding, "padding", rank, 0), _each(padding, "padding", rank, 0)
