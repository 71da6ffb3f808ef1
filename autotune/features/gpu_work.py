"""The work of a batch's kernels on a GPU, from their loops alone: the static model's input."""

from __future__ import annotations

import numpy as np

from whet.autotune.features.batch import Batch, Owners, trips
from whet.autotune.features.counts import Counts
from whet.autotune.features.loops.arithmetic import KINDS
from whet.autotune.features.loops.nests import BLOCK, SERIAL, THREAD, UNROLLED, VIRTUAL
from whet.autotune.features.loops.program import GLOBAL, LOCAL, SHARED
from whet.measure.device.specs import GpuSpec
from whet.measure.gpu.cost.counts import OWN_REGISTERS, STEP
from whet.measure.gpu.cost.model import ARITHMETIC_CYCLES, WARP, Work
from whet.measure.gpu.cost.operations import DIVISION, FUNCTION
from whet.measure.gpu.cost.traffic import L2_SHARE
from whet.measure.gpu.cost.trip_counts import REGISTERS_HELD
from whet.measure.gpu.cost.warps import BANKS, LINE, SECTOR, WORD, cache_passes

_FMA, _ADD, _MUL, _DIV, _SPECIAL = (KINDS.index(k) for k in ("fma", "add", "mul", "div", "special"))
UNEVEN = 2.0
"""Passes of accesses whose index is made by divisions: they seldom meet in one bank."""


class GpuWork:
    """The kernels of a batch; K kernels, S statements, Q accesses.

    Attributes:
        candidate: (K,) whose kernel it is, ascending.
        candidates: how many there are.
        work: each field (K,).
        local_bytes: (K,) of a thread.
        instructions: (Q,) loads and stores of warps; of_global: (Q,) those of global memory.
        lane_bytes: (Q,) bytes that a thread asks for at once.
        sectors, least_sectors: (Q,) 32-byte sectors that a warp touches with one, and would touch
            if its lanes asked for neighbours.
        wavefronts: (Q,) wavefronts of shared memory.
        is_global, is_shared: (Q,) where it goes.
    """

    def __init__(self, b: Batch, c: Counts, spec: GpuSpec) -> None:
        self._b, self._c, self._spec = b, c, spec
        # Statements of one candidate that are attached in one root are a kernel.
        kernels, of = np.unique(b.candidate * 128 + b.root, return_inverse=True)
        self.candidate, self.candidates = kernels // 128, b.n
        self._kernels = Owners(of, len(kernels))
        self._accesses()
        held = b.region.prod(axis=1) * b.itemsize
        # Virtual threads of one thread keep what they have side by side.
        total = self._kernels.total
        self.local_bytes = total(np.where(b.scope == LOCAL, held * b.steps(VIRTUAL), 0.0))
        self.work = self._work(total(np.where(b.scope == SHARED, held, 0.0)))

    def longest(self, seconds: np.ndarray) -> np.ndarray:
        """(n,) each candidate's kernel that takes longest, the first of equals."""
        order = np.lexsort((np.arange(len(seconds)), -seconds, self.candidate))
        first = np.searchsorted(self.candidate[order], np.arange(self.candidates))
        return order[first]

    def _accesses(self) -> None:
        b, c = self._b, self._c
        of = b.statement
        self.instructions = c.executed * b.times / WARP
        self.is_global, self.is_shared = b.place == GLOBAL, b.place == SHARED
        self.of_global = self.instructions * self.is_global
        wide = np.where(c.by_vector == 1, np.minimum(c.lanes[of], c.width[of]), 1.0)
        self.lane_bytes = b.bytes * wide
        (along_x, nx), (along_y, ny) = self._by_lane(1), self._by_lane(2)
        # Lanes along x, then along y, until a warp is full.
        nx = np.minimum(nx, WARP)
        ny = np.minimum(np.maximum(WARP / nx, 1.0), ny)
        sx, sy = along_x * b.bytes, along_y * b.bytes
        self.sectors = _pieces(nx, sx, ny, sy, self.lane_bytes, SECTOR)
        self.lines = _pieces(nx, sx, ny, sy, self.lane_bytes, LINE)
        self.least_sectors = np.maximum(nx * ny * self.lane_bytes / SECTOR, 1.0)
        self.least_sectors = np.minimum(self.least_sectors, self.sectors)
        apart = np.where(sx > 0, nx, 1.0) * np.where(sy > 0, ny, 1.0)
        registers = np.maximum(self.lane_bytes / WORD, 1.0)
        conflict = _conflict(nx, sx / WORD, registers)
        conflict = np.where(self._even(along_x), conflict, np.minimum(conflict, UNEVEN))
        passes = np.maximum(apart * self.lane_bytes / LINE, 1.0) * conflict
        # A warp is given one register a pass, and two where near lanes ask for the same.
        near = ((sx == 0) & (nx >= 2)) | ((sy == 0) & (nx <= 2) & (ny >= 2))
        passes = np.maximum(passes, np.where(near, np.maximum(registers / 2, 1.0), registers))
        self.wavefronts = self.instructions * np.minimum(passes, WARP) * self.is_shared

    def _even(self, step: np.ndarray) -> np.ndarray:
        """(Q,) whether all steps along threadIdx.x are alike: no division is in the index."""
        b = self._b
        mine = b.lane[b.statement] == 1
        far = np.where(mine[:, None, :], b.far, 0.0).sum(axis=(1, 2))
        one = np.where(mine[:, None, :], np.abs(b.step), 0.0).sum(axis=(1, 2))
        extent = trips(mine, b.extent[b.statement])
        return far >= one * (extent - 1)

    def _by_lane(self, axis: int) -> tuple[np.ndarray, np.ndarray]:
        """(Q,) how far a step along an axis of a block's threads moves an access; its extent."""
        mine = self._b.lane[self._b.statement] == axis
        step = np.abs(np.where(mine, self._c.flat, 0.0)).max(axis=1)
        return step, trips(mine, self._b.extent[self._b.statement])

    def _work(self, shared_bytes: np.ndarray) -> Work:
        b, c = self._b, self._c
        total, most = self._kernels.total, self._kernels.most
        first = np.searchsorted(b.candidate, b.candidate)  # the first statement of its candidate
        root = b.root == np.arange(len(b.candidate)) - first
        blocks, threads = most(b.steps(BLOCK)), most(b.steps(THREAD))
        ops = b.operations * c.runs[:, None]
        of_functions = DIVISION * ops[:, _DIV] + FUNCTION * ops[:, _SPECIAL]
        fma = ops[:, _FMA] + ops[:, _ADD] + ops[:, _MUL] + of_functions
        double = (b.itemsize >= 8) & root
        passes = self.of_global * cache_passes(self.lines, self.sectors, self.lane_bytes)
        l2 = self.of_global * self.sectors * SECTOR
        issued = c.per_statement(self.instructions * (b.place != LOCAL))
        issued = issued + c.loop_steps * STEP / WARP
        around = trips((b.kind == SERIAL) & ~c.block & ~b.own, b.extent)
        shared = b.scope == SHARED
        per_thread = c.runs / (blocks * threads)[self._kernels.of]
        chain = per_thread / np.minimum(np.maximum(c.accumulators, 1.0), ARITHMETIC_CYCLES)
        in_flight = c.per_statement(self._together() * (self.is_global & ~b.stores))
        return Work(
            blocks=blocks,
            threads=threads,
            registers=np.minimum(OWN_REGISTERS + self.local_bytes / 4, 255.0),
            shared_bytes=shared_bytes,
            instructions=total(issued + (ops.sum(axis=1) + of_functions) / WARP),
            fma32=total(np.where(double, 0.0, fma)),
            fma64=total(np.where(double, fma, 0.0)),
            special=total(ops[:, _SPECIAL] + ops[:, _DIV]),
            wavefronts=total(c.per_statement(self.wavefronts + passes)),
            l2_bytes=total(c.per_statement(l2)),
            memory_bytes=total(c.per_statement(self._memory(l2))),
            phases=most(np.where(shared, around, 1.0)),
            barriers=total(np.where(shared, around, 0.0)),
            chain=most(chain),
            in_flight=most(in_flight),
        )

    def _together(self) -> np.ndarray:
        """(Q,) bytes that a thread asks for before it waits: those of one step of its last loop."""
        b = self._b
        serial = (b.kind == SERIAL) & (b.extent > 1)
        after = ~np.logical_or.accumulate(serial[:, ::-1], axis=1)[:, ::-1]
        written = trips(after & (b.kind == UNROLLED), b.extent)
        return np.minimum(written, REGISTERS_HELD)[b.statement] * self.lane_bytes

    def _memory(self, l2: np.ndarray) -> np.ndarray:
        """(Q,) bytes from and to the memory: what the L2 cache does not hold is fetched again."""
        unique = self._c.elements[:, 0] * self._b.bytes * self.is_global
        small = unique <= self._spec.l2_bytes * L2_SHARE
        return np.where(small, np.minimum(unique, l2), np.minimum(l2, np.sqrt(unique * l2)))


