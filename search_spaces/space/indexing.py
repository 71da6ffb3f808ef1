"""Indices of configs: the range, AutoTVM's methods on it, and walking through the valid ones.

Functions of a :class:`~whet.search_spaces.ConfigSpace`, which has the public ones as methods. An
index is an int in ``range(range_length)`` and stands for a point, valid or not. Those that draw
take a seed or a generator; the same seed gives the same indices.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from whet.compiler.errors import SpaceError
from whet.compiler.late_numpy import np
from whet.search_spaces.space.constraints import Undecided
from whet.search_spaces.values import Config

if TYPE_CHECKING:
    from whet.search_spaces.space.config_space import ConfigSpace

_BLOCK = 1 << 14
_DRAWS = 200_000

Seed: TypeAlias = "np.random.Generator | int"


# -- the range


def dims(space: ConfigSpace) -> tuple[int, ...]:
    """The number of choices of each knob."""
    return tuple(len(knob) for knob in space.knobs.values())


def range_length(space: ConfigSpace) -> int:
    """The number of points, valid or not: the product of :attr:`dims`."""
    return prod(space.dims)


def at(space: ConfigSpace, index: int) -> Config:
    """The config of an index in ``range(range_length)``, valid or not.

    Raises:
        SpaceError: an index outside it.
    """
    return space.config_of(space.point2knob(index))


def get(space: ConfigSpace, index: int) -> Config:
    """:meth:`at` by AutoTVM's name; of valid configs only.

    Raises:
        SpaceError: an index outside the range, or of a config that a constraint rejects.
    """
    point = space.point2knob(index)
    broken = space.valid_points.broken(point)
    if broken is not None:
        raise SpaceError(
            f"space.get({index})",
            f"a constraint does not admit this config: {broken}",
            "space.get_next_index(index) is the next valid one",
        )
    return space.config_of(point)


def index(space: ConfigSpace, config: Config) -> int:
    """The index of a config; raises as ``encode`` does."""
    return space.knob2point(space.encode(config))


def point2knob(space: ConfigSpace, index: int) -> tuple[int, ...]:
    """The positions of an index, one per knob; AutoTVM calls the index a point.

    Raises:
        SpaceError: an index outside the range.
    """
    if isinstance(index, bool) or not isinstance(index, int | np.integer):
        raise SpaceError(f"space[{index!r}]", "an index is an int, a knob's name a string")
    rest = int(index)
    if not 0 <= rest < space.range_length:
        raise SpaceError(f"space[{index}]", f"the space has {space.range_length} configs")
    positions = []
    for count in reversed(space.dims):
        rest, position = divmod(rest, count)
        positions.append(position)
    return tuple(reversed(positions))


def knob2point(space: ConfigSpace, knob: Sequence[int]) -> int:
    """The index of positions, one per knob.

    Raises:
        SpaceError: another number of positions, or one outside its knob's list.
    """
    dims = space.dims
    if len(knob) != len(dims) or not all(0 <= p < n for p, n in zip(knob, dims)):
        raise SpaceError(f"knob2point({tuple(knob)})", f"the knobs have {dims} choices")
    index = 0
    for position, count in zip(knob, dims):
        index = index * count + int(position)
    return index


def is_index_valid(space: ConfigSpace, index: int) -> bool:
    """True if the constraints admit the config of an index; raises as :meth:`at` does."""
    return space.valid_points.admits(space.point2knob(index))


# -- drawing indices


def get_rand_index(
    space: ConfigSpace,
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
    start, end = _bounds(space, start, end)
    rng, excluded = _generator(seed), set(to_exclude or ())
    if (start, end) == (0, space.range_length):
        for _ in range(64):
            index = space.knob2point(space.sample_points(rng, 1)[0].tolist())
            if index not in excluded:
                return index
    length = end - start
    if length > _DRAWS:
        for _ in range(_DRAWS):
            index = start + _below(rng, length)
            if index not in excluded and space.is_index_valid(index):
                return index
    else:
        legal = [i for i in _indices(space, start, end) if i not in excluded]
        if legal:
            return legal[int(rng.integers(len(legal)))]
    raise SpaceError(
        f"get_rand_index({start}, {end})",
        f"no valid index was found beside the {len(excluded)} excluded ones",
        "widen the bounds",
    )


def sample_ints(space: ConfigSpace, m: int, *, seed: Seed = 0) -> np.ndarray:
    """``m`` different valid indices, drawn as ``sample_points`` draws.

    Args:
        m: how many.
        seed: a seed or a generator; the same seed gives the same indices.

    Returns:
        int64 of shape (m,); objects (Python's ints) where the range exceeds 64 bits.

    Raises:
        SpaceError: fewer than ``m`` configs are valid (or were found).
    """
    rng, dtype = _generator(seed), np.int64 if space.range_length < 1 << 63 else object
    found: dict[int, None] = {}
    for _ in range(64):
        missing = m - len(found)
        if missing <= 0:
            break
        for row in space.sample_points(rng, missing + 16).tolist():
            found[space.knob2point(row)] = None
    if len(found) < m and space.range_length <= _DRAWS:
        # Nearly all of them are wanted: the last ones are rarely drawn.
        rest = [i for i in _indices(space, 0, space.range_length) if i not in found]
        found.update(dict.fromkeys(rng.permutation(rest).tolist()))
    if len(found) < m:
        raise SpaceError(
            f"sample_ints({m})", f"{len(found)} different valid configs were found", "ask fewer"
        )
    return np.array(list(found)[:m], dtype=dtype)


def random_walk(space: ConfigSpace, point: int, *, seed: Seed = 0) -> int:
    """The index of a valid config near that of index ``point``: see ``mutate_points``."""
    row = np.array([space.point2knob(point)], dtype=np.int64)
    return space.knob2point(space.mutate_points(row, _generator(seed))[0].tolist())


def get_next_index(
    space: ConfigSpace, index: int, n: int = 1, start: int | None = None, end: int | None = None
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
    start, end = _bounds(space, start, end)
    if n == 0:
        raise SpaceError(f"get_next_index({index}, 0)", "n must not be 0")
    if not space.valid_points.constraints:
        return index + n if start <= index + n < end else None
    way = 1 if n > 0 else -1
    first = max(index + 1, start) if n > 0 else min(index, end) - 1
    if not start <= first < end:
        return None
    found = next(islice(_onward(space, first, way), abs(n) - 1, None), None)
    if found is None or not start <= space.knob2point(found) < end:
        return None
    return space.knob2point(found)


def subrange_length(space: ConfigSpace, start: int, end: int) -> int:
    """The number of valid indices in ``range(start, end)``; raises as :meth:`at` does."""
    start, end = _bounds(space, start, end)
    if not space.valid_points.constraints:
        return end - start
    if (start, end) == (0, space.range_length):
        return space.size
    return sum(1 for _ in _indices(space, start, end))


# -- the valid ones in order


def _indices(space: ConfigSpace, start: int, end: int) -> Iterator[int]:
    """The valid indices in ``range(start, end)``."""
    if start == end:
        return
    for point in _onward(space, start, 1):
        index = space.knob2point(point)
        if index >= end:
            return
        yield index


def _onward(space: ConfigSpace, index: int, way: int) -> Iterator[list[int]]:
    """Valid points from an index on, upwards or downwards."""
    points = _beginnings(space, [], len(space.dims), space.point2knob(index), way)
    return filter(space.valid_points.admits, points)


def _beginnings(
    space: ConfigSpace,
    first: list[int],
    head: int,
    bound: Sequence[int] | None = None,
    way: int = 1,
) -> Iterator[list[int]]:
    """Choices of the first knobs, in order, that a valid point may begin with.

    Args:
        space: the space.
        first: the choices so far.
        head: how many knobs to choose for.
        bound: a point to begin at; None: at the first one.
        way: 1 upwards, -1 downwards.
    """
    if len(first) == head:
        yield first
        return
    count = space.dims[len(first)]
    begin = 0 if way > 0 else count - 1
    begin = begin if bound is None else bound[len(first)]
    for position in range(begin, count if way > 0 else -1, way):
        chosen = [*first, position]
        if _may_go_on(space, chosen):
            at_bound = bound if position == begin else None
            yield from _beginnings(space, chosen, head, at_bound, way)


def points_in_order(space: ConfigSpace) -> Iterator[tuple[int, ...]]:
    dims, valid = space.dims, space.valid_points
    head = len(dims)
    while head and prod(dims[head - 1 :]) <= _BLOCK:
        head -= 1
    tail = np.indices(dims[head:]).reshape(len(dims) - head, prod(dims[head:])).T
    for first in _beginnings(space, [], head):
        block = np.empty((len(tail), len(dims)), dtype=np.int64)
        block[:, :head] = first
        block[:, head:] = tail
        for row in block[valid.check(block)].tolist():
            yield tuple(row)


def _may_go_on(space: ConfigSpace, first: list[int]) -> bool:
    valid, last = space.valid_points, len(first) - 1
    point: list[Any] = first + [None] * (len(space.dims) - len(first))
    for constraint in valid.constraints:
        if constraint.reads and last not in constraint.reads:
            continue
        try:
            if not constraint.admits(valid.knobs, point):
                return False
        except Undecided:
            continue
    return True


def _bounds(space: ConfigSpace, start: int | None, end: int | None) -> tuple[int, int]:
    first, last = 0 if start is None else start, space.range_length if end is None else end
    if not 0 <= first <= last <= space.range_length:
        raise SpaceError(
            f"the indices from {first} to {last}", f"the range has {space.range_length}"
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
