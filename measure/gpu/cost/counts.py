"""The work of a lowered kernel: instructions, bytes, wavefronts of shared memory, waits.

One walk through the kernel's loops, whatever their trip counts: sampled warps say how many lanes
are active and which addresses they read, loops multiply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from whet.compiler.arith import Analyzer
from whet.compiler.codegen.cuda.dot_product import with_dot_products
from whet.compiler.passes.gpu.thread_sync import is_barrier
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import BufferLoad, PrimExpr, Ramp
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.stmt import (
    UNROLLED,
    VECTORIZED,
    Allocate,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
)
from whet.compiler.tir.visit.rewrite import statements_of
from whet.measure.device.specs import GpuSpec
from whet.measure.gpu.cost import warps as w
from whet.measure.gpu.cost.cse import eliminate_common
from whet.measure.gpu.cost.model import ARITHMETIC_CYCLES, WARP, Work, resident_blocks
from whet.measure.gpu.cost.operations import FMA32, FMA64, OTHER, SPECIAL, operations
from whet.measure.gpu.cost.partial_unroll import unroll_partially
from whet.measure.gpu.cost.traffic import BLOCK_TAGS, Grid, Traffic, memory_bytes
from whet.measure.gpu.cost.trip_counts import REGISTERS_HELD, TripCounts
from whet.measure.gpu.cost.walk_state import Loop, Site, effects

AUTO_UNROLLED = 16
"""The trip count up to which the compiler unrolls a loop by itself."""
PIPELINED = 4.0
"""Iterations of a loop without barriers whose loads are issued together."""
STEP = 2.0
"""Instructions of an iteration of a loop, or of a branch."""
PROLOGUE = 6.0
"""Instructions of a thread to compute its index, and to end."""
ADDRESSES = 8
"""Registers of a thread that wait for no load: addresses, a sum. Of the others each has one under
way, where there are loads enough: 24 of 32 in SASS of sums along rows, 22 of 31 of columns."""
OWN_REGISTERS = 24
"""Registers of a kernel beside its local arrays, where no compiler has said how many it has."""


def work_of(
    func: PrimFunc,
    spec: GpuSpec,
    registers: int | None = None,
    spilt_bytes: int = 0,
    sizes: Mapping[str, int] | None = None,
) -> Work:
    """The work of one launch of a kernel.

    Args:
        func: a kernel after the build's passes, its extents numbers.
        spec: the GPU.
        registers: of a thread, as a compiler says; None: estimated.
        spilt_bytes: that the code of a thread stores and loads because its registers do not
            suffice: in each iteration of its outermost loop.
        sizes: of the kernel's scalar parameters, by name.

    Raises:
        MeasureError: an extent or an index depends on a size that is no number.
    """
    return _Walk(func, spec, sizes or {}).work(registers, spilt_bytes)


class _Walk(TripCounts):
    def __init__(self, func: PrimFunc, spec: GpuSpec, sizes: Mapping[str, int]) -> None:
        # All at once: loops and values are known by their id, as long as the function lives.
        func = func.with_body(unroll_partially(with_dot_products(func.body, Analyzer())))
        super().__init__(func, sizes)
        self.func, self.spec = func, spec

    def work(self, registers: int | None, spilt_bytes: int) -> Work:
        """The kernel's totals."""
        self._visit(self.func.body, Site((), self.warps.here, np.ones(w.SAMPLES)))
        t = self.total
        t.instructions += PROLOGUE * self.all_warps
        shared = self.func.attrs.get("shared_bytes", t.shared_bytes)
        shared = self.warps.value(shared) if isinstance(shared, PrimExpr) else shared
        registers = registers or min(255, OWN_REGISTERS + int(t.local_bytes // 4))
        resident = resident_blocks(self.spec, self.threads, registers, shared)
        # blocks that run at a time on the whole device
        wave = min(max(resident, 1.0) * self.spec.multiprocessors, self.blocks)
        spilt = spilt_bytes * t.turns * self.blocks * self.threads
        l2 = sum(x.loaded + x.stored for x in t.traffic.values())
        grid = Grid(self.extents, self.blocks, wave)
        memory = sum(memory_bytes(x, grid, self.spec) for x in t.traffic.values())
        issued = t.instructions + t.operations.sum() / WARP + spilt / WARP / 4
        flight, held = (
            sum(getattr(one, name) for one in t.waits.values()) / max(len(t.waits), 1)
            for name in ("in_flight", "held")
        )
        return Work(
            blocks=self.blocks,
            threads=self.threads,
            registers=registers,
            shared_bytes=shared,
            instructions=issued,
            fma32=t.operations[FMA32],
            fma64=t.operations[FMA64],
            special=t.operations[SPECIAL],
            wavefronts=t.wavefronts + spilt / WARP / 4,
            l2_bytes=l2 + spilt * 0.25,
            memory_bytes=memory,
            phases=sum(one.steps for one in t.waits.values()),
            barriers=t.barriers,
            chain=t.chain,
            in_flight=flight * min(max(registers - ADDRESSES, 1.0) / max(held, 1.0), 1.0),
        )

    # --- statements -------------------------------------------------------------------------------

    def _visit(self, n: Any, site: Site) -> None:
        visit = _VISIT.get(type(n))
        if visit is not None:
            visit(self, n, site)
            return
        for part in statements_of(n):
            self._visit(part, site)

    def _attribute(self, n: AttrStmt, site: Site) -> None:
        if n.key == "thread_extent":
            var = getattr(n.node, "var", n.node)
            tag = getattr(n.node, "thread_tag", var.name)
            self.warps.values[var] = self.warps.ids[tag]
            self.deps[var] = frozenset([tag])
        self._visit(n.body, site)

    def _let(self, n: LetStmt, site: Site) -> None:
        self._value(n.value, site, ahead=True)
        self.warps.values[n.var] = self.warps.value(n.value)
        self.deps[n.var] = self._depends(n.value)
        self._visit(n.body, site)

    def _allocate(self, n: Allocate, site: Site) -> None:
        buffer = n.buffer
        size = float(np.prod([int(self.warps.value(d)) for d in buffer.shape]))
        size *= dt.itemsize(buffer.dtype)
        if buffer.storage_scope.startswith("shared"):
            self.total.shared_bytes += size
        else:
            self.total.local_bytes += size
        self._visit(n.body, site)

    def _loop(self, n: For, site: Site) -> None:
        count = self.warps.value(n.extent)
        mean = np.mean(count)
        self.warps.values[n.var] = self.warps.step(self.warps.value(n.min), count)
        self.deps[n.var] = frozenset([n.var])
        stored, barrier = effects(n.body)
        unrolled = n.kind in (UNROLLED, VECTORIZED) or (mean <= AUTO_UNROLLED and not barrier)
        if not unrolled:
            self.total.instructions += STEP * self._warps(site) * mean
            outermost = all(x.unrolled for x in site.loops)
            self.total.turns = max(self.total.turns, mean if outermost else 1.0)
        self._visit(n.body, site.inside(Loop(n.var, mean, unrolled, stored, barrier, n)))

    def _branch(self, n: IfThenElse, site: Site) -> None:
        holds = w.full(self.warps.value(n.condition)).astype(bool)
        self.total.instructions += STEP * self._warps(site)
        self._count_integers(n.condition, site)
        self._visit(n.then_case, site.where(holds))
        if n.else_case is not None:
            self._visit(n.else_case, site.where(~holds))

    def _evaluate(self, n: Evaluate, site: Site) -> None:
        if is_barrier(n):
            self.total.barriers += site.times.mean()
            self.total.instructions += self._warps(site)

    def _store(self, n: BufferStore, site: Site) -> None:
        self._access(n, site, stores=True)
        ahead = not n.buffer.storage_scope.startswith(("global", "shared"))
        operations, loads = self._value(n.value, site, ahead)
        reads, moves = any(load.buffer is n.buffer for load in loads), self._depends(*n.indices)
        # Instructions of a thread that depend on the one before.
        lanes = dt.lanes(n.value.dtype)
        independent = float(lanes)
        for loop in reversed(site.loops):
            if not loop.unrolled:
                break
            independent *= loop.count if loop.var in moves or not reads else 1.0
        steps = max(operations / max(lanes, 1), 1.0)
        independent = min(max(independent, 1.0), ARITHMETIC_CYCLES)
        self.total.chain += site.times.mean() * steps / independent

    def _value(self, n: PrimExpr, site: Site, ahead: bool) -> tuple[float, list[BufferLoad]]:
        """Count a value; returns a thread's operations of it, and its loads."""
        value = eliminate_common(n, self._decider(site.loops))
        nodes = []
        for part, share in value.nodes:
            # An operation with its loads is hoisted out of the loops that do not change it.
            depends, known = self._sources([part])
            hoisted = self._hoisted(depends, site.loops) if known else 1.0
            nodes.append((part, share * (1.0 / hoisted)))
        done = np.array(operations(nodes))
        # inactive lanes take their slots, too
        self.total.operations += done * self._warps(site) * WARP
        for part in value.integers:
            self._count_integers(part, site)
        for load, share in value.loads:
            part_of_site = replace(site, times=site.times * share)
            self._access(load, part_of_site, stores=False, ahead=ahead)
        return done[:OTHER].sum(), [load for load, _ in value.loads]

    # --- accesses ---------------------------------------------------------------------------------

    def _access(self, n: Any, site: Site, stores: bool, ahead: bool = False) -> None:
        scope = n.buffer.storage_scope
        if scope not in ("global", "") and not scope.startswith("shared"):
            return
        lanes = dt.lanes(n.value.dtype if stores else n.dtype)
        size = dt.itemsize(n.buffer.dtype)
        active: Any = site.active
        if n.mask is not None:
            active = active & w.full(self.warps.value(n.mask), lanes).astype(bool)
        depends = self._depends(*n.indices)
        trips = site.times / self._hoisted(depends, site.loops, n.buffer)
        index = w.full(self.warps.value(n.indices[0]), lanes)
        shared = scope.startswith("shared")
        merged = self._merged(n, site.loops, size) if shared and lanes == 1 else 1
        if merged > 1:  # neighbours that an unrolled loop reads one after the other
            index = index // merged * merged + np.arange(merged)
            trips = trips / merged
            lanes = merged
        active = np.broadcast_to(active, index.shape)
        per_warp = trips * active.any(axis=(1, 2))
        ramp = isinstance(n.indices[0], Ramp) and n.indices[0].stride == 1
        number = max(lanes * size / 16, 1.0) if merged > 1 or ramp else lanes
        self.total.instructions += number * per_warp.mean() * self.all_warps
        self._count_address(n, replace(site, active=active.any(axis=2, keepdims=True)))
        address = index * size
        if shared:
            passes = w.wavefronts(address, size, active)
        else:
            sectors = w.touched(address, active, w.SECTOR)
            given = w.groups(active.any(axis=2), lanes * size) * w.WORD
            passes = w.cache_passes(w.touched(address, active, w.LINE), sectors, given)
            self._count_traffic(n, trips, sectors, depends, stores)
            if not stores:
                nbytes = sectors.mean() * w.SECTOR / w.LANES
                registers = max(lanes * size / w.WORD, 1.0)
                self._count_waits(site.loops, depends, nbytes, registers, ahead)
        self.total.wavefronts += (trips * passes).mean() * self.all_warps

    def _merged(self, n: Any, loops: tuple[Loop, ...], size: int) -> int:
        """Neighbours of an unrolled loop that the compiler reads at once: 16 bytes at most."""
        for loop in reversed(loops):
            if not loop.unrolled:
                return 1
            if loop.var not in self._depends(*n.indices):
                continue
            first, second = (
                w.full(self.warps.value_at(n.indices[0], {loop.var: step})) for step in (0, 1)
            )
            if not (second - first == 1).all():
                continue
            fits = (k for k in (4, 2) if k * size <= 16 and loop.count % k == 0)
            return next((k for k in fits if not (first % k).any()), 1)
        return 1

    def _count_traffic(
        self,
        n: Any,
        trips: np.ndarray,
        sectors: np.ndarray,
        depends: frozenset[Any],
        stores: bool,
    ) -> None:
        bytes_ = (trips * sectors).mean() * w.SECTOR * self.all_warps
        x = self.total.traffic.get(id(n.buffer.data))
        if x is None:
            extents = [np.max(self.warps.value(d)) for d in n.buffer.shape]
            x = Traffic(np.prod(extents, dtype=float) * dt.itemsize(n.buffer.dtype))
            self.total.traffic[id(n.buffer.data)] = x
        if stores:
            x.stored += bytes_
            return
        # Warps of a block that read the same find it in the L1 cache.
        alike = [self.extents.get(t, 1) for t in w.TAGS[3:] if t not in depends]
        shared_by = min(np.prod(alike, dtype=float), self.warps.warps)
        shared_by = max(shared_by / (w.LANES if "threadIdx.x" not in depends else 1), 1.0)
        bytes_ /= min(shared_by, self.warps.warps)
        x.loaded += bytes_
        tags = depends.intersection(BLOCK_TAGS)
        x.of_block[tags] = x.of_block.get(tags, 0.0) + bytes_ / self.blocks

    def _count_waits(
        self,
        loops: tuple[Loop, ...],
        depends: frozenset[Any],
        nbytes: float,
        registers: float,
        ahead: bool,
    ) -> None:
        """Loads of one loop's body are in flight together; each iteration waits for them.

        Loads into registers in a loop with barriers are issued ahead of their use.

        Args:
            loops: around a load.
            depends: the sources of its index.
            nbytes: of sectors of the memory, a thread's share.
            registers: that wait for them.
            ahead: the load goes into registers.
        """
        around = [x for x in loops if not x.unrolled]
        inner = loops[loops.index(around[-1]) + 1 :] if around else loops
        together = np.prod([x.count for x in inner if x.var in depends])
        key = id(around[-1].node) if around else 0
        steps = np.prod([x.count for x in around])
        barrier = bool(around) and around[-1].barrier
        at_once = PIPELINED if around and not barrier else 1.0
        at_once = min(at_once, max(steps, 1.0))
        waits = steps / (PIPELINED if barrier and ahead else at_once)
        one, loads = self.total.waits[key], min(together, REGISTERS_HELD) * at_once
        one.steps = max(waits, one.steps)
        one.in_flight += loads * nbytes
        one.held += loads * registers


_VISIT: dict[type, Callable[[_Walk, Any, Site], None]] = {
    For: _Walk._loop,
    IfThenElse: _Walk._branch,
    BufferStore: _Walk._store,
    Evaluate: _Walk._evaluate,
    AttrStmt: _Walk._attribute,
    LetStmt: _Walk._let,
    Allocate: _Walk._allocate,
}
