"""Memory and execution of a batch's statements: footprints, traffic, instructions."""

from __future__ import annotations

import numpy as np

from whet.autotune.features.batch import Batch, innermost, trips
from whet.autotune.features.loops.arithmetic import KINDS
from whet.autotune.features.loops.nests import (
    BLOCK,
    PARALLEL,
    THREAD,
    UNROLLED,
    VECTORIZED,
    VIRTUAL,
)

LATENCY = 4.0
"""Cycles until the result of an addition can be used."""
LINE = 64
"""Bytes of a cache line."""
CACHES = (32 << 10, 1 << 20, 16 << 20)
"""Bytes of a level-1, a level-2, and a share of a level-3 cache, as features see all machines."""


class Counts:
    """Counts of a batch; S statements, Q accesses, L loops.

    Attributes:
        before: (S, L + 1) executions of what is inside the first ``l`` loops.
        runs: (S,) executions of the statement.
        elements, lines: (Q, L + 1) different elements, and cache lines, that one execution of the
            loops from ``l`` on touches.
        held: (S, L + 1) bytes of all these lines.
        fits: (S, len(CACHES)) the outermost loop from which on all fit the cache.
        traffic: (Q, len(CACHES)) bytes fetched into each cache.
        moves: (Q, L) whether a loop moves the access; flat: (Q, L) by how many elements.
        block: (S, L) the innermost loops that are fully expanded (unrolled, vectorised).
        vector: (S,) the vectorised loop's place, L where there is none; lanes: its steps.
        width: (S,) elements in a vector register.
        instructions: (Q,) loads or stores executed.
        in_block: (Q,) of them in one execution of the block.
        vector_runs: (S,) executions in vectors.
    """

    def __init__(self, b: Batch, vector_bytes: int, registers: int) -> None:
        self.batch = b
        self.registers = registers
        self.starts = np.searchsorted(b.statement, np.arange(len(b.candidate)))
        self.before = np.ones((b.extent.shape[0], b.extent.shape[1] + 1))
        np.cumprod(b.extent, axis=1, out=self.before[:, 1:])
        self.runs = self.before[:, -1]
        self._footprints()
        self._traffic()
        self._expand(vector_bytes)
        self._instructions()

    def per_statement(self, values: np.ndarray) -> np.ndarray:
        """Sums over the accesses of each statement, of (Q, ...)."""
        return np.add.reduceat(values, self.starts, axis=0)

    def _footprints(self) -> None:
        b = self.batch
        rows, rank, depth = b.far.shape
        extent = b.extent[b.statement]
        moved = b.far > 0
        self.moves = moved.any(axis=1)
        window = np.ones((rows, rank, depth + 1))
        window[:, :, :-1] += np.cumsum(b.far[:, :, ::-1], axis=2)[:, :, ::-1]
        np.minimum(window, b.length[:, :, None], out=window)
        distinct = np.ones_like(window)
        steps = np.where(moved, extent[:, None, :], 1.0)
        distinct[:, :, :-1] = np.cumprod(steps[:, :, ::-1], axis=2)[:, :, ::-1]
        np.minimum(distinct, window, out=distinct)
        self.elements = distinct.prod(axis=1)
        # Dimensions that are covered whole, from the last on, lie side by side in memory.
        length = b.length[:, -1, None]
        run, full = window[:, -1], window[:, -1] >= length
        apart, together = np.ones((rows, depth + 1)), distinct[:, -1]
        for d in range(rank - 2, -1, -1):
            run = np.where(full, length * window[:, d], run)
            apart = np.where(full, apart, apart * distinct[:, d])
            together = np.where(full, together * distinct[:, d], together)
            length = length * b.length[:, d, None]
            full &= window[:, d] >= b.length[:, d, None]
        in_run = (run - 1) * (b.bytes[:, None] / LINE) + 1
        self.lines = apart * np.minimum(together, in_run)
        self.held = self.per_statement(self.lines) * LINE
        stride = np.ones_like(b.length)
        stride[:, :-1] = np.cumprod(b.length[:, :0:-1], axis=1)[:, ::-1]
        self.flat = np.einsum("qdl,qd->ql", b.step, stride)

    def _traffic(self) -> None:
        b = self.batch
        limits = np.array(CACHES, np.float64)
        inside = self.held[:, :, None] <= limits
        inside[:, -1] = True
        self.fits = inside.argmax(axis=1)
        # What one step of the loop around leaves in the cache, the next step finds there.
        around = np.maximum(self.fits - 1, 0)[b.statement]
        q = np.arange(len(b.statement))[:, None]
        trips = self.before[b.statement[:, None], around]
        self.traffic = self.lines[q, around] * trips * LINE

    def _expand(self, vector_bytes: int) -> None:
        b = self.batch
        depth = b.extent.shape[1]
        written = (b.kind == UNROLLED) | (b.kind == VECTORIZED) | (b.extent == 1)
        self.block = np.logical_and.accumulate(written[:, ::-1], axis=1)[:, ::-1]
        self.body = trips(self.block, b.extent)
        vectorized = (b.kind == VECTORIZED) & (b.extent > 1) & self.block
        self.vector = np.where(vectorized.any(axis=1), innermost(vectorized), depth)
        self.lanes = _at(b.extent, self.vector, 1.0)
        self.width = np.maximum(vector_bytes / b.bytes[self.starts], 1.0)
        self.vectors = np.ceil(self.lanes / self.width)
        self.vector_runs = self.runs / self.lanes * self.vectors
        self.shared = b.steps(PARALLEL) * b.steps(BLOCK) * b.steps(THREAD)
        # Loops that are run step by step, inside the statement's own nest.
        serial = ~self.block & b.own & (b.extent > 1)
        self.loop_steps = np.where(serial, self.before[:, 1:], 0.0).max(axis=1)
        self.loop_entries = np.where(serial, self.before[:, :-1], 0.0).max(axis=1)
        self.reducing = (b.reduces & b.own).any(axis=1)

    def _instructions(self) -> None:
        b = self.batch
        of, depth = b.statement, b.extent.shape[1]
        extent, block = b.extent[of], self.block[of]
        self.by_vector = _at(self.flat, self.vector[of], 0.0)
        lanes, vectors = self.lanes[of], self.vectors[of]
        together = np.where(self.by_vector == 1, vectors, lanes)
        together = np.where(self.by_vector == 0, 1.0, together)
        is_vector = np.arange(depth) == self.vector[of][:, None]
        steps = np.where(is_vector, together[:, None], extent)
        self.in_body = trips(block & self.moves, steps)
        # The compiler moves accesses out of the loops that do not move them, from the inside.
        outer = ~block & (extent > 1)
        moving = outer & (self.moves | b.renewed)
        last = np.where(moving.any(axis=1), innermost(moving), -1)
        # Virtual threads are unrolled next to each other, and share what is alike.
        alike = (b.kind[of] == VIRTUAL) & ~self.moves
        ahead = (np.arange(depth) <= last[:, None]) & ~alike
        self.accumulators = self.in_body[self.starts]  # each statement's store comes first
        self.innermost = innermost(outer[self.starts])
        self.chained = self.reducing & b.reduces[np.arange(len(b.extent)), self.innermost]
        # Beside the accumulators stand the shorter side of the tile and one element of the other.
        sides = np.where(b.stores, np.inf, self.in_body)
        shorter = np.minimum.reduceat(sides, self.starts)
        beside = np.where(np.isinf(shorter), 0.0, shorter) + 1
        self.spilt = self.accumulators + beside > self.registers
        # Only what is side by side, and summed up unconditionally, is kept in registers.
        aside = (self.by_vector[self.starts] != 0) & (self.by_vector[self.starts] != 1)
        self.masked = b.guarded & (self.lanes > 1)
        self.spilt |= aside | self.masked
        self.chained &= ~self.spilt | (self.accumulators < LATENCY)
        in_registers = ~self.spilt[of] | ~b.stores
        self.executed = self.in_body * trips(outer & (ahead | ~in_registers[:, None]), extent)


def _at(table: np.ndarray, place: np.ndarray, beyond: float) -> np.ndarray:
    """(R,) of (R, L) the number at a place of each row; ``beyond`` at place L."""
    padded = np.column_stack([table, np.full(len(table), beyond)])
    return padded[np.arange(len(table)), place]


def log(x: np.ndarray) -> np.ndarray:
    """The logarithm of sizes, counts and times; 0 of 0."""
    return np.log2(1.0 + x)


def program_columns(b: Batch, c: Counts) -> dict[str, np.ndarray]:
    """The columns of the program as a whole that processors and GPUs share, by name; (n,)."""
    total, most = b.owners.total, b.owners.most
    flop, needed = b.operations.sum(axis=1), b.needed.prod(axis=1)
    return {
        **{f"flop.{k}": log(total(c.runs * n)) for k, n in zip(KINDS, b.operations.T)},
        "redundancy": np.log2((total(c.runs * flop) + 1) / (total(needed * flop) + 1)),
        "steps.wasted": np.log2(total(c.runs) / total(needed)),
        "body": log(most(c.body)),
        "loop.steps": log(total(c.loop_steps)),
        "unroll.pragma": log(most(b.unroll)),
        "virtual": log(most(b.steps(VIRTUAL)) - 1),
    }
