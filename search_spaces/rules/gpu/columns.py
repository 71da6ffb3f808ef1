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
from math import prod
from typing import Any

from whet.compiler.target import Target
from whet.compiler.te import Stage
from whet.compiler.te.lang.tensor import Tensor
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import IterVar
from whet.search_spaces.graph.compute_graph import INJECTIVE, REDUCTION, Group, Node
from whet.search_spaces.rules.cpu.sums import ACROSS, way_of
from whet.search_spaces.rules.gpu.rows import kept_inputs, wide_axes
from whet.search_spaces.rules.gpu.threads import bind
from whet.search_spaces.space.define import DefineKnobs

_COLUMNS = (8, 16, 32, 64)
_SHARES = (1, 2, 4, 8, 16, 32)
_THREADS = 1024
# Elements of a column that a thread should have, and may have at most, in registers.
_OWN, _MOST_OWN = 16, 64
# Columns side by side, fewer blocks of which leave multiprocessors idle; such are stored apart.
_WIDTH, _FEW = 32, 64


class GpuColumns:
    """All stages of some columns by the same threads, which share each of them."""

    name = "gpu columns"

    def applies(self, group: Group) -> bool:
        """A group with members, of many columns that all its stages go through alike."""
        if not group.members or group.role not in (REDUCTION, INJECTIVE):
            return False
        many = prod(group.last.extents[k] for k in group.rows)
        return many >= _WIDTH * _FEW and column_length(group) is not None

    def rewrite(self, group: Group, cfg: DefineKnobs, target: Target) -> Tensor | None:
        """Nothing."""
        return None

    def schedule(self, s: Schedule, group: Group, cfg: DefineKnobs, target: Target) -> None:
        """Bind the columns and what is in them."""
        length = column_length(group)
        assert length is not None
        shares = _define(cfg, group, length)
        stage, axes = s[group.last.tensor], list(s[group.last.tensor].op.axis)
        rows = [axes[k] for k in group.rows]
        inner = [a for a in axes if a not in rows]
        if group.last.role == REDUCTION:
            inner = list(stage.op.reduce_axis)
        outer, x = stage.split(rows[-1], factor=shares.columns)
        stage.reorder(*rows[:-1], outer, x, *inner)
        bind(stage, stage.fuse(*rows[:-1], outer), "blockIdx.x")
        bind(stage, x, "threadIdx.x")
        kept = kept_inputs(s, group) if shares.kept else []
        for node in (*group.members, group.anchor):
            if node is not group.last:
                _member(s, group, node, stage, x, shares)
        for tensor in kept:
            shares.hold(s[tensor], stage, x, [k for k in range(len(axes)) if k not in group.rows])
        if inner:
            shares.share(stage, inner)


@dataclass(frozen=True)
class _Shares:
    """How columns are shared out.

    Attributes:
        columns: of a block, side by side.
        rows: of threads, that share a column.
        kept: whether a thread's part of a stage fits its registers.
        written: whether its turns are written out.
    """

    columns: int
    rows: int
    kept: bool
    written: bool

    def share(self, stage: Stage, axes: list[IterVar]) -> None:
        """Share a stage's innermost loops, or those of its reduction, among the rows of threads."""
        turn, y = stage.split(stage.fuse(*axes), factor=self.rows)
        stage.reorder(y, turn)
        bind(stage, y, "threadIdx.y")
        if self.written:
            stage.unroll(turn)

    def hold(self, stage: Stage, parent: Stage, x: IterVar, inner: list[int]) -> None:
        """Keep what a block needs of a stage; what a thread alone needs of it becomes registers."""
        stage.set_scope("shared")
        stage.compute_at(parent, x)
        axes = list(stage.op.axis)
        rows = [a for k, a in enumerate(axes) if k not in inner]
        shared = list(stage.op.reduce_axis) or [axes[k] for k in inner]
        stage.reorder(*(a for a in axes if a not in rows and a not in shared), *rows, *shared)
        bind(stage, rows[-1], "threadIdx.x")
        if shared:
            self.share(stage, shared)


def column_length(group: Group) -> int | None:
    """The elements of a column that all stages go through; None: they do not."""
    last = group.last
    column = len(last.extents) - 1
    if column not in group.rows or last.extents[column] < _COLUMNS[0]:
        return None
    stages = (*group.members, group.anchor, last)
    lengths = {prod(n.reduce_extents) for n in stages if n.role == REDUCTION}
    if last.role != REDUCTION and len(group.rows) < len(last.extents):
        lengths.add(last.points // prod(last.extents[k] for k in group.rows))
    if len(lengths) != 1:
        return None
    (length,) = lengths
    return length if all(_goes_along(group, node, column, length) for node in stages) else None


def _goes_along(group: Group, node: Node, column: int, length: int) -> bool:
    """Whether a stage has neighbouring columns side by side, and all rows in order."""
    own = group.maps.get(node.index, tuple(range(len(node.extents))))
    wide = prod(node.extents[k] for k in wide_axes(group, node))
    if not own or own[-1] != column or [q for q in own if q in group.rows] != list(group.rows):
        return False
    if node.role != REDUCTION:
        return wide in (1, length)
    way = way_of(node, 1)
    return wide == 1 and way.kind == ACROSS and way.axes[0] == len(node.extents) - 1


def _define(cfg: DefineKnobs, group: Group, length: int) -> _Shares:
    widths = [c for c in _COLUMNS if c < 2 * group.last.extents[-1]]
    most = [r for r in _SHARES if r == 1 or r < 2 * length]
    best = next((r for r in most if r * _OWN >= length), most[-1])
    cfg.define_knob(group.knob("columns"), widths, default=max(c for c in widths if c <= _WIDTH))
    cfg.define_knob(group.knob("rows"), most, default=best)
    cfg.define_knob(group.knob("keep"), [True, False], default=length <= best * _MOST_OWN)
    cfg.multi_filter(_AtMost(group.knob("columns"), group.knob("rows")))
    cfg.multi_filter(_Kept(group.knob("keep"), group.knob("rows"), length))
    columns, rows, keep = (cfg[group.knob(name)].val for name in ("columns", "rows", "keep"))
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


def _member(
    s: Schedule, group: Group, node: Node, parent: Stage, x: IterVar, shares: _Shares
) -> None:
    stage, wide = s[node.tensor], wide_axes(group, node)
    if prod(node.extents[k] for k in wide) > 1 and not shares.kept:
        stage.compute_inline()
    else:
        shares.hold(stage, parent, x, wide)
