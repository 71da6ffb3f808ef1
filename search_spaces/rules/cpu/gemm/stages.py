"""Stages that the schedules of GEMMs and convolutions share: accumulators, edges, operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.te import Schedule, Stage, Tensor


def accumulators(s: Schedule, product: Tensor, stored: Stage) -> Tensor:
    """The stage that sums ``product`` up in registers; attach it to the tile's loop of ``stored``.

    Args:
        s: the schedule; nothing of ``product`` is scheduled yet.
        product: the reduction.
        stored: of ``product`` itself, or of what reads it and stores the result.
    """
    if s[product] is stored:
        return s.cache_write(product, "local")
    s[product].set_scope("local")
    return product


def or_zero(value: Any, tests: Sequence[Any]) -> Any:
    """A value where all tests hold, else zero; the value itself without tests."""
    if not tests:
        return value
    return te.if_then_else(te.all(*tests), value, te.const(0, value.dtype))


def within(places: Sequence[Any], shape: Any) -> list[Any]:
    """The tests that places lie in the image of a convolution, where there is padding."""
    tests: list[Any] = []
    for i, n, before, after in zip(places, shape.image, shape.before, shape.after):
        tests += [i >= 0] if before else []
        tests += [i < n] if after else []
    return tests


def square_side(width: int, steps: int, lanes: int) -> int:
    """The side of the squares that are transposed in registers; 0: there is no room for one.

    Squares that do not divide what is transposed leave a rest, which goes lane by lane.

    Args:
        width, steps: of what is transposed.
        lanes: elements in a vector.
    """
    sides = [n for n in (16, 8, 4) if n <= min(lanes, width, steps)]
    whole = (n for n in sides if width % n == 0 and steps % n == 0)
    return next(whole, next((n for n in sides if n <= 8), 0))
