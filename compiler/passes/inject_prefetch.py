"""InjectPrefetch: what a loop will read some steps later is prefetched, a cache line at a time.

for k in range(64):                         for k in range(64):
    attr(A, 'prefetch_scope', 4)                for line in unrolled(2):
    for j in vectorized(32):         ->             prefetch(&A[k + 4, line * 16], 0, 3, 1)
        C[j] = C[j] + A[k, j]                   for j in vectorized(32):
                                                    C[j] = C[j] + A[k, j]

The region is the box that the body reads at ``k + 4``, over all loops within; a whole dimension
where products of sizes hide its ends. Lines are counted from its first element; dimensions that
leave no whole line out between them are one run. A row that may begin within a line, of a tensor
that begins at one, may reach one line more. Before a vectorised loop stands what all of its
lanes will read. The addresses are not clamped to the tensor: a prefetch never faults, and the
generators compute its address without a claim that an object is there. A GPU's warps hide the
latency, and memory other than the global one is at hand: there the attribute goes.

A region that is one run in memory may be spread over the loops within: each step of the innermost
one prefetches as much of it as it takes to be done with the last step, into the second cache.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.errors import LowerError
from whet.compiler.passes.contract.option import PassConfig
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, Call, IntImm, Let, PrimExpr, Var
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import (
    PARALLEL,
    PREFETCH,
    PREFETCH_SPREAD,
    SERIAL,
    UNROLLED,
    VECTORIZED,
    AttrStmt,
    Evaluate,
    For,
    LetStmt,
    Stmt,
    nothing,
    seq,
)
from whet.compiler.tir.visit.rewrite import Rewriter, changed, nodes_of, substitute, variables

# bytes; of every x86-64 and most AArch64 processors
CACHE_LINE = 64
# So many prefetches in a row are unrolled.
MAX_UNROLLED = 16


def inject_prefetch(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function with calls of ``prefetch`` in place of the attributes that ask for them.

    Raises:
        LowerError: an index is read from memory, so that nothing is known of it ahead.
    """
    return func.with_body(_Injector(target.kind.name != "cuda")(func.body))


class _Injector(Rewriter):
    """Writes prefetches.

    Args:
        wanted: whether the target has them.
    """

    def __init__(self, wanted: bool) -> None:
        super().__init__({For: self._loop, AttrStmt: self._attribute})
        self.wanted = wanted
        self.around: list[For] = []

    def _loop(self, n: For) -> Stmt:
        self.around.append(n)
        ahead: list[Stmt] = []
        body = n.body
        while n.kind == VECTORIZED and isinstance(body, AttrStmt) and body.key == PREFETCH:
            ahead.append(self._prefetches(body))
            body = body.body
        new = changed(n, body=self(body))
        self.around.pop()
        return seq(*ahead, new) if ahead else new

    def _attribute(self, n: AttrStmt) -> Stmt:
        if n.key not in (PREFETCH, PREFETCH_SPREAD) or not self.around:
            return self.children(n)
        if n.key == PREFETCH_SPREAD and self._is_wanted(n):
            spread = _Spreader(n.node, _region(n, self.around), self.around)
            body = spread(n.body)
            if spread.found:
                return self(body)
        return seq(self._prefetches(n), self(n.body))

    def _prefetches(self, n: AttrStmt) -> Stmt:
        return _lines(n.node, _region(n, self.around)) if self._is_wanted(n) else nothing()

    def _is_wanted(self, n: AttrStmt) -> bool:
        return self.wanted and n.node.storage_scope == "global"


Region = list[tuple[Affine, Affine]]
"""The first index and the number of indices of each dimension."""


