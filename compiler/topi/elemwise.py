"""Operators that turn each element into one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler import te
from whet.compiler.te import Tensor
from whet.compiler.tir import mathematics as m
from whet.compiler.tir import ops
from whet.compiler.topi import tag


def _unary(name: str, change: Callable[[Any], Any]) -> Callable[[Tensor], Tensor]:
    def operator(x: Tensor) -> Tensor:
        return te.compute(x.shape, lambda *i: change(x(*i)), name=f"T_{name}", tag=tag.ELEMWISE)

    operator.__name__ = name
    operator.__doc__ = f"``{name}`` of each element."
    return operator


exp = _unary("exp", m.exp)
log = _unary("log", m.log)
sqrt = _unary("sqrt", m.sqrt)
rsqrt = _unary("rsqrt", m.rsqrt)
tanh = _unary("tanh", m.tanh)
sigmoid = _unary("sigmoid", m.sigmoid)
erf = _unary("erf", m.erf)
sin = _unary("sin", m.sin)
cos = _unary("cos", m.cos)
floor = _unary("floor", m.floor)
ceil = _unary("ceil", m.ceil)
trunc = _unary("trunc", m.trunc)
round = _unary("round", m.round)
abs = _unary("abs", m.abs)
negative = _unary("negative", ops.negate)
identity = _unary("identity", lambda x: x)


def cast(x: Tensor, dtype: str) -> Tensor:
    """Each element converted to ``dtype``."""
    return te.compute(x.shape, lambda *i: x(*i).astype(dtype), name="T_cast", tag=tag.ELEMWISE)


def clip(x: Tensor, a_min: float, a_max: float) -> Tensor:
    """Each element, no less than ``a_min`` and no more than ``a_max``."""
    low, high = te.const(a_min, x.dtype), te.const(a_max, x.dtype)

    def element(*i: Any) -> Any:
        return ops.maximum(ops.minimum(x(*i), high), low)

    return te.compute(x.shape, element, name="T_clip", tag=tag.ELEMWISE)
