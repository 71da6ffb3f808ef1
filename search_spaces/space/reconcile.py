"""Making points keep the constraints by moving knobs that these tie to the ones just changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whet.compiler.late_numpy import np

if TYPE_CHECKING:
    from whet.search_spaces.knobs.knob import Knob
    from whet.search_spaces.space.valid_points import ValidPoints

_SWEEPS = 4
_CHUNK = 1 << 20


def reconcile(
    valid: ValidPoints, points: np.ndarray, kept: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Points whose broken constraints are mended where one knob's change can mend them.

    Each broken constraint moves one of its knobs, in a random order, to the nearest choice that
    keeps it: quick, for many rows at once, and without a promise. The caller checks the rows.

    Args:
        valid: the constraints; those without a table mend nothing.
        points: int64 of shape (n, knobs).
        kept: bool of the same shape: positions that must stay.
        rng: the order in which a constraint's knobs are tried.
    """
    found = points.copy()
    for _ in range(_SWEEPS if len(found) else 0):
        broken = False
        for constraint in valid.constraints:
            table = constraint.table(valid.knobs)
            if table is None:
                continue
            for i in rng.permutation(constraint.reads):
                bad = np.flatnonzero(~table[tuple(found[:, v] for v in constraint.reads)])
                if not len(bad):
                    break
                broken = True
                bad = bad[~kept[bad, i]]
                allowed = np.moveaxis(table, constraint.reads.index(i), -1)
                others = [v for v in constraint.reads if v != i]
                _move(valid.knobs[i], int(i), found, bad, allowed, others)
        if not broken:
            break
    return found


def _move(
    knob: Knob, i: int, points: np.ndarray, rows: np.ndarray, allowed: np.ndarray, others: list[int]
) -> None:
    """Move knob ``i`` of ``rows`` to the nearest choice that ``allowed`` has for the others."""
    coordinates = knob.coordinates
    step = max(1, _CHUNK // max(coordinates.size, 1))
    for begin in range(0, len(rows), step):
        some = rows[begin : begin + step]
        legal = np.broadcast_to(
            allowed[tuple(points[some, v] for v in others)], (len(some), len(knob))
        )
        here = coordinates[points[some, i]]
        away = np.abs(coordinates[None] - here[:, None]).sum(axis=2)
        away = np.where(legal, away, np.inf)
        nearest = away.argmin(axis=1)
        can = np.isfinite(away[np.arange(len(some)), nearest])
        points[some[can], i] = nearest[can]
