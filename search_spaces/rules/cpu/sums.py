"""How a reduction without reuse runs in vectors: along what it reduces, or along what it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from whet.compiler.te import Stage
from whet.compiler.te.lang.tensor import Tensor
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import DATA_PAR, Add, IterVar, Reduce
from whet.search_spaces.graph.access import Access
from whet.search_spaces.graph.stages import Node, extent_of
from whet.search_spaces.rules.cpu.loops import fused, vectorized
from whet.search_spaces.rules.vectors import register_tile

ALONG = "along"  # the lanes sum up parts of one row, which are added in the end
ACROSS = "across"  # the lanes sum up different elements
PLAIN = "plain"  # no vectors

_UNROLLED_WINDOW = 16
#: windows of a row of so many registers are summed up at once
ROW_REGISTERS = 8
_UNROLLED_LANES = 32
# A register's lanes are combined in vectors of so many, and those one by one: half the steps that
# wait for each other, or fewer.
_LAST_LANES = 4
# Steps whose sum is taken without a break: the sums of such blocks cost nothing to be seen, while
# 4,000,000 times 0.1 are wrong by 2e-7 instead of 9e-4 of the sum (Zen 4, 256 bits).
_BLOCK = 256
_LEAST_BLOCK = 64


@dataclass(frozen=True)
class Way:
    """The loops that the lanes of a reduction are taken of.

    Attributes:
        kind: ``"along"``, ``"across"`` or ``"plain"``.
        axes: places among the reduction's axes (``"along"``: one, or several that are contiguous
            together, outermost first) or of one data axis (``"across"``).
        extent: of those axes.
    """

    kind: str
    axes: tuple[int, ...] = ()
    extent: int = 1


def way_of(node: Node, lanes: int) -> Way:
    """The way in which a reduction reads memory in order.

    Args:
        node: a reduction.
        lanes: elements of its type in a vector register.
    """
    reduced = {a.var for a in node.op.reduce_axis}
    reads = [a for a in node.reads if a.variables & reduced]
    operand = max(reads, key=lambda a: a.size, default=None)
    if operand is None:
        return _across_last(node, lanes)
    steps = [operand.stride(a.var) for a in node.op.axis]
    for k, step in enumerate(steps):
        if step == 1 and node.extents[k] >= min(lanes, 4):
            return Way(ACROSS, (k,), node.extents[k])
    run = _run(node, operand)
    extent = prod(node.reduce_extents[k] for k in run)
    return Way(ALONG, run, extent) if extent >= lanes else _across_last(node, lanes)


def _run(node: Node, operand: Access) -> tuple[int, ...]:
    """The reduction's axes that are one contiguous piece of the operand, outermost first."""
    steps = [operand.stride(a.var) for a in node.op.reduce_axis]
    run: list[int] = []
    wanted = 1
    while True:
        next_ = [k for k, step in enumerate(steps) if step == wanted and k not in run]
        if not next_:
            return tuple(run)
        run.insert(0, next_[0])
        wanted *= node.reduce_extents[next_[0]]


def _across_last(node: Node, lanes: int) -> Way:
    if node.extents and node.extents[-1] >= min(lanes, 4):
        return Way(ACROSS, (len(node.extents) - 1,), node.extents[-1])
    return Way(PLAIN)


