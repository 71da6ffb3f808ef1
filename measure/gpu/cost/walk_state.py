"""The state of a walk through a kernel: the site of a statement, totals so far, effects."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from whet.compiler.passes.gpu.thread_sync import is_barrier
from whet.compiler.tir.expr import Var
from whet.compiler.tir.stmt import BufferStore, For
from whet.compiler.tir.visit.rewrite import statements_of
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

    var: Var
    count: Any
    unrolled: bool
    stored: frozenset[int]
    barrier: bool
    node: For


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


@dataclass
class Waits:
    """The waits of a loop that is run step by step, for the loads in it.

    Attributes:
        steps: how often they are waited for.
        in_flight: bytes that a thread asks for at a time.
        held: registers that these are to go into.
    """

    steps: float = 0.0
    in_flight: float = 0.0
    held: float = 0.0


@dataclass
class Totals:
    """Sums over all warps of a launch, but for those of a block or of a thread.

    Attributes:
        operations: by the kinds of :mod:`whet.measure.gpu.cost.operations`, of threads.
        instructions: warp instructions beside those.
        wavefronts: of the L1 cache and shared memory.
        barriers: of a block.
        chain: instructions of a thread that wait for one another.
        waits: by the id of the innermost loop that is run step by step; 0: there is none.
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
    waits: defaultdict[int, Waits] = field(default_factory=lambda: defaultdict(Waits))
    traffic: dict[int, Traffic] = field(default_factory=dict)
    turns: float = 1.0
    local_bytes: float = 0.0
    shared_bytes: float = 0.0


def effects(root: Any) -> tuple[frozenset[int], bool]:
    """Ids of the memory that statements store to; True if there is a barrier."""
    stored: set[int] = set()
    barrier = False
    stack: list[Any] = [root]
    while stack:
        n = stack.pop()
        if isinstance(n, BufferStore):
            stored.add(id(n.buffer.data))
        barrier |= is_barrier(n)
        stack += statements_of(n)
    return frozenset(stored), barrier
