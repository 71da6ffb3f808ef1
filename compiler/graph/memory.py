"""The memory plan: a place in one arena for each value that lives while a model runs.

Greedy by size, as TensorFlow Lite's: the largest value first, at the lowest place that nothing
holds while it lives (Y. Pisarchyk and J. Lee, Efficient memory management for deep neural net
inference, 2020).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


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


def planned(lives: Sequence[tuple[T, int, int, int]]) -> Arena[T]:
    """A place for each value.

    Args:
        lives: of each value: it, its bytes, the step that makes it and the last one that reads it.
    """
    rounded = [(v, -(-size // ALIGNMENT) * ALIGNMENT, a, b) for v, size, a, b in lives]
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first step, last step
    offsets: dict[T, int] = {}
    for v, size, first, last in sorted(rounded, key=lambda x: (-x[1], x[2])):
        taken = sorted((o, e) for o, e, a, b in placed if a <= last and first <= b)
        at = _lowest(taken, size)
        offsets[v] = at
        placed.append((at, at + size, first, last))
    steps = {s for _, _, first, last in rounded for s in (first, last)}
    least = max((sum(z for _, z, a, b in rounded if a <= s <= b) for s in steps), default=0)
    return Arena(offsets, max((end for _, end, _, _ in placed), default=0), least)


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
