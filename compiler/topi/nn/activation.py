"""Rectifiers, softmax and its logarithm."""

from __future__ import annotations

from typing import Any

from whet.compiler import te
from whet.compiler.te import Tensor
from whet.compiler.tir import ops
from whet.compiler.topi import broadcast, elemwise, reduction, tag


def relu(x: Tensor) -> Tensor:
    """Each element, and 0 for a negative one."""
    zero = te.const(0, x.dtype)
    return te.compute(x.shape, lambda *i: ops.maximum(x(*i), zero), name="T_relu", tag=tag.ELEMWISE)


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """Each element, and ``alpha`` times a negative one."""

    def element(*i: Any) -> Any:
        one = x(*i)
        return te.select(one > 0, one, one * te.const(alpha, x.dtype))

    return te.compute(x.shape, element, name="T_leaky_relu", tag=tag.ELEMWISE)


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """``exp(x - max) / sum(exp(x - max))`` along ``axis``."""
    top = reduction.max(x, axis, keepdims=True)
    raised = elemwise.exp(broadcast.subtract(x, top))
    return broadcast.divide(raised, reduction.sum(raised, axis, keepdims=True))


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """``x - max - log(sum(exp(x - max)))`` along ``axis``."""
    shifted = broadcast.subtract(x, reduction.max(x, axis, keepdims=True))
    total = reduction.sum(elemwise.exp(shifted), axis, keepdims=True)
    return broadcast.subtract(shifted, elemwise.log(total))
