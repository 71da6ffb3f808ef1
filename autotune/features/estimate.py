"""An analytic estimate of a candidate's time: the slowest of arithmetic, accesses and traffic.

The numbers are of a recent processor core, and are not measured: the estimate ranks candidates that
nobody has run yet, and a model that has seen trials corrects it.
"""

from __future__ import annotations

import numpy as np

from whet.autotune.features.batch import Batch
from whet.autotune.features.counts import LATENCY, Counts
from whet.autotune.features.loops.arithmetic import KINDS

_BRANCH = KINDS.index("branch")
HERTZ = 3.0e9
#: cycles of a vector operation, by kind (KINDS); conditions are counted apart
CYCLES = np.array([0.5, 0.5, 0.5, 5.0, 12.5, 0.5, 0.0, 0.25])
LOADS, STORES = 2.0, 1.0
"""Accesses a cycle."""
BRANCHES = 2.0
"""Conditions asked a cycle."""
APART = 3.0
"""How much more an element costs that lies apart from its neighbours in a vector."""
MASKED = 15.0
"""How much more a vector costs of which only some elements are stored."""
BYTES = np.array([32.0, 12.0, 4.0])
"""Bytes a cycle from the level-2 cache, the level-3 cache and memory."""
LOOP = 1.5
"""Cycles of an iteration of a loop that is not unrolled."""
ENTRY = 4.0
"""Cycles to begin an inner loop, and to leave it at a branch that was not foreseen."""


class Estimate:
    """Cycles of each statement, by cause, and seconds of each candidate.

    Attributes:
        compute, access, traffic, overhead: (S,) cycles.
        cycles: (S,) what they come to.
        seconds: (n,).
    """

    def __init__(self, b: Batch, c: Counts, threads: int) -> None:
        self.compute = self._compute(b, c)
        self.access = self._access(b, c)
        self.traffic = (c.per_statement(c.traffic) / BYTES).max(axis=1)
        self.overhead = c.loop_steps * LOOP + c.loop_entries * ENTRY
        self.cycles = np.maximum(np.maximum(self.compute, self.access), self.traffic)
        self.cycles = self.cycles + self.overhead
        shared = np.minimum(c.shared, threads)
        self.seconds = b.owners.total(self.cycles / shared) / HERTZ

    def _compute(self, b: Batch, c: Counts) -> np.ndarray:
        per_run = (b.operations * CYCLES).sum(axis=1)
        # A chain of dependent steps: only independent accumulators fill the pipeline.
        chained = np.where(c.chained, LATENCY / np.maximum(c.accumulators, 1.0), 0.0)
        # A condition that guards a read is evaluated when the read is done.
        guarded = c.per_statement(np.where(b.asks, c.executed, 0.0))
        conditions = np.where(guarded > 0, guarded, c.vector_runs) * b.operations[:, _BRANCH]
        return c.vector_runs * np.maximum(per_run, chained) + conditions / BRANCHES

    def _access(self, b: Batch, c: Counts) -> np.ndarray:
        executed = c.executed * b.times
        apart = (c.by_vector != 0) & (c.by_vector != 1)
        executed = executed * np.where(apart, APART, 1.0)
        executed = executed * np.where(b.stores & c.masked[b.statement], MASKED, 1.0)
        both = executed / np.where(b.stores, STORES, LOADS)
        again = np.where(b.stores & c.reducing[b.statement], executed / LOADS, 0.0)
        return c.per_statement(both + again)
