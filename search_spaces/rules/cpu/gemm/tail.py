"""The last few columns of a narrow GEMM, apart from its tiles: lanes along K.

    V[c, i, v] = sum over ko of A[i, ko * lanes + v] * X[c, ko * lanes + v]
    R[i, c] = sum over v of V[c, i, v], and what is left of K

Of 33 columns tiles of vectors of 8 would compute 40. Here they compute 32; the last one is as many
dot products as there are rows, of rows of A, which lie along K, and a column of B, which is copied
if it does not. The lanes of as many rows as a vector has are added up by a transpose in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.te.lang.tensor import Operation
from whet.compiler.tir import IterVar
from whet.search_spaces.forms.gemm import GemmForm
from whet.search_spaces.rules.cpu.gemm.plan import Plan, tail_at_once, tail_lanes
from whet.search_spaces.rules.cpu.gemm.stages import or_zero
from whet.search_spaces.rules.vectors import register_tile, vector_registers


@dataclass(frozen=True, eq=False)
class Tail:
    """The stages of the last columns.

    Attributes:
        X: their part of B along K, or None where B is stored so.
        V: sums in vectors. W: those and what is left of K, or None.
        Z: their transpose, a square of as many rows as lanes.
        R: sums of the lanes: rows, then columns.
    """

    X: Tensor | None
    V: Tensor
    W: Tensor | None
    Z: Tensor
    R: Tensor

    def at(self, x: Sequence[Any], i: Any, c: Any) -> Any:
        """The sum of row ``i`` and column ``c`` of the tail."""
        rows = int(self.R.shape[-2])
        return self.R(*x, i // rows, i % rows, c)


def tail_of(form: GemmForm, op: Operation, plan: Plan) -> Tail:
    """The stages of the columns that a plan computes apart.

    Args:
        op: the stage, which reads the operands as they are by now.
    """
    g, (a, b) = form.size, form.operands(op)
    lanes = tail_lanes(g.dtype, plan.vector_bits)
    lead = tuple(axis.extent for axis in form.lead)
    columns, first, steps, left = plan.tail, g.M - plan.tail, g.K // lanes, g.K % lanes

    def column(*index: Any) -> Any:
        *x, c, k = index
        return b.at(x, c + first, k)

    X = None if g.transpose_b else te.compute((*lead, columns, g.K), column, name="X")

    def product(index: Any, k: Any, tests: Any = ()) -> Any:
        *x, c, io, ii, _ = index
        i = io * lanes + ii
        row = i if g.N % lanes == 0 else te.min(i, g.N - 1)
        other = b.at(x, c + first, k) if X is None else X(*x, c, k)
        return or_zero(a.at(x, row, k), tests) * or_zero(other, tests)

    ko = te.reduce_axis((0, steps), name="ko")
    shape = (*lead, columns, -(-g.N // lanes), lanes, lanes)
    V = te.compute(shape, lambda *x: te.sum(product(x, ko * lanes + x[-1]), axis=ko), name="V")
    W = None
    if left:

        def with_rest(*x: Any) -> Any:
            return V(*x) + product(x, x[-1] + steps * lanes, [x[-1] < left])

        W = te.compute(shape, with_rest, name="W")
    kv = te.reduce_axis((0, lanes), name="kv")
    summed = V if W is None else W
    Z = te.compute(shape, lambda *x: summed(*x[:-2], x[-1], x[-2]), name="Z")

    def total(*index: Any) -> Any:
        *x, io, ii, c = index
        return te.sum(Z(*x, c, io, kv, ii), axis=kv)

    R = te.compute((*lead, *shape[-3:-1], columns), total, name="R")
    return Tail(X, V, W, Z, R)


def schedule_tail(
    s: Schedule,
    tail: Tail,
    stage: Stage,
    loop: IterVar,
    batch: IterVar | None,
    target: Target,
) -> None:
    """Schedule the stages.

    Args:
        stage, loop: where the sums are computed. batch: the loop in which B is copied, or None.
        target: whose registers.
    """
    if tail.X is not None and batch is not None:
        s[tail.X].compute_at(stage, batch)
    R = s[tail.R]
    R.compute_at(stage, loop)
    *around, io, ii, c = R.op.axis
    (kv,) = R.op.reduce_axis
    lanes, columns = (int(n) for n in tail.R.shape[-2:])
    co, ci = R.split(c, factor=tail_at_once(columns, lanes, vector_registers(target)))
    register_tile(R, [*around, io, co], [ci, kv, ii])
    for sums in (tail.V, tail.W, tail.Z):
        if sums is not None:
            square = s[sums]
            *outer, column, strip, row, v = square.op.axis
            square.set_scope("local")
            square.compute_at(R, co)
            register_tile(square, [*outer, strip, *square.op.reduce_axis], [column, row, v])
