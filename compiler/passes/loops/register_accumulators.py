"""RegisterAccumulators: what a loop adds up in memory, it adds up in registers.

    for k in range(n):                        for i in unrolled(4):
        for i in unrolled(4):                     acc[i] = C[i]
            C[i] = C[i] + A[i, k]     ->      for k in range(n):
                                                  for i in unrolled(4):
                                                      acc[i] = acc[i] + A[i, k]
                                              for i in unrolled(4):
                                                  C[i] = acc[i]

It applies to a loop, serial or unrolled, around unrolled loops around one store, whose place does
not depend on the outer loop and differs from step to step of the others; prefetches may stand at
the begin of each loop. The array ``acc`` is
local, and the generator's constant offsets let LLVM keep it in registers.
"""

from __future__ import annotations

import math
from itertools import pairwise, product, takewhile

from whet.compiler.arith import Analyzer
from whet.compiler.arith.keys import structural_key
from whet.compiler.passes.contract.option import PassConfig
from whet.compiler.passes.contract.uses import is_prefetch
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, IntImm, PrimExpr, Ramp, Var, is_int
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import (
    SERIAL,
    UNROLLED,
    Allocate,
    BufferStore,
    For,
    Stmt,
    seq,
    stmt_list,
)
from whet.compiler.tir.visit.rewrite import Rewriter, changed, keep, nodes_of, substitute, variables

# More accumulators than this many bytes are no registers on any processor.
MAX_BYTES = 32 * 64


def register_accumulators(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function with local accumulators for its innermost reductions."""

    def loop(n: For) -> Stmt:
        # the outermost loop that sums: those that are unrolled inside of it are a part of its nest
        return (n.kind in (SERIAL, UNROLLED) and _promote(n)) or rewrite.children(n)

    rewrite = Rewriter({For: loop, BufferStore: keep})
    return func.with_body(rewrite(func.body))


def _promote(loop: For) -> Stmt | None:
    unrolled: list[For] = []
    ahead, body = _after_prefetches(loop.body)
    aheads = [ahead]
    while isinstance(body, For) and body.kind == UNROLLED:
        if not isinstance(body.extent, IntImm) or not is_int(body.min, 0):
            return None
        unrolled.append(body)
        ahead, body = _after_prefetches(body.body)
        aheads.append(ahead)
    if not isinstance(body, BufferStore) or body.mask is not None:
        return None
    store, buffer = body, body.buffer
    index = store.indices[0]
    lanes = dt.lanes(store.value.dtype)
    ramp = isinstance(index, Ramp)
    if buffer.storage_scope == "local" or loop.var in variables(index) or ramp != (lanes > 1):
        return None
    if isinstance(index, Ramp) and index.stride != 1:
        return None
    base = index.base if isinstance(index, Ramp) else index
    # unrolled steps of the reduction itself add to the same place, one after the other
    tile = [n for n in unrolled if n.var in variables(base)]
    extents = [n.extent.value for n in tile]  # type: ignore[attr-defined]
    total = lanes * math.prod(extents)
    if total * dt.itemsize(buffer.dtype) > MAX_BYTES or not _only_reads(store):
        return None
    if not _distinct(base, tile, extents, lanes):
        return None
    return _with_accumulators(loop, unrolled, aheads, tile, store, total, lanes)


def _after_prefetches(body: Stmt) -> tuple[list[Stmt], Stmt]:
    """The prefetches that a body begins with, and what follows."""
    parts = stmt_list(body)
    count = sum(1 for _ in takewhile(is_prefetch, parts[:-1]))
    return parts[:count], seq(*parts[count:]) if count else body


def _only_reads(store: BufferStore) -> bool:
    """True where the value reads the buffer, and only where it is stored."""
    place = structural_key(store.indices[0])
    reads = [n for n in nodes_of(store.value, BufferLoad) if n.buffer is store.buffer]
    return bool(reads) and all(
        n.mask is None and structural_key(n.indices[0]) == place for n in reads
    )


def _distinct(base: PrimExpr, unrolled: list[For], extents: list[int], lanes: int) -> bool:
    """True where no two steps of the unrolled loops store to the same element."""
    rest = Analyzer().affine(base)
    factors = [rest.coefficient(n.var) for n in unrolled]
    for n in unrolled:
        rest = rest.without(n.var)
    if rest.mentions({n.var for n in unrolled}):
        return False
    places = sorted(
        sum(f * i for f, i in zip(factors, step)) for step in product(*map(range, extents))
    )
    return all(b - a >= lanes for a, b in pairwise(places))


def _with_accumulators(
    loop: For,
    unrolled: list[For],
    aheads: list[list[Stmt]],
    tile: list[For],
    store: BufferStore,
    total: int,
    lanes: int,
) -> Stmt:
    buffer, index = store.buffer, store.indices[0]
    acc = Buffer(f"{buffer.name}.acc", (ops.const(total),), buffer.dtype, "local")
    place: PrimExpr = ops.const(0)
    for n in tile:
        place = place * n.extent + n.var
    place = place * lanes
    at = Ramp(place, 1, lanes, index.dtype) if lanes > 1 else place

    def nest(body: Stmt) -> Stmt:
        own = {n.var: Var(n.var.name, n.var.dtype) for n in tile}
        body = substitute(body, own)
        for n in reversed(tile):
            body = changed(n, var=own[n.var], body=body)
        return body

    def load(n: BufferLoad) -> BufferLoad:
        if n.buffer is buffer:
            return BufferLoad(acc, (at,), n.dtype)
        return rewrite.children(n)

    rewrite = Rewriter({BufferLoad: load})
    kind = store.value.dtype
    begin = nest(BufferStore(acc, BufferLoad(buffer, (index,), kind), (at,)))
    step: Stmt = BufferStore(acc, rewrite(store.value), (at,))
    for n, ahead in zip(reversed(unrolled), reversed(aheads[1:])):
        step = changed(n, body=seq(*ahead, step))
    step = seq(*aheads[0], step)
    end = nest(BufferStore(buffer, BufferLoad(acc, (at,), kind), (index,)))
    inner = changed(loop, body=step)
    return Allocate(acc, seq(begin, inner, end))
