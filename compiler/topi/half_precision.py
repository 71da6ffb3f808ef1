"""Half precision: float16 and bfloat16 store elements, operators accumulate in float32."""

from __future__ import annotations

from typing import Any

from whet.compiler import te
from whet.compiler.te import Tensor
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.ops import ops
from whet.compiler.topi.elementwise import cast, each_element

_HALF_PRECISION = ("float16", "bfloat16")


def summed_in(dtype: str) -> str:
    """The accumulation dtype of a dtype: float32 for float16 and bfloat16.

    float16 holds 11 bits: a sum of ones would stop growing at 2048, and end at 65504.
    """
    dtype = dt.check(dtype)
    return "float32" if dtype in _HALF_PRECISION else dtype


def widened(t: Tensor) -> Tensor:
    """A tensor of half precision cast to float32; any other one as it is."""
    dtype = summed_in(t.dtype)
    return t if t.dtype == dtype else cast(t, dtype)


def sum_of_products(dtype: str, left: Any, right: Any, axis: Any) -> Any:
    """The sum of ``left * right`` over axes, for a result of ``dtype``."""
    kind = summed_in(dtype)
    return te.sum(ops.cast(kind, left) * ops.cast(kind, right), axis=axis)


def stored(t: Tensor, dtype: str) -> Tensor:
    """A result cast to the dtype that it is stored in; it keeps its name: an operator's output."""
    dtype = dt.check(dtype)
    if t.dtype == dtype:
        return t
    return each_element(t, lambda one: ops.cast(dtype, one), t.op.name)
