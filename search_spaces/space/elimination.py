"""Variable elimination: counting, sampling and the nearest solution of constraints with tables.

Knobs are eliminated one by one. The tables that mention a knob are joined, and summed over it: what
is left counts, for each choice of the other knobs, in how many ways the rest can be completed.
Nothing enumerates the product of all knobs; what it costs follows from how the constraints overlap.
(Dechter, Bucket elimination: a unifying framework for reasoning, 1999.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod

from whet.compiler.late_numpy import np

CELLS = 1_000_000
"""Entries that a joined table may have; a fifth of that where counts exceed 64 bits."""
_CHUNK = 1 << 22


@dataclass(frozen=True)
class Factor:
    """An array over some variables, one axis each, in the order of ``variables``."""

    variables: tuple[int, ...]
    array: np.ndarray


class TooWide(Exception):
    """Joining the tables takes more than :data:`CELLS` entries."""


class Elimination:
    """All solutions of some tables over some variables, as steps of elimination.

    Args:
        sizes: the number of values of each variable.
        tables: boolean factors; a solution passes them all.

    Attributes:
        count: the number of solutions, exact.

    Raises:
        TooWide: the tables overlap so much that joining them takes too much memory.
    """

    def __init__(self, sizes: dict[int, int], tables: Sequence[Factor]) -> None:
        self._sizes = sizes
        self._tables = list(tables)
        exact = np.int64 if prod(sizes.values()) < 1 << 62 else object
        self._room = CELLS if exact is np.int64 else CELLS // 5
        self._order = self._plan()
        ways = [Factor(f.variables, f.array.astype(exact)) for f in tables]
        free = sizes.keys() - {v for f in tables for v in f.variables}
        ways += [Factor((v,), np.ones(sizes[v], dtype=exact)) for v in free]
        self._joined = list(self._eliminate(ways, np.multiply, np.add))
        self.count = prod(int(factor.array) for factor in ways)

    def _eliminate(self, left: list[Factor], join: np.ufunc, merge: np.ufunc) -> Iterator[Factor]:
        """Eliminate all variables: the joined table of each, with the variable as its last axis.

        Args:
            left: tables, at least one for each variable; afterwards the constants that are left.
            join: combines the tables that a variable is in.
            merge: combines a joined table's entries along the variable.
        """
        for variable, scope in self._order:
            joint = reduce(join, (spread(f, scope) for f in left if variable in f.variables))
            joint = np.broadcast_to(joint, [self._sizes[v] for v in scope])
            left[:] = [f for f in left if variable not in f.variables]
            left.append(Factor(scope[:-1], merge.reduce(joint, axis=-1)))
            yield Factor(scope, joint)

    def sample(self, points: np.ndarray, rng: np.random.Generator) -> None:
        """Write solutions, drawn uniformly, into ``points`` (int64, shape (n, all variables))."""
        widest = max(self._sizes.values(), default=1)
        rows = max(1, _CHUNK // widest)
        for begin in range(0, len(points), rows):
            self._sample(points[begin : begin + rows], rng)

    def _sample(self, points: np.ndarray, rng: np.random.Generator) -> None:
        for factor in reversed(self._sums):
            *given, variable = factor.variables
            draws = rng.random(len(points))
            if not given:
                total = factor.array[-1]
                draws = np.minimum(draws * total, np.nextafter(total, 0))
                points[:, variable] = np.searchsorted(factor.array, draws, side="right")
                continue
            sums = factor.array[tuple(points[:, v] for v in given)]
            draws = np.minimum(draws * sums[:, -1], np.nextafter(sums[:, -1], 0))
            points[:, variable] = (sums <= draws[:, None]).sum(axis=1)

    @cached_property
    def _sums(self) -> list[Factor]:
        return [
            Factor(f.variables, np.cumsum(f.array.astype(np.float64, "C"), axis=-1))
            for f in self._joined
        ]

    def solutions(self) -> np.ndarray:
        """Every solution: int64 of shape (count, variables), the columns in rising order of these.

        For a :attr:`count` that memory holds.
        """
        columns: dict[int, np.ndarray] = {}
        rows = 1
        for factor in reversed(self._joined):
            *given, variable = factor.variables
            ways = factor.array[tuple(columns[v] for v in given)]
            row, value = np.nonzero(np.broadcast_to(ways, (rows, ways.shape[-1])))
            columns = {v: column[row] for v, column in columns.items()}
            columns[variable] = value
            rows = len(row)
        found = [columns[v] for v in sorted(columns)]
        return np.stack(found, axis=1) if found else np.zeros((min(self.count, 1), 0), np.int64)

    def nearest(self, costs: dict[int, np.ndarray]) -> dict[int, int]:
        """The solution of the least total cost; the first of equals. ``count`` must not be 0.

        Args:
            costs: for each variable what its values cost, float array of shape (its size,).
        """
        left = [Factor((v,), costs[v]) for v in self._sizes]
        left += [Factor(f.variables, np.where(f.array, 0.0, np.inf)) for f in self._tables]
        totals = self._eliminate(left, np.add, np.minimum)
        best = [Factor(f.variables, f.array.argmin(axis=-1)) for f in totals]
        found: dict[int, int] = {}
        for factor in reversed(best):
            *given, variable = factor.variables
            found[variable] = int(factor.array[tuple(found[v] for v in given)])
        return found

    def _plan(self) -> list[tuple[int, tuple[int, ...]]]:
        """The order of elimination: always the variable whose join is smallest."""
        scopes = [set(f.variables) for f in self._tables]
        remaining = sorted(self._sizes)
        order = []
        while remaining:
            joins = {v: {v}.union(*(s for s in scopes if v in s)) for v in remaining}
            cells = {v: prod(self._sizes[x] for x in joins[v]) for v in remaining}
            chosen = min(remaining, key=cells.__getitem__)
            if cells[chosen] > self._room:
                raise TooWide
            rest = joins[chosen] - {chosen}
            order.append((chosen, (*sorted(rest), chosen)))
            scopes = [s for s in scopes if chosen not in s] + [rest]
            remaining.remove(chosen)
        return order


def spread(factor: Factor, scope: tuple[int, ...]) -> np.ndarray:
    """A factor's array with the axes of ``scope``, of extent 1 where it has no such variable."""
    held = [v for v in scope if v in factor.variables]
    array = factor.array.transpose([factor.variables.index(v) for v in held])
    lengths = iter(array.shape)
    return array.reshape([next(lengths) if v in factor.variables else 1 for v in scope])
