"""The rule for sums of products with reuse on a GPU: a product of matrices in tiles.

:mod:`whet.search_spaces.rules.gpu.contraction.axes` says which axes are M, N and K;
:mod:`whet.search_spaces.rules.gpu.contraction.gemm` makes the tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.te.lang.tensor import ComputeOp, Operation
from whet.compiler.tir import IterVar
from whet.compiler.tir import dtype as dt
from whet.search_spaces.graph.compute_graph import TILED, Group
from whet.search_spaces.operators.gpu.matmul import store_rows
from whet.search_spaces.rules.cpu.tiled import computed_as_read
from whet.search_spaces.rules.gpu.contraction.axes import (
    Axis,
    Contraction,
    contraction_of,
    extent_of,
)
from whet.search_spaces.rules.gpu.contraction.gemm import Factor, Sums, added, sums_of
from whet.search_spaces.rules.gpu.contraction.gemm_loops import (
    Result,
    schedule_parts,
    schedule_sums,
)
from whet.search_spaces.rules.gpu.contraction.gemm_plan import TILES, Plan, Product, plan_of
from whet.search_spaces.rules.gpu.contraction.operand import operand
from whet.search_spaces.rules.gpu.contraction.packed_int8 import WORDS, Words, in_words
from whet.search_spaces.rules.gpu.contraction.prepacked_int8 import gain
from whet.search_spaces.rules.gpu.device import processors
from whet.search_spaces.rules.gpu.elementwise_fallback import spread
from whet.search_spaces.rules.gpu.lanes import MOST_BYTES, summed_in
from whet.search_spaces.rules.gpu.prefixed_knobs import Prefixed
from whet.search_spaces.space.define import DefineKnobs

# With fewer steps beside a window's, blocks of them would be mostly zeros.
_FEW = 6
# Windows of more places put neighbouring channels of the weights on different lines of the cache.
_LARGE = 32
# Registers for addresses, and what a copy costs in multiply-adds, where each index is worked out.
_OTHERS, _COPYING = 42, 9.0
# Of so many axes; each further one takes registers for its place.
_AXES, _PLACE = 5, 16
# Registers for the places of words of bytes, which are copied one by one.
_TOGETHER = 32


class GpuTiled:
    """Tiles in shared memory and registers, with what is made of the elements of the result."""

    name = "gpu tiled"

    def applies(self, group: Group) -> bool:
        """A sum of products of two factors, each with axes of the result that the other has not."""
        found = contraction_of(group.anchor.op) if group.role == TILED else None
        return found is not None and bool(_tiles(found))

    def rewrite(self, group: Group, cfg: DefineKnobs, target: Target) -> Tensor | None:
        """Sum tiles up, and read the result from them."""
        op = group.anchor.op
        assert isinstance(op, ComputeOp)
        c = contraction_of(op)
        assert c is not None
        words = in_words(c)
        kind = words.kind if words else summed_in(c.dtype)
        c = words.product if words else c
        inlined = computed_as_read(group)
        plan, outer, steps = _plan(group, c, words is not None, cfg, target)
        lead = tuple(axis.extent for axis in c.lead)
        before: list[Tensor] = []
        if words:
            c, before = words.stored(_stored(group, words, inlined, cfg, target))
        most = WORDS if words else MOST_BYTES
        left, right = (_factor(op.name, c, k, outer, steps, inlined, most) for k in (0, 1))
        loops = tuple((axis.var.name, axis.extent) for axis in outer)
        sums = sums_of(left, right, lead, loops, extent_of(steps), plan, kind, c.term)
        total = added(sums, plan)
        group.notes.update(contraction=c, plan=plan, sums=sums, total=total, inlined=inlined)
        group.notes["words"] = before
        return _result(op, c, total)

    def schedule(self, s: Schedule, group: Group, cfg: DefineKnobs, target: Target) -> None:
        """Bind the tiles, and what stands before them on its own."""
        inlined: Sequence[Operation] = group.notes["inlined"]
        for node in group.staged:
            if node.op in inlined:
                s[node.op].compute_inline()
            else:
                spread(s[node.tensor], list(s[node.tensor].op.axis))
        for words in group.notes["words"]:
            spread(s[words], list(s[words].op.axis))
        if group.consumers:
            s[group.anchor.op].compute_inline()
        plan: Plan = group.notes["plan"]
        sums: Sums = group.notes["sums"]
        stage = s[group.last.tensor]
        loops = _loops(stage, group.notes["contraction"], plan)
        if sums.partial is None:
            schedule_sums(s, sums, plan, loops)
            return
        store_rows(s, sums, plan, sums.partial)
        front = [axis for axis, _ in loops.lead]
        every = [*front, loops.rows, loops.columns]
        schedule_parts(s, group.notes["total"], stage, every, loops.lanes)


def _factor(
    name: str,
    c: Contraction,
    side: int,
    outer: Sequence[Axis],
    steps: Sequence[Axis],
    inlined: Sequence[Operation],
    most: int,
) -> Factor:
    """The left factor of a product, side 0, or the right one, side 1."""
    word, value, places = (("left", c.left, c.rows), ("right", c.right, c.columns))[side]
    return operand(f"{name}.{word}", value, c.lead, places, outer, steps, inlined, most)


def _stored(
    group: Group, words: Words, inlined: Sequence[Operation], cfg: DefineKnobs, target: Target
) -> tuple[int, ...]:
    """The factors whose words a kernel before the product stores; the knob where there is a choice.

    Words whose bytes a few moves put in order in registers, however the steps are counted, are not
    worth a kernel.
    """
    c, many = words.product, processors(target)
    channels = tuple(axis for axis in c.steps if axis not in c.windows)
    orders = ((c.windows, channels), ((), c.steps))
    name = group.anchor.name
    apart = {
        k: x
        for k, x in enumerate(words.apart)
        if x is not None
        and any(_factor(name, c, k, *order, inlined, WORDS).lanes == 1 for order in orders)
    }
    if not apart:
        return ()
    places = (c.rows, c.columns)
    gains = (gain(c, places[k], places[1 - k], x, many) for k, x in apart.items())
    knob = group.knob("words")
    cfg.define_knob(knob, ["copied", "stored"], default="stored" if sum(gains) > 0 else "copied")
    return tuple(apart) if cfg[knob].val == "stored" else ()


def _tiles(c: Contraction) -> list[tuple[int, int, int, int]]:
    """Tiles that do not hang over into the next group of an axis that is two."""
    rows, columns = c.counts
    over = [axis in c.divided for axis in (*c.rows, *c.columns)]
    by_rows, by_columns = any(over[: len(c.rows)]), any(over[len(c.rows) :])
    return [
        t for t in TILES if not (by_rows and rows % t[0]) and not (by_columns and columns % t[1])
    ]


def _plan(
    group: Group, c: Contraction, words: bool, cfg: DefineKnobs, target: Target
) -> tuple[Plan, tuple[Axis, ...], tuple[Axis, ...]]:
    """The plan of a config, and the axes of the sum: those of loops around it, and its steps."""
    knobs = Prefixed(cfg, group.prefix)
    channels = tuple(axis for axis in c.steps if axis not in c.windows)
    in_turn = extent_of(channels) >= _FEW and extent_of(c.windows) > 1
    rows, columns = c.counts
    every = extent_of(c.steps)
    cut = extent_of(channels) if in_turn else every
    size = dt.itemsize(summed_in(c.dtype))
    wide = sum(axis.extent > 1 for axis in (*c.rows, *c.columns, *channels))
    others = _OTHERS + _PLACE * max(0, wide - _AXES) + (_TOGETHER if words else 0)
    product = Product(extent_of(c.lead), rows, columns, cut, every // cut, size, others, _COPYING)
    plan = plan_of(knobs, target, product, None, _tiles(c))
    if in_turn:
        default = "loops" if extent_of(c.windows) <= _LARGE else "steps"
        knobs.define_knob("window", ["loops", "steps"], default=default)
    if in_turn and knobs["window"].val == "loops":
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

    return te.compute(tuple(op.output_shape(0)), element, name=op.name, tag=op.tag)


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
    last = stage.fuse(*(of[axis] for axis in inner))
    lanes, run = None, plan.column_run
    if run > 1 and extent_of(inner) % run == 0:
        last, lanes = stage.split(last, factor=run)
    rows = [of[axis] for axis in c.rows]
    lead = [(of[axis], axis.extent) for axis in c.lead]
    rest = [] if lanes is None else [lanes]
    stage.reorder(*(loop for loop, _ in lead), *rows, *front, last, *rest)
    columns = stage.fuse(*front, last)
    return Result(stage, lead, stage.fuse(*rows), columns, lanes, c.counts)
