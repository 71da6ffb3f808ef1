"""An LRU cache that is bounded by bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class LRUCache(Generic[T]):
    """Values by their keys; the least recently used one leaves first.

    Args:
        limit: bytes of all values; the newest stays even where it alone is larger.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: OrderedDict[str, tuple[T, int]] = OrderedDict()

    def put(self, key: str, value: T, size: int) -> None:
        """Add a value of ``size`` bytes; others leave where there is no space."""
        self._values[key] = value, size
        self._values.move_to_end(key)
        while len(self._values) > 1 and sum(n for _, n in self._values.values()) > self._limit:
            self._values.popitem(last=False)

    def clear(self) -> None:
        """Drop all values."""
        self._values.clear()

    def __getitem__(self, key: str) -> T:
        self._values.move_to_end(key)
        return self._values[key][0]

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._values))
