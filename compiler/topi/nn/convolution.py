"""Convolutions of any rank, channels first or last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, reduce_axis
from whet.compiler.tir import IterVar
from whet.compiler.topi.half_precision import stored, sum_of_products
from whet.compiler.topi.nn.windows import padded, windows_of
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
