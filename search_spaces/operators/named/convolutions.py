"""The templates of convolutions for CPUs: what each computes. Rules schedule it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler import te
from whet.compiler.topi.nn.transposed import transposed_convolution
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.graph.compute_graph import ComputeGraph
from whet.search_spaces.graph.stages import computed_ahead
from whet.search_spaces.operators.arguments import accumulated, padding_each, summed_dtype
from whet.search_spaces.operators.conv_arguments import (
    checked_blocks,
    conv_arguments,
    depthwise_arguments,
)
from whet.search_spaces.operators.conv_graphs import blocked, depthwise_sums, sums, taps
from whet.search_spaces.operators.graph_operator import after_epilogue, graph_operator
from whet.search_spaces.template import Template

_HOW = """

    Args:
        strides, dilation: an int, or one for each spatial dimension, which the workload holds.
        padding: zeros around the image: an int, one for each spatial dimension, or two: those in
            front of each, then those behind.
        groups: of channels, each convolved by itself.
        dtype: of data, weights and sums: float32 or float64. On GPUs also float16, which is summed
            up in float32, and int8 and uint8, whose results are int32.
        epilogue: what is done to each element before it is stored (``Epilogue.of``).
        packed: pack the weights ahead of the kernel's calls (``Module.pack_weights``).

    Raises:
        ArgumentError: negative padding, groups that do not divide the channels, a window larger
            than the padded image, another dtype, an unknown epilogue.
    """


_DEPTHWISE = "N C H W KH KW strides padding dilation multiplier dtype epilogue packed"
_DEPTHWISE_HOW = """

    Args:
        strides, dilation: an int, or (vertical, horizontal).
        padding: zeros; an int, (vertical, horizontal), or (top, left, bottom, right).
        multiplier: results of a channel.
        dtype: of data, weights and sums: float32 or float64. On GPUs also float16, which is summed
            up in float32, and int8 and uint8, whose results are int32.
        epilogue: steps of :class:`~whet.compiler.topi.nn.epilogue.Epilogue`.
        packed: the kernel takes the weights as ``pack_weights`` returns them.
    """


def _template(layout: str, version: int = 1) -> Callable[[Callable[..., None]], Template]:
    """Decorator: a convolution's template under the name and with the words of a function.

    Args:
        layout: of the data; its letters name the arguments: ``N CI H W CO KH KW strides ...``.
        version: the template's.
    """
    space = layout.upper().replace("N", "").replace("C", "")
    image, window = " ".join(space), " ".join(f"K{d}" for d in space)
    how = "strides padding dilation groups dtype epilogue packed"
    names = f"N CI {image} CO {window} {how}" + (" block" if layout == "NCHWc" else "")

    def decorate(function: Callable[..., None]) -> Template:
        def run(block: int = 0, **given: Any) -> ComputeGraph:
            args = conv_arguments(function.__name__, layout, [*given.values()])
            return _convolution(*args, block)

        run.__name__ = run.__qualname__ = function.__name__
        run.__doc__ = (function.__doc__ or "") + _HOW
        run.__module__ = function.__module__
        return graph_operator(names, version=version, rank=len(space))(run)

    return decorate


@_template("NCW")
def conv1d_ncw() -> None:
    """The convolution of data (N, CI, W) with weights (CO, CI / groups, KW): (N, CO, OW)."""


@_template("NCHW", version=2)
def conv2d_nchw() -> None:
    """The convolution of data (N, CI, H, W) with weights (CO, CI / groups, KH, KW).

    The result is (N, CO, OH, OW)."""


@_template("NHWC")
def conv2d_nhwc() -> None:
    """The convolution of data (N, H, W, CI) with weights (KH, KW, CI / groups, CO).

    The result is (N, OH, OW, CO)."""


@_template("NCDHW")
def conv3d_ncdhw() -> None:
    """The convolution of data (N, CI, D, H, W) with weights (CO, CI / groups, KD, KH, KW).

    The result is (N, CO, OD, OH, OW)."""


@_template("NCHWc")
def conv2d_nchwc() -> None:
    """The convolution of data (N, CI / block, H, W, block) with weights (CO, CI / groups, KH, KW).

    The result is (N, CO / block, OH, OW, block); a block divides both channels of a group."""


@graph_operator(
    "N CI H W CO KH KW strides padding output_padding dtype epilogue packed",
    rank=2,
    padding=padding_each(2),
    output_padding=padding_each(2),
)
def conv2d_transpose_nchw(epilogue: tuple, packed: bool, **given: Any) -> ComputeGraph:
    """The transposed convolution of data (N, CI, H, W) with weights (CI, CO, KH, KW).

    The result is (N, CO, OH, OW) with OH = (H - 1) * stride - 2 * padding + KH + output padding: a
    plain convolution for each phase of the strides.

    Args:
        strides: how far the windows of two neighbouring pixels are apart: an int, or (vertical,
            horizontal); the workload holds pairs.
        padding: what is cut off on each side: an int, or (vertical, horizontal).
        output_padding: rows and columns added at the bottom and the right, fewer than the strides.
        dtype: of data, weights and sums: float32 or float64. On GPUs also float16, which is summed
            up in float32, and int8 and uint8, whose results are int32.
        epilogue: what is done to each element before it is stored (``Epilogue.of``).
        packed: pack the weights ahead of the kernel's calls (``Module.pack_weights``).

    Raises:
        ArgumentError: negative padding, padding that leaves no result, output padding as large as
            the strides, another dtype, an unknown epilogue.
    """
    n, ci, h, w, co, kh, kw, strides, padding, more, dtype = given.values()
    request = (
        f"conv2d_transpose_nchw(N={n}, CI={ci}, image={(h, w)}, CO={co}, window={(kh, kw)}, "
        f"strides={strides}, padding={padding}, output_padding={more})"
    )
    summed_dtype(request, dtype)
    data = te.placeholder((n, ci, h, w), dtype, name="data")
    weight = te.placeholder((ci, co, kh, kw), dtype, name="weight")
    ahead = {"ahead": computed_ahead} if packed else {}
    sums, _ = accumulated(dtype)
    conv = transposed_convolution(
        data, weight, strides, padding, more, sums, "conv2d_transpose_nchw", **ahead
    )
    flop = 2 * n * ci * h * w * co * kh * kw
    return after_epilogue(conv, epilogue, 1, [data, weight], flop)


def _depthwise(layout: str) -> Callable[[Callable[..., None]], Template]:
    """Decorator: a depthwise convolution's template, as :func:`_template`."""

    def decorate(function: Callable[..., None]) -> Template:
        def run(**given: Any) -> ComputeGraph:
            args = depthwise_arguments(function.__name__, layout, [*given.values()])
            shape, data, weight, epilogue, packed = args
            summed_dtype(shape.request, shape.dtype)
            own = taps(shape, weight)
            conv = depthwise_sums(shape, data, computed_ahead(own) if packed else own)
            return after_epilogue(conv, epilogue, shape.channel_axis, [data, weight], shape.flop)

        run.__name__ = run.__qualname__ = function.__name__
        run.__doc__ = (function.__doc__ or "") + _DEPTHWISE_HOW
        run.__module__ = function.__module__
        return graph_operator(_DEPTHWISE, rank=2)(run)

    return decorate


