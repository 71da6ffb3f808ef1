"""VectorizeLoop: vectorised loops become vector loads, operations and stores of the target's width.

    for j in vectorized(16):           for j in unrolled(2):                 # 8 lanes a register
        C[j] = A[i] * B[j]      ->         C[ramp(j * 8, 1, 8)] =
                                               broadcast(A[i], 8) * B[ramp(j * 8, 1, 8)]

A guard over the lanes becomes a branch around the loop: where it holds for the last lane, plain
accesses; else masked ones. Lanes that read with a stride stay a ramp, of which a generator makes
whole loads where the stride is small; those that read through a table are gathered. A masked store
to a small buffer of the thread's own stores what was there in the lanes that are off: it may be in
registers, which a masked store may not. Where a statement cannot be vectorised (it stores to one
place from all lanes, or allocates), its loop stays serial.
"""

from __future__ import annotations

from math import prod

from whet.compiler.arith import Analyzer
from whet.compiler.passes.contract.option import PassConfig
from whet.compiler.passes.loops.vector_lanes import Lanes, NotVectorizable
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import LE, LT, BufferLoad, IntImm, PrimExpr, Ramp, Select, Var
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import (
    PARALLEL,
    SERIAL,
    THREAD_BINDING,
    UNROLLED,
    VECTORIZED,
    Allocate,
    BufferStore,
    For,
    IfThenElse,
    Stmt,
    seq,
)
from whet.compiler.tir.visit.renew import renewed
from whet.compiler.tir.visit.rewrite import (
    Rewriter,
    changed,
    conjuncts,
    keep,
    nodes_of,
    substitute,
    variables,
)

#: A buffer of at most so many bytes may be in registers.
REGISTER_BYTES = 4096


