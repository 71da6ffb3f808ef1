"""Operators of neural networks."""

from __future__ import annotations

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.tir.ops import maximum
from whet.compiler.topi import broadcast, elemwise, reduction
from whet.compiler.topi import tag as topi_tag
from whet.compiler.topi.pad import pad


def pair(value: object, what: str) -> tuple[int, int]:
    """An int or a pair of ints as a pair."""
    items = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(items) != 2 or not all(isinstance(v, int) and not isinstance(v, bool) for v in items):
        raise ArgumentError(f"{what}={value!r}", "give an int or a pair of ints")
    return items[0], items[1]


def conv2d_nchw(
    data: Tensor, weight: Tensor, strides: object = 1, padding: object = 0, name: str = "conv"
) -> Tensor:
    """The convolution of ``data`` (N, CI, H, W) with ``weight`` (CO, CI, KH, KW).

    Args:
        strides: step of the window, an int or (vertical, horizontal), at least 1.
        padding: zeros on each side, an int or (vertical, horizontal), at least 0.

    Returns:
        (N, CO, OH, OW), of ``data``'s dtype.

    Raises:
        ArgumentError: if shapes, strides or padding do not fit.
    """
    (sh, sw), (ph, pw) = pair(strides, "strides"), pair(padding, "padding")
    asked = f"conv2d_nchw({data}, {weight}, strides={(sh, sw)}, padding={(ph, pw)})"
    if data.ndim != 4 or weight.ndim != 4:
        raise ArgumentError(asked, "data and weight must have four dimensions")
    n, ci, h, w = data.shape
    co, ci2, kh, kw = weight.shape
    if not ci == ci2:
        raise ArgumentError(asked, "the input channels of data and weight differ")
    if min(sh, sw) < 1:
        raise ArgumentError(asked, "strides must be at least 1")
    if min(ph, pw) < 0:
        raise ArgumentError(asked, "padding must not be negative")
    oh, ow = (int(h) + 2 * ph - int(kh)) // sh + 1, (int(w) + 2 * pw - int(kw)) // sw + 1
    if oh < 1 or ow < 1:
        raise ArgumentError(asked, "the window is larger than the padded image")
    padded = pad(data, (0, 0, ph, pw), name="padded") if ph or pw else data
    rc = te.reduce_axis((0, ci), name="rc")
    ry = te.reduce_axis((0, kh), name="ry")
    rx = te.reduce_axis((0, kw), name="rx")
    return te.compute(
        (n, co, oh, ow),
        lambda b, o, y, x: te.sum(
            padded[b, rc, y * sh + ry, x * sw + rx] * weight[o, rc, ry, rx], axis=[rc, ry, rx]
        ),
        name=name,
        tag="conv2d_nchw",
    )


def relu(x: Tensor) -> Tensor:
    """Each element, and 0 for a negative one."""
    zero = te.const(0, x.dtype)
    return te.compute(
        x.shape, lambda *i: maximum(x(*i), zero), name="T_relu", tag=topi_tag.ELEMWISE
    )


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """``exp(x - max) / sum(exp(x - max))`` along ``axis``."""
    top = reduction.max(x, axis, keepdims=True)
    raised = elemwise.exp(broadcast.subtract(x, top))
    return broadcast.divide(raised, reduction.sum(raised, axis, keepdims=True))


def dense(data: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``data`` (N, K) times the transpose of ``weight`` (M, K), plus ``bias`` (M).

    Raises:
        ArgumentError: the shapes do not fit.
    """
    asked = f"dense({data}, {weight})"
    if data.ndim != 2 or weight.ndim != 2:
        raise ArgumentError(asked, "both must have two dimensions")
    if not data.shape[1] == weight.shape[1]:
        raise ArgumentError(asked, "the columns of data and weight differ")
    k = te.reduce_axis((0, data.shape[1]), name="k")
    out = te.compute(
        (data.shape[0], weight.shape[0]),
        lambda i, j: te.sum(data[i, k] * weight[j, k], axis=k),
        name="T_dense",
        tag="dense",
    )
    return out if bias is None else broadcast.add(out, bias)
