"""Operators that turn each element into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.tir.ops import mathematics as m
from whet.compiler.tir.ops import ops
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
log2 = _unary("log2", m.log2)
log10 = _unary("log10", m.log10)
tan = _unary("tan", m.tan)
isnan = _unary("isnan", m.isnan)
isinf = _unary("isinf", m.isinf)
isfinite = _unary("isfinite", m.isfinite)
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
bitwise_not = _unary("bitwise_not", ops.bitwise_not)
logical_not = _unary(
    "logical_not", lambda x: ops.logical_not(x) if x.dtype == "bool" else x.equal(0)
)
sign = _unary(
    "sign",
    lambda x: ops.select(x > 0, ops.cast(x.dtype, 1), ops.select(x < 0, ops.cast(x.dtype, -1), x)),
)


def cast(x: Tensor, dtype: str) -> Tensor:
    """Each element converted to ``dtype``."""
    return te.compute(x.shape, lambda *i: x(*i).astype(dtype), name="T_cast", tag=tag.ELEMWISE)


def clip(x: Tensor, a_min: float, a_max: float) -> Tensor:
    """Each element, no less than ``a_min`` and no more than ``a_max``."""
    low, high = te.const(a_min, x.dtype), te.const(a_max, x.dtype)

    def element(*i: Any) -> Any:
        return ops.maximum(ops.minimum(x(*i), high), low)

    return te.compute(x.shape, element, name="T_clip", tag=tag.ELEMWISE)


def full(shape: Sequence[Any], dtype: str, fill_value: Any) -> Tensor:
    """A tensor whose elements are all ``fill_value``."""
    value = ops.cast(dtype, fill_value)
    return te.compute(tuple(shape), lambda *i: value, name="T_full", tag=tag.ELEMWISE)


def full_like(x: Tensor, fill_value: Any) -> Tensor:
    """A tensor of ``x``'s shape and element type whose elements are all ``fill_value``."""
    return full(x.shape, x.dtype, fill_value)


def zeros(shape: Sequence[Any], dtype: str = "float32") -> Tensor:
    """A tensor of zeros."""
    return full(shape, dtype, 0)


def ones(shape: Sequence[Any], dtype: str = "float32") -> Tensor:
    """A tensor of ones."""
    return full(shape, dtype, 1)


def elemwise_sum(xs: Sequence[Tensor]) -> Tensor:
    """The sum of tensors of one shape, element by element.

    Raises:
        ArgumentError: there is none, or their numbers of dimensions differ.
    """
    given = list(xs)
    asked = f"elemwise_sum([{', '.join(map(str, given))}])"
    if not given:
        raise ArgumentError(asked, "there is no tensor")
    if any(str(t.shape) != str(given[0].shape) for t in given):
        raise ArgumentError(asked, "their shapes differ")

    def element(*i: Any) -> Any:
        out: Any = given[0](*i)
        for t in given[1:]:
            out = out + t(*i)
        return out

    return te.compute(given[0].shape, element, name="T_sum", tag=tag.ELEMWISE)
