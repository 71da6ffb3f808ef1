"""The graphs of convolutions: what each computes, in any layout, for every target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.te import Tensor
from whet.search_spaces.forms.conv_layout import channel_of, channels_first, in_layout, pixel
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.operators.arguments import accumulated

Weight = Callable[..., Any]


def blocked(sizes: Sequence[int], block: int) -> tuple[int, ...]:
    """A shape with the channels first, or with blocks of them last."""
    if not block:
        return tuple(sizes)
    return (sizes[0], sizes[1] // block, *sizes[2:], block)


def sums(shape: ConvShape, data: Tensor, weight: Weight, block: int = 0) -> Tensor:
    """The sums of a convolution: the layout of the data, the type that sums are kept in.

    Args:
        data: in the layout of the shape.
        weight: (output channel, input channel of the group, place in the window...) -> a weight.
    """
    kind, _ = accumulated(shape.dtype)
    many = block or shape.ci_group
    outer = te.reduce_axis((0, shape.ci_group // many), name="co") if block else 0
    inner = te.reduce_axis((0, many), name="c")
    window = shape.window_axes()

    def element(n: Any, *rest: Any) -> Any:
        _, o, *place = channels_first(shape, (n, *rest))
        at = [
            p * s + r * d - b
            for p, s, r, d, b in zip(place, shape.strides, window, shape.dilation, shape.before)
        ]
        if block:
            channel, group = o * block + place[-1], o // max(1, shape.co_group // block)
            own = channel_of(shape, group, shape.ci_group // block, outer)
            read: Any = data(n, own, *at, inner)
        else:
            channel, group = o, shape.group_of(o)
            own = channel_of(shape, group, shape.ci_group, inner)
            read = data(n, *in_layout(shape, own, *at))
        tests = [i >= 0 for i, b in zip(at, shape.before) if b]
        tests += [i < size for i, size, a in zip(at, shape.image, shape.after) if a]
        if tests:
            read = te.if_then_else(te.all(*tests), read, te.const(0, shape.dtype))
        factor = weight(channel, outer * block + inner, *window)
        return te.sum(
            read.astype(kind) * factor.astype(kind),
            axis=[*([outer] if block else []), inner, *window],
        )

    return te.compute(blocked(shape.result_shape, block), element, name="conv")


def depthwise_sums(shape: ConvShape, data: Tensor, own: Tensor) -> Tensor:
    """The sums of a depthwise convolution, from the image with zeros around it.

    Args:
        data: in the layout of the shape.
        own: its :func:`taps`, or a copy of them.
    """
    (top, left), (sh, sw), (dh, dw) = shape.before, shape.strides, shape.dilation
    (ry, rx), (kind, _) = shape.window_axes(), accumulated(shape.dtype)

    def pixels(*index: Any) -> Any:
        n, c, y, x = channels_first(shape, index)
        return pixel(shape, data, (n, c, y - top, x - left), kind, padded=shape.is_padded)

    dims = (shape.batch, *in_layout(shape, shape.ci, *shape.padded))
    padded = te.compute(dims, pixels, name="padded")

    def element(*index: Any) -> Any:
        n, o, y, x = channels_first(shape, index)
        value = padded(n, *in_layout(shape, shape.group_of(o), y * sh + ry * dh, x * sw + rx * dw))
        return te.sum(value * own(*in_layout(shape, o, ry, rx)).astype(kind), [ry, rx])

    return te.compute(shape.result_shape, element, name="conv")


def taps(shape: ConvShape, weight: Tensor) -> Tensor:
    """The weights with a channel's number in the result as one index.

    Returns:
        (KH, KW, C * multiplier), or channels first: (C * multiplier, KH, KW).
    """
    each = int(weight.shape[3 if shape.channels_last else 1])
    if shape.channels_last:
        return te.compute(
            (*shape.window, shape.co),
            lambda ry, rx, o: weight[ry, rx, o // each, o % each],
            name="taps",
        )
    return te.compute(
        (shape.co, *shape.window),
        lambda o, ry, rx: weight[o // each, o % each, ry, rx],
        name="taps",
    )
