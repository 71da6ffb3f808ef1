"""A sum of products in tiles of an instruction, whole ones by construction.

    P[jo, ko, ji, ki] = B[ko * 4 + ki, jo * 16 + ji]      or 0 behind the end
    T[y, jo, ji] = sum over ko, ki of A[min(y, rows - 1), ko * 4 + ki] * P[jo, ko, ji, ki]
    C[y, j] = T[y, j // 16, j % 16]

An operand of one dimension is read in place where its elements lie side by side and no tile is
partly behind its end; all others are copied. T has whole register tiles: rows behind the end read
the last one again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whet.compiler import te
from whet.compiler.te import Tensor
from whet.compiler.tir.expr import IterVar, PrimExpr, ProducerLoad, Var
from whet.compiler.tir.visit.rewrite import Rewriter, substitute, variables
from whet.search_spaces.graph.stages import extent_of
from whet.search_spaces.rules.cpu.gemm.stages import or_zero
from whet.search_spaces.rules.cpu.instructions.form import InstructionForm, Operand


@dataclass(frozen=True)
class Plan:
    """A register tile.

    Attributes:
        rows: steps of the axis around the instruction that share an operand of it.
        vectors: tiles of the instruction side by side.
        parallel: whether the blocks run on the target's threads.
    """

    rows: int
    vectors: int
    parallel: bool = False


@dataclass(frozen=True, eq=False)
class TiledByInstruction:
    """The stages of a sum of products: a rule's note.

    Attributes:
        form, plan: what they are made for.
        copies: of the operands, with what each copies; those that are read in place are left out.
        tiles: T, the sums. plain: C.
    """

    form: InstructionForm
    plan: Plan
    copies: tuple[tuple[Tensor, Operand], ...]
    tiles: Tensor
    plain: Tensor


def row_axis(form: InstructionForm) -> IterVar | None:
    """The last axis around the instruction along which an operand with lanes is read again."""
    wide = [x for x in form.operands if any(a in x.dims for a in form.data)]
    again = (
        a
        for a in reversed(form.others)
        if extent_of(a) > 1 and any(a.var not in variables(x.load) for x in wide)
    )
    return next(again, None)


def stages_of(form: InstructionForm, plan: Plan) -> TiledByInstruction:
    """The computation in tiles under a plan."""
    copies = {id(x): _copied(form, plan, x) for x in form.operands if not in_place(form, x)}
    row = row_axis(form)
    shape = [
        _round_up(extent_of(a), plan.rows if a is row else 1) for a in form.others
    ] + [_count(form, plan, a) for a in form.data] + [extent_of(a) for a in form.data]  # fmt: skip
    sums = [te.reduce_axis((0, extent_of(a)), name=a.var.name) for a in form.other_sums]
    outer = [te.reduce_axis((0, form.tiles(a)), name=f"{a.var.name}o") for a in form.sums]
    inner = [te.reduce_axis((0, extent_of(a)), name=f"{a.var.name}i") for a in form.sums]

    def element(*index: Any) -> Any:
        n, d = len(form.others), len(form.data)
        others: dict[IterVar, Any] = dict(zip(form.others, index[:n]))
        if row is not None and extent_of(row) % plan.rows:
            others[row] = te.min(others[row], extent_of(row) - 1)
        others |= {a: r.var for a, r in zip(form.other_sums, sums)}
        at = dict(zip(form.data, zip(index[n : n + d], index[n + d :])))
        at |= {a: (o.var, i.var) for a, o, i in zip(form.sums, outer, inner)}
        return te.sum(_source(form, copies, others, at), axis=[*sums, *outer, *inner])

    tiles = te.compute(tuple(shape), element, name=f"{form.op.name}.tiles")

    def plain(*index: Any) -> Any:
        at = dict(zip(form.op.axis, index))
        mine = [(at[form.axes[a]], extent_of(a)) for a in form.data]
        return tiles(
            *[at[a] for a in form.others],
            *[te.floordiv(x, n) for x, n in mine],
            *[te.floormod(x, n) for x, n in mine],
        )

    made = tuple((copies[id(x)], x) for x in form.operands if id(x) in copies)
    out = te.compute(form.op.output_shape(0), plain, name=form.op.name)
    return TiledByInstruction(form, plan, made, tiles, out)


def in_place(form: InstructionForm, x: Operand) -> bool:
    """True for an operand whose tiles lie side by side already, and are whole."""
    if len(x.dims) != 1 or not form.is_whole(x.dims[0]):
        return False
    var = form.axes[x.dims[0]].var
    *before, last = x.load.indices
    return last is var and not any(var in variables(i) for i in before)


def _count(form: InstructionForm, plan: Plan, axis: IterVar) -> int:
    """How many tiles T has along an axis: of the last one, those of whole register tiles."""
    return _round_up(form.tiles(axis), plan.vectors if axis is form.data[-1] else 1)


def _round_up(n: int, step: int) -> int:
    return -(-n // step) * step


def _source(
    form: InstructionForm,
    copies: dict[int, Tensor],
    others: dict[IterVar, Any],
    at: dict[IterVar, tuple[Any, Any]],
) -> PrimExpr:
    """The product at places of the axes around the instruction and of tiles."""
    by_load = {id(x.load): x for x in form.operands}
    values = {a.var: v for a, v in others.items()} | {
        form.axes[a].var: outer * extent_of(a) + inner for a, (outer, inner) in at.items()
    }

    def load(n: ProducerLoad) -> PrimExpr:
        x = by_load[id(n)]
        if id(x) not in copies:
            return substitute(n, values)
        around, tiled = _dims(form, x)
        places = [others[a] for a in around] + [at[a][0] for a in tiled]
        read: PrimExpr = copies[id(x)](*places, *[at[a][1] for a in x.dims])
        return read

    return Rewriter({ProducerLoad: load})(form.source)


def _dims(form: InstructionForm, x: Operand) -> tuple[list[IterVar], list[IterVar]]:
    """The axes of a copy before its tiles: those around the instruction, and of the tiles."""
    used = variables(x.load)
    around = [a for a in (*form.others, *form.other_sums) if a.var in used]
    return around, [a for a in (*form.data, *form.sums) if a in x.dims]


def _copied(form: InstructionForm, plan: Plan, x: Operand) -> Tensor:
    around, tiled = _dims(form, x)
    counts = [
        _count(form, plan, a) if a in form.data else form.tiles(a) for a in tiled
    ]  # fmt: skip
    shape = [extent_of(a) for a in around] + counts + [extent_of(a) for a in x.dims]

    def element(*index: Any) -> Any:
        n, d = len(around), len(tiled)
        outer, inner = dict(zip(tiled, index[n : n + d])), dict(zip(x.dims, index[n + d :]))
        values: dict[Var, Any] = {a.var: i for a, i in zip(around, index)}
        tests = []
        for a in tiled:
            place, size = outer[a] * extent_of(a) + inner[a], extent_of(form.axes[a])
            values[form.axes[a].var] = place
            if counts[tiled.index(a)] * extent_of(a) > size:
                tests.append(place < size)
        return or_zero(substitute(x.load, values), tests)

    return te.compute(tuple(shape), element, name=f"{x.load.producer.op.name}.packed")
