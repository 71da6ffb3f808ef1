"""The primitives of a ``tir.Schedule`` that draw numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from whet.compiler.errors import ScheduleError
from whet.compiler.te.blocks.handles import ExprRV, LoopRV
from whet.compiler.te.blocks.record import query

if TYPE_CHECKING:
    from whet.compiler.te.blocks.schedule import Schedule


@query
def sample_perfect_tile(
    self: Schedule,
    loop: LoopRV,
    n: int,
    max_innermost_factor: int = 16,
    decision: Sequence[int] | None = None,
) -> list[ExprRV]:
    """Factors whose product is a loop's length, all such with the same chance.

    Args:
        loop: of constant length.
        n: how many factors.
        max_innermost_factor: the last one is at most so much.
        decision: the factors, instead of drawing them.

    Raises:
        ScheduleError: for a loop of another length than the decision's product, or of none.
    """
    state, stage, axis = self.loop(loop)
    extent = state.extent(stage, axis)
    request = f"sample_perfect_tile({loop.name}, {n})"
    if not isinstance(n, int) or not isinstance(max_innermost_factor, int):
        raise ScheduleError(request, "n and the bound are integers", "n=4, max_innermost_factor=16")
    if extent is None or n < 1 or max_innermost_factor < 1:
        why = "its length is no constant" if extent is None else "n and the bound are at least 1"
        raise ScheduleError(request, why, "sch.split(loop, factors=[None, 4])")
    if decision is None:
        decision = self.drawn = _drawn(self, extent, n, max_innermost_factor)
    product = 1
    for f in decision:
        product *= int(f)
    if product != extent or len(decision) != n:
        raise ScheduleError(
            request, f"{list(decision)} are not {n} factors of the {extent} steps", "decision=None"
        )
    self.drawn = [int(f) for f in decision]
    return [ExprRV(f) for f in self.drawn]


def _divisors(m: int) -> list[int]:
    return [d for d in range(1, m + 1) if m % d == 0]


@cache
def _ways(m: int, n: int) -> int:
    """The ordered products of n factors that are m."""
    return 1 if n == 1 else sum(_ways(m // d, n - 1) for d in _divisors(m))


def _drawn(sch: Schedule, extent: int, n: int, most: int) -> list[int]:
    if n == 1:
        return [extent]
    last = [d for d in _divisors(extent) if d <= most]
    weights = [_ways(extent // d, n - 1) for d in last]
    out = [sch.rng.choices(last, weights)[0]]
    rest = extent // out[0]
    for k in range(n - 2, 0, -1):
        many = _divisors(rest)
        out.append(sch.rng.choices(many, [_ways(rest // d, k) for d in many])[0])
        rest //= out[-1]
    return [rest, *reversed(out)]


@query
def sample_categorical(
    self: Schedule,
    candidates: Sequence[int],
    probs: Sequence[float],
    decision: int | None = None,
) -> ExprRV:
    """One of some numbers, each with its own chance.

    Args:
        candidates: the numbers.
        probs: their chances.
        decision: the place of the one to take, instead of drawing it.

    Raises:
        ScheduleError: for lists of different lengths, or a place that is none.
    """
    many = list(candidates)
    request = f"sample_categorical({many}, {list(probs)})"
    if not many or len(many) != len(probs) or sum(probs) <= 0:
        raise ScheduleError(request, "give a chance for each number, one of them above 0")
    place = decision
    if place is None:
        place = self.rng.choices(range(len(many)), list(probs))[0]
    if not 0 <= int(place) < len(many):
        raise ScheduleError(request, f"there is no number at the place {place}")
    self.drawn = int(place)
    return ExprRV(int(many[self.drawn]))