def _pieces(
    nx: np.ndarray,
    sx: np.ndarray,
    ny: np.ndarray,
    sy: np.ndarray,
    nbytes: np.ndarray,
    size: float,
) -> np.ndarray:
    """Pieces of memory of ``size`` bytes that a warp touches: ``nx`` lanes ``sx`` bytes apart."""
    run = np.maximum((nx - 1) * sx + nbytes, nbytes)
    lane = np.maximum(nbytes / size, 1.0)
    row = np.where(sx <= size, np.maximum(run / size, 1.0), nx * lane)
    row = np.where(sx == 0, lane, row)
    whole = np.maximum(((ny - 1) * sy + run) / size, 1.0)
    many = np.where(sy == 0, row, np.minimum(ny * row, whole * nx))
    dense = (sy > 0) & (sy <= run)
    return np.clip(np.where(dense, whole, many), 1.0, nx * ny * lane)  # at most its own a lane


def _conflict(nx: np.ndarray, words: np.ndarray, wide: np.ndarray) -> np.ndarray:
    """Bank conflicts: lanes along x, of ``wide`` words each, on different words of one bank.

    Of lanes that are served together: wider ones pass in several groups by themselves.
    """
    step = np.round(words / wide).astype(np.int64)
    banks = np.maximum(np.round(BANKS / wide), 1.0).astype(np.int64)
    met = banks / np.gcd(step, banks)  # so many lanes lie on different banks
    return np.where(words > wide, np.maximum(np.minimum(nx, banks) / met, 1.0), 1.0)
