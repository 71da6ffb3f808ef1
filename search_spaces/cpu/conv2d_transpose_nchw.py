"""The transposed convolution for CPUs, NCHW: a plain convolution for each phase of the strides.

With strides of s, the places Y of the result whose remainders (Y + padding) % s are the same read
the same places of the window: every s-th. Each phase is a convolution at stride 1 with a window of
ceil(K / s), and all phases together are one, with s * s times the channels:

    sums[(a * s + b) * CO + o, q, r] = sum over c, u, v of padded[c, q + u, r + v]
                                       * W[c, o, a + s * (T - 1 - u), b + s * (T - 1 - v)]
    result[o, Y, X] = sums[phase(Y, X) * CO + o, (Y + ph) // s, (X + pw) // s]

The zeros that a dilated image would hold are never multiplied; a window that s does not divide is
filled up with zero weights. Padding from the window's size on cuts off all that the first and the
last pixels add to: the image is read without them.
"""

from __future__ import annotations

from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Tensor
from whet.search_spaces.config_scope import get_config
from whet.search_spaces.cpu import conv_planes
from whet.search_spaces.cpu.arguments import canonical_arguments, each, padding_each
from whet.search_spaces.cpu.conv_shape import ConvShape
from whet.search_spaces.cpu.gemm_plan import define_threads
from whet.search_spaces.template import template

_ARGUMENTS = "N CI H W CO KH KW strides padding output_padding dtype epilogue packed"
_canonical = canonical_arguments(
    "conv2d_transpose_nchw", _ARGUMENTS, rank=2, padding=padding_each, output_padding=padding_each
)


@template("conv2d_transpose_nchw", version=1, canonical=_canonical)
def conv2d_transpose_nchw(
    N: int,
    CI: int,
    H: int,
    W: int,
    CO: int,
    KH: int,
    KW: int,
    strides: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dtype: str = "float32",
    epilogue: tuple = (),
    packed: bool = False,
) -> tuple[Schedule, list[Tensor]]:
    """The transposed convolution of data (N, CI, H, W) with weights (CI, CO, KH, KW).

    The result is (N, CO, OH, OW) with OH = (H - 1) * stride - 2 * padding + KH + output padding.

    Args:
        strides: how far the windows of two neighbouring pixels are apart: an int, or (vertical,
            horizontal); the workload holds pairs.
        padding: what is cut off on each side: an int, or (vertical, horizontal).
        output_padding: rows and columns added at the bottom and the right, fewer than the strides.
        dtype: of data, weights and sums: float32 or float64.
        epilogue: what is done to each element before it is stored (``Epilogue.of``).
        packed: pack the weights ahead of the kernel's calls (``Module.pack_weights``).

    Raises:
        ArgumentError: negative padding, padding that leaves no result, output padding as large as
            the strides, another dtype, an unknown epilogue.
    """
    asked = (
        f"conv2d_transpose_nchw(N={N}, CI={CI}, image={(H, W)}, CO={CO}, window={(KH, KW)}, "
        f"strides={strides}, padding={padding}, output_padding={output_padding})"
    )
    s = each(asked, "strides", strides, 2, 1)
    p = each(asked, "padding", padding, 2, 0)
    more = each(asked, "output_padding", output_padding, 2, 0)
    for stride, extra in zip(s, more):
        if extra >= stride:
            raise ArgumentError(
                asked, f"output padding {extra} is not below the stride {stride}", "lower it"
            )
    sizes = tuple(
        (n - 1) * t - 2 * c + k + e for n, t, c, k, e in zip((H, W), s, p, (KH, KW), more)
    )
    if min(sizes) < 1:
        raise ArgumentError(asked, f"the result would be {sizes[0]}x{sizes[1]}", "pad by less")
    window = tuple(-(-k // t) for k, t in zip((KH, KW), s))
    first = tuple(c // t for c, t in zip(p, s))
    rows = tuple((n - 1 + c) // t - f + 1 for n, c, t, f in zip(sizes, p, s, first))
    before = tuple(max(0, k - 1 - f) for k, f in zip(window, first))
    after = tuple(max(0, r + f - n) for r, f, n in zip(rows, first, (H, W)))
    # the pixels that the result is made of
    begin = tuple(max(0, f + 1 - k) for k, f in zip(window, first))
    image = tuple(min(n, r + f) - b for n, r, f, b in zip((H, W), rows, first, begin))
    phases = s[0] * s[1]
    shape = ConvShape.of(
        "conv2d_transpose_nchw", "NCHW", N, CI, image, phases * CO, window, 1, (*before, *after),
        1, 1, dtype, asked,
    )  # fmt: skip
    cfg = get_config()
    target = Target.current() or Target("llvm")
    cfg.add_flop(2 * N * CI * H * W * CO * KH * KW)
    conv_planes.define(cfg, shape, target)
    define_threads(cfg, target, shape.flop // 2)
    data = te.placeholder((N, CI, H, W), dtype, name="data")
    weight = te.placeholder((CI, CO, KH, KW), dtype, name="weight")

    channels = max(CO, 1)  # without any, this is never read

    def at(o: Any, c: Any, u: Any, v: Any) -> Any:
        phase = o // channels
        ky = phase // s[1] + s[0] * (window[0] - 1 - u)
        kx = phase % s[1] + s[1] * (window[1] - 1 - v)
        tests = [ky < KH] if KH % s[0] else []
        tests += [kx < KW] if KW % s[1] else []
        inside = weight(c, o % channels, ky, kx)
        return te.if_then_else(te.all(*tests), inside, te.const(0, dtype)) if tests else inside

    def finish(sums: Tensor) -> Tensor:
        def element(b: Any, o: Any, y: Any, x: Any) -> Any:
            y, x = y + p[0], x + p[1]
            phase = y % s[0] * s[1] + x % s[1]
            return sums(b, phase * CO + o, y // s[0] - first[0], x // s[1] - first[1])

        return te.compute((N, CO, *sizes), element, name="result")

    if image == (H, W):
        return conv_planes.schedule(cfg, shape, data, weight, epilogue, packed, at, finish)
    seen = te.compute(
        shape.data_shape, lambda b, c, y, x: data(b, c, y + begin[0], x + begin[1]), name="seen"
    )
    schedule, args = conv_planes.schedule(cfg, shape, seen, weight, epilogue, packed, at, finish)
    schedule[seen].compute_inline()
    return schedule, [data, *args[1:]]
