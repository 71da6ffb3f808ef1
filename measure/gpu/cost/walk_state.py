"""The state of a walk through a kernel: the site of a statement, totals so far, effects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.measure.gpu.cost.traffic import Traffic


@dataclass(frozen=True)
class Loop:
    """A loop around a statement.

    Attributes:
        var: its variable.
        count: its trip count; the mean where it differs.
        unrolled: by the schedule or by the compiler.
        stored: ids of the memory that its body stores to.
        barrier: its body has a barrier.
        node: the loop.
    """

    var: e.Var
    count: Any
    unrolled: bool
    stored: frozenset[int]
    barrier: bool
    node: s.For


@dataclass(frozen=True)
class Site:
    """A place in a kernel.

    Attributes:
        loops: around it, the outermost first.
        active: (samples, lanes, 1) the lanes of sampled warps that get there.
        times: (samples,) how often a warp gets there.
    """

    loops: tuple[Loop, ...]
    active: Any
    times: np.ndarray

    def inside(self, loop: Loop) -> Site:
        """The body of a loop here."""
        return Site((*self.loops, loop), self.active, self.times * loop.count)

    def where(self, holds: Any) -> Site:
        """The lanes for which a condition holds."""
        return replace(self, active=self.active & holds)

    def share(self, share: float) -> Site:
        """A part of the executions."""
        return replace(self, times=self.times * share)


@dataclass
class Totals:
    """Sums over all warps of a launch, but for those of a block or of a thread.

    Attributes:
        operations: by the kinds of :mod:`whet.measure.gpu.cost.operations`, of threads.
        instructions: warp instructions beside those.
        wavefronts: passes through the L1 cache and shared memory.
        barriers: of a block.
        chain: instructions of a thread that wait for one another.
        waiting: by the innermost loop that is run step by step, how often loads are waited for.
        in_flight: by the same loop, bytes that a thread asks for at a time.
        held: by the same loop, registers that these are to go into.
        traffic: by the id of the memory.
        turns: steps of the longest outermost loop that is run step by step.
        local_bytes: of a thread.
        shared_bytes: of a block.
    """

    operations: np.ndarray = field(default_factory=lambda: np.zeros(4))
    instructions: float = 0.0
    wavefronts: float = 0.0
    barriers: float = 0.0
    chain: float = 0.0
    waiting: dict[int, float] = field(default_factory=dict)
    in_flight: dict[int, float] = field(default_factory=dict)
    held: dict[int, float] = field(default_factory=dict)
    traffic: dict[int, Traffic] = field(default_factory=dict)
    turns: float = 1.0
    local_bytes: float = 0.0
    shared_bytes: float = 0.0


def effects(root: Any) -> tuple[frozenset[int], bool]:
    """Ids of the memory that statements store to; whether there is a barrier."""
    stored: set[int] = set()
    barrier = False
    stack: list[Any] = [root]
    while stack:
        n = stack.pop()
        if isinstance(n, s.BufferStore):
            stored.add(id(n.buffer.data))
        elif isinstance(n, s.Evaluate):
            value = n.value
            barrier |= isinstance(value, e.Call) and str(value.op).endswith("storage_sync")
        elif isinstance(n, s.Stmt):
            stack += [p for p in n.parts if isinstance(p, s.Stmt)]
    return frozenset(stored), barrier
