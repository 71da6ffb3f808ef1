"""Operators of neural networks: contractions, windows, normalisations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from whet.compiler import te, topi
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, const
from whet.compiler.topi.elementwise import broadcast_shape, each_element
from whet.compiler.topi.half_precision import stored, sum_of_products
from whet.compiler.topi.nn.convolution import convolution
from whet.compiler.topi.nn.transposed import transposed_convolution
from whet.compiler.topi.shapes import is_one

_LAYOUTS = {1: "conv1d_ncw", 2: "conv2d_nchw", 3: "conv3d_ncdhw"}
_LAST = {1: "conv1d_nwc", 2: "conv2d_nhwc", 3: "conv3d_ndhwc"}


def _conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
    channels_last: bool = False,
) -> Tensor:
    """A convolution; padding before each axis, then behind each.

    Weights are (O, C / groups, window ...), or (window ..., C / groups, O) with the channels last.
    """
    name = _name(x, _LAST if channels_last else _LAYOUTS)
    made = convolution(x, weight, strides, list(padding), dilation, groups, None, name)
    return made if bias is None else _with_bias(made, bias, -1 if channels_last else 1)


def _conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    strides: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
) -> Tensor:
    """The transpose of a convolution of channels first, weights (CI, CO, window ...)."""
    name = _name(x, _LAYOUTS).replace("_", "_transpose_")
    made = transposed_convolution(
        x, weight, strides, list(padding), list(output_padding), None, name
    )
    return made if bias is None else _with_bias(made, bias)


def _name(x: Tensor, names: dict[int, str]) -> str:
    rank = len(x.shape) - 2
    if rank not in names:
        raise ArgumentError(f"a convolution of {x}", f"it has {rank} spatial dimensions", "1 to 3")
    return names[rank]


def _with_bias(x: Tensor, bias: Tensor, axis: int = 1) -> Tensor:
    return te.compute(x.shape, lambda *i: x(*i) + bias(i[axis]), "T_bias", topi.tag.BROADCAST)


def _matmul(a: Tensor, b: Tensor, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """The product of matrices, by numpy's rules; either may be transposed."""
    vector_a, vector_b = len(a.shape) == 1, len(b.shape) == 1
    outer_a, outer_b = a.shape[:-2], b.shape[:-2]
    outer = broadcast_shape(outer_a, outer_b, f"matmul({a}, {b})")
    length = a.shape[-1] if vector_a or not transpose_a else a.shape[-2]
    rows = b.shape[-1] if transpose_b and not vector_b else b.shape[0 if vector_b else -2]
    if int(length) != int(rows):
        raise ArgumentError(f"matmul({a}, {b})", f"{length} and {rows} elements are multiplied")
    m = () if vector_a else (a.shape[-1 if transpose_a else -2],)
    n = () if vector_b else (b.shape[-2 if transpose_b else -1],)
    k = te.reduce_axis((0, length), name="k")

    def of(t: Tensor, batch: tuple[Any, ...], i: Any, turned: bool) -> Any:
        if len(t.shape) == 1:
            return t(k)
        own = batch[len(batch) - (len(t.shape) - 2) :]
        own = tuple(const(0) if is_one(d) else x for d, x in zip(t.shape, own))
        return t(*own, i, k) if turned else t(*own, k, i)

    def element(*i: Any) -> Any:
        batch = i[: len(outer)]
        row = None if vector_a else i[len(outer)]
        column = None if vector_b else i[-1]
        left = of(a, batch, row, not transpose_a)
        right = of(b, batch, column, transpose_b)
        return sum_of_products(a.dtype, left, right, k)

    return stored(te.compute((*outer, *m, *n), element, "T_matmul"), a.dtype)


