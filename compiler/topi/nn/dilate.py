"""Data with gaps between its elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute
from whet.compiler.tir.ops.ops import all_of, const, if_then_else
from whet.compiler.topi.shapes import is_zero
from whet.compiler.topi.tag import INJECTIVE


def dilate(
    data: Tensor,
    strides: Sequence[int],
    dilation_value: float = 0.0,
    name: str = "DilatedInput",
) -> Tensor:
    """``data`` with ``strides[d] - 1`` times ``dilation_value`` between two neighbours along ``d``.

    Raises:
        ArgumentError: not one stride for each dimension, or one below 1.
    """
    if len(strides) != data.ndim or any(x < 1 for x in strides):
        raise ArgumentError(
            f"dilate({data}, {list(strides)})", f"give {data.ndim} strides, at least 1"
        )

    def element(*i: Any) -> Any:
        hit = [(x % k).equal(0) for x, k in zip(i, strides) if k > 1]
        one = data(*[x // k if k > 1 else x for x, k in zip(i, strides)])
        if not hit:
            return one
        return if_then_else(all_of(*hit), one, const(dilation_value, data.dtype))

    shape = [d if is_zero(d) else (d - 1) * k + 1 for d, k in zip(data.shape, strides)]
    return compute(shape, element, name, f"{INJECTIVE},dilate")
