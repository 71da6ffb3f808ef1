"""A transposed convolution as a plain one: each phase of the strides is a part of its channels.

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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.operators.arguments import each
from whet.search_spaces.operators.conv_arguments import conv_shape
from whet.search_spaces.rules.cpu.gemm.stages import or_zero


@dataclass(frozen=True)
class Phases:
    """A transposed convolution; :meth:`of` makes and checks one.

    Attributes:
        shape: the plain convolution of all phases, at stride 1.
        image: the data's height and width, of which ``begin`` and what is behind are not read.
        channels: of the result. window, strides, padding: of the transposed convolution.
        sizes: height and width of the result.
        first: the phases' rows and columns that the padding cuts off.
        begin: the first row and column of the data that the result is made of.
    """

    shape: ConvShape
    image: tuple[int, ...]
    channels: int
    window: tuple[int, int]
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    sizes: tuple[int, ...]
    first: tuple[int, ...]
    begin: tuple[int, ...]

    @staticmethod
    def of(
        N: int,
        CI: int,
        H: int,
        W: int,
        CO: int,
        KH: int,
        KW: int,
        strides: Any,
        padding: Any,
        output_padding: Any,
        dtype: str,
    ) -> Phases:
        """The phases of the template's arguments.

        Raises:
            ArgumentError: padding that leaves no result, output padding as large as the strides.
        """
        request = (
            f"conv2d_transpose_nchw(N={N}, CI={CI}, image={(H, W)}, CO={CO}, window={(KH, KW)}, "
            f"strides={strides}, padding={padding}, output_padding={output_padding})"
        )
        s = each(request, "strides", strides, 2, 1)
        p = each(request, "padding", padding, 2, 0)
        more = each(request, "output_padding", output_padding, 2, 0)
        for stride, extra in zip(s, more):
            if extra >= stride:
                raise ArgumentError(
                    request, f"output padding {extra} is not below the stride {stride}", "lower it"
                )
        sizes = tuple(
            (n - 1) * t - 2 * c + k + e for n, t, c, k, e in zip((H, W), s, p, (KH, KW), more)
        )
        if min(sizes) < 1:
            raise ArgumentError(
                request, f"the result would be {sizes[0]}x{sizes[1]}", "pad by less"
            )
        window = tuple(-(-k // t) for k, t in zip((KH, KW), s))
        first = tuple(c // t for c, t in zip(p, s))
        rows = tuple((n - 1 + c) // t - f + 1 for n, c, t, f in zip(sizes, p, s, first))
        before = tuple(max(0, k - 1 - f) for k, f in zip(window, first))
        after = tuple(max(0, r + f - n) for r, f, n in zip(rows, first, (H, W)))
        begin = tuple(max(0, f + 1 - k) for k, f in zip(window, first))
        image = tuple(min(n, r + f) - b for n, r, f, b in zip((H, W), rows, first, begin))
        shape = conv_shape(
            "conv2d_transpose_nchw", "NCHW", N, CI, image, s[0] * s[1] * CO, window, 1,
            (*before, *after), 1, 1, dtype, request,
        )  # fmt: skip
        return Phases(shape, (H, W), CO, (KH, KW), s, p, sizes, first, begin)

    @property
    def flop(self) -> int:
        """Arithmetic operations of the transposed convolution."""
        (h, w), (kh, kw) = self.image, self.window
        return 2 * self.shape.batch * self.shape.ci * h * w * self.channels * kh * kw

    @property
    def result_shape(self) -> tuple[int, ...]:
        """(N, CO, OH, OW)."""
        return (self.shape.batch, self.channels, *self.sizes)

    def seen(self, data: Tensor) -> Tensor:
        """The part of the data that the result is made of; the data itself where that is all."""
        if self.shape.image == self.image:
            return data
        top, left = self.begin
        return te.compute(
            self.shape.data_shape, lambda b, c, y, x: data(b, c, y + top, x + left), name="seen"
        )

    def weight(self, weight: Tensor) -> Callable[..., Any]:
        """From a phase's output channel, an input channel and a place to a weight, or to zero."""
        (kh, kw), s, window = self.window, self.strides, self.shape.window
        channels = max(self.channels, 1)  # without any, this is never read

        def at(o: Any, c: Any, u: Any, v: Any) -> Any:
            phase = o // channels
            ky = phase // s[1] + s[0] * (window[0] - 1 - u)
            kx = phase % s[1] + s[1] * (window[1] - 1 - v)
            tests = [ky < kh] if kh % s[0] else []
            tests += [kx < kw] if kw % s[1] else []
            return or_zero(weight(c, o % channels, ky, kx), tests)

        return at

    def result(self, sums: Tensor) -> Tensor:
        """The phases' sums in the order of the result."""
        s, p, first = self.strides, self.padding, self.first

        def element(b: Any, o: Any, y: Any, x: Any) -> Any:
            y, x = y + p[0], x + p[1]
            phase = y % s[0] * s[1] + x % s[1]
            return sums(b, phase * self.channels + o, y // s[0] - first[0], x // s[1] - first[1])

        return te.compute(self.result_shape, element, name="result")
