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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from whet.compiler.tir import dtype as dt
from whet.search_spaces.forms.gemm import GemmSize
from whet.search_spaces.rules.threads import NO_THREADS, Threads

_BLOCKS = (1, 2, 4, 8, 16, 32, 64, 128)
_MASKED_BITS = 256  # vectors from which on processors load through masks
_PREFETCHES = (0, 8, 16, 32, 64)
_PARTS = (2, 4, 8, 16, 32)
_FEW_ROWS, _SOME_ROWS = 16, 64  # rows for which B is not worth a copy, or may not be
_LEAST_PART = 128  # K iterations
_TAIL_BITS = 256  # of vectors of which every processor that has them multiplies two in a cycle
_MOST_BESIDE = 8  # such vectors beside a tail


@dataclass(frozen=True)
class Plan:
    """The schedule of a GEMM in numbers.

    Attributes:
        lanes: ``"columns"``; ``"rows"``: rows and columns, and the operands, change places, so that
            vectors lie along the rows of the result.
        vector_bits: of a vector, of which a tile's columns are some.
        tile: rows and columns of the register tile.
        order: ``"rows"`` or ``"panels"``. block: the most tiles of the outer loop's block.
        k_block: K iterations in a block; 0: all of them at once.
        unroll_k: K iterations that are unrolled.
        pack_a: whether A is copied into strips.
        pack_b: ``"none"``, ``"block"``, ``"whole"``, or ``"ahead"`` of the kernel's calls.
        prefetch: K iterations ahead that B is fetched into the caches; 0: as the processor likes.
        share: the loops that threads share: ``"batch"``; ``"blocks"``, those of the batch and over
            blocks; ``"tiles"``, those and the one over tiles that meet a block.
        k_parts: parts of K that are summed up each on its own, and then added up: threads share
            the parts.
        tail: the last columns that are computed apart from the tiles, with lanes along K.
        threads: whether those loops run on the target's threads, and in what grain.
    """

    lanes: str
    vector_bits: int
    tile: tuple[int, int]
    order: str
    block: int
    k_block: int
    unroll_k: int
    pack_a: bool
    pack_b: str
    prefetch: int = 0
    share: str = ""
    k_parts: int = 1
    tail: int = 0
    threads: Threads = NO_THREADS

    @property
    def mr(self) -> int:
        """Rows of the register tile."""
        return self.tile[0]

    @property
    def nr(self) -> int:
        """Columns of the register tile."""
        return self.tile[1]

    def lanes_of(self, dtype: str) -> int:
        """Elements of a type in a vector."""
        return self.vector_bits // (8 * dt.itemsize(dtype))

    def block_of(self, g: GemmSize) -> int:
        """Tiles of a block of a GEMM: as many blocks as there must be, all of a size or nearly.

        A block whose sums are in memory is computed whole: of 188 panels blocks of 128 would be
        256, and two of 94 are 188.
        """
        tiles, _ = self._tiles(g)
        return -(-tiles // -(-tiles // self.block))

    def shared_steps(self, g: GemmSize) -> tuple[int, float]:
        """Steps of the loop that threads share, and the last one's work as a part of another's."""
        if self.k_parts > 1:
            return g.batch * self.k_parts, 1.0
        if g.batch > 1 and self.share in ("", "batch"):
            return g.batch, 1.0
        tiles, others = self._tiles(g)
        block = self.block_of(g)
        blocks = -(-tiles // block)
        if self.share == "tiles":
            return g.batch * blocks * others, 1.0
        rest = tiles - (blocks - 1) * block
        return g.batch * blocks, rest / block if g.batch == 1 and not self.k_block else 1.0

    def lines_of(self, g: GemmSize) -> tuple[int, str]:
        """Lines of A that are needed at once and not again, and the loop over such lines.

        That is ``"blocks"``, ``"others"``, the one over tiles that meet a block, or ``"shared"``,
        the loop around both.
        """
        if self.share != "tiles":
            if self.order == "rows":
                return self.block_of(g) * self.mr, "blocks"
            if not self.k_block and self.block >= self._tiles(g)[0] and g.has_rows:
                return self.mr, "others"
        return g.N, "shared"

    def _tiles(self, g: GemmSize) -> tuple[int, int]:
        """The tiles that the outer loop has in blocks, and those that meet each."""
        strips, panels = -(-g.N // self.mr), -(-(g.M - self.tail) // self.nr)
        return (strips, panels) if self.order == "rows" else (panels, strips)


Choices = dict[str, tuple[Any, ...]]
"""The values of each knob, whose names are those of :class:`Plan`."""


Tiles = dict[int, list[tuple[int, int]]]
"""The register tiles of each width of vectors in bits, the best guess first."""


def choices_of(g: GemmSize, lanes: str, of_width: Tiles, threads: int = 1) -> Choices:
    """The choices for one way to lay the lanes.

    Args:
        g: the GEMM in this way. lanes: its name.
        of_width: the tiles of each width of vectors.
        threads: of the target; of one there is nothing to share.
    """
    tiles = list(dict.fromkeys(tile for some in of_width.values() for tile in some))
    least = min(mr for mr, _ in tiles), min(nr for _, nr in tiles)
    most = max(-(-g.N // least[0]), -(-g.M // least[1]))
    depths = k_blocks(g)
    unrolls = [u for u in range(1, 9) if all((kc or g.K) % u == 0 for kc in depths)]
    packs = ["ahead"] if g.packed else ["block", "whole", "none"][: 2 if g.transpose_b else 3]
    found: Choices = {
        "lanes": (lanes,),
        "vector_bits": tuple(of_width),
        "tile": tuple(tiles),
        "order": ("rows", "panels") if g.has_rows else ("panels",),
        "block": tuple(b for b in _BLOCKS if b == 1 or b < 2 * most),
        "k_block": tuple(depths),
        "unroll_k": tuple(unrolls),
        "pack_a": (False, True),
        "pack_b": tuple(packs),
        "prefetch": _PREFETCHES,
        "tail": tails(g, max(of_width)),
    }
    if threads > 1:
        found["share"] = ("batch", "blocks", "tiles") if g.batch > 1 else ("blocks", "tiles")
        if len(parts := k_parts(g)) > 1:
            found["k_parts"] = tuple(parts)
    return found


def constraints_of(g: GemmSize, of_width: Tiles, threads: int = 1) -> list[Callable[[Any], bool]]:
    """The conditions on choices, for one way to lay the lanes."""
    found: list[Callable[[Any], bool]] = [
        partial(_fits, n=g.N, m=g.M),
        _blocks_are_panels,
        _loops_over_k,
        _fetches_in_place,
    ]
    if threads > 1:
        found.append(partial(_shares_tiles, n=g.N, m=g.M))
        if len(k_parts(g)) > 1:
            found.append(partial(_adds_parts, share="batch" if g.batch > 1 else "blocks"))
    if len(tails(g, max(of_width))) > 1:
        lanes_along_k = tail_lanes(g.dtype, max(of_width))
        found.append(partial(_leaves_tail, n=g.N, m=g.M, lanes=lanes_along_k))
        if threads > 1:
            found.append(partial(_tail_of_blocks, parts=len(k_parts(g)) > 1))
    if len(of_width) > 1:
        found.append(partial(_is_of_width, of_width=of_width))
    if not g.packed and not g.transpose_b and max(of_width) < _MASKED_BITS:
        found.append(partial(_whole_vectors, n=g.N, m=g.M))
    return found


def united(ways: Sequence[Choices]) -> Choices:
    """The choices of all ways to lay the lanes, each value once."""
    return {
        name: tuple(dict.fromkeys(value for way in ways for value in way[name])) for name in ways[0]
    }


def of_way(
    ways: Sequence[Choices], sizes: Sequence[GemmSize], tiles: Sequence[Tiles], threads: int = 1
) -> list[Callable[[Any], bool]]:
    """The conditions on choices of all ways, as ``multi_filter`` takes them."""
    if len(ways) == 1:
        return constraints_of(sizes[0], tiles[0], threads)
    names = [way["lanes"][0] for way in ways]
    found: list[Callable[[Any], bool]] = [
        _OfWay(partial(_is_one_of, name=name, values=way[name]), lanes)
        for way, lanes in zip(ways, names)
        for name in way
        if set(way[name]) != set(united(ways)[name]) and name != "lanes"
    ]
    return found + [
        _OfWay(test, lanes)
        for g, lanes, of_width in zip(sizes, names, tiles)
        for test in constraints_of(g, of_width, threads)
    ]


@dataclass(frozen=True)
class _OfWay:
    """A condition that holds where the lanes lie in one way."""

    test: Callable[[Any], bool]
    lanes: str

    def __call__(self, c: Any) -> bool:
        return c["lanes"].val != self.lanes or self.test(c)


def _is_of_width(c: Any, of_width: Tiles) -> bool:
    """A tile is made of vectors of the width, and is one of the best of those."""
    return c["tile"].val in of_width[c["vector_bits"].val]


def _is_one_of(c: Any, name: str, values: tuple[Any, ...]) -> bool:
    """A value is one of its way's."""
    return c[name].val in values


def k_blocks(g: GemmSize) -> list[int]:
    """Block lengths of k: 0 for no blocks, and what divides K where something does."""
    wanted = (8, 32, 128, 256, 512) if _is_few(g) else (128, 256, 512)
    if _FEW_ROWS < g.N <= _SOME_ROWS:
        wanted = (16, 32, *wanted)
    found = [0]
    for length in wanted:
        if 2 * length > g.K:
            continue
        near = [k for k in range(length * 3 // 4, length * 4 // 3 + 1) if g.K % k == 0]
        found.append(min(near, key=lambda k: (k % 4 > 0, abs(k - length))) if near else length)
    return sorted(set(found))


def k_parts(g: GemmSize) -> list[int]:
    """How many parts K may be summed up in: those that divide it into long sums.

    The sums of all parts are no more than what is read to make them.
    """
    found = [1]
    for wanted in _PARTS:
        parts = next((p for p in range(wanted, wanted * 3 // 2) if g.K % p == 0), 0)
        long = parts and g.K // parts >= _LEAST_PART
        if long and parts not in found and parts * g.N * g.M <= (g.N + g.M) * g.K:
            found.append(parts)
    return found


def _tail_of_blocks(c: Any, parts: bool) -> bool:
    """Threads share blocks or the batch of what has a tail."""
    if not c["tail"].val:
        return True
    return c["share"].val != "tiles" and not (parts and c["k_parts"].val > 1)


def tail_lanes(dtype: str, vector_bits: int) -> int:
    """Lanes of the vectors along K in which a tail is summed up."""
    return min(_TAIL_BITS, vector_bits) // (8 * dt.itemsize(dtype))


def tail_at_once(columns: int, lanes: int, registers: int) -> int:
    """Columns of a tail whose sums are in registers at once: they share what is loaded of A."""
    room = max(1, (registers - 2) // (lanes + 1))
    return next(n for n in range(min(room, columns), 0, -1) if columns % n == 0)


def tails(g: GemmSize, vector_bits: int) -> tuple[int, ...]:
    """How many of the last columns may be a tail: none, or those beyond whole vectors.

    Rows of A must lie along K, and not be computed on the way: tiles read them, too.
    """
    lanes = tail_lanes(g.dtype, vector_bits)
    left = g.M % lanes
    plain = g.has_rows and not (g.transpose_a or g.packed or any(g.staged))
    narrow = lanes < g.M < (_MOST_BESIDE + 1) * lanes
    return (0, left) if plain and left and narrow and lanes <= g.K else (0,)


def _leaves_tail(c: Any, n: int, m: int, lanes: int) -> bool:
    """A tail stands beside the only tile of each strip, whose sums are in registers.

    It is computed for each block of strips: blocks are whole, and begin where its vectors do.
    """
    tail, (rows, columns) = c["tail"].val, c["tile"].val
    if not tail:
        return True
    if c["order"].val != "rows" or c["k_block"].val or columns != m - tail:
        return False
    strips = -(-n // rows)
    blocks = -(-strips // c["block"].val)
    return blocks == 1 or (strips % blocks == 0 and strips // blocks * rows % lanes == 0)


def _shares_tiles(c: Any, n: int, m: int) -> bool:
    """Threads that share a block's tiles have no panels or sums of the block."""
    if c["share"].val != "tiles":
        return True
    rows, columns = c["tile"].val
    others = -(-m // columns) if c["order"].val == "rows" else -(-n // rows)
    return others > 1 and c["k_block"].val == 0 and c["pack_b"].val != "block"


def _adds_parts(c: Any, share: str) -> bool:
    """Parts of K have no blocks, and are what threads share."""
    return c["k_parts"].val == 1 or (c["k_block"].val == 0 and c["share"].val == share)


def _fits(c: Any, n: int, m: int) -> bool:
    """No block is much larger than its matrix."""
    rows, columns = c["tile"].val
    tiles = -(-n // rows) if c["order"].val == "rows" else -(-m // columns)
    return c["block"].val == 1 or c["block"].val < 2 * tiles


def _loops_over_k(c: Any) -> bool:
    """Sums of a loop in memory are kept in registers; those of steps without a loop are not."""
    return c["k_block"].val == 0 or 2 * c["unroll_k"].val <= c["k_block"].val


def _blocks_are_panels(c: Any) -> bool:
    """A block of rows has no panels of its own to pack."""
    return c["order"].val == "panels" or c["pack_b"].val != "block"


def _fetches_in_place(c: Any) -> bool:
    """Panels that a call has just made are in a cache, and lie in order."""
    return c["prefetch"].val == 0 or c["pack_b"].val in ("none", "ahead")


def _whole_vectors(c: Any, n: int, m: int) -> bool:
    """Without masks, vectors that hang over the end of a B in place are gathered lane by lane.

    Only a loop whose one ragged edge is guarded is split into a main part and a tail.
    """
    rows, columns = c["tile"].val
    if c["pack_b"].val != "none" or m % columns == 0:
        return True
    return n % rows == 0 and c["k_block"].val == 0


def _is_few(g: GemmSize) -> bool:
    """So few rows that B is not worth a copy."""
    return g.N <= _FEW_ROWS
