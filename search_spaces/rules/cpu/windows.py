"""The rule for windows over images: maxima and averages of pooling.

Lanes along the windows' rows (NCHW): down the columns first, then along the rows of what that left:
5 + 5 loads of a window of 5 by 5, not 25, and the padding is read once.

    parallel n, c:
        for y: down[y, ramp(16)] = max(A[y*2 + ry - 1, ramp(16) - 1] for ry)
        for y: B[y, ramp(16)] = max(down[y, ramp(16)*2 + rx] for rx)

Lanes along another axis (NHWC): windows side by side in registers, which share their loads, and
with ``columns`` what each column of a tile's pixels comes to: 10 columns of 3 for 8 windows of 3 by
3, not 24. The padding is a test of a pixel, not of a lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Any

from whet.compiler import te
from whet.compiler.te import Schedule, Tensor
from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    And,
    FloatImm,
    IntImm,
    PrimExpr,
    ProducerLoad,
    Reduce,
    Select,
)
from whet.compiler.tir.visit.rewrite import substitute, variables
from whet.search_spaces.graph.access import affine
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import Group, extent_of
from whet.search_spaces.rules.cpu.gemm.stages import accumulators
from whet.search_spaces.rules.cpu.loops import define_parallel, fused
from whet.search_spaces.rules.cpu.sliding import Form, form_of, pixels_of, put
from whet.search_spaces.rules.cpu.sums import ROW_REGISTERS
from whet.search_spaces.rules.vectors import lanes_of, register_tile, vector_registers

_UNROLLED = 32  # steps of a window that are unrolled, those of all lines of a tile
_ROWS = (1, 2, 3, 4, 6, 8)
_BLOCKS = (1, 2, 4, 8, 16)
_BLOCK_BYTES = 8 * 1024  # of the L1 cache, for what is left of the columns
_PIXELS = (1, 2, 3, 4, 6, 8)
_COLUMNS = 2  # of a window, which neighbouring tiles compute both
_USUAL = 4  # vectors of neighbouring channels: a line of the image in one piece


@dataclass(frozen=True)
class _Note:
    """The note of ``rewrite`` for ``schedule``: what is left of the columns, and the result.

    Attributes:
        axis: of the result, along which the windows slide.
    """

    down: Tensor
    result: Tensor
    axis: int


class Windows(Rule):
    """Windows in two passes where lanes lie along them, else side by side in registers."""

    def applies(self, group: Group) -> bool:
        """One reduction over windows of an image, which may be padded, and what follows it."""
        form = group.once("windows", lambda: form_of(group))
        return form is not None and (not form.along or form.is_worth_passes)

    def rewrite(self, group: Group) -> Tensor | None:
        """The columns' reduction, then the rows'; or one in which padding is a test."""
        form = form_of(group)
        assert form is not None
        if not form.along:
            pixels = pixels_of(form, group.anchor.op.axis)
            if pixels is None or not group.choose("columns", [False, True], pixels.overlaps):
                return _tested(group, form)
            form = pixels
        note = _passes(group, form)
        group.note(note)
        return note.result

    def schedule(self, s: Schedule, group: Group) -> None:
        """Tiles of results in registers; blocks of columns that the L1 cache holds."""
        note = group.noted(_Note) if _Note in group.notes else None
        if note is not None and note.axis == -1:
            _in_passes(s, group, note)
        else:
            _side_by_side(s, group, None if note is None else note.down)


def _passes(group: Group, form: Form) -> _Note:
    """What is left of the columns, and the result of that."""
    reduce, axes = form.reduce, group.anchor.op.axis
    rows = [reduce.axis[k] for k in form.along]
    place = affine(form.load.indices[form.dimension])
    assert place is not None
    steps = {a.var: place.coefficient(a.var) for a in rows}
    reach = sum((extent_of(a) - 1) * steps[a.var] for a in rows)
    width = group.anchor.extents[form.axis]
    covered = (width - 1) * form.stride + reach + 1

    def column(*index: Any) -> Any:
        again = [_axis_again(a) for k, a in enumerate(reduce.axis) if k not in form.along]
        old = [a for k, a in enumerate(reduce.axis) if k not in form.along]
        values = dict(zip((a.var for a in axes), index))
        values |= {a.var: b.var for a, b in zip(old, again)}
        at = [substitute(i, values) for i in form.load.indices]
        at[form.dimension] = index[form.axis] + place.const
        value, tests = _element(group, form, at)
        lane = [t for t in tests if form.axis == -1 and index[-1] in variables(t)]
        tests = [t for t in tests if all(t is not other for other in lane)]
        source = put(reduce.source[0], form.load, value)
        if lane:
            source = te.if_then_else(te.all(*lane), source, identity)
        return _reduced(reduce, source, tests, again)

    (identity,) = reduce.combiner.identity_element
    shape = list(group.anchor.extents)
    shape[form.axis] = covered
    down = te.compute(tuple(shape), column, name=f"{group.anchor.op.name}_down")

    def result(*index: Any) -> Any:
        again = {a.var: _axis_again(a) for a in rows}
        at = list(index)
        at[form.axis] = index[form.axis] * form.stride
        for var, axis in again.items():
            at[form.axis] = at[form.axis] + axis.var * steps[var]
        return _reduced(reduce, down(*at), [], again.values())

    made = te.compute(group.anchor.extents, result, name=group.anchor.op.name)
    return _Note(down, made, form.axis)


def _tested(group: Group, form: Form) -> Tensor:
    """The reduction of the image itself: what is padding is left out."""
    axes = group.anchor.op.axis

    def element(*index: Any) -> Any:
        again = [_axis_again(a) for a in form.reduce.axis]
        values = dict(zip((a.var for a in axes), index))
        values |= {a.var: b.var for a, b in zip(form.reduce.axis, again)}
        at = [substitute(i, values) for i in form.load.indices]
        value, tests = _element(group, form, at)
        source = put(form.reduce.source[0], form.load, value)
        return _reduced(form.reduce, source, tests, again)

    return te.compute(group.anchor.extents, element, name=group.anchor.op.name)


def _axis_again(axis: Any) -> Any:
    return te.reduce_axis((0, extent_of(axis)), name=axis.var.name)


def _element(group: Group, form: Form, at: Sequence[Any]) -> tuple[PrimExpr, list[PrimExpr]]:
    """An element of the image, and the tests without which there is none: it is padding.

    Args:
        group: its member is the padded image, if there is one.
        form: of its anchor.
        at: indices into the image, or the padded image.
    """
    load = form.load
    if not group.members:
        return ProducerLoad(load.producer, tuple(at), load.dtype), []
    op = group.members[0].op
    assert isinstance(op, ComputeOp)
    body = substitute(op.body[0], dict(zip((a.var for a in op.axis), at)))
    (identity,) = form.reduce.combiner.identity_element
    parts = body.parts if isinstance(body, Select) else getattr(body, "args", ())
    if len(parts) != 3 or not _same(parts[2], identity):
        return body, []
    return parts[1], _conjuncts(parts[0])


def _same(a: Any, b: Any) -> bool:
    """True for two constants that are one number."""
    known = isinstance(a, FloatImm | IntImm) and isinstance(b, FloatImm | IntImm)
    return known and bool(a.value == b.value)


def _conjuncts(test: PrimExpr) -> list[PrimExpr]:
    """The tests that hold together where one holds."""
    return [*_conjuncts(test.a), *_conjuncts(test.b)] if isinstance(test, And) else [test]


def _reduced(reduce: Reduce, value: PrimExpr, tests: Sequence[PrimExpr], axes: Any) -> Reduce:
    """The same reduction of another value, where tests hold."""
    condition = te.all(*tests) if tests else reduce.condition
    return replace(reduce, source=(value,), axis=tuple(axes), condition=condition)


def _in_passes(s: Schedule, group: Group, note: _Note) -> None:
    """Blocks of rows: their columns first, then tiles of the result."""
    out, node = s[group.last.tensor], group.anchor
    lanes = lanes_of(group.target, node.dtype)
    height, width = node.extents[-2:]
    free = vector_registers(group.target) - 2
    most = -(-width // lanes)
    sizes = [v * lanes for v in (1, 2, 3, 4) if v * lanes < width]
    sizes += [width] if most <= ROW_REGISTERS else []
    tiles = [
        (yr, xr)
        for xr in sizes
        for yr in _ROWS
        if yr <= height and (yr == 1 or yr * -(-xr // lanes) <= free)
    ]

    def work(tile: tuple[int, int]) -> tuple[int, int]:
        covered = -(-height // tile[0]) * tile[0] * -(-width // tile[1]) * tile[1]
        return covered, abs(tile[0] * -(-tile[1] // lanes) - _USUAL)

    yr, xr = group.choose("tile", tiles, min(tiles, key=work))
    row = extent_of(note.down.op.axis[-1]) * dt.itemsize(node.dtype)
    blocks = [0, *(b for b in _BLOCKS if b < height)]  # 0: all rows
    fits = [b for b in blocks if b and b * row <= _BLOCK_BYTES]
    fit = min(fits, key=lambda b: (-(-height // b) * b, -b), default=int(height > 1))
    block = group.choose("rows", blocks, 0 if height * row <= _BLOCK_BYTES else fit)
    parallel = define_parallel(group)
    acc = s[accumulators(s, note.result, out)]
    *others, y, x = out.op.axis
    yb, yo = out.split(y, factor=-(-(block or height) // yr) * yr)
    yo, yi = out.split(yo, factor=yr)
    xo, xi = out.split(x, factor=xr)
    register_tile(out, [*others, yb, yo, xo], [yi, xi])
    acc.compute_at(out, xo)
    _registers(acc, yr)
    _columns(s, group, note.down, lanes)
    place = fused(out, [*others, yb])
    assert place is not None
    s[note.down].compute_at(out, place)
    if parallel:
        out.parallel(place)


def _columns(s: Schedule, group: Group, down: Tensor, lanes: int) -> None:
    """Down the columns: vectors of a row, side by side in registers."""
    local, stage = s.cache_write(down, "local"), s[down]
    *rows, x = stage.op.axis
    if extent_of(x) > (ROW_REGISTERS + 1) * lanes:
        xo, x = stage.split(x, factor=_USUAL * lanes)
        rows.append(xo)
    stage.reorder(*rows, x)
    stage.vectorize(x)
    s[local].compute_at(stage, rows[-1])
    _registers(s[local], 1)


def _registers(acc: Any, lines: int) -> None:
    """The accumulators' loops: the window around the lines and the lanes of a tile."""
    steps = list(acc.op.reduce_axis)
    unrolled: list[Any] = []
    while steps and prod(map(extent_of, [*unrolled, steps[-1]])) * lines <= _UNROLLED:
        unrolled.insert(0, steps.pop())
    *rows, lane = acc.op.axis
    count = len(rows) - 1 if lines > 1 else len(rows)
    register_tile(acc, [*rows[:count], *steps], [*unrolled, *rows[count:], lane])


