"""The knobs of a GEMM, and the plan that a choice of them makes.

In the order "rows", a block of rows of A meets one panel of B after the other; in the order
"panels", a block of panels of B meets one strip of A after the other:

    rows:   for blocks of i:                     panels: for blocks of j:
                for k blocks:                                for k blocks:
                    for panels of j:                             for strips of i:
                        for strips of the block:                     for panels of the block:
                            tile += A[i, k] * B[k, j]                    tile += A[i, k] * B[k, j]

What the outer loop holds belongs in the second cache, what the inner one comes back to in the
first. Without blocks of k a tile stays in registers until it is complete (van Zee and van de
Geijn, BLIS, 2015, name the loops; Goto and van de Geijn, 2008, the reasons).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.search_spaces.operators.cpu.gemm.registers import register_tiles
from whet.search_spaces.rules.vectors import lanes_of
from whet.search_spaces.space.define import DefineKnobs

if TYPE_CHECKING:
    from whet.search_spaces.operators.cpu.gemm.gemm import Gemm

#: bytes of the caches that defaults are made for
_FIRST, _SECOND = 32 * 1024, 512 * 1024
_BLOCKS = (1, 2, 4, 8, 16, 32, 64, 128)
_GRAINS = (0, 1, 2, 4)
#: below so many multiplications the threads are not worth waking
_WORTH_THREADS = 200_000


@dataclass(frozen=True)
class Plan:
    """The schedule of a GEMM in numbers.

    Attributes:
        mr, nr: rows and columns of the register tile.
        order: ``"rows"`` or ``"panels"``. block: tiles of the outer loop's block.
        k_block: K iterations in a block; 0: all of them at once.
        unroll: K iterations that are unrolled.
        pack_a: whether A is copied into strips.
        pack_b: ``"none"``, ``"block"``, ``"whole"``, or ``"ahead"`` of the kernel's calls.
        parallel: whether the outer loop runs on the target's threads; grain: of its steps, 0 for
            an even share.
    """

    mr: int
    nr: int
    order: str
    block: int
    k_block: int
    unroll: int
    pack_a: bool
    pack_b: str
    parallel: bool
    grain: int


def plan_of(cfg: DefineKnobs, g: Gemm, target: Target) -> Plan:
    """Define a GEMM's knobs, and the plan of the config in force."""
    lanes = lanes_of(target, g.dtype)
    tiles = register_tiles(target, lanes, g.N, g.M)
    default = _Default(g, tiles, target.num_threads)
    cfg.define_knob("tile", tiles, default=default.tile)
    cfg.define_knob("order", ["rows", "panels"], default=default.order)
    least = min(mr for mr, _ in tiles), min(nr for _, nr in tiles)
    most = max(-(-g.N // least[0]), -(-g.M // least[1]))
    blocks = [b for b in _BLOCKS if b == 1 or b < 2 * most]
    cfg.define_knob("block", blocks, default=max(b for b in blocks if b <= default.block))
    depths = k_blocks(g)
    cfg.define_knob("k_block", depths, default=default.k_block)
    unrolls = [u for u in range(1, 9) if all((kc or g.K) % u == 0 for kc in depths)]
    nearest = min(unrolls, key=lambda u: (abs(u - default.unroll), u))
    cfg.define_knob("unroll_k", unrolls, default=nearest)
    cfg.define_knob("pack_a", [False, True], default=default.pack_a)
    packs = ["ahead"] if g.packed else ["block", "whole", "none"][: 2 if g.transpose_b else 3]
    cfg.define_knob("pack_b", packs, default=default.pack_b)
    cfg.multi_filter(partial(_fits, n=g.N, m=g.M))
    cfg.multi_filter(_blocks_are_panels)
    cfg.multi_filter(_loops_over_k)
    if "none" in packs:
        cfg.multi_filter(partial(_whole_vectors, n=g.N, m=g.M))
    parallel, grain = define_threads(cfg, target, g.flop // 2)
    names = ("tile", "order", "block", "k_block", "unroll_k", "pack_a", "pack_b")
    (mr, nr), order, block, k_block, unroll, pack_a, pack_b = (cfg[n].val for n in names)
    return Plan(mr, nr, order, block, k_block, unroll, pack_a, pack_b, parallel, grain)


def define_threads(cfg: DefineKnobs, target: Target, multiplications: int) -> tuple[bool, int]:
    """Define the knobs of threads where a target has several: whether to use them, and the grain.

    Args:
        multiplications: of the kernel, which say whether threads are worth it untuned.
    """
    if target.num_threads < 2:
        return False, 0
    cfg.define_knob("parallel", [False, True], default=multiplications >= _WORTH_THREADS)
    cfg.define_knob("grain", _GRAINS, default=0)
    cfg.multi_filter(_grain_of_threads)
    return cfg["parallel"].val, cfg["grain"].val


def k_blocks(g: Gemm) -> list[int]:
    """Block lengths of k: 0 for no blocks, and what divides K where something does."""
    wanted = (8, 32, 128, 256, 512) if _is_few(g) else (128, 256, 512)
    found = [0]
    for length in wanted:
        if 2 * length > g.K:
            continue
        near = [k for k in range(length * 3 // 4, length * 4 // 3 + 1) if g.K % k == 0]
        found.append(min(near, key=lambda k: (k % 4 > 0, abs(k - length))) if near else length)
    return sorted(set(found))


def _fits(c: Any, n: int, m: int) -> bool:
    """No block is much larger than its matrix."""
    rows, columns = c["tile"].val
    tiles = -(-n // rows) if c["order"].val == "rows" else -(-m // columns)
    return c["block"].val == 1 or c["block"].val < 2 * tiles


def _loops_over_k(c: Any) -> bool:
    """What a loop adds up in memory is kept in registers; steps without a loop are not."""
    return c["k_block"].val == 0 or 2 * c["unroll_k"].val <= c["k_block"].val


def _blocks_are_panels(c: Any) -> bool:
    """A block of rows has no panels of its own to pack."""
    return c["order"].val == "panels" or c["pack_b"].val != "block"


def _whole_vectors(c: Any, n: int, m: int) -> bool:
    """Vectors that hang over the end of a B in place are gathered lane by lane.

    Only a loop whose one ragged edge is guarded is split into a main part and a tail.
    """
    rows, columns = c["tile"].val
    if c["pack_b"].val != "none" or m % columns == 0:
        return True
    return n % rows == 0 and c["k_block"].val == 0


def _grain_of_threads(c: Any) -> bool:
    """A grain is for threads."""
    return c["parallel"].val or c["grain"].val == 0


class _Default:
    """The choices before anything was measured: by sizes and caches."""

    def __init__(self, g: Gemm, tiles: list[tuple[int, int]], threads: int) -> None:
        size = dt.itemsize(g.dtype)
        self.order, self.k_block, self.unroll = "panels", 0, 4
        # a row of the transposed A is a page of its own where it is long
        self.pack_a = g.transpose_a and g.N * g.K * size > _FIRST
        whole = [tile for tile in tiles if g.M % tile[1] == 0]
        few = _is_few(g) and not g.packed and not g.transpose_b and bool(whole)
        self.tile = whole[0] if few else tiles[0]
        panel = self.tile[1] * size
        if few and (blocks := k_blocks(g)[1:]):
            # B is read once: a few of its rows at a time, as far as the sums fit the first cache
            self.k_block, self.unroll = blocks[0], 1
            self.pack_b, self.block = "none", _FIRST // (panel * g.N)
            self._shared(g, threads)
            return
        rows, columns = self.tile
        small = (g.N * g.K + g.K * g.M) * size <= _FIRST + _FIRST // 4
        if g.packed:
            self.pack_b = "ahead"
        elif not g.transpose_b and (small or few) and (not g.N % rows or not g.M % columns):
            self.pack_b = "none"
        else:
            self.pack_b = "block"
        self.block = max(1, min(_SECOND // 2 // (panel * g.K), 4))
        self._shared(g, threads)

    def _shared(self, g: Gemm, threads: int) -> None:
        """Some blocks for each thread, of rows where there are too few panels for that."""
        if threads == 1 or (g.batch or 1) > 1:
            return
        strips, panels = -(-g.N // self.tile[0]), -(-g.M // self.tile[1])
        if panels < 2 * threads <= strips:
            self.order, panels = "rows", strips
            self.pack_b = "whole" if self.pack_b == "block" else self.pack_b
        self.block = max(1, min(self.block, panels // (2 * threads)))


def _is_few(g: Gemm) -> bool:
    """So few rows that B is not worth a copy."""
    return g.N <= 16
