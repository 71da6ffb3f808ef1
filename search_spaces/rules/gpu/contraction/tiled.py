"""The rule for contractions with reuse on a GPU: a tiled GEMM.

:mod:`whet.search_spaces.forms.contraction` says which axes are M, N and K;
:mod:`whet.search_spaces.rules.gpu.contraction.gemm` makes the tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from whet.compiler import te
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.te.lang.tensor import ComputeOp, Operation
from whet.compiler.tir import IterVar
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import ProducerLoad
from whet.compiler.topi.half_precision import summed_in
from whet.search_spaces.forms.contraction import (
    Axis,
    Contraction,
    contraction_of,
    extent_of,
)
from whet.search_spaces.forms.widened_sum import narrow
from whet.search_spaces.graph.access import affine
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import TILED, Group, is_ahead
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.cpu.tiling.tiled import computed_as_read
from whet.search_spaces.rules.gpu.contraction.gemm import (
    GemmStages,
    gemm_stages,
)
from whet.search_spaces.rules.gpu.contraction.gemm_loops import (
    Result,
    store_result,
    vectors,
)
from whet.search_spaces.rules.gpu.contraction.gemm_plan import TILES, GemmShape, Plan, plan_of
from whet.search_spaces.rules.gpu.contraction.operand import operand
from whet.search_spaces.rules.gpu.contraction.packed_int8 import WORDS, PackedInt8, as_packed_int8
from whet.search_spaces.rules.gpu.contraction.prepacked_int8 import gain
from whet.search_spaces.rules.gpu.hardware.device import processors
from whet.search_spaces.rules.gpu.hardware.lanes import MOST_BYTES
from whet.search_spaces.rules.gpu.hardware.threads import bind_fused, schedule_staged

# A result with fewer rows or columns is not worth tiles; that of a matrix product.
_FEWEST, _FEWEST_ROWS = 4, 2
# With fewer K iterations beside a window's, blocks of them would be mostly zeros.
_FEW = 6
# Windows of more places put neighbouring channels of the weights on different lines of the cache.
_LARGE = 32
# Registers for addresses, and what a copy costs in multiply-adds, where each index is worked out.
_OTHERS, _COPYING = 42, 9.0
# Of so many axes; each further one takes registers for its place.
_AXES, _PLACE = 5, 16
# Registers for the places of packed int8x4, which are copied one by one.
_TOGETHER = 32


@dataclass(frozen=True, eq=False)
class _Gemm:
    """The notes of ``rewrite`` for ``schedule``.

    Attributes:
        contraction: as a GEMM, of packed int8x4 where it is one of int8.
        sums: the tiles.
        inlined: producers that are computed where they are read.
        words: prepacked operands, each made by a kernel before the GEMM; of weights that are packed
            ahead of the calls, there.
    """

    contraction: Contraction
    sums: GemmStages
    inlined: Sequence[Operation]
    words: Sequence[Tensor]


class GpuTiled(Rule):
    """Tiles in shared memory and registers, with an elementwise epilogue."""

    def applies(self, group: Group) -> bool:
        """A contraction of two operands, each with axes of the result that the other has not."""
        found = _contraction(group) if group.role == TILED else None
        return found is not None and bool(_tiles(found))

    def rewrite(self, group: Group) -> Tensor | None:
        """Compute tiles, and read the result from them."""
        op = group.anchor.op
        assert isinstance(op, ComputeOp)
        c = _contraction(group)
        assert c is not None
        words = as_packed_int8(c)
        kind = words.kind if words else summed_in(c.dtype)
        c = words.contraction if words else c
        inlined = computed_as_read(group)
        plan, outer, steps = _plan(group, c, words is not None)
        lead = tuple(axis.extent for axis in c.lead)
        before: list[Tensor] = []
        if words:
            c, before = words.prepacked(_prepacked(group, words, inlined))
        most = WORDS if words else MOST_BYTES
        left, right = (operand(op.name, c, k, outer, steps, inlined, most) for k in (0, 1))
        matrices = _matrices(c)
        if matrices is not None:
            left, right = (
                replace(x, name=read.producer.name) for x, read in zip((left, right), matrices)
            )
        loops = tuple((axis.var.name, axis.extent) for axis in outer)
        sums = gemm_stages(left, right, lead, loops, extent_of(steps), plan, kind, c.term)
        group.note(_Gemm(c, sums, inlined, before))
        return _result(op, c, sums.total)

    def schedule(self, s: Schedule, group: Group) -> None:
        """Bind the tiles, and the kernels before them."""
        gemm = group.noted(_Gemm)
        schedule_staged(s, group, gemm.inlined)
        for words in gemm.words:
            bind_fused(s[words])
            (source,) = (t.op for t in words.op.input_tensors)
            if is_ahead(source):
                s[source].compute_inline()
                s[words].compute_ahead()
        if group.consumers:
            s[group.anchor.op].compute_inline()
        loops = _loops(s[group.last.tensor], gemm.contraction, gemm.sums.plan)
        store_result(s, gemm.sums, loops)


def _contraction(group: Group) -> Contraction | None:
    """The contraction that a group is about, if there is enough of it for tiles; None: it is not.

    Of plain matrices less is enough: their copies cost little.
    """
    c = contraction_of(group.anchor.op, _FEWEST_ROWS)
    enough = c is not None and (min(c.counts) >= _FEWEST or _matrices(c) is not None)
    return c if enough else None


def _matrices(c: Contraction) -> tuple[ProducerLoad, ProducerLoad] | None:
    """The reads of two matrices, where each has one axis of the rows, the columns, K; else None."""
    several = any(
        sum(x.extent > 1 for x in axes) > 1 for axes in (c.lead, c.rows, c.columns, c.steps)
    )
    a, b = narrow(c.left), narrow(c.right)
    if several or c.windows or c.divided or not c.is_product:
        return None
    if type(a) is not ProducerLoad or type(b) is not ProducerLoad:
        return None
    return None if None in [affine(i) for i in (*a.indices, *b.indices)] else (a, b)


def _prepacked(group: Group, words: PackedInt8, inlined: Sequence[Operation]) -> tuple[int, ...]:
    """The operands that a kernel before the GEMM packs; the knob where there is a choice.

    Words that a transpose4x4 makes in registers, however K is counted, are not worth a kernel;
    those of weights that are packed ahead of the calls cost none.
    """
    c, many = words.contraction, processors(group.target)
    channels = tuple(axis for axis in c.steps if axis not in c.windows)
    orders = ((c.windows, channels), ((), c.steps))
    name = group.anchor.name
    apart = {k: x for k, x in enumerate(words.scattered) if x is not None}
    ahead = tuple(k for k, x in apart.items() if is_ahead(x.load.producer.op))
    scattered = {
        k: x
        for k, x in apart.items()
        if k not in ahead
        and any(operand(name, c, k, *order, inlined, WORDS).lanes == 1 for order in orders)
    }
    if not scattered:
        return ahead
    places = (c.rows, c.columns)
    gains = (gain(c, places[k], places[1 - k], x, many) for k, x in scattered.items())
    default = "stored" if sum(gains) > 0 else "copied"
    choice = group.choose("words", ("copied", "stored"), default)
    return (*ahead, *scattered) if choice == "stored" else ahead


def _tiles(c: Contraction) -> list[tuple[int, int, int, int]]:
    """Tiles that do not reach into the next group of an axis that is two."""
    rows, columns = c.counts
    by_rows, by_columns = (any(x in c.divided for x in axes) for axes in (c.rows, c.columns))
    return [
        t for t in TILES if not (by_rows and rows % t[0]) and not (by_columns and columns % t[1])
    ]


def _plan(
    group: Group, c: Contraction, words: bool
) -> tuple[Plan, tuple[Axis, ...], tuple[Axis, ...]]:
    """The plan of a config, and the axes of the reduction: those of loops around K, and of K."""
    channels = tuple(axis for axis in c.steps if axis not in c.windows)
    in_turn = extent_of(channels) >= _FEW and extent_of(c.windows) > 1
    rows, columns = c.counts
    every = extent_of(c.steps)
    cut = extent_of(channels) if in_turn else every
    size = dt.itemsize(summed_in(c.dtype))
    wide = sum(axis.extent > 1 for axis in (*c.rows, *c.columns, *channels))
    others = _OTHERS + _PLACE * max(0, wide - _AXES) + (_TOGETHER if words else 0)
    gemm_shape = GemmShape(extent_of(c.lead), rows, columns, cut, every // cut, size)
    if _matrices(c) is None:
        gemm_shape = replace(gemm_shape, others=others, copying=_COPYING)
    plan = plan_of(Prefixed(group.cfg, group.prefix), group.target, gemm_shape, _tiles(c))
    if in_turn:
        default = "loops" if extent_of(c.windows) <= _LARGE else "steps"
        if group.choose("window", ("loops", "steps"), default) == "loops":
            return plan, c.windows, channels
    return plan, (), c.steps


def _result(op: ComputeOp, c: Contraction, total: Tensor) -> Tensor:
    """The sums in the layout of the result."""

    def element(*index: Any) -> Any:
        at: dict[Axis, Any] = {}
        for part, i in zip(c.parts, index, strict=True):
            if len(part.axes) == 1:
                at[part.axes[0]] = i
            else:
                at.update(zip(part.axes, (i // part.per, i % part.per)))
        lead = (at[axis] for axis in c.lead)
        value = total(*lead, _counted(c.rows, at), _counted(c.columns, at))
        return value.astype(c.dtype)

    # the names that fingerprints of spaces, and so records, have had of either
    one = "index" if _matrices(c) is None else "i"
    names = [f"{one}{k}" for k in range(len(op.axis))]
    shape = tuple(op.output_shape(0))
    return te.compute(shape, element, name=op.name, tag=op.tag, varargs_names=names)


def _counted(axes: Sequence[Axis], at: dict[Axis, Any]) -> Any:
    """The number of a place that is counted through several axes."""
    number: Any = 0
    for axis in axes:
        number = number * axis.extent + at[axis]
    return number


def _loops(stage: Stage, c: Contraction, plan: Plan) -> Result:
    """The loops of the result as a matrix's."""
    of: dict[Axis, IterVar] = {}
    for part, loop in zip(c.parts, list(stage.op.axis), strict=True):
        loops = (loop,) if len(part.axes) == 1 else stage.split(loop, factor=part.per)
        of.update(zip(part.axes, loops))
    every = [axis for part in c.parts for axis in part.axes]
    side_by_side = 0
    while side_by_side < len(every) and every[-1 - side_by_side] in c.columns:
        side_by_side += 1
    inner = every[len(every) - side_by_side :]
    front = [of[axis] for axis in c.columns if axis not in inner]
    last, lanes = vectors(stage, stage.fuse(*(of[axis] for axis in inner)), extent_of(inner), plan)
    rows = [of[axis] for axis in c.rows]
    lead = [(of[axis], axis.extent) for axis in c.lead]
    stage.reorder(*(loop for loop, _ in lead), *rows, *front, last, *lanes)
    columns = stage.fuse(*front, last)
    return Result(stage, lead, stage.fuse(*rows), columns, lanes, c.counts)
