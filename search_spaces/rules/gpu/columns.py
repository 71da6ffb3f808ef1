"""The rule for chains over columns on a GPU: a softmax over channels, statistics of channels last.

Neighbouring threads have neighbouring columns, and rows of threads share each of them:

    bind column:
        bind y, for u:  R[u*Y + y] = X[.., u*Y + y, column]     read once, in registers
        top = max over y, u of R[..]                            across the rows of threads
        bind y, for u:  E[..] = exp(R[..] - top)
        total = sum of E[..]
        bind y, for u:  Z[.., u*Y + y, column] = E[..] / total

Of a column too long for registers, R and E are read and computed anew where they are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whet.compiler.te import Stage
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import IterVar
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import REDUCTION, Group, Node
from whet.search_spaces.rules.cpu.sums import ACROSS, way_of
from whet.search_spaces.rules.gpu.hardware.threads import attach, bind
from whet.search_spaces.rules.gpu.row_group import (
    axes_in_last,
    common_length,
    kept_inputs,
    row_count,
    rows_in_order,
    stages_of,
    wide_axes,
    width,
)

_COLUMNS = (8, 16, 32, 64)
_SHARES = (1, 2, 4, 8, 16, 32)
_THREADS = 1024
# Elements of a column that a thread should have, and may have at most, in registers.
_OWN, _MOST_OWN = 16, 64
# Columns side by side, fewer blocks of which leave multiprocessors idle; such are stored apart.
_WIDTH, _FEW = 32, 64


class GpuColumns(Rule):
    """All stages of some columns by the same threads, which share each of them."""

    def applies(self, group: Group) -> bool:
        """A group with members, of many columns that all its stages go through alike."""
        many = group.is_chain and row_count(group) >= _WIDTH * _FEW
        return many and column_length(group) is not None

    def schedule(self, s: Schedule, group: Group) -> None:
        """Bind the columns and what is in them."""
        length = column_length(group)
        assert length is not None
        shares = _define(group, length)
        stage, axes = s[group.last.tensor], list(s[group.last.tensor].op.axis)
        rows = [axes[k] for k in group.rows]
        inner = [a for a in axes if a not in rows]
        if group.last.role == REDUCTION:
            inner = list(stage.op.reduce_axis)
        outer, x = stage.split(rows[-1], factor=shares.columns)
        stage.reorder(*rows[:-1], outer, x, *inner)
        bind(stage, block=stage.fuse(*rows[:-1], outer), x=x)
        kept = kept_inputs(s, group) if shares.kept else []
        for node in group.inner:
            if width(group, node) > 1 and not shares.kept:
                s[node.tensor].compute_inline()
            else:
                shares.hold(s[node.tensor], stage, x, wide_axes(group, node))
        for tensor in kept:
            shares.hold(s[tensor], stage, x, [k for k in range(len(axes)) if k not in group.rows])
        if inner:
            shares.share(stage, inner)


@dataclass(frozen=True)
class _Shares:
    """The sharing of columns among threads.

    Attributes:
        columns: of a block, side by side.
        rows: of threads, that share a column.
        kept: whether a thread's part of a stage fits its registers.
        unrolled: whether the loop over a thread's elements is unrolled.
    """

    columns: int
    rows: int
    kept: bool
    unrolled: bool

    def share(self, stage: Stage, axes: list[IterVar]) -> None:
        """Share a stage's innermost loops, or those of its reduction, among the rows of threads."""
        turn, y = stage.split(stage.fuse(*axes), factor=self.rows)
        stage.reorder(y, turn)
        bind(stage, y=y)
        if self.unrolled:
            stage.unroll(turn)

    def hold(self, stage: Stage, parent: Stage, x: IterVar, inner: list[int]) -> None:
        """Keep what a block needs of a stage; what a thread alone needs of it becomes registers."""
        attach(stage, parent, x, "shared")
        axes = list(stage.op.axis)
        rows = [a for k, a in enumerate(axes) if k not in inner]
        shared = list(stage.op.reduce_axis) or [axes[k] for k in inner]
        stage.reorder(*(a for a in axes if a not in rows and a not in shared), *rows, *shared)
        bind(stage, x=rows[-1])
        if shared:
            self.share(stage, shared)


def column_length(group: Group) -> int | None:
    """The elements of a column that all stages go through; None: they do not."""
    last = group.last
    column = len(last.extents) - 1
    if column not in group.rows or last.extents[column] < _COLUMNS[0]:
        return None
    length = common_length(group)
    if length is None or not all(_goes_along(group, n, column, length) for n in stages_of(group)):
        return None
    return length


def _goes_along(group: Group, node: Node, column: int, length: int) -> bool:
    """True if a stage has neighbouring columns side by side, and all rows in order."""
    own, wide = axes_in_last(group, node), width(group, node)
    if not own or own[-1] != column or not rows_in_order(group, node):
        return False
    if node.role != REDUCTION:
        return wide in (1, length)
    way = way_of(node, 1)
    return wide == 1 and way.kind == ACROSS and way.axes[0] == len(node.extents) - 1


def _define(group: Group, length: int) -> _Shares:
    widths = [c for c in _COLUMNS if c < 2 * group.last.extents[-1]]
    most = [r for r in _SHARES if r == 1 or r < 2 * length]
    best = next((r for r in most if r * _OWN >= length), most[-1])
    columns = group.choose("columns", widths, max(c for c in widths if c <= _WIDTH))
    rows = group.choose("rows", most, best)
    keep = group.choose("keep", (True, False), length <= best * _MOST_OWN)
    group.cfg.multi_filter(_AtMost(group.knob("columns"), group.knob("rows")))
    group.cfg.multi_filter(_Kept(group.knob("keep"), group.knob("rows"), length))
    return _Shares(columns, rows, keep, length <= 2 * rows * _MOST_OWN)


@dataclass(frozen=True)
class _AtMost:
    """A constraint: a block has at most 1024 threads."""

    columns: str
    rows: str

    def __call__(self, view: Any) -> bool:
        return view[self.columns].val * view[self.rows].val <= _THREADS

    def __repr__(self) -> str:
        return f"{self.columns} times {self.rows} is at most {_THREADS}"


@dataclass(frozen=True)
class _Kept:
    """A constraint: a thread keeps no more of a column than its registers hold."""

    keep: str
    rows: str
    length: int

    def __call__(self, view: Any) -> bool:
        return not view[self.keep].val or self.length <= _MOST_OWN * view[self.rows].val

    def __repr__(self) -> str:
        return f"{self.keep} has at most {_MOST_OWN} elements a thread"
