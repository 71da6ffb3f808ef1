"""The rule for sums of products by a declared instruction."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from whet.compiler.errors import SpaceError, WhetError
from whet.compiler.homes import imported
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Stage, Tensor, create_schedule
from whet.compiler.te.lang.graph import post_order
from whet.compiler.te.lang.tensor import PlaceholderOp
from whet.compiler.te.lang.tensor_intrin import TensorIntrin
from whet.compiler.tir.expr import IterVar
from whet.compiler.tir.visit.rewrite import variables
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import TILED, Group, extent_of, is_ahead
from whet.search_spaces.rules.cpu.instructions.form import InstructionForm, forms_of, refusal_of
from whet.search_spaces.rules.cpu.instructions.tiles import (
    Plan,
    TiledByInstruction,
    in_place,
    row_axis,
    stages_of,
)
from whet.search_spaces.rules.producers import schedule_staged
from whet.search_spaces.rules.threads import threads_for
from whet.search_spaces.rules.vectors import lanes_of, vector_registers
from whet.search_spaces.values.instructions import Instruction

_ROOM = "whet.search_spaces.rules.cpu.instructions"
INSTRUCTIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "int32": (("vpdpbusd", f"{_ROOM}.x86:vpdpbusd"), ("vpdpwssd", f"{_ROOM}.x86:vpdpwssd")),
}
"""Type of a sum -> the instructions that come with Whet: name and home of the function."""

_LATENCY = 5  # cycles of a sum's next step, of vpdpbusd on current processors
_WORTH_A_COPY = 8  # reads of what is copied
_ROWS, _VECTORS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14), (1, 2, 3, 4)


class Tensorize(Rule):
    """Tiles that an instruction of the processor computes, in registers."""

    is_extra = True

    def applies(self, group: Group) -> bool:
        """A sum of products that a declared instruction computes tiles of."""
        return used_by(group) is not None

    def rewrite(self, group: Group) -> Tensor | None:
        """Compute whole tiles from copies of the operands, and read the result from them."""
        known = used_by(group)
        assert known is not None
        forms = forms_of(group.anchor.op, known.name, known.intrin)  # as it is computed now
        form = next(f for f in forms if f.place == known.place)
        target = group.target
        tiles = register_tiles(form, target)
        rows, vectors = group.choose("tile", tiles, tiles[0])
        parallel = False
        if target.num_threads > 1:
            worth = threads_for(target, multiplications(form)) > 1
            parallel = group.choose("parallel", [False, True], worth)
        stages = stages_of(form, Plan(rows, vectors, parallel))
        group.note(stages)
        return stages.plain

    def schedule(self, s: Schedule, group: Group) -> None:
        """Apply the plan."""
        note = group.noted(TiledByInstruction)
        ahead = [n.op for n in group.staged if is_ahead(n.op)]
        lanes = lanes_of(group.target, group.anchor.op.output_dtype(0))
        schedule_staged(s, group, ahead, lanes, note.plan.parallel)
        if group.consumers:
            s[group.anchor.op].compute_inline()
        schedule_tiles(s, note, s[group.last.op])
        for copy, x in note.copies:
            _schedule_copy(s[copy], note, len(x.dims))
            if is_ahead(x.load.producer.op):
                s[copy].compute_ahead()


def used_by(group: Group) -> InstructionForm | None:
    """A group's stage as tiles of the first declared instruction that computes it."""
    if group.role != TILED or group.members:
        return None
    dtype, target = group.anchor.op.output_dtype(0), group.target
    if dtype not in INSTRUCTIONS and not group.instructions:
        return None
    key = ("instruction", target)
    return group.once(key, lambda: next(_used(group, target), None))


def _used(group: Group, target: Target) -> Iterator[InstructionForm]:
    for one in _known(group):
        request = f"the instruction {one.name!r} for {target.short}"
        try:
            intrin = one.make(target)
        except Exception as error:  # whatever a user's function raises
            raise SpaceError(
                request,
                f"its function raised {type(error).__name__}: {error}",
                "mend the function, or let it return None where the processor does not have it",
            ) from error
        if intrin is None:
            continue
        if not isinstance(intrin, TensorIntrin):
            raise SpaceError(
                request,
                f"its function gave a {type(intrin).__name__}",
                "return te.decl_tensor_intrin(...), or None where the processor does not have it",
            )
        if (refused := refusal_of(intrin)) is not None:
            raise SpaceError(f"the instruction {one.name!r} in derived spaces", *refused)
        for form in forms_of(group.anchor.op, one.name, intrin):
            if _is_worth_it(form) and _computes_it(form):
                yield form


def _known(group: Group) -> Iterator[Instruction]:
    """The instructions that a user has declared, then those that come with Whet."""
    yield from group.instructions
    for name, home in INSTRUCTIONS.get(group.anchor.op.output_dtype(0), ()):
        yield Instruction(name, imported(home))


