"""Trip counts of a kernel's parts: loop-invariant values hoisted, equal ones computed once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from whet.compiler.arith import Analyzer
from whet.compiler.tir.expr import BufferLoad, IntImm, PrimExpr, Var
from whet.compiler.tir.function import PrimFunc
from whet.measure.gpu.cost import warps as w
from whet.measure.gpu.cost.cse import Decider
from whet.measure.gpu.cost.integer_cost import BASES, IntegerOp, address, integer_ops
from whet.measure.gpu.cost.walk_state import Loop, Site, Totals

REGISTERS_HELD = 64
"""Values that the compiler keeps in registers over a loop instead of reading them again."""
DECIDED_ITERATIONS = 4096
"""Iterations of unrolled loops up to which conditions on them are decided."""


class TripCounts:
    """Sampled warps of one kernel, and the trip counts of its parts.

    Args:
        func: the kernel.
        sizes: of its scalar parameters, by name.

    Attributes:
        extents: of blockIdx and threadIdx, by tag.
        warps: with the values of variables.
        deps: the loops' variables, the threads' tags and the ids of memory that each variable is
            made of.
        total: the counts so far.
        blocks, threads: of the grid, of a block.
        all_warps: of the grid.
    """

    def __init__(self, func: PrimFunc, sizes: Mapping[str, int]) -> None:
        given = {p: sizes[p.name] for p in func.params if isinstance(p, Var) and p.name in sizes}
        alone, extents = w.Warps({}, given), func.attrs.get("thread_extent", {})
        self.extents = {tag: int(alone.value(extent)) for tag, extent in extents.items()}
        self.warps = w.Warps(self.extents, given)
        self.deps: dict[Var, frozenset[Any]] = {}
        self.total = Totals()
        self.analyzer = Analyzer()
        self.computed: dict[Hashable, float] = {}
        self.blocks, self.threads = (
            np.prod([self.extents.get(tag, 1) for tag in tags], dtype=float)
            for tags in (w.TAGS[:3], w.TAGS[3:])
        )
        self.all_warps = self.blocks * self.warps.warps

    def _hoisted(
        self, depends: frozenset[Any], loops: tuple[Loop, ...], buffer: Any = None
    ) -> float:
        """The trip count of the loops out of which a value is hoisted."""
        held, hoisted = 1.0, 1.0
        for loop in reversed(loops):
            if loop.var in depends or depends & loop.stored:
                held *= loop.count if loop.unrolled else np.inf
            elif held <= REGISTERS_HELD and (buffer is None or id(buffer.data) not in loop.stored):
                hoisted *= max(loop.count, 1.0)
        return hoisted

    def _depends(self, *exprs: PrimExpr) -> frozenset[Any]:
        """The loops' variables, the threads' tags and the ids of memory in expressions."""
        return self._sources(exprs)[0]

    def _sources(self, exprs: Sequence[PrimExpr]) -> tuple[frozenset[Any], bool]:
        """As :meth:`_depends`; and False where a variable is named within the value."""
        sources: set[Any] = set()
        known = True
        stack: list[Any] = list(exprs)
        while stack:
            n = stack.pop()
            if isinstance(n, Var):
                known &= n in self.deps
                sources |= self.deps.get(n, frozenset())
                continue
            if isinstance(n, BufferLoad):
                sources.add(id(n.buffer.data))
            stack += n.parts
        return frozenset(sources), known

    def _warps(self, site: Site) -> float:
        """Warps that execute a site, of all blocks, each as often as its loops say."""
        lanes = np.broadcast_to(site.active, (w.SAMPLES, w.LANES, site.active.shape[-1]))
        return (site.times * lanes.any(axis=(1, 2))).mean() * self.all_warps

    def _decider(self, loops: tuple[Loop, ...]) -> Decider:
        """Decides conditions by the iterations of the unrolled loops around."""
        unrolled = [x for x in loops if x.unrolled and isinstance(x.node.extent, IntImm)]
        counts = [int(x.node.extent) for x in unrolled]
        if not unrolled or prod(counts) > DECIDED_ITERATIONS:
            return lambda condition: None
        grid = np.indices(counts).reshape(len(counts), -1)

        def decide(condition: PrimExpr) -> np.ndarray | None:
            depends = self._depends(condition)
            if not depends or not depends <= {x.var for x in unrolled}:
                return None
            values = {x.var: self.warps.value(x.node.min) + k for x, k in zip(unrolled, grid)}
            holds = np.asarray(self.warps.value_at(condition, values), bool)
            return np.broadcast_to(holds, grid.shape[1:]) if holds.ndim < 2 else None  # of data

        return decide

    def _count_address(self, n: Any, site: Site) -> None:
        """Count the instructions of an access's address."""
        index = n.indices[0]
        unrolled = frozenset(loop.var for loop in site.loops if loop.unrolled)
        key, parts = address(index, unrolled, self.analyzer)
        kind = "shared" if n.buffer.storage_scope.startswith("shared") else "global"
        self._count_value(IntegerOp((id(n.buffer.data), key), parts, BASES[kind]), site)
        self._count_integers(index, site)

    def _count_integers(self, n: PrimExpr, site: Site) -> None:
        """Count the instructions of a condition or an index."""
        for op in integer_ops(n, self.analyzer):
            self._count_value(op, site)

    def _count_value(self, op: IntegerOp, site: Site) -> None:
        """Count a value as often as it changes; not again for an equal one."""
        times = site.times / self._hoisted(self._depends(*op.parts), site.loops)
        runs = op.cost * self._warps(replace(site, times=times))
        self.total.instructions += max(runs - self.computed.get(op.key, 0.0), 0.0)
        self.computed[op.key] = max(runs, self.computed.get(op.key, 0.0))