def _gemm(
    a: Tensor,
    b: Tensor,
    c: Any = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Tensor:
    """alpha * a * b + beta * c."""
    made = _matmul(a, b, transpose_a, transpose_b)
    if alpha != 1.0:
        made = topi.multiply(made, const(alpha, a.dtype))
    if c is None or beta == 0.0:
        return made
    return topi.add(made, c if beta == 1.0 else topi.multiply(c, const(beta, a.dtype)))


def _pool(
    x: Tensor,
    *,
    kind: str,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    channels_last: bool = False,
) -> Tensor:
    """The maximum or the average of each window; one or two dimensions are the image.

    ``channels_last`` is for images whose windows do not reach over the end, (N, H, W, C).
    """
    rank = len(window)
    if rank == 1:  # an image of one row
        more = {"window": [1, *window], "strides": [1, *strides], "dilation": [1, *dilation]}
        image = topi.expand_dims(x, 2)
        sides = [0, padding[0], 0, padding[1]]
        made = _pool(
            image, kind=kind, padding=sides, ceil_mode=ceil_mode,
            count_include_pad=count_include_pad, **more,
        )  # fmt: skip
        return topi.squeeze(made, 2)
    if rank != 2 or ceil_mode:
        return _pool_of_rank(
            x, kind, window, strides, padding, dilation, ceil_mode, count_include_pad
        )
    return topi.nn.pool2d(
        x, window, strides, dilation, list(padding), kind, ceil_mode,
        "NHWC" if channels_last else "NCHW", count_include_pad,
    )  # fmt: skip


def _pool_of_rank(
    x: Tensor,
    kind: str,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
) -> Tensor:
    """The pool of any rank, as sums or maxima over the windows' elements that are inside."""
    rank = len(window)
    image = [int(d) for d in x.shape[2:]]
    before, after = padding[:rank], padding[rank:]
    counts, reach = [], []
    for n, w, s, d, b, a in zip(image, window, strides, dilation, before, after):
        room = n + b + a - d * (w - 1) - 1
        count = (-(-room // s) if ceil_mode else room // s) + 1
        if ceil_mode and (count - 1) * s >= n + b:
            count -= 1
        counts.append(count)
        reach.append(n + b + a)
    axes = [te.reduce_axis((0, w), name="rv") for w in window]
    low = te.min_value(x.dtype) if kind == "max" else const(0, x.dtype)

    def read(i: Sequence[Any], what: str) -> Any:
        at = [y * s + r * d - b for y, s, r, d, b in zip(i[2:], strides, axes, dilation, before)]
        inside = te.all(*[y >= 0 for y in at], *[y < n for y, n in zip(at, image)])
        if what == "value":
            return te.if_then_else(inside, x(i[0], i[1], *at), low)
        if count_include_pad:
            inside = te.all(*[y + b < r for y, b, r in zip(at, before, reach)])
        return te.select(inside, const(1, x.dtype), const(0, x.dtype))

    shape = (*x.shape[:2], *counts)
    combine = te.max if kind == "max" else te.sum
    total = te.compute(shape, lambda *i: combine(read(i, "value"), axis=axes), "T_pool")
    if kind == "max":
        return total
    axes = [te.reduce_axis((0, w), name="rv") for w in window]
    one = (1, 1, *counts)
    many = te.compute(one, lambda *i: te.sum(read(i, "count"), axis=axes), "T_count")
    return te.compute(shape, lambda *i: total(*i) / many(0, 0, *i[2:]), "T_pool_avg")


def _global_pool(x: Tensor, kind: str) -> Tensor:
    axes = list(range(2, len(x.shape)))
    if kind == "max":
        return topi.max(x, axes, True)
    many = prod(int(x.shape[a]) for a in axes)
    total = topi.sum(x, axes, True)
    return each_element(total, lambda v: v * const(1 / many, v.dtype), "T_mean")


def _layer_norm(
    x: Tensor, scale: Tensor | None = None, bias: Tensor | None = None, *, axes: Sequence[int],
    epsilon: float,
) -> Tensor:  # fmt: skip
    """Each row less its mean, divided by its deviation; scaled and shifted element by element."""
    return topi.nn.layer_norm(x, scale, bias, list(axes), epsilon)


def _instance_norm(x: Tensor, scale: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    """Each channel of each image (N, C, ...) by itself, scaled and shifted by channel."""
    return _by_channel(_normalized(x, list(range(2, len(x.shape))), epsilon), scale, bias)


def _group_norm(x: Tensor, scale: Tensor, bias: Tensor, groups: int, epsilon: float) -> Tensor:
    """So many groups of channels, each normalised by itself; scaled and shifted by channel."""
    n, c, *image = (int(d) for d in x.shape)
    parts = topi.reshape(x, (n, groups, c // groups, *image))
    made = _normalized(parts, list(range(2, len(parts.shape))), epsilon)
    return _by_channel(topi.reshape(made, (n, c, *image)), scale, bias)


def _normalized(x: Tensor, axes: list[int], epsilon: float) -> Tensor:
    """Elements less their mean over some axes, divided by their deviation."""
    part = const(1 / prod(int(x.shape[a]) for a in axes), x.dtype)
    mean = each_element(topi.sum(x, axes, True), lambda v: v * part, "T_mean")
    centred = topi.subtract(x, mean)
    squares = topi.sum(topi.multiply(centred, centred), axes, True)
    eps = const(epsilon, x.dtype)
    factor = each_element(squares, lambda v: te.rsqrt(v * part + eps), "T_factor")
    return topi.multiply(centred, factor)


def _by_channel(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Elements of (N, C, ...) times their channel's scale, plus its bias."""
    return te.compute(
        x.shape, lambda *i: x(*i) * scale(i[1]) + bias(i[1]), "T_norm", topi.tag.BROADCAST
    )


def _batch_norm(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, epsilon: float
) -> Tensor:
    """Each channel less its mean, divided by its deviation, scaled and shifted: all are known."""
    eps = const(epsilon, x.dtype)

    def element(*i: Any) -> Any:
        c = i[1]
        return (x(*i) - mean(c)) * te.rsqrt(variance(c) + eps) * scale(c) + bias(c)

    return te.compute(x.shape, element, "T_batch_norm", topi.tag.BROADCAST)


def _lrn(x: Tensor, size: int, alpha: float, beta: float, bias: float) -> Tensor:
    """Each element over a power of the squares of the channels around it."""
    before, channels = (size - 1) // 2, x.shape[1]
    r = te.reduce_axis((0, size), name="r")
    zero = const(0, x.dtype)

    def square(*i: Any) -> Any:
        at = i[1] + r - before
        inside = te.all(at >= 0, at < channels)
        value = te.if_then_else(inside, x(i[0], at, *i[2:]), zero)
        return te.sum(value * value, axis=r)

    squares = te.compute(x.shape, square, "T_squares", topi.tag.COMM_REDUCE)
    factor, start, power = (const(v, x.dtype) for v in (alpha / size, bias, -beta))
    return te.compute(
        x.shape,
        lambda *i: x(*i) * te.power(start + factor * squares(*i), power),
        "T_lrn",
        topi.tag.ELEMWISE,
    )


OPERATORS: dict[str, Callable[..., Any]] = {
    "batch_norm": _batch_norm,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "gemm": _gemm,
    "global_pool": _global_pool,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "layer_norm": _layer_norm,
    "log_softmax": lambda x, axis: topi.nn.log_softmax(x, axis),
    "lrn": _lrn,
    "matmul": _matmul,
    "pool": _pool,
    "resize2d": lambda x, size, method, mode, rounding="": topi.image.resize2d(
        x, None, size, "NCHW", method, mode, rounding
    ),
    "rms_norm": lambda x, scale, axes, epsilon: topi.nn.rms_norm(x, scale, list(axes), epsilon),
    "softmax": lambda x, axis: topi.nn.softmax(x, axis),
}
"""Name -> function."""
