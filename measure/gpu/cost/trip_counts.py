"""How often parts of a kernel are executed, and what is computed once for many of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from whet.compiler.arith import Analyzer
from whet.compiler.tir import expr as e
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.visit.rewrite import TABLE
from whet.measure.gpu.cost import warps as w
from whet.measure.gpu.cost.cse import Decided
from whet.measure.gpu.cost.integer_cost import BASES, address, pieces
from whet.measure.gpu.cost.walk_state import Loop, Totals

KEPT = 64
"""Values that the compiler keeps in registers over a loop instead of reading them again."""
WRITTEN_STEPS = 4096
"""Steps of written-out loops up to which conditions on them are decided."""


class Steps:
    """Sampled warps of one kernel, with what is known of the loops around a place in it.

    Args:
        func: the kernel.
        sizes: of its scalar parameters, by name.

    Attributes:
        extents: of blockIdx and threadIdx, by tag.
        warps: with the values of variables.
        deps: the loops' variables, the threads' tags and the ids of memory that each variable is
            made of.
        total: what has been counted.
        blocks, threads: of the grid, of a block.
        all_warps: of the grid.
    """

    def __init__(self, func: PrimFunc, sizes: Mapping[str, int]) -> None:
        found = func.attrs.get("thread_extent", {})
        nothing = w.Warps({})
        for p in func.params:
            if isinstance(p, e.Var) and p.name in sizes:
                nothing.values[p] = sizes[p.name]
        self.extents = {tag: int(nothing.value(extent)) for tag, extent in found.items()}
        self.warps = w.Warps(self.extents)
        self.warps.values.update(nothing.values)
        self.deps: dict[e.Var, frozenset[Any]] = {}
        self.total = Totals()
        self.analyzer = Analyzer()
        self.computed: dict[Hashable, float] = {}
        self.blocks = np.prod([self.extents.get(t, 1) for t in w.TAGS[:3]], dtype=float)
        self.threads = np.prod([self.extents.get(t, 1) for t in w.TAGS[3:]], dtype=float)
        self.all_warps = self.blocks * self.warps.warps

    def _often(
        self, buffer: Any, depends: frozenset[Any], loops: tuple[Loop, ...], times: np.ndarray
    ) -> np.ndarray:
        """How often something is executed: not again where its value is in a register.

        Args:
            buffer: what is read or stored; None: nothing.
            depends: what changes it: loops, and memory that they store to.
            loops, times: around it.
        """
        held, saved = 1.0, 1.0
        for loop in reversed(loops):
            if loop.var in depends or depends & loop.stored:
                held *= loop.count if loop.unrolled else np.inf
            elif held <= KEPT and (buffer is None or id(buffer.data) not in loop.stored):
                saved *= max(loop.count, 1.0)
        return times / saved

    def _depends(self, *exprs: e.PrimExpr) -> frozenset[Any]:
        """The loops' variables, the threads' tags and the ids of memory that expressions are made
        of."""
        found: set[Any] = set()
        stack: list[Any] = list(exprs)
        while stack:
            n = stack.pop()
            if isinstance(n, e.Var):
                found |= self.deps.get(n, frozenset())
                continue
            if isinstance(n, e.BufferLoad):
                found.add(id(n.buffer.data))
            stack += TABLE[type(n)][0](n)
        return frozenset(found)

    def _computed(self, n: e.PrimExpr, loops: tuple[Loop, ...]) -> float:
        """The share of the steps of the loops around in which an operation is computed anew.

        Compilers move what a loop does not change out of it, as what it reads.
        """
        depends: set[Any] = set()
        stack: list[Any] = [n]
        while stack:
            part = stack.pop()
            if isinstance(part, e.Var) and part not in self.deps:
                return 1.0  # named within the value
            if isinstance(part, e.Var):
                depends |= self.deps[part]
            elif isinstance(part, e.BufferLoad):
                depends.add(id(part.buffer.data))
            stack += TABLE[type(part)][0](part)
        held, saved = 1.0, 1.0
        for loop in reversed(loops):
            if loop.var in depends or depends & loop.stored:
                held *= loop.count if loop.unrolled else np.inf
            elif held <= KEPT:
                saved *= max(loop.count, 1.0)
        return 1.0 / saved

    def _runs(self, active: Any, times: np.ndarray) -> float:
        """Warps that execute something, of all blocks, each as often as its loops say."""
        some = np.broadcast_to(active, (w.SAMPLES, w.LANES, active.shape[-1])).any(axis=(1, 2))
        return float((times * some).mean()) * self.all_warps

    def _decided(self, loops: tuple[Loop, ...]) -> Decided:
        """What the steps of the loops that are written out decide."""
        out = [x for x in loops if x.unrolled and isinstance(x.node.extent, e.IntImm)]
        counts = [int(x.node.extent) for x in out]
        if not out or prod(counts) > WRITTEN_STEPS:
            return lambda condition: None
        grid = np.indices(counts).reshape(len(counts), -1)

        def decided(condition: e.PrimExpr) -> np.ndarray | None:
            depends = self._depends(condition)
            if not depends or not depends <= {x.var for x in out}:
                return None
            before = {x.var: self.warps.values[x.var] for x in out}
            for x, steps in zip(out, grid):
                self.warps.values[x.var] = self.warps.value(x.node.min) + steps
            holds = np.asarray(self.warps.value(condition), bool)
            self.warps.values.update(before)
            return np.broadcast_to(holds, grid.shape[1:]) if holds.ndim < 2 else None  # of data

        return decided

    def _address(self, n: Any, loops: tuple[Loop, ...], active: Any, times: np.ndarray) -> None:
        """What computing an access's address takes."""
        index = n.indices[0]
        written_out = frozenset(loop.var for loop in loops if loop.unrolled)
        key, parts = address(index, written_out, self.analyzer)
        kind = "shared" if n.buffer.storage_scope.startswith("shared") else "global"
        self._once((id(n.buffer.data), key), parts, BASES[kind], loops, active, times)
        self._whole_numbers(index, loops, active, times)

    def _whole_numbers(
        self, n: e.PrimExpr, loops: tuple[Loop, ...], active: Any, times: np.ndarray
    ) -> None:
        """Instructions of a condition or an index."""
        for piece in pieces(n, self.analyzer):
            self._once(piece.key, piece.parts, piece.cost, loops, active, times)

    def _once(
        self,
        key: Hashable,
        parts: Sequence[e.PrimExpr],
        cost: float,
        loops: tuple[Loop, ...],
        active: Any,
        times: np.ndarray,
    ) -> None:
        """Instructions of a value, as often as it changes; not again for what is computed alike."""
        often = self._often(None, self._depends(*parts), loops, times)
        runs = cost * self._runs(active, often)
        self.total.instructions += max(runs - self.computed.get(key, 0.0), 0.0)
        self.computed[key] = max(runs, self.computed.get(key, 0.0))
