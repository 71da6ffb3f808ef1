"""The templates of depthwise convolutions: their arguments, operands, and what they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from whet.compiler import te
from whet.compiler.te import Schedule, Tensor
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.operators.arguments import operator, summed_dtype
from whet.search_spaces.operators.cpu.conv.shape import ConvShape
from whet.search_spaces.template import Template
from whet.search_spaces.template.config_scope import get_config

Sums = tuple[Tensor, Callable[[Schedule, Tensor, Tensor], None]]
"""The sums, and what schedules them, given the schedule, the sums and the result."""

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


def depthwise(layout: str) -> Callable[[Callable[..., Sums]], Template]:
    """Decorator: a depthwise convolution's template from a function of its shape.

    The function takes the config, the shape, the data, its :func:`taps` and the multiplier.
    """

    def decorate(sums_of: Callable[..., Sums]) -> Template:
        @wraps(sums_of)
        def run(**given: Any) -> Any:
            args = depthwise_arguments(sums_of.__name__, layout, [*given.values()])
            shape, multiplier, data, weight, epilogue, packed = args
            summed_dtype(shape.request, shape.dtype)
            cfg = get_config()
            cfg.add_flop(shape.flop)
            own = taps(shape, weight)
            conv, schedule = sums_of(cfg, shape, data, own, multiplier)
            out, extras = epilogue.apply(conv, shape.channel_axis)
            s = te.create_schedule(out.op)
            if packed:
                s[own].compute_ahead()
            else:  # as they come, which is in order already
                s[own].compute_inline()
            if not shape.is_empty:
                schedule(s, conv, out)
            return s, [data, weight, *extras, out]

        run.__doc__ = (sums_of.__doc__ or "") + _HOW
        return operator(_ARGUMENTS, rank=2)(run)

    return decorate


def depthwise_arguments(
    name: str, layout: str, args: Sequence[Any]
) -> tuple[ConvShape, int, Tensor, Tensor, Epilogue, bool]:
    """The convolution, multiplier, operands, epilogue and ``packed`` of a template's arguments.

    Every channel is a group with ``multiplier`` results.

    Args:
        name, layout: as for :meth:`ConvShape.of`.
        args: N, C, H, W, KH, KW, strides, padding, dilation, multiplier, dtype, epilogue, packed.

    Raises:
        ArgumentError: as :meth:`ConvShape.of`.
    """
    batch, channels, h, w, kh, kw, strides, padding, dilation, multiplier, dtype, *last = args
    image, window = (h, w), (kh, kw)
    request = (
        f"{name}(N={batch}, C={channels}, image={image}, window={window}, strides={strides}, "
        f"padding={padding}, dilation={dilation}, multiplier={multiplier})"
    )
    shape = ConvShape.of(
        name, layout, batch, channels, image, channels * multiplier, window,
        strides, padding, dilation, max(channels, 1), dtype, request,
    )  # fmt: skip
    sizes = (*shape.window, channels, multiplier)
    if not shape.channels_last:
        sizes = (channels, multiplier, *shape.window)
    data = te.placeholder(shape.data_shape, dtype, name="data")
    weight = te.placeholder(sizes, dtype, name="weight")
    epilogue, packed = last
    return shape, multiplier, data, weight, Epilogue.of(epilogue), packed


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
