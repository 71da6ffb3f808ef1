"""Graphs as users write them, for the tests of spaces derived for GPUs: by dtype, so that float64
can say what is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from whet import te
from whet.compiler import topi
from whet.compiler.te import Tensor

Made = tuple[list[Tensor], Tensor]


@dataclass(frozen=True)
class Graph:
    """A graph.

    Attributes:
        make: from the type of its floats to the inputs and the result.
        kernels: of the default config.
        dtype: it is tested in.
        rule: the class of its last group's rule.
    """

    make: Callable[[str], Made]
    kernels: int
    rule: str
    dtype: str = "float32"


def _inputs(dtype: str, *shapes: tuple[int, ...]) -> list[Tensor]:
    return [te.placeholder(shape, dtype, name=f"x{k}") for k, shape in enumerate(shapes)]


def _sum(element: Callable, shape: tuple[int, ...], *steps: int, name: str = "C") -> Tensor:
    axes = [te.reduce_axis((0, n), name=f"k{i}") for i, n in enumerate(steps)]
    return te.compute(shape, lambda *i: te.sum(element(*i, *axes), axis=axes), name=name)


def _mean(x: Tensor, axes: list[int]) -> Tensor:
    count = 1
    for k in axes:
        count *= int(x.shape[k])
    total = topi.sum(x, axis=axes, keepdims=True)
    return te.compute(total.shape, lambda *i: total(*i) / float(count), name="mean")


def _centred(x: Tensor, mean: Tensor, axes: list[int]) -> Callable:
    def at(*i):
        return x(*i) - mean(*(0 if k in axes else v for k, v in enumerate(i)))

    return at


def variance(dtype: str, shape: tuple[int, ...], axes: list[int]) -> Made:
    (x,) = _inputs(dtype, shape)
    at = _centred(x, _mean(x, axes), axes)
    return [x], _mean(te.compute(shape, lambda *i: at(*i) * at(*i), name="sq"), axes)


def normalised(dtype: str, shape: tuple[int, ...], axes: list[int]) -> Made:
    (x,) = _inputs(dtype, shape)
    at = _centred(x, _mean(x, axes), axes)
    v = _mean(te.compute(shape, lambda *i: at(*i) * at(*i), name="sq"), axes)

    def element(*i):
        return at(*i) / te.sqrt(v(*(0 if k in axes else j for k, j in enumerate(i))) + 1e-5)

    return [x], te.compute(shape, element, name="out")


def softmax(dtype: str, shape: tuple[int, ...], axis: int) -> Made:
    (x,) = _inputs(dtype, shape)
    return [x], topi.nn.softmax(x, axis=axis)


def spread_of_rows(dtype: str, n: int, m: int) -> Made:
    """Two reductions that one stage reads, and one that reads this."""
    (x,) = _inputs(dtype, (n, m))
    a, b, c = (te.reduce_axis((0, m), name=name) for name in "abc")
    low = te.compute((n,), lambda i: te.min(x[i, a], axis=a), name="low")
    top = te.compute((n,), lambda i: te.max(x[i, b], axis=b), name="top")
    wide = te.compute((n,), lambda i: top[i] - low[i] + 1.0, name="wide")
    return [x], te.compute((n,), lambda i: te.sum(x[i, c] / wide[i], axis=c), name="out")


def backwards(dtype: str, n: int, m: int) -> Made:
    """A softmax whose rows are turned around."""
    (x,) = _inputs(dtype, (n, m))
    a, b = te.reduce_axis((0, m), name="a"), te.reduce_axis((0, m), name="b")
    top = te.compute((n,), lambda i: te.max(x[i, a], axis=a), name="top")
    e = te.compute((n, m), lambda i, j: te.exp(x[i, j] - top[i]), name="e")
    total = te.compute((n,), lambda i: te.sum(e[i, b], axis=b), name="total")
    return [x], te.compute((n, m), lambda i, j: e[i, m - 1 - j] / total[i], name="out")


def with_transposed(dtype: str, n: int) -> Made:
    """Rows and columns of one matrix."""
    (x,) = _inputs(dtype, (n, n))
    a = te.reduce_axis((0, n), name="a")
    top = te.compute((n,), lambda i: te.max(x[i, a], axis=a), name="top")
    return [x], te.compute((n, n), lambda i, j: x[i, j] - top[i] + x[j, i], name="out")


def log_sums(dtype: str, n: int, m: int) -> Made:
    """Of rows."""
    (x,) = _inputs(dtype, (n, m))
    top = topi.max(x, axis=1)
    r = te.reduce_axis((0, m), name="r")
    total = te.compute((n,), lambda i: te.sum(te.exp(x[i, r] - top[i]), axis=r), name="total")
    return [x], te.compute((n,), lambda i: te.log(total[i]) + top[i], name="out")


def log_sum_exp(dtype: str, n: int, c: int, m: int) -> Made:
    """Of columns."""
    (x,) = _inputs(dtype, (n, c, m))
    k, r = te.reduce_axis((0, c), name="k"), te.reduce_axis((0, c), name="r")
    top = te.compute((n, m), lambda i, j: te.max(x[i, k, j], axis=k), name="top")
    total = te.compute(
        (n, m), lambda i, j: te.sum(te.exp(x[i, r, j] - top[i, j]), axis=r), name="total"
    )
    return [x], te.compute((n, m), lambda i, j: te.log(total[i, j]) + top[i, j], name="out")


def depthwise(
    dtype: str, c: int, h: int, k: int, stride: int = 1, last: bool = False, each: int = 1
) -> Made:
    shapes = ((2, h, h, c), (k, k, c, each)) if last else ((2, c, h, h), (c, each, k, k))
    x, w, b = _inputs(dtype, *shapes, (c * each,))
    size = (h + 2 * (k // 2) - k) // stride + 1
    if last:
        p = topi.nn.pad(x, (0, k // 2, k // 2, 0))
        y = _sum(
            lambda n, i, j, o, r, s: (
                p[n, i * stride + r, j * stride + s, o // each] * w[r, s, o // each, o % each]
            ),
            (2, size, size, c * each), k, k,
        )  # fmt: skip
    else:
        y = topi.nn.depthwise_conv2d_nchw(x, w, stride, k // 2)
    return [x, w, b], te.compute(
        y.shape, lambda *i: te.max(y(*i) + b(i[3 if last else 1]), 0.0), name="relu"
    )


def dear_weights(dtype: str, c: int, h: int) -> Made:
    """Weights that are computed, once and not for each pixel."""
    x, w = _inputs(dtype, (1, c, h, h), (c, 3, 3))
    e = te.compute((c, 3, 3), lambda *i: te.exp(w(*i)) / (1.0 + te.exp(w(*i))), name="e")
    size = h - 2
    return [x, w], _sum(
        lambda n, f, y, z, i, j: x[n, f, y + i, z + j] * e[f, i, j], (1, c, size, size), 3, 3
    )


def pooled(dtype: str, shape: tuple[int, ...], kind: str, k: int, stride: int, pad: int) -> Made:
    (x,) = _inputs(dtype, shape)
    return [x], topi.nn.pool2d(x, (k, k), (stride, stride), (1, 1), (pad,) * 4, kind)


def moving(dtype: str, shape: tuple[int, ...], k: int, dilation: int = 1) -> Made:
    """The largest of ``k`` neighbours along the last axis."""
    (x,) = _inputs(dtype, shape)
    r = te.reduce_axis((0, k), name="r")
    made = (*shape[:-1], shape[-1] - (k - 1) * dilation)
    return [x], te.compute(made, lambda *i: te.max(x(*i[:-1], i[-1] + r * dilation), axis=r))


def box(dtype: str, shape: tuple[int, ...], k: int) -> Made:
    """Sums over cubes."""
    (x,) = _inputs(dtype, shape)
    made = tuple(n - k + 1 for n in shape)
    return [x], _sum(lambda a, b, c, i, j, l: x[a + i, b + j, c + l], made, k, k, k)


def blurred(dtype: str, n: int) -> Made:
    (x,) = _inputs(dtype, (n, n))
    a = te.compute((n, n - 2), lambda i, j: (x[i, j] + x[i, j + 1] + x[i, j + 2]) / 3.0, name="a")
    return [x], te.compute(
        (n - 2, n - 2), lambda i, j: (a[i, j] + a[i + 1, j] + a[i + 2, j]) / 3.0, name="b"
    )


def attention(dtype: str, b: int, s: int, d: int, values: bool = True) -> Made:
    q, k, v, m = _inputs(dtype, (b, s, d), (b, s, d), (b, s, d), (s, s))
    scores = _sum(lambda b, i, j, r: q[b, i, r] * k[b, j, r], (b, s, s), d, name="S")
    scaled = te.compute((b, s, s), lambda b, i, j: scores[b, i, j] * 0.125 + m[i, j], name="scaled")
    p = topi.nn.softmax(scaled)
    if not values:
        return [q, k, m], p
    return [q, k, v, m], _sum(lambda b, i, j, r: p[b, i, r] * v[b, r, j], (b, s, d), s, name="O")


def added_and_normalised(dtype: str, n: int, k: int, m: int) -> Made:
    x, w, b, r, g, h = _inputs(dtype, (n, k), (m, k), (m,), (n, m), (m,), (m,))
    y = _sum(lambda i, j, c: x[i, c] * w[j, c], (n, m), k)
    a = te.compute((n, m), lambda i, j: y[i, j] + b[j] + r[i, j], name="a")
    return [x, w, b, r, g, h], topi.nn.layer_norm(a, g, h, axis=[1])


def residual_block(dtype: str, c: int, h: int) -> Made:
    x, w, v = _inputs(dtype, (1, c, h, h), (c, c, 3, 3), (c, c, 3, 3))
    y = topi.nn.relu(topi.nn.conv2d_nchw(x, w, 1, 1, 1))
    z = topi.nn.conv2d_nchw(y, v, 1, 1, 1)
    return [x, w, v], te.compute(z.shape, lambda *i: te.max(z(*i) + x(*i), 0.0), name="out")


def separable(dtype: str, c: int, h: int, o: int) -> Made:
    inputs, y = depthwise(dtype, c, h, 3)
    w = te.placeholder((o, c, 1, 1), dtype, name="w")
    return [*inputs, w], topi.nn.conv2d_nchw(y, w, 1, 0, 1)


def transposed(dtype: str, c: int, h: int, o: int, stride: int) -> Made:
    """A transposed convolution of 4 x 4 as one of an image with zeros between its pixels."""
    x, w = _inputs(dtype, (1, c, h, h), (c, o, 4, 4))
    wide = topi.nn.pad(topi.nn.dilate(x, (1, 1, stride, stride)), (0, 0, 2, 2))
    turned = te.compute((o, c, 4, 4), lambda a, b, i, j: w[b, a, 3 - i, 3 - j], name="turned")
    return [x, w], topi.nn.conv2d_nchw(wide, turned)


WINDOWS = {
    "depthwise": Graph(lambda t: depthwise(t, 5, 9, 3), 1, "GpuWindow"),
    "depthwise /2": Graph(lambda t: depthwise(t, 5, 17, 3, 2), 1, "GpuWindow"),
    "depthwise last": Graph(lambda t: depthwise(t, 8, 9, 5, last=True), 1, "GpuWindow"),
    "multiplier": Graph(lambda t: depthwise(t, 3, 7, 3, last=True, each=2), 1, "GpuWindow"),
    "depthwise halves": Graph(
        lambda t: depthwise(t, 8, 9, 3, last=True), 1, "GpuWindow", "float16"
    ),
    "large window": Graph(lambda t: depthwise(t, 2, 23, 21), 1, "GpuWindow"),
    "dear weights": Graph(lambda t: dear_weights(t, 3, 9), 2, "GpuWindow"),
    "max pool": Graph(lambda t: pooled(t, (2, 3, 13, 13), "max", 3, 2, 1), 1, "GpuWindow"),
    "avg pool": Graph(lambda t: pooled(t, (2, 3, 12, 9), "avg", 2, 2, 0), 1, "GpuWindow"),
    "moving": Graph(lambda t: moving(t, (3, 70), 7), 1, "GpuWindow"),
    "dilated": Graph(lambda t: moving(t, (3, 70), 3, 4), 1, "GpuWindow"),
    "long window": Graph(lambda t: moving(t, (2, 170), 130), 1, "GpuWindow"),
    "cubes": Graph(lambda t: box(t, (6, 7, 11), 3), 1, "GpuWindow"),
}
CHAINS = {
    "variance of channels": Graph(
        lambda t: variance(t, (3, 4, 9, 9), [0, 2, 3]), 2, "GpuMultiKernel"
    ),
    "batch norm": Graph(lambda t: normalised(t, (300, 9), [0]), 3, "GpuMultiKernel"),
    "a long row": Graph(lambda t: softmax(t, (2, 33000), 1), 5, "GpuMultiKernel"),
    "blur": Graph(lambda t: blurred(t, 80), 1, "GpuMultiKernel"),
    "columns": Graph(lambda t: softmax(t, (30, 70, 72), 1), 1, "GpuColumns"),
    "first axis": Graph(lambda t: softmax(t, (70, 2048), 0), 1, "GpuColumns"),
    "halves in columns": Graph(lambda t: softmax(t, (8, 70, 300), 1), 1, "GpuColumns", "float16"),
    "channels last": Graph(lambda t: normalised(t, (9, 9, 8, 256), [1, 2]), 1, "GpuColumns"),
    "logsumexp": Graph(lambda t: log_sum_exp(t, 3, 70, 700), 1, "GpuColumns"),
    "log of sums": Graph(lambda t: log_sums(t, 5, 300), 1, "GpuRows"),
    "two in one": Graph(lambda t: spread_of_rows(t, 2, 33000), 6, "GpuMultiKernel"),
    "backwards": Graph(lambda t: backwards(t, 8, 128), 1, "GpuRows"),
    "transposed": Graph(lambda t: with_transposed(t, 64), 1, "GpuRows"),
    "short columns": Graph(lambda t: softmax(t, (65, 9, 37), 1), 1, "GpuRows"),
}
FUSIONS = {
    "transposed convolution": Graph(lambda t: transposed(t, 6, 5, 8, 2), 1, "GpuTiled"),
    "transposed, to colours": Graph(lambda t: transposed(t, 16, 5, 3, 2), 1, "GpuReduction"),
    "scores": Graph(lambda t: attention(t, 2, 33, 16, False), 2, "GpuRows"),
    "attention": Graph(lambda t: attention(t, 2, 33, 16), 3, "GpuTiled"),
    "add and norm": Graph(lambda t: added_and_normalised(t, 17, 24, 40), 2, "GpuRows"),
    "residual block": Graph(lambda t: residual_block(t, 8, 6), 2, "GpuConvolution"),
    "separable": Graph(lambda t: separable(t, 8, 9, 12), 2, "GpuConvolution"),
}
