"""Moving about in a space: sampling, mutation, crossover, distances, all on arrays of points.

Functions of a :class:`~whet.search_spaces.ConfigSpace`, which has the public ones as methods. A
point is an int64 array of positions, one per knob in the order of definition; *points* are the rows
of an array of shape ``(n, knobs)``. What these functions return is valid: it passes all
constraints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import SpaceError
from whet.compiler.late_numpy import np
from whet.search_spaces.space.near import nearest_valid
from whet.search_spaces.space.reconcile import reconcile
from whet.search_spaces.values import Config

if TYPE_CHECKING:
    from whet.search_spaces.space.config_space import ConfigSpace

_ROUNDS = 6
_TWO = 0.3
"""The share of mutations that change two knobs."""
_OTHERS = 64


# -- sampling


def sample(space: ConfigSpace, rng: np.random.Generator) -> Config:
    """A valid config, drawn as :meth:`sample_points` does."""
    return space.decode(space.sample_points(rng, 1)[0])


def sample_points(space: ConfigSpace, rng: np.random.Generator, n: int) -> np.ndarray:
    """Valid points drawn independently, so that points may repeat.

    Every valid point is equally likely, with one exception, which ``print(space)`` names: where
    fewer than 1 in 500 points of some tied knobs are valid, and the constraints are too wide to
    be tabulated and too hard to be searched through, random walks from known valid points take
    the place of draws. Points near those are then likelier, and what changes of one or two
    knobs cannot reach from them is not found.

    Args:
        rng: where the random numbers come from.
        n: how many.

    Returns:
        int64 of shape (n, knobs).

    Raises:
        SpaceError: no point is valid, or a constraint raises.
    """
    return space.valid_points.sample(rng, n)


# -- mutation and crossover


def mutate(space: ConfigSpace, config: Config, rng: np.random.Generator) -> Config:
    """Another valid config, as :meth:`mutate_points` makes it; ``config`` if there is none."""
    return space.decode(space.mutate_points(np.array([space.encode(config)]), rng)[0])


def mutate_points(space: ConfigSpace, points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Valid points near the given ones: one or two knobs changed, near choices likelier.

    Where that breaks a constraint, the knobs that it ties to the changed ones follow to the
    nearest choices that keep it. A row differs from its parent wherever the space has another
    valid point.

    Args:
        points: int64 of shape (n, knobs), valid or not.
        rng: where the random numbers come from.
    """
    parents = point_table(space, points)
    free = np.array([i for i, knob in enumerate(space.knobs.values()) if len(knob) > 1])
    if not len(free) or not len(parents):
        return parents.copy()
    children = _stepped(space, parents, free, rng)
    if not space.valid_points.constraints:
        return children
    bad = _reconciled(space, parents, children, np.arange(len(parents)), rng)
    for _ in range(_ROUNDS):
        if not len(bad):
            return children
        children[bad] = _stepped(space, parents[bad], free, rng)
        bad = _reconciled(space, parents, children, bad, rng)
    for row in bad:
        children[row] = _another(space, parents[row], rng)
    return children


