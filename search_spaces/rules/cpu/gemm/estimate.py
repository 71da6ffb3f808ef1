"""An estimate of the cycles of a GEMM under a plan: what a default is chosen by.

It counts what one core does: steps of register tiles, which multiplications, loads or the latency
of a sum bound; tiles begun and stored; panels copied; and what the caches must deliver meanwhile.
It ranks plans of one GEMM, and does not predict times: its constants were fitted to drawn configs
of 36 GEMMs on Zen 5 and then of 40 on Zen 4, with 256 and 512 bits, so that the config it likes
best is near the best that was measured (`benchmarks/cpu_kernels/gemm_estimate.py`). What it knows
of few sets of a cache, clamped rows and B read again was set by hand from configs of ten more.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd, inf

from whet.compiler.tir import dtype as dt
from whet.search_spaces.forms.gemm import GemmSize
from whet.search_spaces.rules.cpu.gemm.plan import Plan, tail_at_once, tail_lanes
from whet.search_spaces.rules.threads import best_grain, heaviest_share

#: usable bytes of a cache, and bytes a cycle of what fits it; the last: of memory
_CACHES = ((28_000, 140.0), (700_000, 30.0), (24_000_000, 27.0), (inf, 9.4))
_SECOND = 700_000
_LINE, _PERIOD = 64, 4096  # bytes of a line; after which the sets of the first cache begin anew
_WAYS, _FEWEST_WAYS, _FULL = 11, 8, 0.875  # lines of a set; where there are few, and its use
#: those of the second cache; bytes a cycle of what the third one delivers in their place
_SECOND_PERIOD, _SECOND_WAYS, _AGAIN_FAR = 131_072, 8, 4.0
_HIDDEN = 0.3  # the share of the lesser of work and transfers that the other does not hide

#: of a sum; of a load alone, beside others; the share of operations that loads do not hide
_LATENCY, _LOAD_BOUND, _LOAD, _SHARE = 4.4, 0.76, 0.08, 0.05
_LOOP, _TILE = 0.74, 7.7  # of a loop's step; to begin and end a tile
_BODY = 0.002  # of a vector operation that is unrolled
_STORE = (1.3, 1.9, 3.0)  # of a vector, where none, one or both edges of the tiles are ragged
_SCATTERED = 2.0  # of an element of a vector that is stored across rows
_MASKED = 0.65  # of a vector of B in place that may hang over its end
_CLAMPED, _POINTERS = 0.4, 8  # of a row of A whose place is loaded; rows whose places are not
_TOTALS = 3.0  # of a sum whose lanes are added up by a transpose of as many
_SUMS = 4.0  # of an accumulator that a block of K loads and stores
_DISPLACED, _DISPLACED_B = 1.5, 5.0  # of a line whose set others fill: of A, of B in place
#: of a line of B in place whose neighbours in a column are far apart: by the cache it comes from
_FAR = (0.5, 1.4, 6.0, 15.0)
_NEAR = 1.0  # of such a line that the next strips of A find in the second cache
_LATE = (0.3, 0.3, 0.1, 0.6)  # the share of it that stays where lines are prefetched in time
_ALONG = 0.85  # the share that is spared where rows are read in order
_FETCH, _AGAIN = 0.22, 1.2  # to ask for a line; for one that is near by now
_IN_TIME = 220.0  # how many cycles before a line is needed it is to be asked for
_APART, _FEW_ROWS, _RUN = 1024, 16, 4096  # bytes from row to row; rows, and bytes of each, in order
_STRIDED, _STRIDED_FAR = 5.3, 7.0  # bytes a cycle of rows of A in place, near and far
#: to copy an element turned round: in squares, in squares that leave a rest, one by one; a vector
_SQUARE, _REST, _ELEMENT, _VECTOR = 0.34, 0.55, 2.0, 2.7
_TURNED_FAR = 0.7  # of an element turned round that leaves the second cache before it is read
_WRITTEN = 4.0  # how much longer a copy takes to be written and read than to be read again
_PAGES, _SPREAD = 3072, (2, 4)  # that are found at once, the part for rows on pages of their own
_PART_SUMS = 2.0  # bytes of a part's sums that move for each: it is written, and read again
_FORK = 4000.0  # until threads have begun and ended
_PAGE = 16.0  # of a row of B on a page of its own, for each block that reads of it


def cycles(
    g: GemmSize, plan: Plan, threads: int = 1, at_once: int = 512, registers: int = 16
) -> float:
    """The estimate.

    Args:
        g: the GEMM, turned round where the plan says so. plan: how it is computed.
        threads: that share the outer loop.
        at_once: bits of the widest vectors of which two are multiplied in a cycle.
        registers: for vectors.
    """
    size = dt.itemsize(g.dtype)
    if plan.k_parts > 1:
        one = replace(g, K=-(-g.K // plan.k_parts), batch=g.batch * plan.k_parts)
        sums = g.batch * g.N * g.M * plan.k_parts * size
        added = sums * _PART_SUMS / rate(sums) * heaviest_share(g.N, threads)
        found = cycles(one, replace(plan, k_parts=1, share="batch"), threads, at_once)
        return found + added + _FORK * (threads > 1)
    apart = _tail(g, plan, size, registers) if plan.tail else 0.0
    g = replace(g, M=g.M - plan.tail)
    plan = replace(plan, tail=0) if plan.tail else plan
    lanes = plan.lanes_of(g.dtype)
    mr, vectors = plan.mr, plan.nr // lanes
    strips, panels, block = -(-g.N // mr), -(-g.M // plan.nr), plan.block_of(g)
    if plan.k_block:  # whose sums are in memory: a block of tiles is whole, even at the end
        if plan.order == "panels":
            panels = -(-panels // block) * block
        else:
            strips = -(-strips // block) * block
    accumulators, blocks_of_k = mr * vectors, -(-g.K // (plan.k_block or g.K))
    loads = mr + vectors
    slow = max(1.0, plan.vector_bits / at_once)  # what works in steps leaves slots to others
    operations = accumulators / 2 * slow
    step = max(operations, _LOAD_BOUND * loads, _LATENCY)
    step += _LOAD * loads / slow + _SHARE * operations
    step += _LOOP / plan.unroll_k + _BODY * accumulators * plan.unroll_k
    step += _displaced(g, plan, size, strips, step if slow > 1 else 0.0)
    if plan.prefetch:
        again = _AGAIN / slow * (strips - 1)
        step += (_FETCH + again) / strips * plan.nr * size / _LINE
    if plan.pack_b == "none" and g.M % plan.nr:
        step += _MASKED * vectors / slow
    if not plan.pack_a and g.N % mr:
        step += _CLAMPED * max(0, mr - _POINTERS)
    ragged = (g.M % plan.nr > 0) + (g.N % mr > 0)
    stored = _STORE[ragged] if plan.lanes == "columns" else _SCATTERED * lanes
    tile = g.K * step + blocks_of_k * _TILE + accumulators * stored
    if plan.k_block:
        tile += blocks_of_k * _SUMS * accumulators
    work = strips * panels * tile
    moved = _moved(g, plan, size, strips, panels) + panels * g.K * _far(g, plan, size, step)
    again = _fetched_again(g, plan, size, strips)
    total = max(overlapped(work, moved), again + _HIDDEN * min(work, moved))
    total = (total + apart + _copies(g, plan, lanes, size)) * g.batch
    if threads < 2:
        return total
    steps, last = plan.shared_steps(g)
    grain = best_grain(steps, threads, last)
    return total * heaviest_share(steps, threads, grain, last) + _FORK * _forks(g, plan)


def _tail(g: GemmSize, plan: Plan, size: int, registers: int) -> float:
    """Cycles of the columns that are computed apart: sums along K, the totals of their lanes."""
    lanes = tail_lanes(g.dtype, plan.vector_bits)
    blocks, steps = -(-g.N // lanes), -(-g.K // lanes)
    n = tail_at_once(plan.tail, lanes, registers)
    step = max(n * lanes / 2, _LOAD_BOUND * (lanes + n))
    block = (steps * step + _TILE) / n + _TOTALS * lanes
    copied = 0.0 if g.transpose_b else g.K * _ELEMENT
    again = g.N * g.K * size / rate((g.N + g.M) * g.K * size)
    return plan.tail * (overlapped(blocks * block, again) + copied + g.N * _STORE[0])


def _forks(g: GemmSize, plan: Plan) -> int:
    """How often threads begin and end: for what is packed before their loop, and for it."""
    if g.batch > 1 and plan.share in ("", "batch"):
        return 1
    before_a = plan.pack_a and (plan.order == "panels" or plan.share == "tiles")
    return 1 + before_a + (plan.pack_b == "whole")


def _displaced(g: GemmSize, plan: Plan, size: int, strips: int, step: float) -> float:
    """Cycles of a step for lines of A or of B in place that others have displaced.

    Args:
        step: the cycles of one of a tile, without these, in which prefetches may hide them; 0:
            vectors of which two are multiplied in a cycle leave no time.
    """
    found = 0.0
    if not plan.pack_a and not g.transpose_a:  # the more rows, the fewer of their lines stay
        held = sets_of(g.K * size) * _FEWEST_WAYS
        lost = min(1.0, max(0.0, plan.mr / held - _FULL))
        found += _DISPLACED * plan.mr * lost**2
    if plan.pack_b == "none" and (plan.k_block or g.K) > sets_of(g.M * size) * _WAYS:
        late = _late(plan, step, _LATE[2])
        found += _DISPLACED_B * late * plan.nr * size / _LINE * (strips - 1) / strips
    return found


def _fetched_again(g: GemmSize, plan: Plan, size: int, strips: int) -> float:
    """Cycles in which B in place comes from the third cache for each strip but the first.

    Rows a power of two apart are on few sets of the second cache, too.
    """
    held = _SECOND_PERIOD // gcd(g.M * size, _SECOND_PERIOD) * _SECOND_WAYS
    if plan.pack_b != "none" or (plan.k_block or g.K) <= held:
        return 0.0
    return (strips - 1) * g.M * g.K * size / _AGAIN_FAR


def _late(plan: Plan, step: float, stays: float) -> float:
    """The share of lines' delay that is left where they are prefetched.

    Args:
        stays: that of lines that are prefetched in time.
    """
    return 1.0 - min(1.0, plan.prefetch * step / _IN_TIME) * (1.0 - stays)


def _far(g: GemmSize, plan: Plan, size: int, step: float) -> float:
    """Cycles of a step of a panel in which rows of B in place come from far apart.

    Args:
        step: the cycles of one of a tile.
    """
    if plan.pack_b != "none":
        return 0.0
    lines, depth = plan.nr * size / _LINE, plan.k_block or g.K
    strips = -(-g.N // plan.mr)
    run = plan.block_of(g) * plan.nr * size if plan.order == "panels" else g.M * size
    along_rows = min(1.0, run / _RUN) if depth <= _FEW_ROWS else 0.0
    level = next(n for n, (held, _) in enumerate(_CACHES) if (g.N + g.M) * g.K * size <= held)
    found = 0.0 if g.M * size < _APART else _FAR[level] * lines * (1.0 - _ALONG * along_rows)
    # pages that lie a few apart find as many fewer places
    apart = min(max(g.M * size // _PERIOD, _SPREAD[0]), _SPREAD[1])
    found += _PAGE if g.M * size >= _PERIOD and depth > _PAGES // apart else 0.0
    if g.M * size >= _APART and depth * plan.nr * size > _CACHES[0][0]:
        found += _NEAR * lines * (strips - 1)
    return found * _late(plan, step, _LATE[level])


def sets_of(stride: int) -> int:
    """How many sets of the first cache rows of a stride are spread over."""
    return min(_PERIOD // _LINE, _PERIOD // gcd(stride, _PERIOD))


def _moved(g: GemmSize, plan: Plan, size: int, strips: int, panels: int) -> float:
    """Cycles in which the caches deliver the operands."""
    depth = plan.k_block or g.K
    blocks_of_k = -(-g.K // depth)
    strip, panel = plan.mr * depth * size, plan.nr * depth * size
    a, b = g.N * g.K * size, g.M * g.K * size
    if plan.order == "panels":
        tiles, stays, passing, others, whole = panels, panel, strip, strips, a
    else:
        tiles, stays, passing, others, whole = strips, strip, panel, panels, b
    block = plan.block_of(g)
    outer = -(-tiles // block)
    # what stays is read again for each of the others but the first; those pass once for each block
    total = outer * blocks_of_k * (others - 1) * block * stays / rate(block * stays + passing)
    total += (outer - 1) * blocks_of_k * others * passing / rate(whole)
    if plan.k_block:
        sums = block * (plan.nr * g.N if plan.order == "panels" else plan.mr * g.M) * size
        total += 2 * blocks_of_k * g.N * g.M * size / rate(sums + block * stays)
    # each operand comes from where it was before the call
    if plan.pack_a or g.transpose_a:
        total += a / rate(a + b)
    else:
        total += a / (_STRIDED if a + b < _SECOND else _STRIDED_FAR)
    return total + b / rate(a + b)


def overlapped(work: float, moved: float) -> float:
    """Cycles of work and of transfers of which the greater hides most of the lesser."""
    return max(work, moved) + _HIDDEN * min(work, moved)


def rate(held: float) -> float:
    """Bytes a cycle of what is read over and over, by how many bytes that are."""
    return next(rate for capacity, rate in _CACHES if held <= capacity)


def _copies(g: GemmSize, plan: Plan, lanes: int, size: int) -> float:
    """Cycles in which panels are made."""
    total = 0.0
    block = plan.block_of(g)
    of_block = min(g.M, block * plan.nr) if plan.pack_b == "block" else g.M
    of_rows = min(g.N, block * plan.mr) if plan.order == "rows" else g.N
    for copied, turned, extent, width, held in (
        (plan.pack_a, not g.transpose_a, g.N, plan.mr, of_rows),
        (plan.pack_b in ("block", "whole"), g.transpose_b, g.M, plan.nr, of_block),
    ):
        if not copied:
            continue
        each = _VECTOR / min(lanes, width)
        if turned:
            each = _SQUARE if width % 4 == 0 and g.K % 4 == 0 else _REST
            if min(width, g.K) < 4 or (extent % width and width % 4):
                each = _ELEMENT
            if width >= sets_of(g.K * size) * _FEWEST_WAYS:  # a line is gone before its second half
                each += _TURNED_FAR
            each += _TURNED_FAR if held * g.K * size > _SECOND else 0.0
        copy = held * g.K * size  # beside what it is made from
        speed = rate(copy if 2 * copy <= _CACHES[2][0] else inf)
        total += extent * g.K * (each + _WRITTEN * size / speed)
    if g.staged[0] and not plan.pack_a and not g.transpose_a:  # lines, of a block or all
        held, _ = plan.lines_of(g)
        total += g.N * g.K * size * _WRITTEN / rate(2 * held * g.K * size)
    if plan.pack_b == "block" and not g.transpose_b and g.M * size >= _PERIOD:
        total += -(-g.M // of_block) * g.K * _PAGE
    return total
