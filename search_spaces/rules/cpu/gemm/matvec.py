"""The rules for matrices times vectors, one or a few: rows of it at once, lanes along the row.

    for io:                                            # a few rows
        for ko:
            T[ii, v] += A[i, ko * width + v] * x[...]  # registers; v: lanes of some vectors
        y[i] = sum over v of T[ii, v], and what is left of the row

A matrix is read once, so that memory sets the pace: rows at once are streams for the prefetcher.
Of a few vectors each has sums of its own, ``T[ii, r, v]``, and nothing is packed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import inf
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.tir import IterVar
from whet.compiler.tir import dtype as dt
from whet.search_spaces.forms.gemm import GemmForm, GemmSize, Operand
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import Group
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.cpu.gemm.costs import costs_of
from whet.search_spaces.rules.cpu.gemm.gemm import flattened
from whet.search_spaces.rules.cpu.gemm.loops import fused
from whet.search_spaces.rules.cpu.gemm.rule import form_of, is_packed
from whet.search_spaces.rules.processors import sets_of
from whet.search_spaces.rules.producers import schedule_staged
from whet.search_spaces.rules.threads import Threads, define_threads, heaviest_share, threads_for
from whet.search_spaces.rules.vectors import lanes_of, operation_bits, vector_registers

_KNOBS = "vectors", "rows", "unroll_k", "prefetch"
_AHEAD = (128, 512)  # elements of a row that it may be fetched ahead
_ROWS = (1, 2, 4, 8)  # of the matrix at once
_WAYS = 8  # lines of a set of the first cache
_MOST = 16  # vectors that a matrix is multiplied by at once
_TOTAL = 10.0  # cycles to add up the lanes of a sum


@dataclass(frozen=True, eq=False)
class _Note:
    """The note of ``rewrite`` for ``schedule``.

    Attributes:
        form: the GEMM of a few rows, the vectors, whose columns are the rows of the matrix.
        T, V, left: sums in vectors, those of a row's lanes, and what is left of a row, or None.
        matrix: as it is read.
        rows: at once. unroll: steps of K.
        prefetch: steps of ``T``'s loop that the matrix is fetched ahead; 0: none.
        threads: whether rows are shared out.
        lanes: of a vector.
        packed: the vectors side by side, or None. folded: the sums of fewer lanes, or None.
    """

    form: GemmForm
    T: Tensor
    V: Tensor
    left: Tensor | None
    matrix: Tensor
    rows: int
    unroll: int
    prefetch: int
    threads: Threads
    lanes: int
    packed: Tensor | None = None
    folded: Tensor | None = None


class MatVec(Rule):
    """A matrix times a vector, of a matrix whose rows lie along the sum.

    Attributes:
        fewest: lanes that sums are added up to in vectors, before one by one; 0: those of ``V``.
    """

    fewest = 0

    def applies(self, group: Group) -> bool:
        """A GEMM of one row and no batch, whose other operand is stored (M, K)."""
        form = self.form(group)
        return form is not None and form.size.N == 1 == form.size.batch and form.size.transpose_b

    def form(self, group: Group) -> GemmForm | None:
        """The GEMM whose rows are the vectors, and whose columns are the matrix's rows."""
        return form_of(group)

    def rewrite(self, group: Group) -> Tensor | None:
        """Sum up the lanes of some vectors of each row, then the lanes."""
        form, op, target = self.form(group), group.anchor.op, group.target
        assert form is not None
        size, (vector, matrix) = form.size, form.operands(op)
        stored = matrix.load.producer.op not in group.inlined
        cfg = Prefixed(group.cfg, group.prefix)
        lanes = _lanes(target, size.dtype, size.K)
        _define(cfg, target, size, lanes, stored)
        threads = define_threads(cfg, target, size.multiplications)
        vectors, rows, unroll, ahead = (cfg[knob].val for knob in _KNOBS)
        # one vector has no axis of its own
        shape = (*(axis.extent for axis in form.lead), size.M, *([size.N] * (size.N > 1)))
        pack = size.N > 1 and bool(cfg.choose("pack", [False, True], _conflicts(size)))
        packed = _packed(vector, shape, size, vectors * lanes) if pack else None
        T, V, left = _sums(shape, len(form.lead), vector, matrix, size.K, vectors, lanes, packed)
        ahead = -(-ahead // (vectors * lanes * unroll))
        note = _Note(form, T, V, left, matrix.load.producer, rows, unroll, ahead, threads, lanes)
        note = replace(note, packed=packed)
        group.note(note)
        if self.fewest and lanes > self.fewest:
            V, lanes = _folded(V, self.fewest), self.fewest
            group.note(replace(note, folded=V))
        _, at_lead, at_rows, at_columns = form.places

        def element(*index: Any) -> Any:
            x = [index[n] for n in at_lead]
            i = flattened([index[n] for n in at_columns], [axis.extent for axis in form.columns])
            r = flattened([index[n] for n in at_rows], [axis.extent for axis in form.rows])
            return _total(V, left, [*x, i, *([r] * (size.N > 1))], lanes)

        return te.compute(tuple(op.output_shape(0)), element, name=op.name)

    def schedule(self, s: Schedule, group: Group) -> None:
        """Some rows at a time."""
        note = group.noted(_Note)
        schedule_staged(s, group, (), note.lanes, note.threads.parallel)
        if group.consumers:
            s[group.anchor.op].compute_inline()
        out = s[group.last.op]
        ones, lead, vectors, columns = ([out.op.axis[n] for n in p] for p in note.form.places)
        if note.form.size.N == 1:
            ones, vectors = [*ones, *vectors], []
        out.reorder(*ones, *lead, *columns, *vectors)
        io, ii = out.split(fused(out, columns), factor=note.rows)
        around = fused(out, [*lead, io])
        out.reorder(*ones, around, *vectors, ii)
        for axis in (*vectors, ii):
            out.unroll(axis)
        for stage in (note.T, note.V, note.folded, note.left):
            if stage is not None:
                s[stage].set_scope("local")
                s[stage].compute_at(out, around)
                steps = _summed(s[stage], len(lead), stage is not note.left, note, stage is note.T)
                if stage is note.T and note.prefetch:
                    s[stage].prefetch(note.matrix, steps, note.prefetch)
                if stage in (note.V, note.folded):
                    s[stage].unroll(steps)
        if note.packed is not None:
            s[note.packed].vectorize(note.packed.op.axis[-1])
        note.threads.run(out, around)


class Skinny(MatVec):
    """A matrix times a few vectors, or many matrices times vectors: nothing is packed.

    Competes with blocks of packed panels: whose packing takes as long as a few rows' products.
    """

    fewest = 4

    def applies(self, group: Group) -> bool:
        """A GEMM of a few rows, or of one and a batch; both operands are stored along K."""
        form = self.form(group)
        return form is not None and not MatVec().applies(group)

    def form(self, group: Group) -> GemmForm | None:
        """The GEMM with its fewer rows or columns as the vectors; None: there are too many."""
        form = form_of(group)
        if form is None or form.size.transpose_a or not form.size.transpose_b:
            return None
        if form.size.has_rows and form.size.M < form.size.N:
            form = form.turned
        return form if min(_MOST, vector_registers(group.target) - 3) >= form.size.N else None

    def competes(self, group: Group) -> bool:
        return True

    def cycles(self, group: Group) -> float | None:
        """Products or loads, the totals of the lanes, and the matrix as a cache delivers it."""
        form, target = self.form(group), group.target
        assert form is not None
        g, lanes = form.size, _lanes(target, form.size.dtype, form.size.K)
        registers = vector_registers(target)
        rows = max(r for r in _ROWS if r == 1 or (r <= g.M and _registers(r, 1, g.N) <= registers))
        steps = -(-g.K // lanes) * -(-g.M // rows) * g.batch
        wide = max(1.0, 8 * target.vector_bytes / operation_bits(target))
        work = steps * max(rows * g.N / 2 * wide, (rows + g.N) / 2, 4.0 if rows * g.N < 8 else 0.0)
        work += g.batch * g.M * g.N * _TOTAL
        read = g.batch * (g.M + g.N) * g.K * dt.itemsize(g.dtype)
        costs, memory = costs_of(target), is_packed(group, form)
        total = costs.overlapped(work, read / costs.caches.rate(inf if memory else read))
        shared = heaviest_share(g.batch * -(-g.M // rows), threads_for(target, g.multiplications))
        return total * shared


def _sums(
    shape: tuple[int, ...],
    lead: int,
    vector: Operand,
    matrix: Operand,
    K: int,
    vectors: int,
    lanes: int,
    packed: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The sums of products in vectors, those of their lanes, and of what is left of a row.

    Args:
        shape: the batch, the rows of the matrix, and the vectors where there are several.
        lead: dimensions of the batch.
        vector, matrix: the operands.
        K: their length. vectors, lanes: that are summed up at once.
        packed: the vectors side by side, or None.
    """
    width = vectors * lanes
    whole = K // width * width

    def product(index: Sequence[Any], k: Any) -> Any:
        x, (i, *r) = index[:lead], index[lead:]
        return matrix.at(x, i, k) * vector.at(x, r[0] if r else 0, k)

    def summed(*index: Any) -> Any:
        *at, v = index
        if packed is None:
            return te.sum(product(at, ko * width + v), axis=ko)
        x, (i, r) = at[:lead], at[lead:]
        return te.sum(matrix.at(x, i, ko * width + v) * packed(*x, ko, r, v), axis=ko)

    def of_lanes(*index: Any) -> Any:
        *at, v = index
        return te.sum(T(*at, kv * lanes + v), axis=kv)

    ko = te.reduce_axis((0, K // width), name="ko")
    T = te.compute((*shape, width), summed, name="T")
    kv = te.reduce_axis((0, vectors), name="kv")
    V = te.compute((*shape, lanes), of_lanes, name="V")
    if whole == K:
        return T, V, None
    kt = te.reduce_axis((0, K - whole), name="kt")
    left = te.compute(shape, lambda *at: te.sum(product(at, whole + kt), axis=kt), name="left")
    return T, V, left


def _conflicts(g: GemmSize) -> bool:
    """True where several vectors in place fall onto each other in the first cache."""
    return sets_of(g.K * dt.itemsize(g.dtype)) * _WAYS < g.N + 1


def _packed(vector: Operand, shape: tuple[int, ...], g: GemmSize, width: int) -> Tensor:
    """The vectors in pieces of ``width``; those of a step side by side: ``X[k, r, v]``."""

    def element(*index: Any) -> Any:
        *x, k, r, v = index
        return vector.at(x, r, k * width + v)

    lead = shape[:-2]
    return te.compute((*lead, g.K // width, g.N, width), element, name="X")


def _folded(V: Tensor, lanes: int) -> Tensor:
    """The sums of so many lanes each."""
    *shape, wide = V.shape
    step = te.reduce_axis((0, int(wide) // lanes), name="fold")

    def folded(*index: Any) -> Any:
        *at, v = index
        return te.sum(V(*at, step * lanes + v), axis=step)

    return te.compute((*shape, lanes), folded, name="F")


def _define(cfg: Prefixed, target: Target, g: GemmSize, lanes: int, stored: bool) -> None:
    """The knobs; what is not stored cannot be fetched ahead."""
    registers, K = vector_registers(target), g.K
    rows = [r for r in _ROWS if r <= g.M]
    many = [v for v in _ROWS if v == 1 or v * lanes <= K]
    first = [r for r in rows if _registers(r, 1, g.N) <= registers][-1]
    cfg.define_knob("rows", rows, default=first)
    cfg.define_knob("vectors", many, default=1 if first * g.N >= 8 else min(4, many[-1]))
    cfg.define_knob("unroll_k", [1, 2, 4], default=4 if g.N == 1 else 1)
    ahead = [k for k in _AHEAD if 2 * k <= K and stored]
    cfg.define_knob("prefetch", [0, *ahead], default=0)
    if g.N == 1:
        cfg.multi_filter(partial(_fits, registers=registers))
    else:
        cfg.multi_filter(partial(_fits_several, registers=registers, several=g.N))


def _summed(stage: Stage, lead: int, lanes: bool, note: _Note, products: bool) -> IterVar:
    """The loops of a sum: over k, with some steps unrolled, rows, vectors, lanes.

    Args:
        lead: dimensions of the batch.
        lanes: whether the last dimension is lanes.
        products: whether some steps are unrolled.

    Returns:
        The first loop over k.
    """
    around, tile = stage.op.axis[:lead], list(stage.op.axis[lead:])
    steps = list(stage.op.reduce_axis)
    if products and note.unroll > 1:
        steps = list(stage.split(steps[0], factor=note.unroll))
        stage.unroll(steps[1])
    stage.reorder(*around, *steps, *tile)
    if lanes:
        stage.vectorize(tile.pop())
    for axis in tile:
        stage.unroll(axis)
    return steps[0]


def _lanes(target: Target, dtype: str, K: int) -> int:
    """Lanes of a vector, a power of two that is no longer than a row."""
    lanes = lanes_of(target, dtype)
    while lanes > K:
        lanes //= 2
    return lanes


def _registers(rows: int, vectors: int, several: int) -> int:
    """Registers of accumulators, and of what is multiplied."""
    return rows * vectors * several + min(vectors if several == 1 else rows, 2) + 1


def _fits(c: Any, registers: int) -> bool:
    """Accumulators, and a vector of x for each, find registers."""
    rows, vectors = c["rows"].val, c["vectors"].val
    return rows * vectors + min(vectors, 2) + 1 <= registers


def _fits_several(c: Any, registers: int, several: int) -> bool:
    """Accumulators of several vectors find registers."""
    return _registers(c["rows"].val, c["vectors"].val, several) <= registers


def _total(V: Tensor, left: Tensor | None, at: Sequence[Any], lanes: int) -> Any:
    """The sum over a row, pair by pair."""
    parts: list[Any] = [V(*at, v) for v in range(lanes)] + ([] if left is None else [left(*at)])
    while len(parts) > 1:
        parts = [reduce(lambda a, b: a + b, parts[k : k + 2]) for k in range(0, len(parts), 2)]
    return parts[0]
