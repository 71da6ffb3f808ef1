"""Convolutions of any rank, channels first or last, and their transposes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, reduce_axis
from whet.compiler.tir import IterVar
from whet.compiler.tir.ops.ops import const, floordiv, floormod, if_then_else
from whet.compiler.topi.half_precision import stored, sum_of_products
from whet.compiler.topi.nn.windows import each, padded, windows_of
from whet.compiler.topi.shapes import quotient, remainder, static


def convolution(
    data: Tensor,
    weight: Tensor,
    strides: object,
    padding: Any,
    dilation: object,
    groups: int,
    out_dtype: str | None,
    operator: str,
    name: str = "conv",
) -> Tensor:
    """The convolution of all ranks and layouts.

    Args:
        data: (N, C, spatial ...), or (N, spatial ..., C).
        weight: (O, C / groups, window ...), or (window ..., C / groups, O).
        strides, padding, dilation: as :func:`windows_of` takes them.
        groups: of channels, each convolved by itself.
        out_dtype: what is summed up and returned; ``data``'s by default.
        operator: its name, which ends in the layout; for errors and as a tag.
        name: of the result.

    Raises:
        ArgumentError: if shapes, strides, padding or groups do not fit.
    """
    request = f"{operator}({data}, {weight}, strides={strides}, padding={padding})"
    rank, last = check_ranks(data, weight, operator, request), operator.endswith("c")
    first = 1 if last else 2
    window = weight.shape[:rank] if last else weight.shape[2:]
    ci = data.shape[-1] if last else data.shape[1]
    per, co = weight.shape[-2:] if last else reversed(weight.shape[:2])
    _check_groups(groups, ci, per, co, request)
    image = data.shape[first : first + rank]
    along = windows_of(image, window, strides, padding, dilation, request)
    source = padded(data, range(first, first + rank), along)
    result = out_dtype or data.dtype
    channel, places = _channel_axis(per), _window_axes(window)

    def element(*index: Any) -> Any:
        o = index[-1] if last else index[1]
        c = channel if groups == 1 else quotient(o, co // groups) * per + channel
        at = [w.place(i, k) for w, i, k in zip(along, index[first:], places)]
        if last:  # reduction axes in the order of the weights
            own = weight(*places, channel, o)
            return sum_of_products(result, source(index[0], *at, c), own, [*places, channel])
        own = weight(o, channel, *places)
        return sum_of_products(result, source(index[0], c, *at), own, [channel, *places])

    out = [w.count for w in along]
    shape = (data.shape[0], *out, co) if last else (data.shape[0], co, *out)
    return stored(compute(shape, element, name, operator), result)


def depthwise_convolution(
    data: Tensor,
    weight: Tensor,
    strides: object,
    padding: Any,
    dilation: object,
    out_dtype: str | None,
    operator: str,
) -> Tensor:
    """Each channel of ``data`` (N, C, H, W) with its own windows of ``weight`` (C, M, KH, KW).

    Raises:
        ArgumentError: if shapes, strides or padding do not fit.
    """
    request = f"{operator}({data}, {weight}, stride={strides}, padding={padding})"
    check_ranks(data, weight, operator, request)
    (n, c, *image), (c2, many, *window) = data.shape, weight.shape
    if not c == c2:
        raise ArgumentError(request, "the channels of data and weight differ")
    along = windows_of(image, window, strides, padding, dilation, request)
    source = padded(data, (2, 3), along)
    result, places = out_dtype or data.dtype, _window_axes(window)

    def element(b: Any, o: Any, y: Any, x: Any) -> Any:
        plane = quotient(o, many)
        at = [w.place(i, k) for w, i, k in zip(along, (y, x), places)]
        own = weight(plane, remainder(o, many), *places)
        return sum_of_products(result, source(b, plane, *at), own, places)

    shape = (n, c * many, *(w.count for w in along))
    made = compute(shape, element, "DepthwiseConv2d", operator)
    return stored(made, result)


def transposed_convolution(
    data: Tensor,
    weight: Tensor,
    strides: object,
    padding: object,
    output_padding: object,
    out_dtype: str | None,
    operator: str,
    dilation: object = 1,
) -> Tensor:
    """The transpose of a convolution: each element spreads a window; where they meet, they add.

    Args:
        data: (N, C, spatial ...).
        weight: (C, O, window ...).
        strides: how far the windows of neighbours are apart.
        padding: what is cut off on each side.
        output_padding: what is added behind, less than the strides.
        out_dtype, operator: as of :func:`convolution`.
        dilation: the distance between two elements of the window, at least 1.

    Raises:
        ArgumentError: if shapes, strides or paddings do not fit.
    """
    request = f"{operator}({data}, {weight}, strides={strides}, padding={padding})"
    rank = check_ranks(data, weight, operator, request)
    ci, co = weight.shape[:2]
    if not ci == data.shape[1]:
        raise ArgumentError(request, "the input channels of data and weight differ")
    steps, cut = each(strides, "strides", rank, 1), each(padding, "padding", rank, 0)
    more = each(output_padding, "output_padding", rank, 0)
    window, image = [static(k, request) for k in weight.shape[2:]], data.shape[2:]
    spread = each(dilation, "dilation", rank, 1)
    out = [
        (static(n, request) - 1) * s - 2 * c + (k - 1) * d + 1 + m
        for n, s, c, k, d, m in zip(image, steps, cut, window, spread, more)
    ]
    if min(out) < 1 or any(m >= s for m, s in zip(more, steps)):
        raise ArgumentError(
            request, f"the result would be {out}, with output padding {more} for strides {steps}"
        )
    result, channel, places = out_dtype or data.dtype, _channel_axis(ci), _window_axes(window)

    def element(b: Any, o: Any, *index: Any) -> Any:
        offset = [i + c - k * d for i, c, k, d in zip(index, cut, places, spread)]
        tests = [t for i, n, s in zip(offset, image, steps) for t in (i >= 0, i < n * s)]
        tests += [floormod(i, s) == 0 for i, s in zip(offset, steps) if s > 1]
        inside = data(b, channel, *(floordiv(i, s) for i, s in zip(offset, steps)))
        one = if_then_else(te.all(*tests), inside, const(0, data.dtype))
        return sum_of_products(result, one, weight(channel, o, *places), [channel, *places])

    made = compute((data.shape[0], co, *out), element, "conv", operator)
    return stored(made, result)


def check_ranks(data: Tensor, weight: Tensor, operator: str, request: str) -> int:
    """The spatial dimensions of an operator, whose name ends in its layout.

    Raises:
        ArgumentError: data or weight has other dimensions.
    """
    rank = len(operator.rpartition("_")[2]) - 2
    if data.ndim != rank + 2 or weight.ndim != rank + 2:
        many = ("three", "four", "five")[rank - 1]
        raise ArgumentError(request, f"data and weight must have {many} dimensions")
    return rank


def _channel_axis(channels: Any) -> IterVar:
    return reduce_axis((0, channels), name="rc")


def _window_axes(window: Sequence[Any]) -> list[IterVar]:
    names = ("rz", "ry", "rx")[3 - len(window) :]
    return [reduce_axis((0, k), name=n) for k, n in zip(window, names)]


def _check_groups(groups: int, ci: Any, per: Any, co: Any, request: str) -> None:
    if not isinstance(groups, int) or groups < 1:
        raise ArgumentError(request, f"groups={groups!r} must be an int, at least 1")
    if groups == 1 and not ci == per:
        raise ArgumentError(request, "the input channels of data and weight differ")
    if groups > 1 and (
        static(ci, request) != static(per, request) * groups or static(co, request) % groups
    ):
        raise ArgumentError(
            request,
            f"{groups} groups do not divide {ci} input and {co} output channels, "
            f"{per} input channels each",
        )
