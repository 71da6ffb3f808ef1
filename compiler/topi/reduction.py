"""Sums, maxima and minima over axes, and the transposition of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.tir import ops
from whet.compiler.topi import tag

Axis = int | Sequence[int] | None


def _axes(data: Tensor, axis: Axis, asked: str) -> list[int]:
    if axis is None:
        return list(range(data.ndim))
    given = [axis] if isinstance(axis, int) else list(axis)
    for a in given:
        if not -data.ndim <= a < data.ndim:
            raise ArgumentError(asked, f"there is no axis {a} in {data.ndim} dimensions")
    found = [a % data.ndim for a in given]
    if len(set(found)) != len(found):
        raise ArgumentError(asked, "an axis stands there twice")
    return sorted(found)


def _reduction(name: str, combine: Callable[..., Any]) -> Callable[..., Tensor]:
    def operator(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
        axes = _axes(data, axis, f"{name}({data}, axis={axis})")
        inner = {a: te.reduce_axis((0, data.shape[a]), name=f"k{a}") for a in axes}
        shape = [ops.const(1) if d in inner else x for d, x in enumerate(data.shape)]
        if not keepdims:
            shape = [x for d, x in enumerate(shape) if d not in inner]

        def element(*i: Any) -> Any:
            given = iter(i)
            if keepdims:
                index = [inner.get(d, x) for d, x in enumerate(i)]
            else:
                index = [inner[d] if d in inner else next(given) for d in range(data.ndim)]
            return combine(data(*index), axis=list(inner.values()))

        return te.compute(tuple(shape), element, name=f"{data.op.name}_red", tag=tag.COMM_REDUCE)

    operator.__name__ = name
    operator.__doc__ = (
        f"The {name} over ``axis`` (all axes for None); with ``keepdims`` its extents become 1."
    )
    return operator


sum = _reduction("sum", te.sum)
max = _reduction("max", te.max)
min = _reduction("min", te.min)


def transpose(data: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """``data`` with its dimensions in the order ``axes``, reversed by default.

    Raises:
        ArgumentError: ``axes`` does not name each dimension once.
    """
    order = list(axes) if axes is not None else list(reversed(range(data.ndim)))
    if sorted(a % data.ndim for a in order if -data.ndim <= a < data.ndim) != list(
        range(data.ndim)
    ):
        raise ArgumentError(
            f"transpose({data}, {order})", f"the axes are no order of {data.ndim} dimensions"
        )
    order = [a % data.ndim for a in order]

    def element(*i: Any) -> Any:
        index: list[Any] = [None] * data.ndim
        for d, a in enumerate(order):
            index[a] = i[d]
        return data(*index)

    shape = tuple(data.shape[a] for a in order)
    return te.compute(shape, element, name="T_transpose", tag=tag.INJECTIVE)
