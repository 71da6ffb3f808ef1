"""Graphs of convolutions, with numpy's answers."""

from __future__ import annotations

import numpy as np
from derived_contractions import Case

from whet import te
from whet.compiler.te import Tensor


def _padded(x: np.ndarray, p: int, axes: tuple[int, ...]) -> np.ndarray:
    return np.pad(x, [(p, p) if k in axes else (0, 0) for k in range(x.ndim)])


def conv2d(
    n: int,
    c: int,
    h: int,
    w: int,
    o: int,
    window: int,
    stride: int = 1,
    pad: int = 0,
    dilation: int = 1,
    groups: int = 1,
    dtype: str = "float32",
    epilogue: bool = False,
) -> Case:
    """A convolution, NCHW; grouped ones read ``c / groups`` channels."""
    data = te.placeholder((n, c, h, w), dtype, name="data")
    weight = te.placeholder((o, c // groups, window, window), dtype, name="weight")
    image = _padded_image(data, pad, (2, 3))
    reach = (window - 1) * dilation
    oh, ow = (h + 2 * pad - reach - 1) // stride + 1, (w + 2 * pad - reach - 1) // stride + 1
    rc = te.reduce_axis((0, c // groups), name="rc")
    ry = te.reduce_axis((0, window), name="ry")
    rx = te.reduce_axis((0, window), name="rx")
    per = o // groups

    def element(b, f, y, x):
        channel = rc if groups == 1 else f // per * (c // groups) + rc
        pixel = image[b, channel, y * stride + ry * dilation, x * stride + rx * dilation]
        return te.sum(pixel * weight[f, rc, ry, rx], axis=[rc, ry, rx])

    C = te.compute((n, o, oh, ow), element, name="conv")

    def expected(x, v):
        x = _padded(x, pad, (2, 3))
        out = np.zeros((n, o, oh, ow))
        for f in range(o):
            first = f // per * (c // groups)
            for y in range(window):
                for z in range(window):
                    part = x[
                        :,
                        first : first + c // groups,
                        y * dilation : y * dilation + (oh - 1) * stride + 1 : stride,
                        z * dilation : z * dilation + (ow - 1) * stride + 1 : stride,
                    ]
                    out[:, f] += np.einsum("nchw,c->nhw", part, v[f, :, y, z])
        return out

    if not epilogue:
        return Case([data, weight, C], expected)
    bias = te.placeholder((o,), dtype, name="bias")
    B = te.compute(C.shape, lambda b, f, y, x: C[b, f, y, x] + bias[f], name="biased")
    R = te.compute(C.shape, lambda b, f, y, x: te.max(B[b, f, y, x], 0), name="relu")
    return Case(
        [data, weight, bias, R],
        lambda x, v, b: np.maximum(expected(x, v) + b[None, :, None, None], 0),
    )


def _padded_image(data: Tensor, pad: int, axes: tuple[int, int]) -> Tensor:
    if not pad:
        return data
    shape = [int(d) + (2 * pad if k in axes else 0) for k, d in enumerate(data.shape)]

    def element(*places):
        inside = [te.all(places[k] >= pad, places[k] < int(data.shape[k]) + pad) for k in axes]
        moved = [p - pad if k in axes else p for k, p in enumerate(places)]
        return te.if_then_else(te.all(*inside), data[tuple(moved)], te.const(0, data.dtype))

    return te.compute(tuple(shape), element, name="image")


def conv2d_nhwc(n: int, h: int, w: int, c: int, o: int, window: int, pad: int) -> Case:
    """A convolution with the channels last; weights HWIO."""
    data = te.placeholder((n, h, w, c), name="data")
    weight = te.placeholder((window, window, c, o), name="weight")
    image = _padded_image(data, pad, (1, 2))
    oh, ow = h + 2 * pad - window + 1, w + 2 * pad - window + 1
    ry = te.reduce_axis((0, window), name="ry")
    rx = te.reduce_axis((0, window), name="rx")
    rc = te.reduce_axis((0, c), name="rc")
    C = te.compute(
        (n, oh, ow, o),
        lambda b, y, x, f: te.sum(
            image[b, y + ry, x + rx, rc] * weight[ry, rx, rc, f], axis=[ry, rx, rc]
        ),
        name="conv",
    )

    def expected(x, v):
        x = _padded(x, pad, (1, 2))
        return sum(
            x[:, y : y + oh, z : z + ow] @ v[y, z] for y in range(window) for z in range(window)
        )

    return Case([data, weight, C], expected)


def conv2d_nchwc(c: int, h: int, w: int, o: int, window: int, block: int) -> Case:
    """A convolution with blocks of channels last, NCHWc and OIHWio."""
    data = te.placeholder((1, c // block, h, w, block), name="data")
    weight = te.placeholder((o // block, c // block, window, window, block, block), name="weight")
    oh, ow = h - window + 1, w - window + 1
    rc = te.reduce_axis((0, c // block), name="rc")
    ry = te.reduce_axis((0, window), name="ry")
    rx = te.reduce_axis((0, window), name="rx")
    ri = te.reduce_axis((0, block), name="ri")
    C = te.compute(
        (1, o // block, oh, ow, block),
        lambda b, f, y, x, fi: te.sum(
            data[b, rc, y + ry, x + rx, ri] * weight[f, rc, ry, rx, ri, fi], axis=[rc, ry, rx, ri]
        ),
        name="conv",
    )

    def expected(x, v):
        out = np.zeros((1, o // block, oh, ow, block))
        for y in range(window):
            for z in range(window):
                part = x[:, :, y : y + oh, z : z + ow]
                out += np.einsum("nchwi,fcij->nfhwj", part, v[:, :, y, z])
        return out

    return Case([data, weight, C], expected)


def depthwise(c: int, h: int, w: int, window: int, stride: int = 1, last: bool = False) -> Case:
    """A depthwise convolution with "same" padding; with the channels ``last``, NHWC."""
    pad = window // 2
    shape = (1, h, w, c) if last else (1, c, h, w)
    data = te.placeholder(shape, name="data")
    kernel = te.placeholder((window, window, c) if last else (c, window, window), name="kernel")
    image = _padded_image(data, pad, (1, 2) if last else (2, 3))
    oh, ow = (h + 2 * pad - window) // stride + 1, (w + 2 * pad - window) // stride + 1
    ry = te.reduce_axis((0, window), name="ry")
    rx = te.reduce_axis((0, window), name="rx")

    def first_channels(b, f, y, x):
        pixel = image[b, f, y * stride + ry, x * stride + rx]
        return te.sum(pixel * kernel[f, ry, rx], axis=[ry, rx])

    def last_channels(b, y, x, f):
        pixel = image[b, y * stride + ry, x * stride + rx, f]
        return te.sum(pixel * kernel[ry, rx, f], axis=[ry, rx])

    out = (1, oh, ow, c) if last else (1, c, oh, ow)
    C = te.compute(out, last_channels if last else first_channels, name="conv")

    def expected(x, v):
        x = x if not last else x.transpose(0, 3, 1, 2)
        v = v if not last else v.transpose(2, 0, 1)
        x = _padded(x, pad, (2, 3))
        out = np.zeros((1, c, oh, ow))
        for y in range(window):
            for z in range(window):
                part = x[:, :, y : y + (oh - 1) * stride + 1 : stride]
                part = part[:, :, :, z : z + (ow - 1) * stride + 1 : stride]
                out += part * v[None, :, y, z, None, None]
        return out if not last else out.transpose(0, 2, 3, 1)

    return Case([data, kernel, C], expected)


def conv1d(n: int, c: int, w: int, o: int, window: int, stride: int = 1) -> Case:
    """A convolution of rows."""
    data = te.placeholder((n, c, w), name="data")
    weight = te.placeholder((o, c, window), name="weight")
    ow = (w - window) // stride + 1
    rc = te.reduce_axis((0, c), name="rc")
    rx = te.reduce_axis((0, window), name="rx")
    C = te.compute(
        (n, o, ow),
        lambda b, f, x: te.sum(data[b, rc, x * stride + rx] * weight[f, rc, rx], axis=[rc, rx]),
        name="conv",
    )

    def expected(x, v):
        return sum(
            np.einsum("ncw,fc->nfw", x[:, :, z : z + (ow - 1) * stride + 1 : stride], v[:, :, z])
            for z in range(window)
        )

    return Case([data, weight, C], expected)


def conv3d(c: int, d: int, h: int, w: int, o: int, window: int) -> Case:
    """A convolution of volumes."""
    data = te.placeholder((1, c, d, h, w), name="data")
    weight = te.placeholder((o, c, window, window, window), name="weight")
    out = (1, o, d - window + 1, h - window + 1, w - window + 1)
    rc = te.reduce_axis((0, c), name="rc")
    taps = [te.reduce_axis((0, window), name=n) for n in ("rz", "ry", "rx")]
    C = te.compute(
        out,
        lambda b, f, z, y, x: te.sum(
            data[b, rc, z + taps[0], y + taps[1], x + taps[2]]
            * weight[f, rc, taps[0], taps[1], taps[2]],
            axis=[rc, *taps],
        ),
        name="conv",
    )

    def expected(x, v):
        total = np.zeros(out)
        for z, y, q in np.ndindex(window, window, window):
            part = x[:, :, z : z + out[2], y : y + out[3], q : q + out[4]]
            total += np.einsum("nczyx,fc->nfzyx", part, v[:, :, z, y, q])
        return total

    return Case([data, weight, C], expected)


def conv2d_transpose(c: int, h: int, w: int, o: int, window: int, stride: int) -> Case:
    """A transposed convolution: the image spread out, then a convolution with turned weights."""
    data = te.placeholder((1, c, h, w), name="data")
    weight = te.placeholder((c, o, window, window), name="weight")
    oh, ow = (h - 1) * stride + window, (w - 1) * stride + window
    high, wide = oh + window - 1, ow + window - 1
    edge = window - 1

    def spread(b, f, y, x):
        yy, xx = y - edge, x - edge
        inside = te.all(
            yy >= 0, xx >= 0, yy < (h - 1) * stride + 1, xx < (w - 1) * stride + 1,
            te.indexmod(yy, stride) == 0, te.indexmod(xx, stride) == 0,
        )  # fmt: skip
        pixel = data[b, f, te.indexdiv(yy, stride), te.indexdiv(xx, stride)]
        return te.if_then_else(inside, pixel, te.const(0, "float32"))

    image = te.compute((1, c, high, wide), spread, name="spread")
    rc = te.reduce_axis((0, c), name="rc")
    ry = te.reduce_axis((0, window), name="ry")
    rx = te.reduce_axis((0, window), name="rx")
    C = te.compute(
        (1, o, oh, ow),
        lambda b, f, y, x: te.sum(
            image[b, rc, y + ry, x + rx] * weight[rc, f, edge - ry, edge - rx], axis=[rc, ry, rx]
        ),
        name="conv",
    )

    def expected(x, v):
        total = np.zeros((1, o, oh, ow))
        for y, q in np.ndindex(h, w):
            part = np.einsum("nc,cfyx->nfyx", x[:, :, y, q], v)
            total[:, :, y * stride : y * stride + window, q * stride : q * stride + window] += part
        return total

    return Case([data, weight, C], expected)


def two_convolutions(c: int, h: int, w: int) -> Case:
    """A convolution, its activation, padding, and a second convolution."""
    data = te.placeholder((1, c, h, w), name="data")
    first = te.placeholder((c, c, 3, 3), name="first")
    second = te.placeholder((c, c, 3, 3), name="second")

    def layer(x: Tensor, weight: Tensor, name: str) -> Tensor:
        image = _padded_image(x, 1, (2, 3))
        rc = te.reduce_axis((0, c), name="rc")
        ry = te.reduce_axis((0, 3), name="ry")
        rx = te.reduce_axis((0, 3), name="rx")
        conv = te.compute(
            (1, c, h, w),
            lambda b, f, y, q: te.sum(
                image[b, rc, y + ry, q + rx] * weight[f, rc, ry, rx], axis=[rc, ry, rx]
            ),
            name=name,
        )
        return te.compute(conv.shape, lambda *p: te.max(conv(*p), 0.0), name=f"{name}_relu")

    R = layer(layer(data, first, "one"), second, "two")

    def expected(x, *weights):
        for v in weights:
            padded, x = _padded(x, 1, (2, 3)), 0.0
            for y, z in np.ndindex(3, 3):
                part = padded[:, :, y : y + h, z : z + w]
                x = x + np.einsum("nchw,fc->nfhw", part, v[:, :, y, z])
            x = np.maximum(x, 0)
        return x

    return Case([data, first, second, R], expected)