def _region(n: AttrStmt, around: Sequence[For]) -> Region:
    """The box that the body of an attribute reads, so many steps of the innermost loop later."""
    analyzer, loop, inner = Analyzer(), around[-1], set()
    for x in (*around, *reversed(nodes_of(n.body, For))):
        analyzer.bind_loop(x.var, x.min, x.extent)
    # of a vectorised loop around, all lanes are at the place at once
    inner = {x.var for x in (*nodes_of(n.body, For), *around) if x.kind == VECTORIZED}
    inner |= {x.var for x in nodes_of(n.body, For)}
    values = {x.var: x.value for x in nodes_of(n.body, Let, LetStmt)}
    later = {loop.var: loop.var + n.value}
    reads = [x for x in nodes_of(n.body, BufferLoad) if x.buffer is n.node]
    box: Region = []
    for d in range(len(n.node.shape)):
        ends: list[Affine | None] = [None, None]
        for x in reads:
            index = x.indices[d]
            while not values.keys().isdisjoint(variables(index)):
                index = substitute(index, values)
            if nodes_of(index, BufferLoad):
                raise LowerError(
                    f"prefetch what {loop.var.name} reads of {n.node.name}",
                    f"index {d} depends on data: it is known only when it is reached",
                    "leave it out",
                )
            form = analyzer.affine(substitute(index, later))
            for side, sign in enumerate((-1, 1)):
                end = analyzer.eliminate(form, inner, sign)
                if end is None:  # of products of sizes: anywhere in the dimension
                    end = analyzer.affine(n.node.shape[d]).shifted(-1).scaled(side)
                ends[side] = _further(analyzer, ends[side], end, sign)
        low, high = ends
        assert low is not None and high is not None
        box.append((low, _constant(analyzer, (high - low).shifted(1))))
    return box