def _side_by_side(s: Schedule, group: Group, down: Tensor | None) -> None:
    """Windows of neighbouring pixels, a few vectors of channels each.

    Args:
        down: what is left of their columns; None: each window for itself.
    """
    out, node = s[group.last.tensor], group.anchor
    lanes = min(lanes_of(group.target, node.dtype), 1 << (node.extents[-1].bit_length() - 1))
    free = vector_registers(group.target) - 2
    width, vectors = node.extents[-2], -(-node.extents[-1] // lanes)
    tiles = [
        (xr, v * lanes)
        for v in (1, 2, 4, 8)
        for xr in _PIXELS
        if (xr == 1 or xr <= width) and (v == 1 or v <= vectors) and xr * v <= free
    ]

    def waste(tile: tuple[int, int]) -> tuple[float, int, int]:
        xr, covered = tile[0], -(-node.extents[-1] // tile[1]) * tile[1]
        if down is None:
            return covered, abs(tile[1] // lanes * xr - _USUAL), -tile[1]
        if xr > _USUAL:  # their columns are more than there are registers for at 256 bits
            return inf, 0, 0
        shared = -(-width // xr) * (xr + _COLUMNS)  # the columns at both ends are another tile's
        return covered * shared, abs(tile[1] // lanes * xr - _USUAL), -tile[1]

    xr, size = group.choose("tile", tiles, min(tiles, key=waste))
    parallel = define_parallel(group)
    acc = s[accumulators(s, node.tensor, out)]
    *others, x, c = out.op.axis
    xo, xi = out.split(x, factor=xr)
    co, ci = out.split(c, factor=size)
    register_tile(out, [*others, xo, co], [xi, ci])
    acc.compute_at(out, co)
    _registers(acc, xr)
    if down is not None:
        s[down].set_scope("local")
        s[down].compute_at(out, co)
        _registers(s[down], 2)
        s[down].pragma(s[down].op.axis[-2], "unroll_explicit", True)
    if xr > 1:  # unrolled before conditions are simplified: most pixels are known to be inside
        acc.pragma(acc.op.axis[-2], "unroll_explicit", True)
    if parallel:
        outer = fused(out, [*others, xo])
        assert outer is not None
        out.parallel(outer)
