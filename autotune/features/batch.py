"""Many candidates' statements and accesses as one table of numbers each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.autotune.features.loops.program import OF_ACCESSES, OF_STATEMENTS, Column, Program


@dataclass(frozen=True)
class Owners:
    """The owner of each row of a table: the candidate of a statement, the kernel of a statement.

    Attributes:
        of: (R,) numbers of the owners.
        n: how many owners there are.
    """

    of: np.ndarray
    n: int

    def total(self, rows: np.ndarray) -> np.ndarray:
        """Sums over the rows of each owner, (n,) of (R,)."""
        return np.bincount(self.of, rows, self.n)

    def most(self, rows: np.ndarray) -> np.ndarray:
        """The greatest value of each owner's rows, (n,) of (R,); at least 0."""
        out = np.zeros(self.n)
        np.maximum.at(out, self.of, rows)
        return out


def trips(chosen: np.ndarray, extent: np.ndarray) -> np.ndarray:
    """(R,) steps of the chosen loops together, of (R, L) choices and extents."""
    return np.where(chosen, extent, 1.0).prod(axis=1)


def innermost(chosen: np.ndarray) -> np.ndarray:
    """(R,) the place of the innermost of the chosen loops (R, L); the last where there is none."""
    return chosen.shape[1] - 1 - chosen[:, ::-1].argmax(axis=1)


class Batch:
    """The programs of ``n`` candidates; the tables of :class:`Program` with numbers in them.

    Attributes:
        n: how many candidates.
        candidate: (S,) the candidate of each statement, ascending.
        owners: the same, to sum up statements.
        statement: (Q,) the statement of each access, ascending; each statement has at least one.
        extent, kind, ..., step: the columns :data:`OF_STATEMENTS` and :data:`OF_ACCESSES`, with the
            numbers in them.
    """

    candidate: np.ndarray
    statement: np.ndarray

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> np.ndarray:
            """A column."""

    def __init__(self, groups: Sequence[tuple[Program, np.ndarray]]) -> None:
        """The candidates of all groups, one group after the other.

        Args:
            groups: a program, and the values on its tape, (m, places), for m candidates.
        """
        self.n = sum(len(values) for _, values in groups)
        counts = np.concatenate([np.full(len(values), p.statements) for p, values in groups])
        self.candidate = np.repeat(np.arange(self.n), counts)
        self.owners = Owners(self.candidate, self.n)
        rows, first = [], 0
        for p, values in groups:
            begins = first + p.statements * np.arange(len(values))
            rows.append((begins[:, None] + p.statement).ravel())
            first += p.statements * len(values)
        self.statement = np.concatenate(rows)
        for columns, of in ((OF_STATEMENTS, self.candidate), (OF_ACCESSES, self.statement)):
            for column in columns:
                setattr(self, column.name, _numbers(column, groups, len(of)))

    def steps(self, kind: int) -> np.ndarray:
        """(S,) steps of the loops of a kind around each statement together."""
        return trips(self.kind == kind, self.extent)


def _numbers(column: Column, groups: Sequence[tuple[Program, np.ndarray]], rows: int) -> np.ndarray:
    """A column of all candidates, (rows, ...)."""
    tables = [p.tables[column.name] for p, _ in groups]
    shape = tuple(np.max([t.shape[1:] for t in tables], axis=0)) if tables[0].ndim > 1 else ()
    dtype: Any = {float: np.float64, int: np.int8, bool: np.bool_}[type(column.fill)]
    out = np.full((rows, *map(int, shape)), column.fill, dtype)
    at = 0
    for table, (_, values) in zip(tables, groups):
        m, k = len(values), len(table)
        numbers = values[:, table] if column.traced else np.broadcast_to(table, (m, *table.shape))
        ends = (slice(w - t, w) for w, t in zip(shape, table.shape[1:]))
        out[(slice(at, at + m * k), *ends)] = numbers.reshape(m * k, *table.shape[1:])
        at += m * k
    return np.maximum(out, column.fill, out=out) if column.least else out