class _Spreader(Rewriter):
    """Spreads the prefetches of a region over the loops around what reads it.

    Args:
        buffer: that is read. region: one run of it in memory; else nothing is done.
        around: the loops around.

    Attributes:
        found: whether there was a loop to spread them over.
    """

    def __init__(self, buffer: Buffer, region: Region, around: Sequence[For]) -> None:
        super().__init__({For: self._loop})
        self.buffer, self.region, self.found = buffer, region, False
        self.size = _run(buffer, region)
        self.path: list[For] = []
        self.analyzer = Analyzer()
        for x in around:
            self.analyzer.bind_loop(x.var, x.min, x.extent)

    def _loop(self, n: For) -> Stmt:
        if not self.size or n.kind == VECTORIZED or not self._reads(n):
            return n
        self.path.append(n)
        self.analyzer.bind_loop(n.var, n.min, n.extent)
        inside = [x for x in nodes_of(n.body, For) if x.kind in (SERIAL, PARALLEL)]
        if n.kind == UNROLLED or any(map(self._reads, inside)):
            new = changed(n, body=self(n.body))
        else:
            new = changed(n, body=seq(*self._share(), n.body))
        self.path.pop()
        return new

    def _reads(self, n: For) -> bool:
        return any(x.buffer is self.buffer for x in nodes_of(n.body, BufferLoad))

    def _share(self) -> list[Stmt]:
        """The prefetches of one step of the innermost loop."""
        most = [self.analyzer.bounds(self.analyzer.affine(x.extent))[1] for x in self.path]
        extents = [0 if n is None else n for n in most]  # the last block's may be fewer
        steps = math.prod(extents)
        if not steps:  # of a size that is not known
            return []
        self.found = True
        done = Affine.constant(0)
        for x, extent in zip(self.path, extents):
            done = done.scaled(extent) + self.analyzer.affine(x.var - x.min)
        line = max(CACHE_LINE // dt.itemsize(self.buffer.dtype), 1)
        each = -(-self.size // steps)
        *index, last = [low for low, _ in self.region]
        first = last + done.scaled(each)
        dtype = self.buffer.shape[0].dtype
        places = [first.shifted(k) for k in range(0, each, line)]
        return [
            Evaluate(_prefetch(self.buffer, [x.to_expr(dtype) for x in (*index, place)], 2))
            for place in places
        ]


def _run(b: Buffer, region: Region) -> int:
    """The elements of a region that is one run in memory; else 0."""
    size, strides = 1, _strides(b)
    if not strides or strides[-1] != 1:
        return 0
    for (_, extent), stride in reversed([*zip(region, strides)]):
        if not extent.is_const or stride is None:
            return 0
        if extent.const > 1 and stride != size:
            return 0
        size *= extent.const
    return size


def _further(analyzer: Analyzer, old: Affine | None, new: Affine, sign: int) -> Affine:
    """The greater (``sign`` 1) or the lesser (-1) of two forms."""
    if old is None or analyzer.at_most_zero((old - new).scaled(sign)):
        return new
    if analyzer.at_most_zero((new - old).scaled(sign)):
        return old
    pick = ops.maximum if sign > 0 else ops.minimum
    return analyzer.affine(pick(old.to_expr(), new.to_expr()))


def _constant(analyzer: Analyzer, extent: Affine) -> Affine:
    """The most that an extent can be, where that is known; else the extent itself."""
    most = analyzer.bounds(extent)[1]
    return extent if most is None else Affine.constant(most)


def _lines(b: Buffer, region: Region) -> Stmt:
    """A prefetch of each cache line of a region."""
    dtype = b.shape[0].dtype if b.shape else "int32"
    line = max(CACHE_LINE // dt.itemsize(b.dtype), 1)
    strides = _strides(b)
    # the dimensions of a run, from its first to its last element, leave no whole line out
    span, loops = Affine.constant(1), len(region)
    for d in reversed(range(len(region))):
        extent, stride = region[d][1], strides[d]
        if extent.is_const and extent.const <= 1:
            pass
        elif extent.is_const and span.is_const and stride is not None:
            if stride - span.const >= line:
                break
            span = span.shifted((extent.const - 1) * stride)
        elif stride == 1 and span.is_const:  # a row of a size that is not known
            span = extent
        else:
            break
        loops = d
    last = strides[-1] if strides else 1
    step = max(line // last, 1) if last else 1  # in the last dimension
    index = [low for low, _ in region]
    counts = [extent for _, extent in region[:loops]]
    if loops < len(region):
        whole = step * (last or 1)
        before = (line - _begins(b, region, loops, line)) if whole == line else 0
        counts.append(Analyzer().floordiv(span.shifted(before + whole - 1), whole))
    known = [x.const for x in counts if x.is_const]
    few = len(known) == len(counts) and math.prod(known) <= MAX_UNROLLED
    body_of = [(Var("line" if k == loops else f"row{k}", dtype), x) for k, x in enumerate(counts)]
    for k, (var, count) in enumerate(body_of):
        if not (count.is_const and count.const == 1):
            where = k if k < loops else len(region) - 1
            index[where] += Affine.atom(var, var).scaled(1 if k < loops else step)
    out: Stmt = Evaluate(_prefetch(b, [x.to_expr(dtype) for x in index]))
    for var, count in reversed(body_of):
        if not (count.is_const and count.const == 1):
            kind = UNROLLED if few else SERIAL
            out = For(var, ops.const(0, dtype), count.to_expr(dtype), kind, out)
    return out


def _begins(b: Buffer, region: Region, loops: int, line: int) -> int:
    """The elements that the places of a region's rows are multiples of, ``line`` at most.

    Args:
        loops: dimensions around a row.
    """
    at = line
    for d, ((low, extent), stride) in enumerate(zip(region, _strides(b))):
        if stride is None:  # nothing is known: as if it were at a line
            continue
        at = math.gcd(at, stride * low.const, *(stride * c for _, c in low.terms.values()))
        if d < loops and not (extent.is_const and extent.const == 1):
            at = math.gcd(at, stride)
    return at


def _prefetch(b: Buffer, index: list[PrimExpr], locality: int = 3) -> Call:
    """TVM's call: to be read, kept in all caches or (2) in all but the first, data."""
    address = Call("handle", "tvm_access_ptr", (BufferLoad(b, tuple(index), b.dtype), *_READ))
    return Call("int32", "prefetch", (address, ops.const(0), ops.const(locality), ops.const(1)))


#: one element that is only read
_READ = ops.const(1), ops.const(1)


def _strides(b: Buffer) -> list[int | None]:
    """The distance of an index from the next in each dimension, in elements; None: not known."""
    if b.strides:
        return [x.value if isinstance(x, IntImm) else None for x in b.strides]
    out: list[int | None] = []
    step: int | None = 1
    for size in reversed(b.shape):
        out.insert(0, step)
        step = step * size.value if step is not None and isinstance(size, IntImm) else None
    return out
