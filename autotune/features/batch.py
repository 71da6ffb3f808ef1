"""Many candidates' statements and accesses as one table of numbers each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whet.autotune.features.program import Program

_STATEMENT = (
    ("extent", 1.0), ("kind", 0), ("reduces", 0), ("own", 0), ("needed", 1.0), ("region", 1.0),
    ("unroll", 0.0), ("operations", 0.0), ("itemsize", 1.0), ("kept", 0), ("guarded", 0),
    ("lane", 0), ("scope", 0), ("root", 0),
)  # fmt: skip
_ACCESS = (
    ("length", 1.0), ("far", 0.0), ("step", 0.0), ("stores", 0), ("gathers", 0), ("asks", 0),
    ("times", 1.0), ("bytes", 1.0), ("role", 0), ("place", 0), ("renewed", 0),
)  # fmt: skip
_BY_PLACE = ("extent", "needed", "region", "unroll", "length", "far", "step")
_AT_LEAST = ("extent", "needed", "region", "length", "far")  # 0 steps count as 1: no share of 0


class Batch:
    """The programs of ``n`` candidates; the tables of :class:`Program` with numbers in them.

    Attributes:
        n: how many candidates.
        candidate: (S,) the candidate of each statement, ascending.
        statement: (Q,) the statement of each access, ascending; each statement has at least one.
        extent, kind, ..., step: as in :class:`Program`.
    """

    candidate: np.ndarray
    statement: np.ndarray
    extent: np.ndarray
    kind: np.ndarray
    reduces: np.ndarray
    own: np.ndarray
    needed: np.ndarray
    region: np.ndarray
    unroll: np.ndarray
    operations: np.ndarray
    itemsize: np.ndarray
    kept: np.ndarray
    guarded: np.ndarray
    lane: np.ndarray
    scope: np.ndarray
    root: np.ndarray
    length: np.ndarray
    far: np.ndarray
    step: np.ndarray
    stores: np.ndarray
    gathers: np.ndarray
    asks: np.ndarray
    times: np.ndarray
    bytes: np.ndarray
    role: np.ndarray
    place: np.ndarray
    renewed: np.ndarray

    def __init__(self, groups: Sequence[tuple[Program, np.ndarray]]) -> None:
        """The candidates of all groups, one group after the other.

        Args:
            groups: a program, and the values on its tape, (m, places), for m candidates.
        """
        self.n = sum(len(values) for _, values in groups)
        counts = [(len(p.kind), len(p.statement), len(values)) for p, values in groups]
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
        for name, fill in _STATEMENT:
            self._fill(name, fill, groups, len(self.candidate))
        for name, fill in _ACCESS:
            self._fill(name, fill, groups, total_q)

    def _fill(
        self, name: str, fill: float, groups: Sequence[tuple[Program, np.ndarray]], rows: int
    ) -> None:
        by_place = name in _BY_PLACE
        tables = [getattr(p, f"{name}_at" if by_place else name) for p, _ in groups]
        shape = tuple(np.max([t.shape[1:] for t in tables], axis=0)) if tables[0].ndim > 1 else ()
        dtype = np.float64 if isinstance(fill, float) else np.int8
        out = np.full((rows, *map(int, shape)), fill, dtype)
        at = 0
        for table, (_, values) in zip(tables, groups):
            m, k = len(values), len(table)
            numbers = values[:, table] if by_place else np.broadcast_to(table, (m, *table.shape))
            place = (
                slice(at, at + m * k),
                *(slice(w - t, w) for w, t in zip(shape, table.shape[1:])),
            )
            out[place] = numbers.reshape(m * k, *table.shape[1:])
            at += m * k
        if name in _AT_LEAST:
            np.maximum(out, fill, out=out)
        setattr(self, name, out)
