"""The knobs of a product on a GPU: tiles of blocks and of threads, steps, parts of the sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from whet.compiler.target import Target
from whet.search_spaces.gpu.device import MOST_THREADS, REGISTERS, processors, shared_bytes
from whet.search_spaces.gpu.threads import Block

# rows and columns of a block's tile, rows and columns of a thread's part
TILES: tuple[tuple[int, int, int, int], ...] = (
    (128, 128, 8, 8),
    (128, 64, 8, 8),
    (64, 128, 8, 8),
    (128, 256, 8, 16),
    (256, 128, 16, 8),
    (128, 128, 8, 16),
    (128, 128, 16, 8),
    (64, 64, 8, 8),
    (64, 64, 8, 4),
    (64, 64, 4, 4),
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
_PARTS = (1, 2, 4, 8, 16)
_LONG = 256  # steps of a part of the sum that is worth a kernel of its own
# Registers that a thread needs beside its sums and two steps' factors: addresses, counters, copies;
# and how many of them should hold the next steps' factors at most.
_OTHERS, _COPIED = 30, 12
# Adding parts of sums up must gain more than the estimate errs.
_DOUBT = 1.08
# What it costs to fetch a number for shared memory, in multiply-adds of a thread.
_COPYING = 5.6


@dataclass(frozen=True)
class Plan:
    """What a config says of a product.

    Attributes:
        rows, columns: of a block's tile.
        own_rows, own_columns: of a thread's part of it, in groups of up to four that stand
            ``block.y`` (``block.x``) groups apart.
        step: steps of the sum that shared memory holds at a time.
        split_k: parts of the sum that different blocks add up.
        double_buffer: whether the next steps are fetched before the present ones are used.
        others: registers that a thread needs beside its sums and factors.
    """

    rows: int
    columns: int
    own_rows: int
    own_columns: int
    step: int
    split_k: int
    double_buffer: bool
    others: int = _OTHERS

    @property
    def block(self) -> Block:
        """The threads of a block."""
        return Block(self.columns // self.own_columns, self.rows // self.own_rows)

    @property
    def resident(self) -> int:
        """Blocks that should fit a multiprocessor at once."""
        return _held(self.block.threads, self.own_rows, self.own_columns, self.others)

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
        held = (rows + 4 + columns + 4) * view["step"].val * self.itemsize * copies
        return held <= self.bytes

    def __repr__(self) -> str:
        return f"the factors' tiles have at most {self.bytes} bytes"


@dataclass(frozen=True)
class _Shared:
    """A constraint: a part of the sum has enough steps to be worth it."""

    steps: int

    def __call__(self, view: Any) -> bool:
        parts = view["split_k"].val
        return parts == 1 or -(-self.steps // parts) >= view["step"].val * 2

    def __repr__(self) -> str:
        return f"each part of {self.steps} steps has two blocks of them at least"


def plan_of(
    cfg: Any,
    target: Target,
    lead: int,
    rows: int,
    columns: int,
    steps: int,
    outer: int = 1,
    itemsize: int = 4,
    others: int = _OTHERS,
    define: Any = None,
    tiles: Sequence[tuple[int, int, int, int]] = TILES,
    copying: float = _COPYING,
) -> Plan:
    """Define the knobs and read them.

    Args:
        cfg: what the template talks to.
        target: the GPU.
        lead: products of the batch.
        rows, columns: of the result.
        steps, outer: of the sum: those that are cut, and how often they are run through.
        itemsize: bytes of a number in shared memory.
        others: registers that a thread needs beside its sums and factors.
        define: what the knobs are defined through, where that is not ``cfg``.
        tiles: to choose from.
        copying: what it costs to fetch a number, in multiply-adds of a thread.
    """
    define = define or cfg
    tiles = [t for t in tiles if _worth(t, rows, columns)] or [tiles[-1]]
    parts = [p for p in _PARTS if p == 1 or (steps // p >= 8 and steps * outer // p >= _LONG)]
    whole = (lead, rows, columns, steps * outer)
    many = processors(target)
    default = min(
        ((t, p) for t in tiles for p in parts),
        key=lambda c: _time(c[0], c[1], many, *whole, others, copying),
    )
    sizes = [k for k in STEPS if k == STEPS[0] or k < 2 * steps]
    define.define_knob("tile", tiles, default=default[0])
    define.define_knob("step", sizes, default=_step(default[0], sizes))
    define.define_knob("split_k", parts, default=default[1])
    define.define_knob("double_buffer", [False, True], default=True)
    define.multi_filter(_Fits(shared_bytes(target), itemsize))
    if len(parts) > 1:
        define.multi_filter(_Shared(steps))
    height, width, own_rows, own_columns = cfg["tile"].val
    step, split_k, double = (cfg[name].val for name in ("step", "split_k", "double_buffer"))
    return Plan(height, width, own_rows, own_columns, step, split_k, double, others)


def _step(tile: tuple[int, int, int, int], sizes: list[int]) -> int:
    """The steps of a block that a thread has registers to copy the factors of."""
    threads = tile[0] // tile[2] * (tile[1] // tile[3])
    return max(k for k in sizes if k == sizes[0] or (tile[0] + tile[1]) * k <= _COPIED * threads)


def _worth(tile: tuple[int, int, int, int], rows: int, columns: int) -> bool:
    """Whether not more than half of a tile, in each direction, hangs over the result."""
    return (tile[0] < 2 * rows or tile[0] <= 16) and (tile[1] < 2 * columns or tile[1] <= 32)


def _held(threads: int, own_rows: int, own_columns: int, others: int) -> int:
    """Blocks that a multiprocessor has registers for; each quarter of it has its own warps."""
    registers = own_rows * own_columns + 2 * (own_rows + own_columns) + others
    warps = 4 * (REGISTERS // 4 // (32 * (-(-registers // 8) * 8)))
    return max(1, min(32 * warps // threads, MOST_THREADS // threads, 16))


def _time(
    tile: tuple[int, int, int, int],
    parts: int,
    many: int,
    lead: int,
    rows: int,
    columns: int,
    steps: int,
    others: int,
    copying: float,
) -> float:
    """Cycles, roughly: those of the multiprocessor that has the most blocks.

    A multiprocessor does 128 multiply-adds a cycle if its warps are many enough to hide latencies,
    and if a thread has many products for each number that it reads from shared memory.
    """
    height, width, own_rows, own_columns = tile
    threads = height // own_rows * (width // own_columns)
    own = own_rows * own_columns
    held = _held(threads, own_rows, own_columns, others)
    blocks = lead * parts * -(-rows // height) * -(-columns // width)
    each = -(-blocks // many)
    warps = min(each, held) * threads / 32
    busy = min(1.0, warps / 4) * warps / (warps + 1.5)
    reads = (own_rows + own_columns) / 4
    copies = (height + width) / (height * width) * copying
    rate = busy / (1 + reads * 1.2 / own + copies)
    cycles = each * height * width * (-(-steps // parts)) / (128 * rate)
    if parts > 1:  # the parts are written, read again and added up by a kernel of their own
        cycles = _DOUBT * cycles + 4000 + parts * lead * rows * columns * 8 / (25 * many)
    return cycles + prod((each, 800))
