"""The templates of convolutions for CPUs: several algorithms compete in one space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Tensor
from whet.search_spaces.operators.arguments import operator, padding_each, summed_dtype
from whet.search_spaces.operators.cpu.conv import channels_last, direct_nchw
from whet.search_spaces.operators.cpu.conv.algorithms import convolution
from whet.search_spaces.operators.cpu.conv.shape import ConvShape, checked_blocks
from whet.search_spaces.operators.cpu.conv.transposed_phases import Phases
from whet.search_spaces.operators.cpu.gemm.plan import define_threads
from whet.search_spaces.template import Template
from whet.search_spaces.template.config_scope import get_config

Scheduled = tuple[Schedule, list[Tensor]]
Convolution = Callable[..., Scheduled]
"""From the shape, the epilogue, ``packed`` and what else there is to the schedule."""

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


def of_layout(layout: str, more: str = "", version: int = 1) -> Callable[[Convolution], Template]:
    """Decorator: a convolution's template from a function of its shape.

    Args:
        layout: of the data; its letters name the arguments: ``N CI H W CO KH KW strides ...``.
        more: names of arguments that come last.
        version: the template's.
    """
    space = layout.upper().replace("N", "").replace("C", "")
    image, window = " ".join(space), " ".join(f"K{d}" for d in space)
    how = "strides padding dilation groups dtype epilogue packed"
    names = f"N CI {image} CO {window} {how} {more}"

    def decorate(schedule: Convolution) -> Template:
        def run(**given: Any) -> Scheduled:
            last = [given.pop(name) for name in more.split()]
            shape = ConvShape.of_arguments(schedule.__name__, layout, list(given.values()))
            return schedule(*shape, *last)

        run.__name__ = run.__qualname__ = schedule.__name__
        run.__doc__ = (schedule.__doc__ or "") + _HOW
        return operator(names, version=version, rank=len(space))(run)

    return decorate


@of_layout("NCW")
def conv1d_ncw(shape: ConvShape, epilogue: tuple, packed: bool) -> Scheduled:
    """The convolution of data (N, CI, W) with weights (CO, CI / groups, KW): (N, CO, OW)."""
    return convolution(shape, epilogue, packed)


@of_layout("NCHW", version=2)
def conv2d_nchw(shape: ConvShape, epilogue: tuple, packed: bool) -> Scheduled:
    """The convolution of data (N, CI, H, W) with weights (CO, CI / groups, KH, KW).

    The result is (N, CO, OH, OW)."""
    return convolution(shape, epilogue, packed)


@of_layout("NHWC")
def conv2d_nhwc(shape: ConvShape, epilogue: tuple, packed: bool) -> Scheduled:
    """The convolution of data (N, H, W, CI) with weights (KH, KW, CI / groups, CO).

    The result is (N, OH, OW, CO)."""
    return convolution(shape, epilogue, packed)


@of_layout("NCDHW")
def conv3d_ncdhw(shape: ConvShape, epilogue: tuple, packed: bool) -> Scheduled:
    """The convolution of data (N, CI, D, H, W) with weights (CO, CI / groups, KD, KH, KW).

    The result is (N, CO, OD, OH, OW)."""
    return convolution(shape, epilogue, packed)


@of_layout("NCHWc", more="block")
def conv2d_nchwc(shape: ConvShape, epilogue: tuple, packed: bool, block: int) -> Scheduled:
    """The convolution of data (N, CI / block, H, W, block) with weights (CO, CI / groups, KH, KW).

    The result is (N, CO / block, OH, OW, block); a block divides both channels of a group."""
    checked_blocks(shape, block)
    summed_dtype(shape.request, shape.dtype)
    cfg = get_config()
    target = Target.current() or Target("llvm")
    cfg.add_flop(shape.flop)
    cfg.define_knob("algorithm", ["direct", "im2col"] if shape.groups == 1 else ["direct"])
    channels_last.define(cfg, shape, target, block)
    define_threads(cfg, target, shape.flop // 2)
    blocks = (shape.batch, shape.ci // block, *shape.image, block)
    data = te.placeholder(blocks, shape.dtype, name="data")
    weight = te.placeholder(shape.weight_shape, shape.dtype, name="weight")
    return channels_last.schedule(cfg, shape, data, weight, epilogue, packed, block)


@operator(
    "N CI H W CO KH KW strides padding output_padding dtype epilogue packed",
    rank=2,
    padding=padding_each(2),
    output_padding=padding_each(2),
)
def conv2d_transpose_nchw(epilogue: tuple, packed: bool, **given: Any) -> Scheduled:
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
    phases = Phases.of(**given)
    shape = phases.shape
    summed_dtype(shape.request, shape.dtype)
    cfg = get_config()
    target = Target.current() or Target("llvm")
    cfg.add_flop(phases.flop)
    direct_nchw.define(cfg, shape, target)
    define_threads(cfg, target, shape.flop // 2)
    data = te.placeholder((shape.batch, shape.ci, *phases.image), shape.dtype, name="data")
    sizes = (shape.ci, phases.channels, *phases.window)
    weight = te.placeholder(sizes, shape.dtype, name="weight")
    seen = phases.seen(data)
    schedule, args = direct_nchw.schedule(
        cfg, shape, seen, weight, epilogue, packed, phases.weight(weight), phases.result
    )
    if seen is data:
        return schedule, args
    schedule[seen].compute_inline()
    return schedule, [data, *args[1:]]
