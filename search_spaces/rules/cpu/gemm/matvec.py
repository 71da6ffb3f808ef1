"""The rule for matrices times vectors: some rows at once, lanes along the row.

    for io:                                            # a few rows
        for ko:
            T[ii, v] += A[i, ko * width + v] * x[...]  # registers; v: lanes of some vectors
        y[i] = sum over v of T[ii, v], and what is left of the row

A matrix is read once, so that memory sets the pace: rows at once are streams for the prefetcher.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.tir import IterVar
from whet.search_spaces.forms.gemm import GemmForm
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import Group
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.cpu.gemm.gemm import flattened
from whet.search_spaces.rules.cpu.gemm.rule import form_of
from whet.search_spaces.rules.producers import schedule_staged
from whet.search_spaces.rules.threads import Threads, define_threads
from whet.search_spaces.rules.vectors import lanes_of, vector_registers

_KNOBS = "vectors", "rows", "unroll_k", "prefetch"
_AHEAD = (128, 512)  # elements of a row that it may be fetched ahead


@dataclass(frozen=True, eq=False)
class _Note:
    """The note of ``rewrite`` for ``schedule``.

    Attributes:
        form: the GEMM of one row, whose columns are the rows of the matrix.
        T, V, left: sums in vectors, those of a row's lanes, and what is left of a row, or None.
        matrix: as it is read.
        rows: at once. unroll: steps of K.
        prefetch: steps of ``T``'s loop that the matrix is fetched ahead; 0: none.
        threads: whether rows are shared out.
        lanes: of a vector.
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


class MatVec(Rule):
    """A matrix times a vector, of a matrix whose rows lie along the sum."""

    def applies(self, group: Group) -> bool:
        """A GEMM of one row and no batch, whose other operand is stored (M, K)."""
        form = form_of(group)
        return form is not None and form.size.N == 1 == form.size.batch and form.size.transpose_b

    def rewrite(self, group: Group) -> Tensor | None:
        """Sum up the lanes of some vectors of each row, then the lanes."""
        form, op, target = form_of(group), group.anchor.op, group.target
        assert form is not None
        size, (vector, matrix) = form.size, form.operands(op)
        N, K = size.M, size.K
        cfg = Prefixed(group.cfg, group.prefix)
        lanes = _lanes(target, size.dtype, K)
        _define(cfg, target, N, K, lanes)
        threads = define_threads(cfg, target, N * K)
        vectors, rows, unroll, ahead = (cfg[knob].val for knob in _KNOBS)
        width = vectors * lanes
        whole = K // width * width

        def product(i: Any, k: Any) -> Any:
            return matrix.at((), i, k) * vector.at((), 0, k)

        ko = te.reduce_axis((0, K // width), name="ko")
        T = te.compute(
            (N, width), lambda i, v: te.sum(product(i, ko * width + v), axis=ko), name="T"
        )
        kv = te.reduce_axis((0, vectors), name="kv")
        V = te.compute((N, lanes), lambda i, v: te.sum(T[i, kv * lanes + v], axis=kv), name="V")
        left = None
        if whole < K:
            kt = te.reduce_axis((0, K - whole), name="kt")
            left = te.compute((N,), lambda i: te.sum(product(i, whole + kt), axis=kt), name="left")
        ahead = -(-ahead // (width * unroll))
        group.note(
            _Note(form, T, V, left, matrix.load.producer, rows, unroll, ahead, threads, lanes)
        )
        places, extents = form.places[3], [axis.extent for axis in form.columns]

        def element(*index: Any) -> Any:
            return _total(V, left, flattened([index[n] for n in places], extents), lanes)

        return te.compute(tuple(op.output_shape(0)), element, name=op.name)

    def schedule(self, s: Schedule, group: Group) -> None:
        """Some rows at a time."""
        note = group.noted(_Note)
        schedule_staged(s, group, (), note.lanes, note.threads.parallel)
        if group.consumers:
            s[group.anchor.op].compute_inline()
        out = s[group.last.op]
        others = [a for n, a in enumerate(out.op.axis) if n not in note.form.places[3]]
        first, *rest = (out.op.axis[n] for n in note.form.places[3])
        out.reorder(*others, first, *rest)
        for axis in rest:
            first = out.fuse(first, axis)
        io, ii = out.split(first, factor=note.rows)
        out.unroll(ii)
        for stage in (note.T, note.V, note.left):
            if stage is not None:
                s[stage].set_scope("local")
                s[stage].compute_at(out, io)
                steps = _summed(s[stage], note.unroll if stage is note.T else 1)
                if stage is note.T and note.prefetch:
                    s[stage].prefetch(note.matrix, steps, note.prefetch)
        s[note.V].unroll(note.V.op.reduce_axis[0])
        note.threads.run(out, io)


def _define(cfg: Prefixed, target: Target, N: int, K: int, lanes: int) -> None:
    rows = [r for r in (1, 2, 4, 8) if r <= N]
    many = [v for v in (1, 2, 4, 8) if v == 1 or v * lanes <= K]
    cfg.define_knob("rows", rows, default=rows[-1])
    cfg.define_knob("vectors", many, default=1 if rows[-1] == 8 else min(4, many[-1]))
    cfg.define_knob("unroll_k", [1, 2, 4], default=4)
    cfg.define_knob("prefetch", [0, *(k for k in _AHEAD if 2 * k <= K)], default=0)
    cfg.multi_filter(partial(_fits, registers=vector_registers(target)))


def _summed(stage: Stage, unroll: int) -> IterVar:
    """The loops of a sum: over k, with some steps unrolled, rows, and lanes; returns the first."""
    i, *lane = stage.op.axis
    steps = list(stage.op.reduce_axis)
    if unroll > 1:
        steps = list(stage.split(steps[0], factor=unroll))
        stage.unroll(steps[1])
    stage.reorder(*steps, i, *lane)
    stage.unroll(i)
    if lane:
        stage.vectorize(*lane)
    return steps[0]


def _lanes(target: Target, dtype: str, K: int) -> int:
    """Lanes of a vector, a power of two that is no longer than a row."""
    lanes = lanes_of(target, dtype)
    while lanes > K:
        lanes //= 2
    return lanes


def _fits(c: Any, registers: int) -> bool:
    """Accumulators, and a vector of x for each, find registers."""
    rows, vectors = c["rows"].val, c["vectors"].val
    return rows * vectors + min(vectors, 2) + 1 <= registers


def _total(V: Tensor, left: Tensor | None, i: Any, lanes: int) -> Any:
    """The sum over a row, pair by pair."""
    parts = [V[i, v] for v in range(lanes)] + ([] if left is None else [left[i]])
    while len(parts) > 1:
        parts = [reduce(lambda a, b: a + b, parts[k : k + 2]) for k in range(0, len(parts), 2)]
    return parts[0]