def _is_worth_it(form: InstructionForm) -> bool:
    """Copies are read several times, or are made ahead of the kernel's calls."""
    for x in form.operands:
        if in_place(form, x) or is_ahead(x.load.producer.op):
            continue
        read = variables(x.load)
        again = prod(extent_of(a) for a in form.op.axis if a.var not in read)
        if again < _WORTH_A_COPY:
            return False
    return True


def _computes_it(form: InstructionForm) -> bool:
    """True if ``tensorize`` takes the tile: it compares what is computed."""
    from whet.compiler.driver.lowering import (
        schedule_to_module,
    )  # who looks a config up lowers nothing

    stages = stages_of(form, Plan(1, 1))
    s = create_schedule(stages.plain.op)
    schedule_tiles(s, stages, s[stages.plain])
    inputs = [op.output(0) for op in post_order([stages.plain.op]) if type(op) is PlaceholderOp]
    try:
        schedule_to_module(s, [*inputs, stages.plain])
    except WhetError:
        return False
    return True


def multiplications(form: InstructionForm) -> int:
    """Products that a stage sums up."""
    return prod(extent_of(a) for a in (*form.op.axis, *form.op.reduce_axis))


def register_tiles(form: InstructionForm, target: Target) -> list[tuple[int, int]]:
    """Rows and vectors of the register tiles that there are registers for, the best guess first."""
    row = row_axis(form)
    rows = 1 if row is None else extent_of(row)
    vectors = form.tiles(form.data[-1])
    room = vector_registers(target) - 1

    def cycles(tile: tuple[int, int]) -> float:
        m, n = tile
        step = max(m * n / 2, (m + n) / 2, _LATENCY)
        return -(-rows // m) * -(-vectors // n) * step

    tiles = [
        (m, n)
        for m in _ROWS
        for n in _VECTORS
        if m <= rows and n <= vectors and m * n + n + 1 <= room
    ]
    return sorted(tiles or [(1, 1)], key=lambda tile: (cycles(tile), -tile[0] * tile[1]))


def schedule_tiles(s: Schedule, note: TiledByInstruction, out: Stage) -> None:
    """Schedule the stage that stores the result, and the tiles of sums in registers.

    Args:
        out: of C, or of an epilogue over it.
    """
    form, plan, axes = note.form, note.plan, out.op.axis
    at = dict(zip(form.op.axis, axes))
    row = row_axis(form)
    blocks = [at[a] for a in form.others if a is not row]
    inside: list[IterVar] = []
    if row is not None:
        block, step = out.split(at[row], factor=plan.rows)
        blocks, inside = [*blocks, block], [step]
    for a in form.data:
        width = extent_of(a)
        if a is form.data[-1]:
            block, rest = out.split(at[form.axes[a]], factor=plan.vectors * width)
            vector, lane = out.split(rest, factor=width)
            inside = [*inside, vector, lane]
        else:
            block, lane = out.split(at[form.axes[a]], factor=width)
            inside.append(lane)
        blocks.insert(len(blocks) - (row is not None), block)
    out.reorder(*blocks, *inside)
    if form.axes[form.data[-1]] is form.op.axis[-1]:
        out.vectorize(inside[-1])
    for axis in inside[:-1]:
        out.unroll(axis)  # sums in registers have no address
    first = blocks[0]
    for axis in blocks[1:] if plan.parallel else ():
        first = out.fuse(first, axis)
    innermost = first if plan.parallel else blocks[-1]
    if plan.parallel:
        out.parallel(first)
    _schedule_sums(s[note.tiles], note)
    scope = note.form.intrin.outputs[0].storage_scope
    if scope != "global":
        s[note.tiles].set_scope(scope)
    s[note.tiles].compute_at(out, innermost)


def _schedule_sums(stage: Stage, note: TiledByInstruction) -> None:
    form, n, d = note.form, len(note.form.others), len(note.form.data)
    row = row_axis(form)
    others, outer, lanes = stage.op.axis[:n], stage.op.axis[n : n + d], stage.op.axis[n + d :]
    sums = stage.op.reduce_axis
    inner = len(form.sums)
    steps, tile = sums[: len(sums) - inner], sums[len(sums) - inner :]
    rows = [x for x, a in zip(others, form.others) if a is row]
    around = [x for x, a in zip(others, form.others) if a is not row]
    stage.reorder(*around, *outer[:-1], *steps, *rows, outer[-1], *lanes, *tile)
    for axis in (*rows, outer[-1]):
        stage.unroll(axis)
    stage.tensorize(lanes[0], form.intrin)


def _schedule_copy(stage: Stage, note: TiledByInstruction, dims: int) -> None:
    """Elements of a tile side by side: its rows as vectors, interleaved where they are short."""
    *outer, last = stage.op.axis
    if dims > 1:
        lane = outer.pop()
        stage.reorder(*outer, last, lane)
        stage.unroll(last)
        last = lane
    stage.vectorize(last)
    if note.plan.parallel and outer:
        stage.parallel(outer[0])
