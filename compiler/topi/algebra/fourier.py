"""Discrete Fourier transforms, as products with tables of cosines and sines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, reduce_axis
from whet.compiler.tir.ops import mathematics as m
from whet.compiler.tir.ops.ops import cast, const, floormod, select
from whet.compiler.topi.half_precision import stored, summed_in
from whet.compiler.topi.shapes import static
from whet.compiler.topi.tag import INJECTIVE


def dft(re_data: Tensor, im_data: Tensor, inverse: Any) -> list[Tensor]:
    """The discrete Fourier transform along the last axis, by its definition: n * n products.

    Args:
        re_data, im_data: real and imaginary parts, floating point, of one shape.
        inverse: the inverse transform, which is divided by n.

    Returns:
        Real and imaginary parts.

    Raises:
        ArgumentError: the shapes or the types differ, or there is no axis.
    """
    request = f"dft({re_data}, {im_data})"
    alike = [str(d) for d in re_data.shape] == [str(d) for d in im_data.shape]
    if not re_data.ndim or not alike or re_data.dtype != im_data.dtype:
        raise ArgumentError(request, "give two tensors of one shape and one type")
    n = static(re_data.shape[-1], request)
    back, dtype, wide = bool(inverse), re_data.dtype, summed_in(re_data.dtype)
    by = const(1 / n if back else 1.0, wide)
    cosine, sine = _circle(n, wide)

    def of(imaginary: bool) -> Tensor:
        k = reduce_axis((0, n), name="k")

        def element(*i: Any) -> Any:
            turn = floormod(i[-1] * k, n)
            x, y = (cast(wide, t(*i[:-1], k)) for t in (re_data, im_data))
            s = sine(turn) if back else const(0.0, wide) - sine(turn)
            term = x * s + y * cosine(turn) if imaginary else x * cosine(turn) - y * s
            return te.sum(term * by, k)

        name = "T_dft_im" if imaginary else "T_dft_re"
        return stored(compute(re_data.shape, element, name), dtype)

    return [of(False), of(True)]


def stft(
    data: Tensor,
    n_fft: int,
    hop_length: int,
    win_length: int,
    window: Tensor,
    normalized: bool,
    onesided: bool,
    output_shape: Sequence[int],
) -> Tensor:
    """Fourier transforms of windows of a signal that overlap.

    Args:
        data: (batch, samples), floating point.
        n_fft: of the normalisation; the windows, and the period of the first frequency, have
            ``win_length`` samples, as TVM has it.
        hop_length: from one window to the next, in samples.
        win_length: samples of a window.
        window: (win_length,), factors.
        normalized: divide by the root of ``n_fft``.
        onesided: said by ``output_shape``: its frequencies are computed.
        output_shape: (batch, frequencies, windows, 2).

    Returns:
        Real and imaginary parts along the last axis.

    Raises:
        ArgumentError: the shapes do not fit.
    """
    request = f"stft({data}, {n_fft}, {hop_length}, {win_length}, {window})"
    shape = [static(d, request) for d in output_shape]
    if data.ndim != 2 or len(shape) != 4 or shape[0] != static(data.shape[0], request):
        raise ArgumentError(request, "data are (batch, samples), the result has four dimensions")
    last = (shape[2] - 1) * hop_length + win_length
    if shape[3] != 2 or last > static(data.shape[1], request):
        raise ArgumentError(request, f"{shape[2]} windows take {last} samples")
    if static(window.shape[0], request) != win_length:
        raise ArgumentError(request, f"the window has not {win_length} factors")
    wide = summed_in(data.dtype)
    cosine, sine = _circle(win_length, wide)
    by = const(1 / math.sqrt(n_fft) if normalized else 1.0, wide)
    k = reduce_axis((0, win_length), name="k")

    def element(b: Any, row: Any, column: Any, part: Any) -> Any:
        turn = floormod(row * k, win_length)
        wave = select(part.equal(0), cosine(turn), const(0.0, wide) - sine(turn))
        sample = cast(wide, data(b, column * hop_length + k)) * cast(wide, window(k))
        return te.sum(sample * wave * by, k)

    return stored(compute(shape, element, "T_stft"), data.dtype)


def _circle(n: int, dtype: str) -> list[Tensor]:
    """Cosines and sines of ``n`` angles of a circle, from 0 on."""

    def angle(i: Any) -> Any:
        return cast(dtype, cast("float64", i) * const(2 * math.pi / n, "float64"))

    cosines = compute((n,), lambda i: m.cos(angle(i)), "T_cosines", INJECTIVE)
    return [cosines, compute((n,), lambda i: m.sin(angle(i)), "T_sines", INJECTIVE)]