def cross_points(
    space: ConfigSpace, a: np.ndarray, b: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Valid points between two: each knob's choice from one of the parents, then repaired.

    Args:
        a, b: int64 of shape (n, knobs), the parents.
        rng: where the random numbers come from.
    """
    a, b = point_table(space, a), point_table(space, b)
    children = np.where(rng.random(a.shape) < 0.5, a, b)
    if not space.valid_points.constraints:
        return children
    bad = np.flatnonzero(~space.valid_points.check(children))
    # The parents' own choices are kept where it can be.
    free = np.zeros((len(bad), a.shape[1]), dtype=bool)
    children[bad] = reconcile(space.valid_points, children[bad], free, rng)
    for row in bad[~space.valid_points.check(children[bad])]:
        children[row] = space.repair(children[row])
    return children


def repair(space: ConfigSpace, point: np.ndarray | Sequence[int]) -> np.ndarray:
    """The nearest valid point by :meth:`distance`; the point itself if it is valid.

    Exact where the tied knobs' constraints could be tabulated or their valid points listed;
    elsewhere the nearest that a search of a few thousand points meets. Deterministic.

    Args:
        point: a position for each knob.

    Raises:
        SpaceError: no point is valid, or a constraint raises.
    """
    return nearest_valid(space.valid_points, point_table(space, [point])[0])


def _stepped(
    space: ConfigSpace, points: np.ndarray, free: np.ndarray, rng: np.random.Generator
) -> Any:
    """One or two of the ``free`` knobs of each row changed."""
    found, rows = points.copy(), np.arange(len(points))
    first = rng.integers(len(free), size=len(points))
    twice = rng.random(len(points)) < (_TWO if len(free) > 1 else 0.0)
    second = (first + rng.integers(1, max(len(free), 2), size=len(points))) % len(free)
    knobs = list(space.knobs.values())
    for number, i in enumerate(free):
        changed = rows[(first == number) | (twice & (second == number))]
        found[changed, i] = knobs[i].steps.step(points[changed, i], rng)
    return found


def _reconciled(
    space: ConfigSpace, parents: np.ndarray, children: np.ndarray, rows: np.ndarray, rng: Any
) -> np.ndarray:
    """Make ``children[rows]`` keep the constraints; returns the rows where that failed."""
    valid = space.valid_points.check(children[rows])
    bad = rows[~valid]
    kept = children[bad] != parents[bad]
    children[bad] = reconcile(space.valid_points, children[bad], kept, rng)
    same = (children[bad] == parents[bad]).all(axis=1)
    return bad[same | ~space.valid_points.check(children[bad])]


def _another(space: ConfigSpace, point: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A valid point other than ``point``: one knob away, else a random one."""
    around = np.concatenate([*_changes(space, point), np.zeros((0, len(point)), dtype=np.int64)])
    around = around[space.valid_points.check(around)]
    if len(around):
        weights = np.exp2(-2.0 * space.distances(point, around).astype(np.float64))
        sums = np.cumsum(weights + 0.05 * weights.mean())
        return around[int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))]
    found = space.sample_points(rng, _OTHERS)
    others = found[(found != point).any(axis=1)]
    if not len(others):
        return point
    return others[int(space.distances(point, others).argmin())]


def _changes(space: ConfigSpace, point: np.ndarray) -> list[np.ndarray]:
    """For each knob, the points that differ from ``point`` in it alone."""
    found = []
    for i, knob in enumerate(space.knobs.values()):
        changed = np.repeat(point[None], len(knob), axis=0)
        changed[:, i] = np.arange(len(knob))
        found.append(np.delete(changed, point[i], axis=0))
    return found


# -- distances


def neighbours(space: ConfigSpace, config: Config) -> list[Config]:
    """The valid configs that differ in one knob by one step, in the order of knobs."""
    point = space.encode(config)
    rows = [
        (*point[:i], position, *point[i + 1 :])
        for i, knob in enumerate(space.knobs.values())
        for position in knob.near(point[i])
    ]
    if not rows:
        return []
    found = np.array(rows)
    return [space.decode(row) for row in found[space.valid_points.check(found)]]


def coordinates(space: ConfigSpace, points: np.ndarray) -> np.ndarray:
    """All knobs' coordinates side by side, in which :meth:`distance` is L1.

    Args:
        points: int64 of shape (n, knobs).

    Returns:
        float32 of shape (n, c). A step of 1 is a factor of two between two loops of a split, a
        swap of neighbouring axes, another word, or the next number of a list.
    """
    table = point_table(space, points)
    columns = [knob.coordinates[table[:, i]] for i, knob in enumerate(space.knobs.values())]
    return np.concatenate([np.zeros((len(table), 0), np.float32), *columns], axis=1)


def distance(space: ConfigSpace, a: Config | Any, b: Config | Any) -> float:
    """How far two configs or points are apart: L1 over their knobs' coordinates."""
    first, second = (space.encode(x) if isinstance(x, Config) else x for x in (a, b))
    return float(space.distances(first, [second])[0])


def distances(space: ConfigSpace, point: Any, points: Any) -> np.ndarray:
    """:meth:`distance` from one point to each of ``points``: float32 of shape (n,)."""
    origin = space.coordinates(point_table(space, [point]))
    return np.abs(space.coordinates(points) - origin).sum(axis=1)


def point_table(space: ConfigSpace, points: Any) -> np.ndarray:
    table = np.asarray(points, dtype=np.int64)
    if table.size == 0 and not space.knobs:
        return table.reshape(len(table), 0)
    if table.ndim != 2 or table.shape[1] != len(space.knobs):
        raise SpaceError(
            f"points of shape {table.shape}",
            f"the space has {len(space.knobs)} knobs",
            "points are an int array of shape (n, knobs)",
        )
    return table
