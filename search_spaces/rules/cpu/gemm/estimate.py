"""An estimate of the cycles of a GEMM under a plan: what a default is chosen by.

It counts what one core does: steps of register tiles, which multiplications, loads or the latency
of a sum bound; tiles begun and stored; panels copied; and what the caches must deliver meanwhile.
It ranks plans of one GEMM, and does not predict times; `costs.py` has its constants.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd, inf

from whet.compiler.tir import dtype as dt
from whet.search_spaces.forms.gemm import GemmSize
from whet.search_spaces.rules.cpu.gemm.costs import Costs, Processor
from whet.search_spaces.rules.cpu.gemm.plan import Plan, tail_at_once, tail_lanes
from whet.search_spaces.rules.processors import FEWEST_WAYS, displaced, sets_of
from whet.search_spaces.rules.threads import best_grain, heaviest_share

_LINE, _PAGE = 64, 4096  # bytes
_WAYS = 11  # lines of a set
_POINTERS = 8  # rows of A whose places are not loaded
_APART, _RUN = 1024, 4096  # bytes from row to row; of each of a few rows that are read in order
_WIDE, _ROWS_AT_ONCE = 2048, 64  # bytes of a row of the result; rows whose pages are at hand
_CROWD = 1.3  # loads a cycle beyond which each one more takes the same
_PAGES, _SPREAD = 3072, (2, 4)  # that are found at once, the part for rows on pages of their own


def cycles(g: GemmSize, plan: Plan, processor: Processor, threads: int = 1) -> float:
    """The estimate.

    Args:
        g: the GEMM, turned round where the plan says so. plan: how it is computed.
        processor: that computes it. threads: that share the outer loop.
    """
    c, at_once = processor.costs, processor.at_once
    size = dt.itemsize(g.dtype)
    if plan.k_parts > 1:
        one = replace(g, K=-(-g.K // plan.k_parts), batch=g.batch * plan.k_parts)
        sums = g.batch * g.N * g.M * plan.k_parts * size
        added = sums * c.part_sums / c.caches.rate(sums) * heaviest_share(g.N, threads)
        found = cycles(one, replace(plan, k_parts=1, share="batch"), processor, threads)
        return found + added + c.fork * (threads > 1)
    apart = _tail(g, plan, size, processor) if plan.tail else 0.0
    g = replace(g, M=g.M - plan.tail)
    plan = replace(plan, tail=0) if plan.tail else plan
    lanes = plan.lanes_of(g.dtype)
    mr, vectors = plan.mr, plan.nr // lanes
    block = plan.block_of(g)
    strips, panels = _tiles(g, plan, block)
    accumulators, blocks_of_k = mr * vectors, -(-g.K // (plan.k_block or g.K))
    loads = mr + vectors + _asked(plan, size, strips, block)
    slow = max(1.0, plan.vector_bits / at_once)  # what works in steps leaves slots to others
    operations = accumulators / 2 * slow
    step = max(operations, c.load_bound * loads, c.latency)
    crowd = min(loads / step, _CROWD) if c.queues else 1.0
    step += c.load * loads * crowd / slow + c.share * operations
    step += c.loop / plan.unroll_k + c.body * accumulators * plan.unroll_k
    step += _displaced(c, g, plan, size, strips, step if slow > 1 else 0.0)
    if plan.prefetch:
        again = c.again / slow * (strips - 1)
        step += (c.fetch + again) / strips * plan.nr * size / _LINE
    if plan.pack_b == "none" and g.M % plan.nr:
        step += c.masked * vectors / slow
    if not plan.pack_a and g.N % mr:
        step += c.clamped * max(0, mr - _POINTERS)
    ragged = (g.M % plan.nr > 0) + (g.N % mr > 0)
    stored = c.store[ragged] if plan.lanes == "columns" else c.scattered * lanes
    tile = g.K * step + blocks_of_k * c.tile + accumulators * stored
    if plan.lanes == "columns" and g.M * size >= _WIDE:
        tile += mr * c.segment * _downwards(g, plan)
    if plan.k_block:
        tile += blocks_of_k * c.sums * accumulators
    work = strips * panels * tile
    moved = _moved(c, g, plan, size, strips, panels) + panels * g.K * _far(c, g, plan, size, step)
    again = _fetched_again(c, g, plan, size, strips)
    total = max(c.overlapped(work, moved), again + c.hidden * min(work, moved))
    total = (total + apart + _copies(c, g, plan, lanes, size)) * g.batch
    begun = _begun(c, g, plan, size)
    if threads < 2:
        return total + begun
    steps, last = plan.shared_steps(g)
    shared = total * heaviest_share(steps, threads, best_grain(steps, threads, last), last)
    others = _torn(c, g, plan, size) + _away(c, g, plan, size, threads)
    return shared + others + c.fork * _forks(g, plan) + begun


def _tiles(g: GemmSize, plan: Plan, block: int) -> tuple[int, int]:
    """Strips of A and panels of B."""
    strips, panels = -(-g.N // plan.mr), -(-g.M // plan.nr)
    if plan.k_block:  # whose sums are in memory: a block of tiles is whole, even at the end
        if plan.order == "panels":
            panels = -(-panels // block) * block
        else:
            strips = -(-strips // block) * block
    return strips, panels


def _asked(plan: Plan, size: int, strips: int, block: int) -> float:
    """Lines that a step asks for: the next panels come from memory while these are at work."""
    if plan.pack_b != "ahead" or plan.prefetch or (plan.k_block and plan.order == "panels"):
        return 0.0
    meets = strips if plan.order == "panels" else min(block, strips)
    return plan.nr * size / _LINE / meets


def _torn(c: Costs, g: GemmSize, plan: Plan, size: int) -> float:
    """Cycles of lines that two threads write: the last one of a part of a row, and the first."""
    by_columns = plan.order == "panels" and (g.batch == 1 or plan.share not in ("", "batch"))
    torn = by_columns and plan.k_parts == 1 and g.M * size % _LINE > 0
    return c.torn * g.N * g.batch if torn else 0.0


def _away(c: Costs, g: GemmSize, plan: Plan, size: int, threads: int) -> float:
    """Cycles of a thread for the panels that others have packed before the loop that they share."""
    if g.batch > 1 and plan.share in ("", "batch"):
        return 0.0
    strips = plan.pack_a and (plan.order == "panels" or plan.share == "tiles")
    read = g.N * strips + g.M * (plan.pack_b == "whole")
    return read * g.K * size * g.batch * (1 - 1 / threads) / c.others


def _downwards(g: GemmSize, plan: Plan) -> float:
    """The share of a tile's rows whose next piece is written after many other rows."""
    if plan.order == "rows":
        return 1.0 if plan.block_of(g) * plan.mr > _ROWS_AT_ONCE else 0.0
    return 1.0 / plan.block_of(g) if g.N > _ROWS_AT_ONCE else 0.0


