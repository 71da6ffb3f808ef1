"""Indices of configs: the range, AutoTVM's methods on it, and walking through the valid ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.compiler.errors import SpaceError
from whet.search_spaces.space.constraints import Undecided
from whet.search_spaces.values import Config

if TYPE_CHECKING:
    from whet.search_spaces.knobs.knob import Knob
    from whet.search_spaces.space.valid_points import ValidPoints

_BLOCK = 1 << 14
_DRAWS = 200_000

Seed = np.random.Generator | int


class IndexedSpace:
    """The indices of :class:`~whet.search_spaces.ConfigSpace`.

    An index is an int in ``range(range_length)`` and stands for a point, valid or not. Methods that
    draw take a seed or a generator; the same seed gives the same indices.
    """

    knobs: dict[str, Knob]

    @property
    @abstractmethod
    def valid_points(self) -> ValidPoints: ...

    @property
    @abstractmethod
    def size(self) -> int: ...

    @abstractmethod
    def encode(self, config: Config) -> tuple[int, ...]: ...

    @abstractmethod
    def sample_points(self, rng: np.random.Generator, n: int) -> np.ndarray: ...

    @abstractmethod
    def mutate_points(self, points: np.ndarray, rng: np.random.Generator) -> np.ndarray: ...

    @abstractmethod
    def _config(self, point: tuple[int, ...]) -> Config: ...

    # -- the range

    @property
    def dims(self) -> tuple[int, ...]:
        """The number of choices of each knob."""
        return tuple(len(knob) for knob in self.knobs.values())

    @property
    def range_length(self) -> int:
        """The number of points, valid or not: the product of :attr:`dims`."""
        return prod(self.dims)

    def at(self, index: int) -> Config:
        """The config of an index in ``range(range_length)``, valid or not.

        Raises:
            SpaceError: an index outside it.
        """
        return self._config(self.point2knob(index))

    def get(self, index: int) -> Config:
        """:meth:`at` by AutoTVM's name; of valid configs only.

        Raises:
            SpaceError: an index outside the range, or of a config that a constraint rejects.
        """
        point = self.point2knob(index)
        for constraint in self.valid_points.constraints:
            if not constraint.admits(self.valid_points.knobs, point):
                raise SpaceError(
                    f"space.get({index})",
                    f"a constraint does not admit this config: {constraint}",
                    "space.get_next_index(index) is the next valid one",
                )
        return self._config(point)

    def index(self, config: Config) -> int:
        """The index of a config; raises as ``encode`` does."""
        return self.knob2point(self.encode(config))

    def point2knob(self, index: int) -> tuple[int, ...]:
        """The positions of an index, one per knob; AutoTVM calls the index a point.

        Raises:
            SpaceError: an index outside the range.
        """
        if isinstance(index, bool) or not isinstance(index, int | np.integer):
            raise SpaceError(f"space[{index!r}]", "an index is an int, a knob's name a string")
        rest = int(index)
        if not 0 <= rest < self.range_length:
            raise SpaceError(f"space[{index}]", f"the space has {self.range_length} configs")
        positions = []
        for count in reversed(self.dims):
            rest, position = divmod(rest, count)
            positions.append(position)
        return tuple(reversed(positions))

    def knob2point(self, knob: Sequence[int]) -> int:
        """The index of positions, one per knob.

        Raises:
            SpaceError: another number of positions, or one outside its knob's list.
        """
        dims = self.dims
        if len(knob) != len(dims) or not all(0 <= p < n for p, n in zip(knob, dims)):
            raise SpaceError(f"knob2point({tuple(knob)})", f"the knobs have {dims} choices")
        index = 0
        for position, count in zip(knob, dims):
            index = index * count + int(position)
        return index

    def is_index_valid(self, index: int) -> bool:
        """Whether the constraints admit the config of an index; raises as :meth:`at` does."""
        return self.valid_points.admits(self.point2knob(index))

    # -- drawing indices

    def get_rand_index(
        self,
        start: int | None = None,
        end: int | None = None,
        to_exclude: Collection[int] | None = None,
        *,
        seed: Seed = 0,
    ) -> int:
        """A random valid index in ``range(start, end)`` that is not excluded.

        Args:
            start, end: the bounds; None: those of the range.
            to_exclude: indices not to return.
            seed: a seed or a generator; the same seed gives the same index.

        Raises:
            SpaceError: there is none (or, in a range too long to be looked through, none in
                200,000 draws).
        """
        start, end = self._bounds(start, end)
        rng, excluded = _generator(seed), set(to_exclude or ())
        if (start, end) == (0, self.range_length):
            for _ in range(64):
                index = self.knob2point(self.sample_points(rng, 1)[0].tolist())
                if index not in excluded:
                    return index
        length = end - start
        if length > _DRAWS:
            for _ in range(_DRAWS):
                index = start + _below(rng, length)
                if index not in excluded and self.is_index_valid(index):
                    return index
        else:
            legal = [i for i in self._indices(start, end) if i not in excluded]
            if legal:
                return legal[int(rng.integers(len(legal)))]
        raise SpaceError(
            f"get_rand_index({start}, {end})",
            f"no valid index was found beside the {len(excluded)} excluded ones",
            "widen the bounds",
        )

    def sample_ints(self, m: int, *, seed: Seed = 0) -> np.ndarray:
        """``m`` different valid indices, drawn as ``sample_points`` draws.

        Args:
            m: how many.
            seed: a seed or a generator; the same seed gives the same indices.

        Returns:
            int64 of shape (m,); objects (Python's ints) where the range exceeds 64 bits.

        Raises:
            SpaceError: fewer than ``m`` configs are valid (or were found).
        """
        rng, dtype = _generator(seed), np.int64 if self.range_length < 1 << 63 else object
        found: dict[int, None] = {}
        for _ in range(64):
            missing = m - len(found)
            if missing <= 0:
                break
            for row in self.sample_points(rng, missing + 16).tolist():
                found[self.knob2point(row)] = None
        if len(found) < m and self.range_length <= _DRAWS:
            # Nearly all of them are wanted: the last ones are rarely drawn.
            rest = [i for i in self._indices(0, self.range_length) if i not in found]
            found.update(dict.fromkeys(rng.permutation(rest).tolist()))
        if len(found) < m:
            raise SpaceError(
                f"sample_ints({m})", f"{len(found)} different valid configs were found", "ask fewer"
            )
        return np.array(list(found)[:m], dtype=dtype)

    def random_walk(self, point: int, *, seed: Seed = 0) -> int:
        """The index of a valid config near that of index ``point``: see ``mutate_points``."""
        row = np.array([self.point2knob(point)], dtype=np.int64)
        return self.knob2point(self.mutate_points(row, _generator(seed))[0].tolist())

    def get_next_index(
        self, index: int, n: int = 1, start: int | None = None, end: int | None = None
    ) -> int | None:
        """The ``n``-th valid index after ``index`` (before it, where ``n`` is negative).

        Args:
            index: where to count from; it need not be valid.
            n: how far; not 0.
            start, end: the bounds; None: those of the range.

        Returns:
            None where the bounds end before.

        Raises:
            SpaceError: ``n`` is 0, or bounds outside the range.
        """
        start, end = self._bounds(start, end)
        if n == 0:
            raise SpaceError(f"get_next_index({index}, 0)", "n must not be 0")
        if not self.valid_points.constraints:
            return index + n if start <= index + n < end else None
        way = 1 if n > 0 else -1
        first = max(index + 1, start) if n > 0 else min(index, end) - 1
        if not start <= first < end:
            return None
        found = next(islice(self._onward([], self.point2knob(first), way), abs(n) - 1, None), None)
        if found is None or not start <= self.knob2point(found) < end:
            return None
        return self.knob2point(found)

    def subrange_length(self, start: int, end: int) -> int:
        """The number of valid indices in ``range(start, end)``; raises as :meth:`at` does."""
        start, end = self._bounds(start, end)
        if not self.valid_points.constraints:
            return end - start
        if (start, end) == (0, self.range_length):
            return self.size
        return sum(1 for _ in self._indices(start, end))

    # -- the valid ones in order

    def __iter__(self) -> Iterator[Config]:
        """The valid configs in the order of their indices."""
        for point in self._points_in_order():
            yield self._config(point)

    def _indices(self, start: int, end: int) -> Iterator[int]:
        """The valid indices in ``range(start, end)``."""
        if start == end:
            return
        for point in self._onward([], self.point2knob(start), 1):
            index = self.knob2point(point)
            if index >= end:
                return
            yield index

    def _onward(
        self, chosen: list[int], bound: Sequence[int] | None, way: int
    ) -> Iterator[tuple[int, ...]]:
        """Valid points that begin with ``chosen``, in rising (way: 1) or falling (-1) order.

        Args:
            bound: the point to begin at; None: the first or last there is.
        """
        depth = len(chosen)
        if depth == len(self.dims):
            if self.valid_points.admits(chosen):
                yield tuple(chosen)
            return
        begin = 0 if way > 0 else self.dims[depth] - 1
        begin = begin if bound is None else bound[depth]
        for position in range(begin, self.dims[depth] if way > 0 else -1, way):
            if self._may_go_on([*chosen, position]):
                at_bound = bound if position == begin else None
                yield from self._onward([*chosen, position], at_bound, way)

    def _points_in_order(self) -> Iterator[tuple[int, ...]]:
        dims, valid = self.dims, self.valid_points
        head = len(dims)
        while head and prod(dims[head - 1 :]) <= _BLOCK:
            head -= 1
        tail = np.indices(dims[head:]).reshape(len(dims) - head, -1).T
        for first in self._beginnings([], head):
            block = np.empty((len(tail), len(dims)), dtype=np.int64)
            block[:, :head] = first
            block[:, head:] = tail
            for row in block[valid.check(block)].tolist():
                yield tuple(row)

    def _beginnings(self, first: list[int], head: int) -> Iterator[list[int]]:
        """Positions of the first ``head`` knobs that no constraint rejects already."""
        if first and not self._may_go_on(first):
            return
        if len(first) == head:
            yield first
            return
        for position in range(self.dims[len(first)]):
            yield from self._beginnings([*first, position], head)

    def _may_go_on(self, first: list[int]) -> bool:
        valid, last = self.valid_points, len(first) - 1
        point: list[Any] = first + [None] * (len(self.dims) - len(first))
        for constraint in valid.constraints:
            if constraint.reads and last not in constraint.reads:
                continue
            try:
                if not constraint.admits(valid.knobs, point):
                    return False
            except Undecided:
                continue
        return True

    def _bounds(self, start: int | None, end: int | None) -> tuple[int, int]:
        first, last = 0 if start is None else start, self.range_length if end is None else end
        if not 0 <= first <= last <= self.range_length:
            raise SpaceError(
                f"the indices from {first} to {last}", f"the range has {self.range_length}"
            )
        return first, last


def _generator(seed: Seed) -> np.random.Generator:
    return seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)


def _below(rng: np.random.Generator, bound: int) -> int:
    """A random int below a bound of any size."""
    if bound < 1 << 62:
        return int(rng.integers(bound))
    while True:
        found = int.from_bytes(rng.bytes((bound.bit_length() + 7) // 8), "little")
        found >>= -bound.bit_length() % 8
        if found < bound:
            return found
