"""softmax and its logarithm."""

from __future__ import annotations

from whet.compiler import te
from whet.compiler.te import Tensor
from whet.compiler.topi import broadcast, elemwise, reduction, tag
from whet.compiler.topi.halves import stored, widened


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """``exp(x - max) / sum(exp(x - max))`` along ``axis``, with one division a row.

    Halves are computed with in float32.
    """
    dtype, x = x.dtype, widened(x)
    top = reduction.max(x, axis, keepdims=True)
    raised = elemwise.exp(broadcast.subtract(x, top))
    total = reduction.sum(raised, axis, keepdims=True)
    inverse = broadcast.divide(1.0, total)
    out = te.compute(
        x.shape,
        lambda *i: raised(*i) * broadcast.at(inverse, i),
        name="T_softmax_norm",
        tag=tag.BROADCAST,
    )
    return stored(out, dtype)


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """``x - max - log(sum(exp(x - max)))`` along ``axis``; halves in float32."""
    dtype, x = x.dtype, widened(x)
    shifted = broadcast.subtract(x, reduction.max(x, axis, keepdims=True))
    total = reduction.sum(elemwise.exp(shifted), axis, keepdims=True)
    return stored(broadcast.subtract(shifted, elemwise.log(total)), dtype)