def _tail(g: GemmSize, plan: Plan, size: int, processor: Processor) -> float:
    """Cycles of the columns that are computed apart: sums along K, the totals of their lanes."""
    c, lanes = processor.costs, tail_lanes(g.dtype, plan.vector_bits)
    blocks, steps = -(-g.N // lanes), -(-g.K // lanes)
    n = tail_at_once(plan.tail, lanes, processor.registers)
    step = max(n * lanes / 2, c.load_bound * (lanes + n))
    block = (steps * step + c.tile) / n + c.totals * lanes
    copied = 0.0 if g.transpose_b else g.K * c.element
    again = g.N * g.K * size / c.caches.rate((g.N + g.M) * g.K * size)
    return plan.tail * (c.overlapped(blocks * block, again) + copied + g.N * c.store[0])


def _forks(g: GemmSize, plan: Plan) -> int:
    """How often threads begin and end: for what is packed before their loop, and for it."""
    if g.batch > 1 and plan.share in ("", "batch"):
        return 1
    before_a = plan.pack_a and (plan.order == "panels" or plan.share == "tiles")
    return 1 + before_a + (plan.pack_b == "whole")


def _displaced(c: Costs, g: GemmSize, plan: Plan, size: int, strips: int, step: float) -> float:
    """Cycles of a step for lines of A or of B in place that others have displaced.

    Args:
        step: the cycles of one of a tile, without these, in which prefetches may hide them; 0:
            vectors of which two are multiplied in a cycle leave no time.
    """
    found = 0.0
    if not plan.pack_a and not g.transpose_a:  # the more rows, the fewer of their lines stay
        found += c.displaced * plan.mr * min(1.0, displaced(plan.mr, g.K * size))
    if plan.pack_b == "none" and (plan.k_block or g.K) > sets_of(g.M * size) * _WAYS:
        late = _late(c, plan, step, c.late[2])
        found += c.displaced_b * late * plan.nr * size / _LINE * (strips - 1) / strips
    return found


def _fetched_again(c: Costs, g: GemmSize, plan: Plan, size: int, strips: int) -> float:
    """Cycles in which B in place comes from the third cache for each strip but the first.

    Rows a power of two apart are on few sets of the second cache, too.
    """
    held = c.second_period // gcd(g.M * size, c.second_period) * c.second_ways
    if plan.pack_b != "none" or (plan.k_block or g.K) <= held:
        return 0.0
    return (strips - 1) * g.M * g.K * size / c.again_far


def _late(c: Costs, plan: Plan, step: float, stays: float) -> float:
    """The share of lines' delay that is left where they are prefetched.

    Args:
        stays: that of lines that are prefetched in time.
    """
    return 1.0 - min(1.0, plan.prefetch * step / c.in_time) * (1.0 - stays)


def _far(c: Costs, g: GemmSize, plan: Plan, size: int, step: float) -> float:
    """Cycles of a step of a panel in which rows of B in place come from far apart.

    Args:
        step: the cycles of one of a tile.
    """
    if plan.pack_b != "none":
        return 0.0
    lines, depth = plan.nr * size / _LINE, plan.k_block or g.K
    strips = -(-g.N // plan.mr)
    run = plan.block_of(g) * plan.nr * size if plan.order == "panels" else g.M * size
    along_rows = min(1.0, run / _RUN) if depth <= c.streams else 0.0
    level = next(
        n for n, (held, _) in enumerate(c.caches.levels) if (g.N + g.M) * g.K * size <= held
    )
    found = 0.0 if g.M * size < _APART else c.far[level] * lines * (1.0 - c.along * along_rows)
    # pages that lie a few apart find as many fewer places
    apart = min(max(g.M * size // _PAGE, _SPREAD[0]), _SPREAD[1])
    found += c.page if g.M * size >= _PAGE and depth > _PAGES // apart else 0.0
    if g.M * size >= _APART and depth * plan.nr * size > c.caches.first:
        found += c.near * lines * (strips - 1)
    return found * _late(c, plan, step, c.late[level])


def _moved(c: Costs, g: GemmSize, plan: Plan, size: int, strips: int, panels: int) -> float:
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
    total = (
        outer * blocks_of_k * (others - 1) * block * stays / c.caches.rate(block * stays + passing)
    )
    total += (outer - 1) * blocks_of_k * others * passing / c.caches.rate(whole)
    # within a block the inner loop comes back to what passes, one tile later
    back = (tiles - outer) * blocks_of_k * others * passing
    total += c.back * back / c.caches.rate(passing + stays)
    if plan.k_block:
        sums = block * (plan.nr * g.N if plan.order == "panels" else plan.mr * g.M) * size
        total += 2 * blocks_of_k * g.N * g.M * size / c.caches.rate(sums + block * stays)
    # each operand comes from where it was before the call
    given = (a + b) * (g.batch if c.of_batch else 1)
    if plan.pack_a or g.transpose_a:
        total += a / c.caches.rate(given)
    else:
        total += a / (c.strided if given < c.caches.second else c.strided_far)
    return total + b / c.caches.rate(inf if plan.pack_b == "ahead" else given)


def _begun(c: Costs, g: GemmSize, plan: Plan, size: int) -> float:
    """Cycles in which panels that are used together come from memory, packed ahead.

    The next ones come while these are at work, if the second cache holds both.
    """
    if plan.pack_b != "ahead":
        return 0.0
    depth, of_panels = plan.k_block or g.K, plan.order == "panels"
    together = plan.nr * depth * size * (plan.block_of(g) if of_panels else 1)
    alone = plan.prefetch or (plan.k_block and of_panels) or 2 * together > c.caches.second
    return (g.M * g.K * size if alone else together) / c.caches.rate(inf)


def _copies(c: Costs, g: GemmSize, plan: Plan, lanes: int, size: int) -> float:
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
        each = c.vector / min(lanes, width)
        if turned:
            each = c.square if width % 4 == 0 and g.K % 4 == 0 else c.rest
            if min(width, g.K) < 4 or (extent % width and width % 4):
                each = c.element
            if width >= sets_of(g.K * size) * FEWEST_WAYS:  # a line is gone before its second half
                each += c.turned_far
            each += c.turned_far if held * g.K * size > c.caches.second else 0.0
            given = extent * g.K * size * (g.batch if c.of_batch else 1)
            each += c.turned_read * size / c.caches.rate(given)
        copy = held * g.K * size  # beside what it is made from
        speed = c.caches.rate(copy if 2 * copy <= c.caches.third else inf)
        total += extent * g.K * (each + c.written * size / speed)
    if g.staged[0] and not plan.pack_a and not g.transpose_a:  # lines, of a block or all
        held, _ = plan.lines_of(g)
        total += g.N * g.K * size * c.written / c.caches.rate(2 * held * g.K * size)
    if plan.pack_b == "block" and not g.transpose_b and g.M * size >= _PAGE:
        total += -(-g.M // of_block) * g.K * c.page
    return total
