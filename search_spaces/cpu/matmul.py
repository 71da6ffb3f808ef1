"""The matmul template for CPUs: packed B, a register tile, blocks of rows.

    P[jo, k, ji] = B[k, jo * nr + ji]                 # once: a panel's columns side by side
    for io:                                           # mc rows of A, which the L2 cache holds
        for jo:                                       # a panel of B
            for it:                                   # mr rows of A times the panel
                acc[mr, nr] += A[i, k] * P[jo, k, j]  # registers, for all k
                C[i, j] = acc

That is the order "rows". In the order "panels" a block of panels of B stays in the L2 cache, and
mr rows of A in the L1 cache meet all of them; the block may be packed just before it is used.

    for jb:                                           # a block of panels
        P[jo, k, ji] = B[k, jo * nr + ji]
        for it:
            for jo:
                acc[mr, nr] += ...

With a block of k, too, panel and rows both stay in the L1 cache; C is then added to once a block.
"""

from __future__ import annotations

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.target import Target
from whet.compiler.te import Schedule
from whet.compiler.tir import IterVar
from whet.compiler.tir import dtype as dt
from whet.search_spaces.config_scope import get_config
from whet.search_spaces.cpu.registers import register_tiles
from whet.search_spaces.template import template


@template("matmul", version=1)
def matmul(N: int, K: int, M: int, dtype: str = "float32") -> tuple[Schedule, list]:
    """``C = A @ B`` for ``A`` (N, K) and ``B`` (K, M), all row-major, of ``dtype``."""
    for name, value in (("N", N), ("K", K), ("M", M)):
        if not isinstance(value, int) or value < 1:
            raise ArgumentError(f"matmul({N}, {K}, {M})", f"{name} must be an int, at least 1")
    A = te.placeholder((N, K), dtype, name="A")
    B = te.placeholder((K, M), dtype, name="B")
    cfg = get_config()
    target = Target.current() or Target("llvm")
    lanes = max(target.vector_bytes // dt.itemsize(dtype), 1)

    tiles = register_tiles(target, lanes, rows_at_most=N, columns_at_most=M)
    cfg.define_knob("tile", tiles, default=tiles[0])
    mr, nr = cfg["tile"].val
    blocks = [b for b in (1, 2, 4, 8, 16, 32, 64, 128, 256) if b == 1 or b * 2 < N]
    cfg.define_knob("row_block", blocks, default=min(16, blocks[-1]))  # register tiles in a block
    depths = [0, *(kc for kc in (128, 256, 512) if kc < K)]
    cfg.define_knob("k_block", depths, default=0)  # 0: the whole k at once
    cfg.define_knob("unroll_k", [u for u in (1, 2, 4, 8) if K % u == 0], default=1)
    columns = -(-M // nr)
    panels = [p for p in (1, 2, 3, 4, 6, 8, 12, 16, 32) if p == 1 or p < max(2, M // lanes)]
    cfg.define_knob("panel_block", panels, default=max(p for p in panels if p <= 4))
    packing = "block" if N > 8 else "none"
    cfg.define_knob("pack", ["whole", "block", "none"], default=packing)
    cfg.define_knob("order", ["rows", "panels"], default="panels")

    k = te.reduce_axis((0, K), name="k")
    if cfg["pack"].val != "none":

        def packed(jo: te.Tensor, kk: te.Tensor, ji: te.Tensor) -> object:
            column = jo * nr + ji
            inside = B[kk, column]
            return inside if M % nr == 0 else te.if_then_else(column < M, inside, 0.0)

        P = te.compute((columns, K, nr), packed, name="P")
        C = te.compute(
            (N, M), lambda i, j: te.sum(A[i, k] * P[j // nr, k, j % nr], axis=k), name="C"
        )
    else:
        P = None
        C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")

    s = te.create_schedule(C.op)
    kc, ku = cfg["k_block"].val, cfg["unroll_k"].val
    acc = s.cache_write(C, "local") if kc == 0 else None
    i, j = s[C].op.axis
    jo, ji = s[C].split(j, factor=nr)
    if cfg["order"].val == "rows":
        io, it = s[C].split(i, factor=mr * cfg["row_block"].val)
        it, ii = s[C].split(it, factor=mr)
        outer, inner = io, [jo, it]
    else:
        it, ii = s[C].split(i, factor=mr)
        outer, tile = s[C].split(jo, factor=cfg["panel_block"].val)
        inner = [it, tile]
    s[C].unroll(ii)
    s[C].vectorize(ji)
    if acc is not None:
        s[C].reorder(outer, *inner, ii, ji)
        s[acc].compute_at(s[C], inner[-1])
        ai, aj = s[acc].op.axis
        steps = _unrolled(s, acc, k, ku)
        s[acc].reorder(*steps, ai, aj)
        s[acc].unroll(ai)
        s[acc].vectorize(aj)
        block = outer
    else:
        block, ki = s[C].split(k, factor=kc)
        steps = _unrolled(s, C, ki, ku)
        s[C].reorder(outer, block, *inner, *steps, ii, ji)
    if P is not None:
        pj, pk, pi = s[P].op.axis
        s[P].reorder(pk, pj, pi)  # reads rows of B in order
        s[P].vectorize(pi)
        if cfg["order"].val == "panels" and cfg["pack"].val == "block":
            s[P].compute_at(s[C], block)
    return s, [A, B, C]


def _unrolled(s: Schedule, stage: te.Tensor, k: IterVar, factor: int) -> list[IterVar]:
    """The loop over k with ``factor`` steps of it written out."""
    if factor == 1:
        return [k]
    ko, ki = s[stage].split(k, factor=factor)
    s[stage].unroll(ki)
    return [ko, ki]
