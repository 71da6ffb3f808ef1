"""Epilogues: what is done to each element of a product before it is stored.

A chain of steps becomes one stage that reads its input once, so that a schedule can compute a tile
of the input in registers and apply the whole chain as it stores the tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, placeholder
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.ops.mathematics import sigmoid
from whet.compiler.tir.ops.ops import const, maximum, minimum
from whet.compiler.topi.nn.activation import gelu_of, rectified, silu_of
from whet.compiler.topi.shapes import one_axis, product
from whet.compiler.topi.tag import BROADCAST, ELEMWISE

Step = str | tuple


_ELEMENTWISE: dict[str, Callable[[Any], Any]] = {
    "relu": rectified,
    "gelu": gelu_of,
    "silu": silu_of,
    "sigmoid": sigmoid,
}
_WITH_TENSOR = ("bias", "residual")
_WORDS = (*_WITH_TENSOR, *_ELEMENTWISE)
_WITH_NUMBERS = {"clip": '("clip", low, high), None for an open end', "cast": '("cast", dtype)'}
_FORMS = ", ".join([*_WORDS, *_WITH_NUMBERS.values()])


@dataclass(frozen=True)
class Epilogue:
    """A chain of steps on each element; :meth:`of` makes it.

    Attributes:
        steps: in the order in which they are applied, each in its canonical form.
    """

    steps: tuple[Step, ...] = ()

    @staticmethod
    def of(given: Any) -> Epilogue:
        """The epilogue of a tuple of steps; of None, or of an empty tuple, one that does nothing.

        A step that is a word may stand by itself: ``"bias"`` is ``("bias",)``.

        Args:
            given: ``"bias"`` (adds one number a channel, a tensor of the kernel), ``"residual"``
                (adds a tensor of the result's shape), ``"relu"``, ``"gelu"`` (exact), ``"silu"``,
                ``"sigmoid"``, ``("clip", low, high)`` (one of them may be None: no bound),
                ``("cast", dtype)``.

        >>> Epilogue.of(["bias", ("clip", 0, 6)]).steps
        ('bias', ('clip', 0.0, 6.0))
        >>> Epilogue.of([("clip", 0, float("inf"))]).steps
        (('clip', 0.0, None),)

        Raises:
            ArgumentError: there is no such step, or its numbers do not fit.
        """
        if isinstance(given, Epilogue):
            return given
        if given is None:
            return Epilogue()
        request = f"epilogue={given!r}"
        if isinstance(given, str) and given in _WORDS:
            given = (given,)
        if not isinstance(given, (tuple, list)):
            raise ArgumentError(
                request,
                "an epilogue is a tuple of steps",
                f"write ('bias', 'relu'), on a command line in quotes: \"('bias','relu')\"\n"
                f"steps: {_FORMS}",
            )
        return Epilogue(tuple(_step(one, request) for one in given))

    def __bool__(self) -> bool:
        return bool(self.steps)

    def dtype(self, dtype: str) -> str:
        """The element type of the result, for an input of ``dtype``."""
        for one in self.steps:
            dtype = str(one[1]) if one[0] == "cast" else dtype
        return dtype

    def apply(
        self,
        data: Tensor,
        channel_axis: int | Sequence[int],
        name: str = "out",
        stored: str | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """``data`` after the steps, as one stage; ``data`` itself if there is nothing to do.

        Args:
            data: a tensor of floats.
            channel_axis: the axis that a bias has a number for; several, outermost first, where
                the layout splits the channels. A bias has one dimension all the same.
            name: of the stage.
            stored: the type of the operands and of the result where that is not ``data``'s, in
                which the steps are computed: sums in float32 of numbers stored in float16.

        Returns:
            The result, and the placeholders that the steps have brought, in their order.

        Raises:
            ArgumentError: there is no such axis, or the elements are no floats.
        """
        dtype = stored or data.dtype
        if not self.steps and dtype == data.dtype:
            return data, []
        request = f"epilogue {self.steps} of {data}"
        if not dt.is_float(data.dtype):
            raise ArgumentError(
                request,
                f"elements are {data.dtype}, no floats",
                "leave the epilogue out, and compute what follows in te or topi",
            )
        given = [channel_axis] if isinstance(channel_axis, int) else list(channel_axis)
        axes = [one_axis(k, data.ndim, request) for k in given]
        brought: list[Tensor | None] = []
        for one in self.steps:
            brought.append(_operand(one, data, axes, dtype))
            dtype = str(one[1]) if one[0] == "cast" else dtype

        def element(*i: Any) -> Any:
            x = data(*i)
            for one, operand in zip(self.steps, brought):
                x = _applied(one, x, operand, i, axes, data)
            return x.astype(dtype) if x.dtype != dtype else x

        kind = BROADCAST if "bias" in self.steps else ELEMWISE
        out = compute(data.shape, element, name, kind)
        return out, [t for t in brought if t is not None]


def _step(given: Any, request: str) -> Step:
    """One step in canonical form."""
    if isinstance(given, str) and given in _WORDS:
        return given
    name = given[0] if isinstance(given, (tuple, list)) and given else given
    if not isinstance(name, str) or name not in _WITH_NUMBERS:
        raise ArgumentError(request, f"{given!r} is no step", f"steps: {_FORMS}")
    rest = list(given[1:]) if not isinstance(given, str) else []
    if len(rest) != (2 if name == "clip" else 1):
        raise ArgumentError(request, f"{given!r} is not complete", f"write {_WITH_NUMBERS[name]}")
    if name == "cast":
        dtype = dt.check(rest[0])
        if not dt.is_float(dtype):
            raise ArgumentError(
                request, f"{given!r}: {dtype} holds no floats", "cast to float16, bfloat16, ..."
            )
        return "cast", dtype
    low, high = (
        _bound(rest[0], -math.inf, given, request),
        _bound(rest[1], math.inf, given, request),
    )
    if low is None and high is None:
        raise ArgumentError(request, f"{given!r}: both ends are open", "leave the step out")
    if low is not None and high is not None and low > high:
        raise ArgumentError(
            request, f"{given!r}: {low} is above {high}", "give the lower one first"
        )
    return "clip", low, high


def _bound(value: Any, unbounded: float, given: Any, request: str) -> float | None:
    """A bound of a clip; None where it bounds nothing."""
    if value is None or value == unbounded:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        raise ArgumentError(
            request, f"{given!r}: bounds are numbers, or None", "write ('clip', 0.0, 6.0)"
        )
    return float(value)


def _operand(step: Step, data: Tensor, axes: list[int], dtype: str) -> Tensor | None:
    """The placeholder that a step brings with it."""
    if step == "bias":
        return placeholder((product([data.shape[k] for k in axes]),), dtype, name="bias")
    return placeholder(data.shape, dtype, name="residual") if step == "residual" else None


def _applied(
    step: Step, x: Any, operand: Tensor | None, i: tuple, axes: list[int], data: Tensor
) -> Any:
    """``x`` after one step, where ``i`` is its place."""
    if operand is None:
        if isinstance(step, str):
            return _ELEMENTWISE[step](x)
        if step[0] == "cast":
            return x.astype(step[1])
        x = x if step[2] is None else minimum(x, const(step[2], x.dtype))
        return x if step[1] is None else maximum(x, const(step[1], x.dtype))
    if step == "residual":
        return x + operand(*i).astype(x.dtype)
    channel = i[axes[0]]
    for k in axes[1:]:
        channel = channel * data.shape[k] + i[k]
    return x + operand(channel).astype(x.dtype)
