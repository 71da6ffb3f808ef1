"""Sums, products, maxima, minima and their places over axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.tir import IntImm
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.ops import ops
from whet.compiler.topi import tag
from whet.compiler.topi.halves import stored, summed_in

Axis = int | Sequence[int] | None
#: reductions whose steps round
_ROUNDED = ("sum", "prod")


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


def _reduction(name: str, combine: Callable[..., Any], nothing: str) -> Callable[..., Tensor]:
    def operator(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
        axes = _axes(data, axis, f"{name}({data}, axis={axis})")
        if not axes:
            return _as_it_is(data)
        kind = summed_in(data.dtype) if name in _ROUNDED else data.dtype
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
            value = ops.cast(kind, data(*index))
            return combine(value, axis=list(inner.values()))

        made = te.compute(tuple(shape), element, name=f"{data.op.name}_red", tag=tag.COMM_REDUCE)
        return stored(made, data.dtype)

    operator.__name__ = name
    operator.__doc__ = (
        f"The {name} over ``axis`` (all axes for None); with ``keepdims`` its extents become 1.\n\n"
        f"    Over no axis, ``()``, it is ``data`` as it is; of no elements, {nothing}.\n"
        + (
            "    Halves are combined in float32, and rounded once.\n    "
            if name in _ROUNDED
            else "    "
        )
    )
    return operator


def _as_it_is(data: Tensor) -> Tensor:
    return te.compute(data.shape, lambda *i: data(*i), name=f"{data.op.name}_red", tag=tag.ELEMWISE)


_product = te.comm_reducer(ops.multiply, lambda t: ops.const(1, t), name="prod")
_every = te.comm_reducer(ops.logical_and, lambda t: ops.const(True), name="all")
_some = te.comm_reducer(ops.logical_or, lambda t: ops.const(False), name="any")

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
        before = x[0] > y[0] if last else x[0] < y[0]
        chosen = ops.logical_or(wins, ops.logical_and(x[1].equal(y[1]), before))
        return te.select(chosen, x[0], y[0]), te.select(chosen, x[1], y[1])

    def identity(index: str, value: str) -> Any:
        if dt.is_float(value):
            worst = ops.const(-math.inf if name == "argmax" else math.inf, value)
        else:
            worst = ops.min_value(value) if name == "argmax" else ops.max_value(value)
        return ops.min_value(index) if last else ops.max_value(index), worst

    return te.comm_reducer(combine, identity, name=name)


def _position(name: str) -> Callable[..., Tensor]:
    first, last = _better(name, False), _better(name, True)

    def operator(
        data: Tensor, axis: Axis = None, keepdims: bool = False, select_last_index: bool = False
    ) -> Tensor:
        asked = f"{name}({data}, axis={axis})"
        reducer = last if select_last_index else first
        axes = _axes(data, axis, asked)
        _check_places(data, axes, asked)
        inner = {a: te.reduce_axis((0, data.shape[a]), name=f"k{a}") for a in axes}
        kept = [x for d, x in enumerate(data.shape) if d not in inner]

        def element(*i: Any) -> Any:
            given = iter(i)
            index = [inner[d] if d in inner else next(given) for d in range(data.ndim)]
            flat: Any = ops.const(0)
            for a, k in inner.items():
                flat = flat * data.shape[a] + k
            return reducer((ops.cast("int32", flat), data(*index)), axis=list(inner.values()))

        pair = te.compute(tuple(kept), element, name=f"{data.op.name}_red", tag=f"{name}_pair")
        shape = [ops.const(1) if d in inner else x for d, x in enumerate(data.shape)]

        def place(*i: Any) -> Any:
            own = [x for d, x in enumerate(i) if d not in inner] if keepdims else i
            return pair[0](*own)

        return te.compute(
            tuple(shape if keepdims else kept), place, name=f"T_{name}", tag=tag.COMM_REDUCE
        )

    operator.__name__ = name
    operator.__doc__ = (
        f"Where the {name[3:]} over ``axis`` is, the first one of equals, or the last one, as "
        "int32; over several axes, its number in their row-major order.\n\n"
        "    Raises:\n        ArgumentError: an axis has no elements, or there is no axis.\n    "
    )
    return operator


def _check_places(data: Tensor, axes: list[int], asked: str) -> None:
    """Refuse to look for a place where there is none; symbolic extents are taken to be some."""
    if not axes:
        dimensions = f"{data.ndim} dimension{'' if data.ndim == 1 else 's'}"
        raise ArgumentError(asked, f"no axis is named of {dimensions}", "name one, e.g. axis=0")
    for a in axes:
        extent = data.shape[a]
        if isinstance(extent, IntImm) and extent.value == 0:
            raise ArgumentError(
                asked,
                f"axis {a} has 0 elements, and none of them is at any place",
                "leave the call out where there is no data",
            )


argmax = _position("argmax")
argmin = _position("argmin")
