"""Operators of neural networks: contractions, windows, normalisations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler import te, topi
from whet.compiler.errors import ArgumentError
from whet.compiler.graph.operators.reductions import mean
from whet.compiler.te import Tensor, const
from whet.compiler.topi.nn.convolution import convolution
from whet.compiler.topi.nn.transposed import transposed_convolution

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
    dilation: Sequence[int] | int = 1,
    ahead: Callable[[Tensor], Tensor] = lambda weight: weight,
) -> Tensor:
    """The transpose of a convolution of channels first, weights (CI, CO, window ...).

    ``ahead`` marks weights, in the order in which they are multiplied, as made beforehand.
    """
    name = _name(x, _LAYOUTS).replace("_", "_transpose_")
    made = transposed_convolution(
        x,
        weight,
        strides,
        list(padding),
        list(output_padding),
        None,
        name,
        dilation if isinstance(dilation, int) else list(dilation),
        ahead,
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
    return topi.matmul(a, b, transpose_a, transpose_b, "T_matmul")


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


_POOLS = {1: topi.nn.pool1d, 2: topi.nn.pool2d, 3: topi.nn.pool3d}


def _layout(rank: int, channels_last: bool = False) -> str:
    """The layout of images of so many dimensions: ``"NCHW"``, or ``"NHWC"``."""
    spatial = "DHW"[-rank:]
    return f"N{spatial}C" if channels_last else f"NC{spatial}"


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
    """The maximum or the average of each window of one to three dimensions.

    ``channels_last`` is for images whose channels are the last dimension.
    """
    if len(window) not in _POOLS:
        raise ArgumentError(f"a pool of {x}", f"windows have {len(window)} dimensions", "1 to 3")
    pool, layout = _POOLS[len(window)], _layout(len(window), channels_last)
    return pool(
        x, window, strides, dilation, list(padding), kind, ceil_mode, layout, count_include_pad,
        True,
    )  # fmt: skip


def _pool_places(
    x: Tensor,
    *,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool = False,
) -> Tensor:
    """The place of each window's maximum in its image, counted in rows; int64."""
    made = topi.nn.max_pool_places(
        x, window, list(strides), list(dilation), list(padding), ceil_mode, True
    )
    return topi.cast(made, "int64")


_ADAPTIVE = {
    1: topi.nn.adaptive_pool1d, 2: topi.nn.adaptive_pool, 3: topi.nn.adaptive_pool3d,
}  # fmt: skip


def _adaptive_pool(
    x: Tensor, kind: str, size: Sequence[int], channels_last: bool = False
) -> Tensor:
    """The maximum or the average of so many windows, which cover each image.

    ``channels_last`` is for images whose channels are the last dimension.
    """
    return _ADAPTIVE[len(size)](x, tuple(size), kind, _layout(len(size), channels_last))


def _global_pool(x: Tensor, kind: str) -> Tensor:
    axes = list(range(2, len(x.shape)))
    if kind == "max":
        return topi.max(x, axes, True)
    return mean(x, axes, True)


def _layer_norm(
    x: Tensor, scale: Tensor | None = None, bias: Tensor | None = None, *, axes: Sequence[int],
    epsilon: float,
) -> Tensor:  # fmt: skip
    """Each row less its mean, divided by its deviation; scaled and shifted element by element."""
    return topi.nn.layer_norm(x, scale, bias, list(axes), epsilon)


def _instance_norm(x: Tensor, scale: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    """Each channel of each image (N, C, ...) by itself, scaled and shifted by channel."""
    return topi.nn.instance_norm(x, scale, bias, list(range(2, x.ndim)), epsilon)


def _group_norm(x: Tensor, scale: Tensor, bias: Tensor, groups: int, epsilon: float) -> Tensor:
    """So many groups of channels, each normalised by itself; scaled and shifted by channel."""
    return topi.nn.group_norm(x, scale, bias, groups, 1, list(range(2, x.ndim)), epsilon)


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
    return topi.nn.lrn(x, size, 1, alpha, beta, bias)


_RESIZES = {1: topi.image.resize1d, 2: topi.image.resize2d, 3: topi.image.resize3d}


def _resize(
    x: Tensor,
    size: Sequence[int],
    method: str,
    mode: str,
    rounding: str = "",
    alpha: float = -0.75,
) -> Tensor:
    """Images (N, C, ...) of another size, of one to three dimensions."""
    rank = len(size)
    return _RESIZES[rank](x, None, size, _layout(rank), method, mode, rounding, alpha)


def _deform_conv(
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
    offset_groups: int = 1,
) -> Tensor:
    """A convolution of images whose windows' elements are moved by offsets."""
    made = topi.nn.deformable_conv2d_nchw(
        x, offset, weight, strides, padding, dilation, offset_groups, groups,
        None, mask,
    )  # fmt: skip
    return made if bias is None else _with_bias(made, bias)


OPERATORS: dict[str, Callable[..., Any]] = {
    "adaptive_pool": _adaptive_pool,
    "batch_norm": _batch_norm,
    "col2im": topi.image.col2im,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "deform_conv": _deform_conv,
    "det": topi.det,
    "einsum": lambda *operands, subscripts: topi.einsum(subscripts, *operands),
    "gemm": _gemm,
    "global_pool": _global_pool,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "layer_norm": _layer_norm,
    "log_softmax": lambda x, axis: topi.nn.log_softmax(x, axis),
    "lrn": _lrn,
    "matmul": _matmul,
    "pool": _pool,
    "pool_places": _pool_places,
    "resize": _resize,
    "rms_norm": lambda x, scale, axes, epsilon: topi.nn.rms_norm(x, scale, list(axes), epsilon),
    "softmax": lambda x, axis: topi.nn.softmax(x, axis),
}
"""Name -> function."""
