"""The memory plan: a place in one arena for each value that lives while a model runs.

Greedy, as TensorFlow Lite's: value after value, each in the smallest gap that nothing holds while
it lives (Y. Pisarchyk and J. Lee, Efficient memory management for deep neural net inference, 2020).
In which order decides how much is lost, and no order is always the best: the largest first, then
others, then orders in which the values that end highest come earlier, until hardly anything is lost
or enough was tried (D. Joslin and D. Clements, Squeaky wheel optimization, 1999).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

ALIGNMENT = 64  # bytes: a cache line, and the widest vector

ORDERS = 40
"""The most orders that are tried."""
PAIRS = 5_000_000
"""No further order is tried once so many pairs of values that live at a time were looked at."""
ENOUGH = 1.01
"""Times the least that no further order would improve enough."""


@dataclass(frozen=True)
class Arena(Generic[T]):
    """Places of values in bytes from the arena's start.

    Attributes:
        offsets: value -> its place.
        size: bytes of all.
        least: the largest sum of values that live at once: no plan needs less.
    """

    offsets: Mapping[T, int]
    size: int
    least: int


@dataclass(frozen=True)
class _Life:
    """Bytes of a value, and the steps that make it and read it last."""

    size: int
    first: int
    last: int


def planned(lives: Sequence[tuple[T, int, int, int]]) -> Arena[T]:
    """A place for each value.

    Args:
        lives: of each value: it, its bytes, the step that makes it and the last one that reads it.
    """
    rounded = [_Life(-(-size // ALIGNMENT) * ALIGNMENT, a, b) for _, size, a, b in lives]
    least = _least(rounded)
    places, size = _placed_well(rounded, least)
    return Arena({v: at for (v, *_), at in zip(lives, places)}, size, least)


def _least(lives: Sequence[_Life]) -> int:
    """The largest sum of bytes that live at once: where it is, some value begins."""
    changes = sorted([(x.first, 1, x.size) for x in lives] + [(x.last, 2, -x.size) for x in lives])
    largest = now = 0
    for _, _, size in changes:
        now += size
        largest = max(largest, now)
    return largest


def _placed_well(lives: Sequence[_Life], least: int) -> tuple[list[int], int]:
    """The places of the best order, and their end."""
    together = _together(lives)
    orders = [
        sorted(range(len(lives)), key=lambda k: (-lives[k].size, lives[k].first)),
        sorted(range(len(lives)), key=lambda k: (lives[k].first, -lives[k].size)),
        sorted(range(len(lives)), key=lambda k: lives[k].size * (lives[k].first - lives[k].last)),
    ]
    pairs = max(sum(map(len, together)), 1)
    best: tuple[list[int], int] | None = None
    for _ in range(max(1, min(ORDERS, PAIRS // pairs))):
        order = orders.pop(0)
        places = _placed(lives, order, together)
        size = max((at + x.size for at, x in zip(places, lives)), default=0)
        if best is None or size < best[1]:
            best = places, size
        if best[1] <= ENOUGH * least:
            break
        if not orders:
            orders.append(_earlier(lives, order, places, least))
    assert best is not None
    return best


def _together(lives: Sequence[_Life]) -> list[list[int]]:
    """The values that live at a time with each one, itself included."""
    found: list[list[int]] = [[k] for k in range(len(lives))]
    alive: list[int] = []
    for k in sorted(range(len(lives)), key=lambda k: lives[k].first):
        alive = [j for j in alive if lives[j].last >= lives[k].first]
        found[k] += alive
        for j in alive:
            found[j].append(k)
        alive.append(k)
    return found


def _earlier(
    lives: Sequence[_Life], order: Sequence[int], places: Sequence[int], least: int
) -> list[int]:
    """Another order: what ends above the least comes in half the turns."""
    rank = {k: float(at) for at, k in enumerate(order)}
    for k, x in enumerate(lives):
        if places[k] + x.size > least:
            rank[k] = rank[k] / 2 - 0.5
    return sorted(order, key=lambda k: rank[k])


def _placed(
    lives: Sequence[_Life], order: Sequence[int], together: Sequence[Sequence[int]]
) -> list[int]:
    """Places of values that come in an order."""
    places = [-1] * len(lives)
    for k in order:
        others = [j for j in together[k] if places[j] >= 0]
        taken = sorted((places[j], places[j] + lives[j].size) for j in others)
        places[k] = _lowest(taken, lives[k].size)
    return places


def _lowest(taken: Sequence[tuple[int, int]], size: int) -> int:
    """The best gap: the smallest that is large enough, else behind all."""
    best: tuple[int, int] | None = None
    end = 0
    for low, high in taken:
        room = low - end
        if room >= size and (best is None or room < best[0]):
            best = room, end
        end = max(end, high)
    return end if best is None else best[1]
