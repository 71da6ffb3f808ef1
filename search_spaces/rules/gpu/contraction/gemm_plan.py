"""The knobs of a product on a GPU: tiles of blocks and of threads, steps, parts of the sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from whet.compiler.target import Target
from whet.search_spaces.rules.gpu.device import (
    LANES,
    MOST_THREADS,
    REGISTERS,
    Gpu,
    balance,
    processors,
    shared_bytes,
)
from whet.search_spaces.rules.gpu.threads import Block

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
# Steps that a slice should have between two barriers; threads of a block in slices.
_OWN_STEPS, _SLICED_THREADS = 4, 448
_PARTS = (1, 2, 4, 8, 16)
_LONG = 256  # steps of a part of the sum that is worth a kernel of its own
WARP = 32
# Lanes side by side that read the same of the right factor.
_PAIR = 2
# Registers that a thread needs beside its sums and two steps' factors: addresses, counters, copies;
# and how many of them should hold the next steps' factors at most.
_OTHERS, _COPIED = 30, 12
KERNEL = 4000
"""Cycles from one kernel to the next."""
# Warps of a multiprocessor that hide latencies: more of them would only have fewer registers each.
_WARPS = 24
# Bytes of the device's memory that a multiprocessor gets in a cycle.
_BYTES = 25
# Adding parts of sums up must gain more than the estimate errs.
_DOUBT = 1.08
# What it costs to fetch a number for shared memory, and to read up to four numbers from there, in
# multiply-adds of a thread.
_COPYING, _READING = 2.4, 1.0
# Multiply-adds in the time of a pass through the L1 cache; the norm by which passes and
# instructions add up.
_PASSES, _JOINED = 4.4, 6
# Cycles that a block waits for the sums of its slices, and to begin.
_ADDED, _BEGUN = 300, 800


@dataclass(frozen=True)
class Plan:
    """What a config says of a product.

    Attributes:
        rows, columns: of a block's tile.
        own_rows, own_columns: of a thread's part of it, in groups of up to four that stand
            ``down`` (``across``) groups apart.
        step: steps of the sum that shared memory holds at a time.
        split_k: parts of the sum that different blocks add up.
        double_buffer: whether the next steps are fetched before the present ones are used.
        others: registers that a thread needs beside its sums and factors.
        slices: groups of a block's threads that share the steps of the sum out.
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

    def of(self, product: Product, target: Target) -> Plan:
        """The plan for a product on a GPU."""
        tiles = -(-product.rows // self.rows) * -(-product.columns // self.columns)
        most = -(-self.split_k * product.lead * tiles // processors(target))
        return replace(self, others=product.others, most=most)

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

        Of any four lanes side by side two read the same of each factor, those that are one apart of
        the right one and those that are two apart of the left one: then 16 bytes pass through
        shared memory in two cycles, else in four.
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
        """Whether the sums of slices fit."""
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
        """Whether a block has not too many threads."""
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
class Product:
    """What a plan is made for.

    Attributes:
        lead: products of the batch.
        rows, columns: of the result.
        steps: of the sum; those that are cut.
        outer: how often they are run through.
        itemsize: bytes of a number in shared memory.
        others: registers that a thread needs beside its sums and factors.
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
        """Those of which not too much hangs over the result, at least one."""
        return [t for t in tiles if _worth(t, self.rows, self.columns)] or [tiles[-1]]

    @property
    def parts(self) -> list[int]:
        """Into how many parts the sum may be cut."""
        whole = self.steps * self.outer
        return [p for p in _PARTS if p == 1 or (self.steps // p >= 8 and whole // p >= _LONG)]

    @property
    def slices(self) -> list[int]:
        """Into how many slices of a block it may be cut."""
        return [n for n in SLICES if n == 1 or self.steps >= n * STEPS[0]]


def plan_of(
    cfg: Any,
    target: Target,
    product: Product,
    define: Any = None,
    tiles: Sequence[Tile] = TILES,
    best: Product | None = None,
) -> Plan:
    """Define the knobs and read them.

    Args:
        cfg: what the template talks to.
        target: the GPU.
        product: what is to be computed.
        define: what the knobs are defined through, where that is not ``cfg``.
        tiles: to choose from.
        best: the product that the defaults are for, where several share the knobs.
    """
    define = define or cfg
    found = product.tiles(tiles)
    _, tile, split, slices = cheapest(best or product, target, found, product.parts)
    sizes = [k for k in STEPS if k == STEPS[0] or k < 2 * product.steps]
    define.define_knob("tile", found, default=tile)
    define.define_knob("step", sizes, default=_step(tile, slices, sizes))
    define.define_knob("split_k", product.parts, default=split)
    define.define_knob("double_buffer", [False, True], default=True)
    define.define_knob("slices", product.slices, default=slices)
    define.multi_filter(_Fits(shared_bytes(target), product.itemsize))
    define.multi_filter(_Sliced())
    if len(product.parts) > 1:
        define.multi_filter(_Shared(product.steps))
    names = ("step", "split_k", "double_buffer", "slices")
    step, split_k, double, slices = (cfg[name].val for name in names)
    rows, columns, own_rows, own_columns = cfg["tile"].val
    plan = Plan(rows, columns, own_rows, own_columns, step, split_k, double, slices=slices)
    return plan.of(product, target)


def cheapest(
    product: Product, target: Target, tiles: Sequence[Tile], parts: Sequence[int]
) -> tuple[float, Tile, int, int]:
    """What takes the least time: cycles, roughly, the tile, the parts of the sum, the slices."""
    return _cheapest(product, Gpu.of(target), tuple(tiles), tuple(parts))


@lru_cache(maxsize=256)
def _cheapest(
    product: Product, gpu: Gpu, tiles: tuple[Tile, ...], parts: tuple[int, ...]
) -> tuple[float, Tile, int, int]:
    fits, sliced = _Fits(gpu.shared, product.itemsize), _Sliced()
    every = [
        (_time(product, t, p, n, gpu), t, p, n)
        for t in tiles
        for n in product.slices
        if n == 1 or (fits.sums(t, n) and sliced.fits(t, n))
        if n == 1 or _block(t, n) <= _threads(_registers(*t[2:], product.others))
        for p in parts
    ]
    return min(every, key=lambda found: found[0])


def _step(tile: Tile, slices: int, sizes: list[int]) -> int:
    """The steps of a block that a thread has registers to copy the factors of."""
    threads = _block(tile, slices)
    enough = [k for k in sizes if k >= _OWN_STEPS * slices]
    return max(k for k in enough if k == enough[0] or (tile[0] + tile[1]) * k <= _COPIED * threads)


def _block(tile: Tile, slices: int) -> int:
    """The threads of a block."""
    return tile[0] // tile[2] * (tile[1] // tile[3]) * slices


def _worth(tile: Tile, rows: int, columns: int) -> bool:
    """Whether not more than half of a tile, in each direction, hangs over the result."""
    return (tile[0] < 2 * rows or tile[0] <= 16) and (tile[1] < 2 * columns or tile[1] <= 32)


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


def _time(product: Product, tile: Tile, parts: int, slices: int, gpu: Gpu) -> float:
    """Cycles, roughly: those of the multiprocessor that has the most blocks.

    A multiprocessor does ``gpu.fma`` multiply-adds a cycle if its warps are many enough to hide
    latencies, and as many in each of its sub-partitions, and if a thread has many products for each
    number that it reads from shared memory: issuing its instructions takes time, and so do their
    passes through the L1 cache, a part of which it is. Where multiply-adds have half the lanes that
    instructions are issued to, half of the others are issued beside them.
    """
    height, width, own_rows, own_columns = tile
    rows, columns, steps = product.rows, product.columns, product.steps * product.outer
    threads = _block(tile, slices)
    own = own_rows * own_columns
    fitting = held(threads, _registers(own_rows, own_columns, product.others))
    if slices > 1:
        fitting = min(fitting, max(1, gpu.shared // (height * width * slices * product.itemsize)))
    blocks = product.lead * parts * -(-rows // height) * -(-columns // width)
    each = -(-blocks // gpu.many)
    resident = min(each, fitting)
    block = -(-threads // WARP)  # warps, whose lanes without a thread take their time, too
    reads = -(-own_rows // 4) - (-own_columns // 4)
    copies = (height + width) / (height * width)
    beside = gpu.fma / LANES
    issued = max(1.0, beside * (1 + reads * _READING / own + copies * product.copying))
    passes = beside * _PASSES * 2 * (reads / own + 2 * copies)
    rate = busy(resident * block, gpu.fma) / (issued**_JOINED + passes**_JOINED) ** (1 / _JOINED)
    lanes = height * width * block * WARP / threads
    cycles = each * lanes * (-(-steps // parts)) / (gpu.fma * rate)
    if slices > 1:  # their sums go through shared memory
        cycles += each * (2 * height * width * slices / WARP + _ADDED)
    if parts > 1:  # the parts are written, read again and added up by a kernel of their own
        written = parts * product.lead * rows * columns * 8
        cycles = _DOUBT * cycles + KERNEL + moving(written, gpu.many)
    return cycles + each * (_BEGUN + height * width * product.itemsize / _BYTES) / resident


def moving(size: float, many: int) -> float:
    """Cycles to write or read so many bytes of the device's memory."""
    return size / (_BYTES * many)
