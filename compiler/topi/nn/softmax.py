"""softmax, its logarithm, and the loss that goes with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute
from whet.compiler.tir.ops.ops import all_of, cast, const, if_then_else
from whet.compiler.topi import reduction
from whet.compiler.topi.elementwise import at, divide, exp, fast_exp, log, subtract
from whet.compiler.topi.half_precision import stored, widened
from whet.compiler.topi.reduction import sum
from whet.compiler.topi.shapes import check_integers
from whet.compiler.topi.tag import BROADCAST, INJECTIVE


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """``exp(x - max) / sum(exp(x - max))`` along ``axis``, with one division a row.

    Half precision is computed in float32.
    """
    return _softmax(x, axis, exp)


def fast_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """:func:`softmax` by :func:`topi.fast_exp`."""
    return _softmax(x, axis, fast_exp)


def _softmax(x: Tensor, axis: int, raise_e: Callable[[Tensor], Tensor]) -> Tensor:
    dtype, x = x.dtype, widened(x)
    top = reduction.max(x, axis, keepdims=True)
    raised = raise_e(subtract(x, top))
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


def nll_loss(
    predictions: Tensor, targets: Tensor, weights: Tensor, reduction: str, ignore_index: int
) -> Tensor:
    """The negative log likelihood: ``-predictions[n, t, ...] * weights[t]``, t the target.

    Args:
        predictions: (N, C, d ...), logarithms of probabilities; or (C,).
        targets: (N, d ...), integers; or one without axes. One outside counts 0, too.
        weights: (C,).
        reduction: ``"none"``; ``"sum"``; or ``"mean"``: the sum by that of the weights.
        ignore_index: a target that counts 0.

    Raises:
        ArgumentError: the shapes or the reduction do not fit, or the targets are no integers.
    """
    request = f"nll_loss({predictions}, {targets}, {weights}, {reduction!r})"
    check_integers(targets, request)
    if predictions.ndim != targets.ndim + 1 or weights.ndim != 1:
        raise ArgumentError(request, "predictions have one dimension more, weights have one")
    if reduction not in ("none", "sum", "mean"):
        raise ArgumentError(request, "a reduction is 'none', 'sum' or 'mean'")
    zero, classes = const(0, predictions.dtype), weights.shape[0]

    def counted(i: Any, one: Callable[[Any], Any]) -> Any:
        t = cast("int64", targets(*i))
        known = all_of(t >= 0, t < cast("int64", classes), t != ignore_index)
        return if_then_else(known, one(t), zero)

    def loss(*i: Any) -> Any:
        return counted(i, lambda t: zero - predictions(*i[:1], t, *i[1:]) * weights(t))

    each = compute(targets.shape, loss, "T_nll_loss", INJECTIVE)
    if reduction == "none":
        return each
    total = sum(each) if each.ndim else each
    if reduction == "sum":
        return total
    own = compute(
        targets.shape, lambda *i: counted(i, lambda t: weights(t)), "T_nll_weight", INJECTIVE
    )
    return divide(total, sum(own) if own.ndim else own)
