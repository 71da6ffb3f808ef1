"""The templates of depthwise convolutions: their arguments, and the weights as both read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from whet.compiler import te
from whet.compiler.te import Schedule, Tensor
from whet.search_spaces.operators.arguments import operator
from whet.search_spaces.operators.cpu.conv.shape import ConvShape
from whet.search_spaces.template import Template

_ARGUMENTS = "N C H W KH KW strides padding dilation multiplier dtype epilogue packed"

_HOW = """

    Args:
        strides, dilation: an int, or (vertical, horizontal).
        padding: zeros; an int, (vertical, horizontal), or (top, left, bottom, right).
        multiplier: results of a channel.
        dtype: of data, weights and sums: float32 or float64. On GPUs also float16, which is summed
            up in float32, and int8 and uint8, whose results are int32.
        epilogue: steps of :class:`~whet.compiler.topi.nn.epilogue.Epilogue`.
        packed: the kernel takes the weights as ``pack_weights`` returns them.
    """


def depthwise(layout: str) -> Callable[[Callable[..., Any]], Template]:
    """Decorator: a depthwise convolution's template from a function of its shape.

    The function takes the shape, the multiplier, the epilogue and ``packed``.
    """

    def decorate(schedule: Callable[..., Any]) -> Template:
        @wraps(schedule)
        def run(**given: Any) -> Any:
            return schedule(*depthwise_arguments(schedule.__name__, layout, [*given.values()]))

        run.__doc__ = (schedule.__doc__ or "") + _HOW
        return operator(_ARGUMENTS, rank=2)(run)

    return decorate


def depthwise_arguments(
    name: str, layout: str, args: Sequence[Any]
) -> tuple[ConvShape, int, Any, bool]:
    """The convolution, the multiplier, the epilogue and ``packed`` of a template's arguments.

    Every channel is a group with ``multiplier`` results.

    Args:
        name, layout: as for :meth:`ConvShape.of`.
        args: N, C, H, W, KH, KW, strides, padding, dilation, multiplier, dtype, epilogue, packed.

    Raises:
        ArgumentError: as :meth:`ConvShape.of`.
    """
    batch, channels, h, w, kh, kw, strides, padding, dilation, multiplier, dtype, *last = args
    image, window = (h, w), (kh, kw)
    asked = (
        f"{name}(N={batch}, C={channels}, image={image}, window={window}, strides={strides}, "
        f"padding={padding}, dilation={dilation}, multiplier={multiplier})"
    )
    shape = ConvShape.of(
        name, layout, batch, channels, image, channels * multiplier, window,
        strides, padding, dilation, max(channels, 1), dtype, asked,
    )  # fmt: skip
    epilogue, packed = last
    return shape, multiplier, epilogue, packed


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


def place_taps(s: Schedule, stage: Tensor, packed: bool) -> None:
    """Read weights as they come, which is in order already, or as they are packed ahead."""
    if packed:
        s[stage].compute_ahead()
    else:
        s[stage].compute_inline()