def sum_along(
    s: Schedule, tensor: Tensor, run: Sequence[int], partial: int, lanes: int, unroll: int
) -> list[Tensor]:
    """Reduce rows in ``partial`` lanes, then the lanes.

        for i:
            rf[ramp(16)] = 0
            for k: rf[ramp(16)] += A[i, k*16 + ramp(16)]
            B[i] = rf[0] + rf[1] + ...

    Args:
        s: the schedule.
        tensor: the reduction's (first) tensor; its stage has plain loops.
        run: places of the reduction's axes that are contiguous together.
        partial: sums that are kept for a row; 1: one, without vectors.
        lanes: elements in a vector register. More ``partial`` sums are added up in vectors first.
        unroll: steps of the loop that are unrolled.

    Returns:
        The partial sums, which :func:`attach` places once the loops of the row are made.
    """
    stage = s[tensor]
    axes = list(stage.op.reduce_axis)
    inner = [axes[k] for k in run]
    stage.reorder(*[a for a in axes if a not in inner], *inner)
    block = _block(stage, inner, partial)
    k = fused(stage, inner)
    assert k is not None
    if partial == 1:
        return []
    if block:  # before the lanes: all but the last block are then whole, and test nothing
        _, k = stage.split(k, factor=block * partial)
    _, lane = stage.split(k, factor=partial)
    first = first_of(s.rfactor(tensor, lane, factor_axis=-1))
    made = _in_blocks(s, first, unroll) if block else [(first, unroll)]
    for fewer in (lanes, _LAST_LANES):
        if partial > fewer >= 2 and lanes >= fewer:
            _, lane = s[tensor].split(s[tensor].op.reduce_axis[0], factor=fewer)
            made.append((first_of(s.rfactor(tensor, lane, factor_axis=-1)), 0))
    for part, steps in made:
        lanes_innermost(s[part], steps)
    (last,) = s[tensor].op.reduce_axis
    if extent_of(last) <= _UNROLLED_LANES:
        s[tensor].unroll(last)
    return [part for part, _ in made]


def _in_blocks(s: Schedule, first: Tensor, unroll: int) -> list[tuple[Tensor, int]]:
    """The sums of blocks, then their sums.

    for b:
        block[ramp(16)] = 0
        for k: block[ramp(16)] += A[i, (b*256 + k)*16 + ramp(16)]
        rf[ramp(16)] += block[ramp(16)]
    """
    outer = fused(s[first], s[first].op.reduce_axis[:-1])
    assert outer is not None
    return [(first, 1), (first_of(s.rfactor(first, outer, factor_axis=0)), unroll)]