@_depthwise("NCHW")
def depthwise_conv2d_nchw() -> None:
    """Each channel of data (N, C, H, W) with its own windows, weights (C, multiplier, KH, KW).

    The result is (N, C * multiplier, OH, OW): channel ``c * multiplier + m`` is channel ``c`` with
    window ``m``."""


@_depthwise("NHWC")
def depthwise_conv2d_nhwc() -> None:
    """Each channel of data (N, H, W, C) with its own windows, weights (KH, KW, C, multiplier).

    The result is (N, OH, OW, C * multiplier): channel ``c * multiplier + m`` is channel ``c`` with
    window ``m``."""


def _convolution(shape: ConvShape, epilogue: Any, packed: bool, block: int) -> ComputeGraph:
    """The graph of a convolution.

    Args:
        shape: in any layout.
        epilogue: what is done to each element before it is stored.
        packed: pack the weights ahead of the kernel's calls.
        block: channels of a block of NCHWc; else 0.
    """
    summed_dtype(shape.request, shape.dtype)
    if block:
        checked_blocks(shape, block)
    data = te.placeholder(blocked(shape.data_shape, block), shape.dtype, name="data")
    weight = te.placeholder(shape.weight_shape, shape.dtype, name="weight")
    own = computed_ahead(weight) if packed else weight

    def from_hwio(o: Any, c: Any, *place: Any) -> Any:
        return own(*place, c, o)

    conv = sums(shape, data, from_hwio if shape.channels_last else own, block)
    channels = (1, 4) if block else shape.channel_axis
    return after_epilogue(conv, epilogue, channels, [data, weight], shape.flop)
