"""Many candidates' statements and accesses as one table of numbers each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from whet.autotune.features.loops.program import OF_ACCESSES, OF_STATEMENTS, Column, Program


class Batch:
    """The programs of ``n`` candidates; the tables of :class:`Program` with numbers in them.

    Attributes:
        n: how many candidates.
        candidate: (S,) the candidate of each statement, ascending.
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
        counts = [(p.statements, len(p.statement), len(values)) for p, values in groups]
        self.candidate = np.repeat(
            np.arange(self.n), np.concatenate([np.full(m, s) for s, _, m in counts])
        )
        total_q = sum(q * m for _, q, m in counts)
        self.statement = np.empty(total_q, np.int64)
        s0 = q0 = 0
        for (p, _), (s, q, m) in zip(groups, counts):
            rows = p.statement[None, :] + (s0 + s * np.arange(m))[:, None]
            self.statement[q0 : q0 + q * m] = rows.ravel()
            s0, q0 = s0 + s * m, q0 + q * m
        for columns, n in ((OF_STATEMENTS, len(self.candidate)), (OF_ACCESSES, total_q)):
            for column in columns:
                setattr(self, column.name, _numbers(column, groups, n))

    def total(self, of_statements: np.ndarray) -> np.ndarray:
        """Sums over the statements of each candidate, (n,) of (S,)."""
        return np.bincount(self.candidate, of_statements, self.n)

    def most(self, of_statements: np.ndarray) -> np.ndarray:
        """The greatest value of each candidate's statements, (n,) of (S,); at least 0."""
        out = np.zeros(self.n)
        np.maximum.at(out, self.candidate, of_statements)
        return out


def _numbers(column: Column, groups: Sequence[tuple[Program, np.ndarray]], rows: int) -> np.ndarray:
    """A column of all candidates, (rows, ...)."""
    tables = [p.tables[column.name] for p, _ in groups]
    shape = tuple(np.max([t.shape[1:] for t in tables], axis=0)) if tables[0].ndim > 1 else ()
    dtype = np.float64 if isinstance(column.fill, float) else np.int8
    out = np.full((rows, *map(int, shape)), column.fill, dtype)
    at = 0
    for table, (_, values) in zip(tables, groups):
        m, k = len(values), len(table)
        numbers = values[:, table] if column.traced else np.broadcast_to(table, (m, *table.shape))
        ends = (slice(w - t, w) for w, t in zip(shape, table.shape[1:]))
        out[(slice(at, at + m * k), *ends)] = numbers.reshape(m * k, *table.shape[1:])
        at += m * k
    return np.maximum(out, column.fill, out=out) if column.least else out