def _block(stage: Stage, inner: Sequence[IterVar], partial: int) -> int:
    """How many steps of a float sum are a block; 0 where the sum is short or no float's.

    A running sum loses what is less than half its last bit: its error grows with the number of
    steps, in two levels with the square root of it.
    """
    row = prod(map(extent_of, inner))
    steps = prod(map(extent_of, stage.op.reduce_axis)) // partial
    if not is_float_sum(stage.op) or steps < 2 * _BLOCK or row < _LEAST_BLOCK * partial:
        return 0
    if row < 2 * _BLOCK * partial:
        return -(-row // partial)
    # the last block, if there is less left for it, is the one that tests: as little as can be
    near = range(_BLOCK, _LEAST_BLOCK, -1)
    return min(near, key=lambda n: row % (n * partial))


def is_float_sum(op: Any) -> bool:
    """True for one sum of floating-point numbers."""
    body, *others = op.body
    whole = isinstance(body, Reduce) and not others and dt.is_float(body.dtype)
    return whole and isinstance(body.combiner.result[0], Add)


def attach(s: Schedule, tensor: Tensor, parts: Sequence[Tensor]) -> None:
    """Compute partial sums where they are added up: in the innermost loop over what is kept."""
    kept = [a for a in s[tensor].leaf_iter_vars if a.iter_type == DATA_PAR]
    for part in parts:
        if part in parts[0].op.input_tensors:  # the sums of blocks
            (block,) = s[parts[0]].op.reduce_axis
            s[part].compute_at(s[parts[0]], block)
        elif kept:
            s[part].compute_at(s[tensor], kept[-1])


def lanes_innermost(stage: Stage, unroll: int) -> None:
    """The loops of partial sums: data, steps, lanes; ``unroll`` 0 unrolls all iterations."""
    *_, lane = stage.op.axis
    *steps, last = stage.op.reduce_axis
    written = unroll == 0 and extent_of(last) <= _UNROLLED_WINDOW
    if unroll > 1 and extent_of(last) >= unroll:
        outer, last = stage.split(last, factor=unroll)
        steps, written = [*steps, outer], True
    if written:
        register_tile(stage, steps, [last, lane])
    else:
        register_tile(stage, [*steps, last], [lane])


def sum_across(
    stage: Stage, axis: int, size: int, rows: bool, unroll: int
) -> tuple[list[IterVar], list[IterVar]]:
    """Reduce ``size`` neighbours at once; a column of vectors after the other, or row by row.

        for j:                                      for k:
            for k:                                      for j:
                B[j*8 + ramp(8)] += ...                     B[j*8 + ramp(8)] += ...

    Args:
        stage: the reduction's, with plain loops.
        axis: the place of the data axis whose neighbours are computed at once.
        size: lanes.
        rows: whether a row is done before the next step of the reduction.
        unroll: steps of the reduction's innermost loops that are unrolled.

    Returns:
        The data loops outside of the vectors' loops; and the loops over vectors (none if one vector
        is all).
    """
    others = [a for k, a in enumerate(stage.op.axis) if k != axis]
    steps = list(stage.op.reduce_axis)
    *over, lane = vectorized(stage, stage.op.axis[axis], size)
    written: list[IterVar] = []
    while steps and unroll > 1:
        if written and extent_of(steps[-1]) > unroll:
            break
        written.insert(0, steps.pop())
        if extent_of(written[0]) > unroll:
            outer, written[0] = stage.split(written[0], factor=unroll)
            steps.append(outer)
            unroll = 1
        else:
            unroll //= extent_of(written[0])
        stage.unroll(written[0])
    middle = [*steps, *over] if rows else [*over, *steps]
    stage.reorder(*others, *middle, *written, lane)
    return others, over


def slides(node: Node, axis: int) -> bool:
    """True where a reduction reads windows that move along a data axis: ``A[y * 2 + ry]``.

    Of one output: those of several are cached all together, or not at all.
    """
    if node.op.num_outputs > 1:
        return False
    own, steps = node.op.axis[axis].var, {a.var for a in node.op.reduce_axis}
    indices = [i for access in node.reads for i in access.indices if i is not None]
    return any(own in i.atoms and steps & set(i.atoms) for i in indices)


def window_sizes(extent: int, lanes: int, sizes: Sequence[int]) -> list[int]:
    """Neighbours to take windows of at once: a whole row at last, where registers hold one.

    Args:
        extent: of the axis.
        lanes: elements in a register.
        sizes: of whole registers.
    """
    whole = [extent] if extent <= ROW_REGISTERS * lanes else []
    return list(dict.fromkeys((*(n for n in sizes if n not in whole), *whole)))


def window_unrolls(node: Node) -> list[int]:
    """How many steps of a window may be unrolled: none, a row, and all of a small one."""
    extents = node.reduce_extents
    steps = [1, *(n for n in (extents[-1], prod(extents)) if n <= _UNROLLED_WINDOW)]
    return list(dict.fromkeys(steps))


def slide_across(
    s: Schedule, tensor: Tensor, axis: int, size: int, unroll: int
) -> tuple[Tensor, list[IterVar]]:
    """Reduce ``size`` neighbouring windows at once, in registers.

        for j:
            r[ramp(16)] = 0
            for k: r[ramp(16)] += A[j*32 + k + ramp(16, step 2)]
            B[j*16 + ramp(16)] = r[ramp(16)]

    Args:
        s: the schedule.
        tensor: the reduction's, which no other reduction of the schedule splits.
        axis: the place of the data axis along which the windows move.
        size: lanes.
        unroll: steps of the reduction's innermost loops that are unrolled.

    Returns:
        What is summed up in registers, to be computed at the innermost of the loops around the
        vectors; and those loops, outermost first.
    """
    local = s.cache_write(tensor, "local")
    stage = s[tensor]
    others = [a for k, a in enumerate(stage.op.axis) if k != axis]
    *over, lane = vectorized(stage, stage.op.axis[axis], size)
    stage.reorder(*others, *over, lane)
    sum_across(s[local], axis, size, False, unroll)
    return local, [*others, *over]


def unrolls(extent: int) -> list[int]:
    """How many steps of a loop may be unrolled."""
    return [u for u in (1, 2, 4, 8) if u <= max(extent, 1)]


def first_of(parts: Tensor | list[Tensor]) -> Tensor:
    """The first tensor of the partial results of ``rfactor``, by which schedules find the stage."""
    return parts[0] if isinstance(parts, list) else parts
