"""The cheapest way to part things in two, by a minimum cut (E. A. Dinic, 1970)."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

_END = 1 << 60  # a capacity that no cut pays


class Cut:
    """Things of two sides, and what it costs to put them there, or apart from each other.

    >>> cut = Cut()
    >>> cut.cost("a", here=5, there=1)
    >>> cut.apart("a", "b", 3)
    >>> cut.cost("b", here=1, there=6)
    >>> sorted(cut.there())
    ['a']
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._to: list[int] = []
        self._room: list[int] = []
        self._edges: list[list[int]] = [[], []]  # of each vertex; the first two are the sides
        self.HERE, self.THERE = 0, 1

    def cost(self, thing: Hashable, here: float, there: float) -> None:
        """Let a thing cost so much on either side, on top of what it costs already."""
        k, least = self._number(thing), min(here, there)
        self._edge(k, self.THERE, here - least)
        self._edge(self.HERE, k, there - least)

    def apart(self, a: Hashable, b: Hashable, cost: float) -> None:
        """Let it cost so much if one of two things is here and the other there."""
        self._edge(self._number(a), self._number(b), cost)
        self._edge(self._number(b), self._number(a), cost)

    def any_apart(self, one: Hashable, others: list[Hashable], cost: float) -> None:
        """Let it cost so much, once, if any of the others is on another side than one."""
        if len(others) == 1:
            self.apart(one, others[0], cost)
            return
        k, here, there = self._number(one), self._new(), self._new()
        self._edge(k, here, cost)
        self._edge(there, k, cost)
        for other in others:
            self._edge(here, self._number(other), _END)
            self._edge(self._number(other), there, _END)

    def keep(self, thing: Hashable) -> None:
        """Keep a thing here."""
        self._edge(self.HERE, self._number(thing), _END)

    def there(self) -> set[Hashable]:
        """The things that are there where all of it costs least; of equal ways that with fewest."""
        while (levels := self._levels())[self.THERE] >= 0:
            starts = [0] * len(self._edges)
            while self._pushed(levels, starts):
                pass
        reached, waiting = {self.THERE}, [self.THERE]
        while waiting:
            for e in self._edges[waiting.pop()]:
                if self._room[e ^ 1] and self._to[e] not in reached:
                    reached.add(self._to[e])
                    waiting.append(self._to[e])
        return {thing for thing, k in self._numbers.items() if k in reached}

    def _levels(self) -> list[int]:
        """The distance of each vertex from the first side; -1: there is no way."""
        levels = [-1] * len(self._edges)
        levels[self.HERE] = 0
        waiting = deque([self.HERE])
        while waiting:
            k = waiting.popleft()
            for e in self._edges[k]:
                if self._room[e] and levels[self._to[e]] < 0:
                    levels[self._to[e]] = levels[k] + 1
                    waiting.append(self._to[e])
        return levels

    def _pushed(self, levels: list[int], starts: list[int]) -> bool:
        """Fill one shortest way; False: there is none left."""
        way: list[int] = []
        k = self.HERE
        while k != self.THERE:
            edges = self._edges[k]
            while starts[k] < len(edges):
                e = edges[starts[k]]
                if self._room[e] and levels[self._to[e]] == levels[k] + 1:
                    break
                starts[k] += 1
            if starts[k] < len(edges):
                way.append(edges[starts[k]])
                k = self._to[way[-1]]
            elif way:
                k = self._to[way.pop() ^ 1]
                starts[k] += 1
            else:
                return False
        least = min(self._room[e] for e in way)
        for e in way:
            self._room[e] -= least
            self._room[e ^ 1] += least
        return True

    def _number(self, thing: Hashable) -> int:
        if thing not in self._numbers:
            self._numbers[thing] = self._new()
        return self._numbers[thing]

    def _new(self) -> int:
        self._edges.append([])
        return len(self._edges) - 1

    def _edge(self, a: int, b: int, room: float) -> None:
        """An edge, and the one back, whose number differs in the last bit."""
        for vertex, to, many in ((a, b, round(room)), (b, a, 0)):
            self._edges[vertex].append(len(self._to))
            self._to.append(to)
            self._room.append(many)
