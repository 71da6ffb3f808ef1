"""A few large values by their keys: the latest used ones, within a number of bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Kept(Generic[T]):
    """Values that cost time to make again; the one used longest ago leaves first.

    Args:
        room: bytes of all of them; the newest stays even where it alone is larger.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._values: OrderedDict[str, tuple[T, int]] = OrderedDict()

    def keep(self, key: str, value: T, size: int) -> None:
        """Add a value of ``size`` bytes; others leave where there is no room."""
        self._values[key] = value, size
        self._values.move_to_end(key)
        while len(self._values) > 1 and sum(n for _, n in self._values.values()) > self._room:
            self._values.popitem(last=False)

    def clear(self) -> None:
        """Forget all."""
        self._values.clear()

    def __getitem__(self, key: str) -> T:
        self._values.move_to_end(key)
        return self._values[key][0]

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._values))
