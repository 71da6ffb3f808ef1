"""Padding with a constant."""

from __future__ import annotations

from collections.abc import Sequence

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.tir import PrimExpr


def pad(
    data: Tensor,
    before: Sequence[int],
    after: Sequence[int] | None = None,
    value: float = 0.0,
    name: str = "pad",
) -> Tensor:
    """``data`` with ``before[d]`` elements in front of dimension ``d`` and ``after[d]`` behind it.

    Args:
        data: any tensor.
        before, after: one int >= 0 a dimension; ``after`` is ``before`` unless given.
        value: what the new elements are.
    """
    after = before if after is None else after
    if len(before) != data.ndim or len(after) != data.ndim:
        raise ArgumentError(
            f"pad({data.name}, {list(before)}, {list(after)})",
            f"{data.name} has {data.ndim} dimensions: give as many numbers",
        )
    if min([*before, *after], default=0) < 0:
        raise ArgumentError(
            f"pad({data.name}, {list(before)}, {list(after)})", "padding must not be negative"
        )
    shape = [d + (b + a) for d, b, a in zip(data.shape, before, after)]

    def element(*index: PrimExpr) -> PrimExpr:
        tests = []
        source = []
        for i, d, b, a in zip(index, data.shape, before, after):
            source.append(i - b if b else i)
            if b:
                tests.append(i >= b)
            if a:
                tests.append(i < d + b)
        inside = data(*source)
        if not tests:
            return inside
        return te.if_then_else(te.all(*tests), inside, te.const(value, data.dtype))

    return te.compute(tuple(shape), element, name=name, tag="injective,pad")
