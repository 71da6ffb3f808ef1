"""softmax and its logarithm."""

from __future__ import annotations

from whet.compiler.te import Tensor, compute
from whet.compiler.topi import reduction
from whet.compiler.topi.elementwise import at, divide, exp, log, subtract
from whet.compiler.topi.half_precision import stored, widened
from whet.compiler.topi.tag import BROADCAST


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """``exp(x - max) / sum(exp(x - max))`` along ``axis``, with one division a row.

    Half precision is computed in float32.
    """
    dtype, x = x.dtype, widened(x)
    top = reduction.max(x, axis, keepdims=True)
    raised = exp(subtract(x, top))
    total = reduction.sum(raised, axis, keepdims=True)
    inverse = divide(1.0, total)
    out = compute(
        x.shape,
        lambda *i: raised(*i) * at(inverse, i),
        "T_softmax_norm",
        BROADCAST,
    )
    return stored(out, dtype)


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """``x - max - log(sum(exp(x - max)))`` along ``axis``; half precision in float32."""
    dtype, x = x.dtype, widened(x)
    shifted = subtract(x, reduction.max(x, axis, keepdims=True))
    total = reduction.sum(exp(shifted), axis, keepdims=True)
    return stored(subtract(shifted, log(total)), dtype)
