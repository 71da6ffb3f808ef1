"""Sums, products, maxima, minima and their places over axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, comm_reducer, compute, reduce_axis, select
from whet.compiler.tir import IterVar
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.ops.ops import (
    cast,
    const,
    logical_and,
    logical_or,
    max_value,
    min_value,
    multiply,
)
from whet.compiler.topi.elementwise import each_element
from whet.compiler.topi.half_precision import stored, summed_in
from whet.compiler.topi.shapes import is_zero, one_axis
from whet.compiler.topi.tag import COMM_REDUCE

Axis = int | Sequence[int] | None


@dataclass(frozen=True)
class _Over:
    """A reduction's axes.

    Attributes:
        data: what is reduced.
        inner: number of the axis -> its loop.
        keepdims: the axes stay, with an extent of 1.
    """

    data: Tensor
    inner: dict[int, IterVar]
    keepdims: bool

    @staticmethod
    def of(data: Tensor, axis: Axis, keepdims: bool, request: str) -> _Over:
        """The axes that are meant by ``axis``, in order.

        Raises:
            ArgumentError: there is no such axis, or one is named twice.
        """
        given = [axis] if isinstance(axis, int) else range(data.ndim) if axis is None else axis
        axes = sorted(one_axis(k, data.ndim, request) for k in given)
        if len(set(axes)) != len(axes):
            raise ArgumentError(request, "an axis stands there twice")
        loops = {k: reduce_axis((0, data.shape[k]), name=f"k{k}") for k in axes}
        return _Over(data, loops, keepdims)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The result's."""
        extents = enumerate(self.data.shape)
        if self.keepdims:
            return tuple(const(1) if k in self.inner else d for k, d in extents)
        return tuple(d for k, d in extents if k not in self.inner)

    def element(self, index: Sequence[Any]) -> Any:
        """The element of the data that the loops are at, for an index of the result."""
        outer = iter(self.kept(index))
        dimensions = range(self.data.ndim)
        return self.data(*[self.inner[k] if k in self.inner else next(outer) for k in dimensions])

    def kept(self, index: Sequence[Any]) -> list[Any]:
        """An index of the result without the axes that are reduced."""
        return [x for k, x in enumerate(index) if not self.keepdims or k not in self.inner]


def _reduction(name: str, combine: Callable[..., Any], nothing: str) -> Callable[..., Tensor]:
    rounded = name in ("sum", "prod")

    def operator(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
        over = _Over.of(data, axis, keepdims, f"{name}({data}, axis={axis})")
        stage = f"{data.op.name}_red"
        if not over.inner:
            return each_element(data, lambda one: one, stage)
        kind = summed_in(data.dtype) if rounded else data.dtype

        def element(*i: Any) -> Any:
            return combine(cast(kind, over.element(i)), axis=[*over.inner.values()])

        out = compute(over.shape, element, name=stage, tag=COMM_REDUCE)
        return stored(out, data.dtype)

    operator.__name__ = name
    operator.__doc__ = (
        f"The {name} over ``axis`` (all axes for None); with ``keepdims`` its extents become 1.\n\n"
        f"    Over no axis, ``()``, it is ``data`` as it is; of no elements, {nothing}.\n"
        + "    Half precision is combined in float32, and rounded once.\n" * rounded
        + "    "
    )
    return operator


_product = comm_reducer(multiply, lambda t: const(1, t), name="prod")
_every = comm_reducer(logical_and, lambda t: const(True), name="all")
_some = comm_reducer(logical_or, lambda t: const(False), name="any")

sum = _reduction("sum", te.sum, "0")
max = _reduction("max", te.max, "the least value of the type (numpy refuses), -inf of floats")
min = _reduction("min", te.min, "the largest value of the type (numpy refuses), inf of floats")
prod = _reduction("prod", _product, "1")
all = _reduction("all", _every, "True")
any = _reduction("any", _some, "False")


def _better(name: str, last: bool) -> Callable[..., Any]:
    """Of two (index, value) the better one; of equal values the one that comes first, or last."""

    def combine(x: Any, y: Any) -> Any:
        wins = x[1] > y[1] if name == "argmax" else x[1] < y[1]
        before = x[0] > y[0] if last else x[0] <= y[0]
        chosen = logical_or(wins, logical_and(x[1].equal(y[1]), before))
        return select(chosen, x[0], y[0]), select(chosen, x[1], y[1])

    def identity(index: str, value: str) -> Any:
        if dt.is_float(value):
            worst = const(-math.inf if name == "argmax" else math.inf, value)
        else:
            worst = min_value(value) if name == "argmax" else max_value(value)
        # The least place: that of no later one, and right where all values are the worst.
        return min_value(index) if last else const(0, index), worst

    return comm_reducer(combine, identity, name=name)


first_largest = _better("argmax", False)
"""A reducer of (place, value): the largest value, and the least of its places."""


def _position(name: str) -> Callable[..., Tensor]:
    first, last = _better(name, False), _better(name, True)

    def operator(
        data: Tensor, axis: Axis = None, keepdims: bool = False, select_last_index: bool = False
    ) -> Tensor:
        request = f"{name}({data}, axis={axis})"
        reducer = last if select_last_index else first
        over = _Over.of(data, axis, keepdims, request)
        _check_places(data, list(over.inner), request)

        def element(*i: Any) -> Any:
            flat: Any = const(0)
            for k, loop in over.inner.items():
                flat = flat * data.shape[k] + loop
            one = cast("int32", flat), flat_over.element(i)
            return reducer(one, axis=[*over.inner.values()])

        flat_over = replace(over, keepdims=False)
        pair = compute(flat_over.shape, element, f"{data.op.name}_red", f"{name}_pair")
        return compute(
            over.shape,
            lambda *i: pair[0](*over.kept(i)),
            f"T_{name}",
            COMM_REDUCE,
        )

    operator.__name__ = name
    operator.__doc__ = (
        f"Where the {name[3:]} over ``axis`` is, the first one of equals, or the last one, as "
        "int32; over several axes, its number in their row-major order.\n\n"
        "    Raises:\n        ArgumentError: an axis has no elements, or there is no axis.\n    "
    )
    return operator


def _check_places(data: Tensor, axes: list[int], request: str) -> None:
    """Refuse to look for a place where there is none; symbolic extents are taken to be some."""
    if not axes:
        dimensions = f"{data.ndim} dimension{'' if data.ndim == 1 else 's'}"
        raise ArgumentError(request, f"no axis is named of {dimensions}", "name one, e.g. axis=0")
    for a in axes:
        if is_zero(data.shape[a]):
            raise ArgumentError(
                request,
                f"axis {a} has 0 elements, and none of them is at any place",
                "leave the call out where there is no data",
            )


argmax = _position("argmax")
argmin = _position("argmin")