def vectorize_loop(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function with vectors of at most ``target.vector_bytes`` bytes."""
    scalar_only = bool(config["tir.disable_vectorize"])

    analyzer = Analyzer()
    own: list[Buffer] = []  # small, and of this thread: allocated inside of its loop

    def loop(n: For) -> Stmt:
        nonlocal own
        if n.kind != VECTORIZED:
            outside = own
            own = [] if n.kind in (PARALLEL, THREAD_BINDING) else own
            with analyzer.inside(n.var, n.min, n.extent):
                out = rewrite.children(n)
            own = outside
            return out
        n = rewrite.children(n)
        if scalar_only:
            return changed(n, kind=SERIAL)
        return _unmasked(_vectorize(n, target, analyzer), own, analyzer)

    def allocate(n: Allocate) -> Stmt:
        nonlocal own
        outside = own
        own = [*own, n.buffer] if _is_small(n.buffer) else own
        out = rewrite.children(n)
        own = outside
        return out

    rewrite = Rewriter({For: loop, BufferStore: keep, Allocate: allocate})
    return func.with_body(rewrite(func.body))


def _is_small(b: Buffer) -> bool:
    """True for what may be in registers."""
    sizes = [d.value for d in b.shape if isinstance(d, IntImm)]
    return len(sizes) == len(b.shape) and prod(sizes) * dt.itemsize(b.dtype) <= REGISTER_BYTES


def _unmasked(body: Stmt, own: list[Buffer], analyzer: Analyzer) -> Stmt:
    """Stores to buffers of this thread's own without masks, where all lanes are in range."""

    def store(n: BufferStore) -> Stmt:
        index = n.indices[0]
        if n.mask is None or not isinstance(index, Ramp) or index.stride != 1:
            return n
        if dt.is_bool(n.value.dtype) or not any(n.buffer is b for b in own):
            return n
        first, size = analyzer.affine(index.base), analyzer.affine(n.buffer.shape[0])
        last = (first - size).shifted(index.lanes)
        if not (analyzer.at_most_zero(first.scaled(-1)) and analyzer.at_most_zero(last)):
            return n
        before = BufferLoad(n.buffer, n.indices, n.value.dtype)
        value = Select(n.mask, n.value, before, n.value.dtype)
        return BufferStore(n.buffer, value, n.indices)

    def loop(n: For) -> Stmt:
        with analyzer.inside(n.var, n.min, n.extent):
            return rewrite.children(n)

    rewrite = Rewriter({For: loop, BufferStore: store}, once=True)
    return rewrite(body) if own else body


def _vectorize(loop: For, target: Target, analyzer: Analyzer) -> Stmt:
    """The loop as vectors; a guard that holds for its last lane needs no masks."""
    body = loop.body
    guard = isinstance(body, IfThenElse) and body.likely and body.else_case is None
    tests = conjuncts(body.condition) if guard else []  # type: ignore[attr-defined]
    own = [c for c in tests if loop.var in variables(c)]
    try:
        if not own or not all(_ends_once(c, loop.var, analyzer) for c in own):
            return _chunks(loop, body, target, analyzer)
        assert isinstance(body, IfThenElse)
        outside = [c for c in tests if loop.var not in variables(c)]
        lanes = ops.all_of(*own)
        guarded = IfThenElse(lanes, body.then_case, None, likely=True)
        end = loop.min + loop.extent - 1
        whole = ops.all_of(*[substitute(c, {loop.var: end}) for c in own])
        with analyzer.assuming(whole):
            plain = _chunks(loop, body.then_case, target, analyzer)
        masked = _chunks(loop, guarded, target, analyzer, trusted=lanes)
        # where not even the first lane runs, what all lanes share must not be read either
        first = substitute(lanes, {loop.var: loop.min})
        masked = _own(IfThenElse(first, masked, None, likely=True))
        out = IfThenElse(whole, plain, masked, likely=True)
        return IfThenElse(ops.all_of(*outside), out, None, True) if outside else out
    except NotVectorizable:
        return changed(loop, kind=SERIAL)


def _ends_once(c: PrimExpr, var: Var, analyzer: Analyzer) -> bool:
    """True for a condition that holds for all lanes if it holds for the last one."""
    d = analyzer.inequality(c) if isinstance(c, (LT, LE)) else None
    if d is None:
        return False
    return d.coefficient(var) > 0 and not d.without(var).mentions({var})


def _chunks(
    loop: For,
    body: Stmt,
    target: Target,
    analyzer: Analyzer,
    trusted: PrimExpr | None = None,
) -> Stmt:
    """As many full vectors as there are, then ever smaller powers of two."""
    assert isinstance(loop.extent, IntImm)
    extent = loop.extent.value
    width = max(target.vector_bytes // _widest(body), 1)
    # registers of 32 bytes and masked loads came to x86-64 with AVX
    masked_loads = target.kind.name == "llvm" and target.vector_bytes >= 32

    def vectors(base: PrimExpr, lanes: int) -> Stmt:
        return Lanes(loop.var, base, lanes, analyzer, trusted, masked_loads).visit(body)

    parts: list[Stmt] = []
    begin = 0
    if extent >= width > 1:
        full = extent // width
        if full == 1:
            parts.append(vectors(loop.min, width))
        else:
            part = Var(loop.var.name, loop.var.dtype)
            analyzer.bind_loop(part, ops.const(0), ops.const(full))
            whole = vectors(loop.min + part * width, width)
            parts.append(For(part, ops.const(0), ops.const(full), UNROLLED, whole))
        begin = full * width
    while begin < extent:
        lanes = 1 << ((extent - begin).bit_length() - 1)
        base = loop.min + begin
        rest = substitute(body, {loop.var: base}) if lanes == 1 else vectors(base, lanes)
        parts.append(_own(rest) if parts else rest)
        begin += lanes
    return seq(*parts)


def _own(n: Stmt) -> Stmt:
    """A further copy of a body, with variables of its own."""
    simple: Stmt | None = n
    while isinstance(simple, IfThenElse):
        simple = simple.then_case if simple.else_case is None else None
    return n if isinstance(simple, BufferStore) else renewed(n)


def _widest(body: Stmt) -> int:
    accesses = nodes_of(body, BufferStore, BufferLoad)
    return max((dt.itemsize(n.buffer.dtype) for n in accesses), default=1)
