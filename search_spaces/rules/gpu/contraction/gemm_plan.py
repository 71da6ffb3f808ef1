"""The knobs of a GEMM on a GPU: tiles of blocks and of threads, K iterations, split-K."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from whet.compiler.target import Target
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.gpu.hardware.device import (
    LANES,
    MOST_THREADS,
    REGISTERS,
    Gpu,
    balance,
    processors,
    shared_bytes,
)
from whet.search_spaces.rules.gpu.hardware.threads import Block

Tile = tuple[int, int, int, int]
"""Rows and columns of a block's tile, rows and columns of a thread's part."""

TILES: tuple[Tile, ...] = (
    (128, 128, 8, 8),
    (128, 64, 8, 8),
    (64, 128, 8, 8),
    (128, 256, 8, 16),
    (256, 128, 16, 8),
    (128, 128, 8, 16),
    (128, 128, 16, 8),
    (192, 64, 8, 8),
    (64, 192, 8, 8),
    (128, 112, 8, 8),
    (112, 128, 8, 8),
    (64, 112, 8, 8),
    (112, 64, 8, 8),
    (64, 96, 8, 8),
    (96, 64, 8, 8),
    (64, 64, 8, 8),
    (128, 96, 8, 4),
    (96, 128, 4, 8),
    (64, 64, 8, 4),
    (64, 64, 4, 4),
    (96, 64, 4, 4),
    (64, 96, 4, 4),
    (48, 128, 4, 4),
    (48, 64, 4, 4),
    (128, 32, 8, 4),
    (32, 128, 4, 8),
    (64, 32, 4, 4),
    (32, 64, 4, 4),
    (32, 32, 4, 4),
    (32, 32, 2, 4),
    (16, 128, 4, 4),
    (16, 64, 2, 4),
    (64, 16, 4, 2),
    (8, 128, 2, 4),
    (8, 64, 1, 4),
)
STEPS = (8, 16, 32)
SLICES = (1, 2, 4)
# K iterations of a slice between two barriers; threads of a block with intra-block split-K.
_OWN_STEPS, _SLICED_THREADS = 4, 448
_PARTS = (1, 2, 4, 8, 16)
_LONG = 256  # K iterations of a part of split-K that is worth a kernel of its own
WARP = 32
# Lanes side by side that read the same of the right operand.
_PAIR = 2
# Registers that a thread needs beside its sums and the operands of two K iterations: addresses,
# counters, copies; and how many of them should hold the next operands at most.
_OTHERS, _COPIED = 30, 12
KERNEL = 4000
"""Cycles from one kernel to the next."""
# Warps of a multiprocessor that hide latencies: more of them would only have fewer registers each.
_WARPS = 24
# Bytes of the device's memory that a multiprocessor gets in a cycle.
_BYTES = 25
# Inter-block split-K must gain more than the estimate errs.
_DOUBT = 1.08
# What it costs to fetch a number for shared memory, and to read up to four numbers from there, in
# multiply-adds of a thread.
_COPYING, _READING = 2.4, 1.0
# Multiply-adds in the time of a wavefront of the L1 cache; the norm by which wavefronts and
# instructions add up.
_WAVEFRONTS, _JOINED = 4.4, 6
# Cycles that a block waits for the sums of its slices, and to begin.
_ADDED, _BEGUN = 300, 800


@dataclass(frozen=True)
class Plan:
    """The choices of a config for a GEMM.

    Attributes:
        rows, columns: M and N of a block's tile.
        own_rows, own_columns: of a thread's part of it, in groups of up to four that stand
            ``down`` (``across``) groups apart.
        step: K iterations that shared memory holds at a time.
        split_k: inter-block split-K: blocks that share K.
        double_buffer: whether the next operands are loaded before the present ones are used.
        others: registers that a thread needs beside its sums and operands.
        slices: intra-block split-K: groups of a block's threads that share K.
        most: blocks that a multiprocessor gets at all.
    """

    rows: int
    columns: int
    own_rows: int
    own_columns: int
    step: int
    split_k: int
    double_buffer: bool
    others: int = _OTHERS
    slices: int = 1
    most: int = MOST_THREADS

    def of(self, gemm: GemmShape, target: Target) -> Plan:
        """The plan for a GEMM on a GPU."""
        tiles = -(-gemm.rows // self.rows) * -(-gemm.columns // self.columns)
        most = -(-self.split_k * gemm.lead * tiles // processors(target))
        return replace(self, others=gemm.others, most=most)

    @property
    def down(self) -> int:
        """Threads along the rows of a block's tile."""
        return self.rows // self.own_rows

    @property
    def across(self) -> int:
        """Threads along its columns."""
        return self.columns // self.own_columns

    @property
    def block(self) -> Block:
        """The threads of a block: along x pairs of rows, along y the columns, along z more rows.

        Of any four lanes side by side two read the same of each operand, those that are one apart
        of the right one and those that are two apart of the left one: then a load of 16 bytes is
        two wavefronts of shared memory, else four.
        """
        return Block(_PAIR, self.across, self.down // _PAIR * self.slices)

    @property
    def resident(self) -> int:
        """Blocks that should fit a multiprocessor at once, and registers of no more than these."""
        threads = self.block.threads
        fitting = held(threads, _registers(self.own_rows, self.own_columns, self.others))
        return min(fitting, self.most, -(-_WARPS * WARP // threads))

    @property
    def row_run(self) -> int:
        """Neighbouring rows of a thread."""
        return min(4, self.own_rows)

    @property
    def column_run(self) -> int:
        """Neighbouring columns of a thread."""
        return min(4, self.own_columns)


@dataclass(frozen=True)
class _Fits:
    """A constraint: the shared memory of a block is at most what it may have."""

    bytes: int
    itemsize: int

    def __call__(self, view: Any) -> bool:
        rows, columns = view["tile"].val[:2]
        copies = 2 if view["double_buffer"].val else 1
        factors = (rows + 4 + columns + 4) * view["step"].val * self.itemsize * copies
        return factors <= self.bytes and self.sums(view["tile"].val, view["slices"].val)

    def sums(self, tile: Tile, slices: int) -> bool:
        """True if the sums of slices fit."""
        return slices == 1 or tile[0] * tile[1] * slices * self.itemsize <= self.bytes

    def __repr__(self) -> str:
        return f"the factors' tiles, and the sums of slices, have at most {self.bytes} bytes"


@dataclass(frozen=True)
class _Sliced:
    """A constraint: slices have steps enough, and a block is not too many threads."""

    def __call__(self, view: Any) -> bool:
        slices = view["slices"].val
        enough = slices == 1 or view["step"].val >= _OWN_STEPS * slices
        return enough and self.fits(view["tile"].val, slices)

    def fits(self, tile: Tile, slices: int) -> bool:
        """True if a block has not too many threads."""
        return slices == 1 or _block(tile, slices) <= _SLICED_THREADS

    def __repr__(self) -> str:
        return (
            f"a slice has at least {_OWN_STEPS} steps of a block's, "
            f"a block in slices at most {_SLICED_THREADS} threads"
        )


@dataclass(frozen=True)
class _Shared:
    """A constraint: a part of the sum has enough steps to be worth it."""

    steps: int

    def __call__(self, view: Any) -> bool:
        parts = view["split_k"].val
        return parts == 1 or -(-self.steps // parts) >= view["step"].val * 2

    def __repr__(self) -> str:
        return f"each part of {self.steps} steps has two blocks of them at least"


@dataclass(frozen=True)
class GemmShape:
    """The sizes of a GEMM, and the costs of its operands.

    Attributes:
        lead: GEMMs of the batch.
        rows, columns: M and N.
        steps: K, as far as it is cut.
        outer: extent of the reduction around it.
        itemsize: bytes of a number in shared memory.
        others: registers that a thread needs beside its sums and operands.
        copying: what it costs to fetch a number for shared memory, in multiply-adds of a thread.
    """

    lead: int
    rows: int
    columns: int
    steps: int
    outer: int = 1
    itemsize: int = 4
    others: int = _OTHERS
    copying: float = _COPYING

    def tiles(self, tiles: Sequence[Tile]) -> list[Tile]:
        """The tiles that waste less than half at the edge in each direction, at least one."""
        high, wide = max(16, 2 * self.rows - 1), max(32, 2 * self.columns - 1)
        return [t for t in tiles if t[0] <= high and t[1] <= wide] or [tiles[-1]]

    @property
    def parts(self) -> list[int]:
        """The choices of inter-block split-K."""
        whole = self.steps * self.outer
        return [p for p in _PARTS if p == 1 or (self.steps // p >= 8 and whole // p >= _LONG)]

    @property
    def slices(self) -> list[int]:
        """The choices of intra-block split-K."""
        return [n for n in SLICES if n == 1 or self.steps >= n * STEPS[0]]


def plan_of(
    knobs: Prefixed,
    target: Target,
    gemm: GemmShape,
    tiles: Sequence[Tile] = TILES,
    best: GemmShape | None = None,
) -> Plan:
    """Define the knobs and read them.

    Args:
        knobs: where they are defined.
        target: the GPU.
        gemm: its sizes.
        tiles: to choose from.
        best: the GEMM that the defaults are for, where several share the knobs.
    """
    candidates = gemm.tiles(tiles)
    _, tile, split, slices = cheapest(best or gemm, target, candidates, gemm.parts)
    sizes = [k for k in STEPS if k == STEPS[0] or k < 2 * gemm.steps]
    rows, columns, own_rows, own_columns = knobs.choose("tile", candidates, tile)
    plan = Plan(
        rows,
        columns,
        own_rows,
        own_columns,
        step=knobs.choose("step", sizes, _step(tile, slices, sizes)),
        split_k=knobs.choose("split_k", gemm.parts, split),
        double_buffer=knobs.choose("double_buffer", (False, True), True),
        slices=knobs.choose("slices", gemm.slices, slices),
    )
    knobs.multi_filter(_Fits(shared_bytes(target), gemm.itemsize))
    knobs.multi_filter(_Sliced())
    if len(gemm.parts) > 1:
        knobs.multi_filter(_Shared(gemm.steps))
    return plan.of(gemm, target)


def cheapest(
    gemm: GemmShape, target: Target, tiles: Sequence[Tile], parts: Sequence[int]
) -> tuple[float, Tile, int, int]:
    """The cheapest choice: cycles, roughly, the tile, inter-block and intra-block split-K."""
    return _cheapest(gemm, Gpu.of(target), tuple(tiles), tuple(parts))


@lru_cache(maxsize=256)
def _cheapest(
    gemm: GemmShape, gpu: Gpu, tiles: tuple[Tile, ...], parts: tuple[int, ...]
) -> tuple[float, Tile, int, int]:
    fits, sliced = _Fits(gpu.shared, gemm.itemsize), _Sliced()
    every = [
        (_time(gemm, t, p, n, gpu), t, p, n)
        for t in tiles
        for n in gemm.slices
        if n == 1 or (fits.sums(t, n) and sliced.fits(t, n))
        if n == 1 or _block(t, n) <= _threads(_registers(*t[2:], gemm.others))
        for p in parts
    ]
    return min(every, key=lambda found: found[0])


def _step(tile: Tile, slices: int, sizes: list[int]) -> int:
    """The K iterations of a block whose operands a thread has registers to load."""
    threads = _block(tile, slices)
    enough = [k for k in sizes if k >= _OWN_STEPS * slices]
    return max(k for k in enough if k == enough[0] or (tile[0] + tile[1]) * k <= _COPIED * threads)


def _block(tile: Tile, slices: int) -> int:
    """The threads of a block."""
    return tile[0] // tile[2] * (tile[1] // tile[3]) * slices


def _registers(own_rows: int, own_columns: int, others: int) -> int:
    return own_rows * own_columns + 2 * (own_rows + own_columns) + others


def held(threads: int, registers: int) -> int:
    """Blocks that a multiprocessor has registers for; each quarter of it has its own warps.

    Args:
        threads: of a block.
        registers: of a thread.
    """
    return max(1, min(_threads(registers) // threads, MOST_THREADS // threads, 16))


def _threads(registers: int) -> int:
    """Threads that a multiprocessor has so many registers for."""
    return 4 * WARP * (REGISTERS // 4 // (WARP * (-(-registers // 8) * 8)))


def busy(warps: int, fma: int) -> float:
    """The share of cycles in which so many warps keep ``fma`` lanes of a multiprocessor busy."""
    return balance(warps) * warps / (warps + 1.5 * fma / LANES)


def _time(gemm: GemmShape, tile: Tile, parts: int, slices: int, gpu: Gpu) -> float:
    """Cycles, roughly: those of the multiprocessor that has the most blocks.

    A multiprocessor does ``gpu.fma`` multiply-adds a cycle if its warps are many enough to hide
    latencies, and as many in each of its sub-partitions, and if a thread has many multiply-adds
    for each number that it reads from shared memory: issuing its instructions takes time, and so do
    their wavefronts in the L1 cache, a part of which it is. Where multiply-adds have half the lanes
    that instructions are issued to, half of the others are issued beside them.
    """
    height, width, own_rows, own_columns = tile
    rows, columns, steps = gemm.rows, gemm.columns, gemm.steps * gemm.outer
    threads = _block(tile, slices)
    own = own_rows * own_columns
    fitting = held(threads, _registers(own_rows, own_columns, gemm.others))
    if slices > 1:
        fitting = min(fitting, max(1, gpu.shared // (height * width * slices * gemm.itemsize)))
    blocks = gemm.lead * parts * -(-rows // height) * -(-columns // width)
    each = -(-blocks // gpu.many)
    resident = min(each, fitting)
    block = -(-threads // WARP)  # warps, whose lanes without a thread take their time, too
    reads = -(-own_rows // 4) - (-own_columns // 4)
    copies = (height + width) / (height * width)
    beside = gpu.fma / LANES
    issued = max(1.0, beside * (1 + reads * _READING / own + copies * gemm.copying))
    wavefronts = beside * _WAVEFRONTS * 2 * (reads / own + 2 * copies)
    rate = busy(resident * block, gpu.fma) / (issued**_JOINED + wavefronts**_JOINED) ** (
        1 / _JOINED
    )
    lanes = height * width * block * WARP / threads
    cycles = each * lanes * (-(-steps // parts)) / (gpu.fma * rate)
    if slices > 1:  # their sums go through shared memory
        cycles += each * (2 * height * width * slices / WARP + _ADDED)
    if parts > 1:  # the partial sums are written, and added by a kernel of their own
        written = parts * gemm.lead * rows * columns * 8
        cycles = _DOUBT * cycles + KERNEL + moving(written, gpu.many)
    return cycles + each * (_BEGUN + height * width * gemm.itemsize / _BYTES) / resident


def moving(size: float, many: int) -> float:
    """Cycles to write or read so many bytes of the device's memory."""
    return size / (_BYTES * many)
