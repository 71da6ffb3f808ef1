"""The nearest valid point: exact by elimination or from a list, else by a bounded search."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from whet.compiler.late_numpy import np

if TYPE_CHECKING:
    from whet.search_spaces.space.valid_points import Component, ValidPoints

_PAIRS = 4096
_SAMPLES = 256
_DESCENTS = 4


def nearest_valid(valid: ValidPoints, point: np.ndarray) -> np.ndarray:
    """The valid point nearest to ``point``, which is returned itself if it is valid.

    Args:
        valid: what the constraints admit.
        point: int64 of shape (knobs,).

    Raises:
        SpaceError: no point is valid, or a constraint raises.
    """
    found = point.copy()
    # Again where the search itself shows that a constraint reads more knobs than was known.
    while not valid.admits(found.tolist()):
        _ = valid.count
        for component in valid.components():
            exact = component.nearest(found)
            found = _searched(valid, component, found) if exact is None else exact
    return found


def _searched(valid: ValidPoints, component: Component, point: np.ndarray) -> np.ndarray:
    """The nearest that changes of one or two knobs reach, or that random valid points lead to."""
    first = component.nearest_in_tables(point)
    if component.admits(first):
        return first
    drawn = np.repeat(point[None], _SAMPLES, axis=0)
    component.sample(drawn, np.random.default_rng(0))
    away = component.distances(point, drawn)
    found = [drawn[row] for row in np.argsort(away, kind="stable")[:_DESCENTS]]
    found = [_drawn_near(valid, component, candidate, point) for candidate in found]
    around = _around(valid, component, point)
    if around is not None:
        found.append(around)
    return min(found, key=lambda row: float(component.distances(point, row[None])[0]))


def _around(valid: ValidPoints, component: Component, point: np.ndarray) -> np.ndarray | None:
    """The nearest valid point with one or two of the component's knobs changed."""
    changes: list[tuple[float, int, int]] = []
    for v in component.variables:
        away = valid.knobs[v].distances(int(point[v]))
        nearest = np.argsort(away, kind="stable")[:64]
        changes += [(float(away[p]), v, int(p)) for p in nearest if p != point[v]]
    changes.sort()
    one: list[tuple[float, tuple]] = [(d, ((v, p),)) for d, v, p in changes]
    few = changes[: int((2 * _PAIRS) ** 0.5)]
    two: list[tuple[float, tuple]] = [
        (a[0] + b[0], ((a[1], a[2]), (b[1], b[2]))) for a, b in combinations(few, 2) if a[1] != b[1]
    ]
    for _, moves in sorted(one + two):
        row = point.copy()
        for v, p in moves:
            row[v] = p
        if component.admits(row):
            return row
    return None


def _drawn_near(
    valid: ValidPoints, component: Component, start: np.ndarray, point: np.ndarray
) -> np.ndarray:
    """``start``, valid, with each knob in turn moved as near to ``point`` as stays valid."""
    found = start.copy()
    improved = True
    while improved:
        improved = False
        for v in component.variables:
            away = valid.knobs[v].distances(int(point[v]))
            closer = np.flatnonzero(away < away[found[v]])
            for p in closer[np.argsort(away[closer], kind="stable")]:
                row = found.copy()
                row[v] = p
                if component.admits(row):
                    found, improved = row, True
                    break
    return found
