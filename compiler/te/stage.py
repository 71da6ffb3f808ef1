"""One stage of a schedule: the loops of one operation and where they are attached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from whet.compiler.absent import missing_member
from whet.compiler.te.lang.relations import (
    AHEAD,
    AT,
    INLINE,
    ROOT,
    Fuse,
    IterVarAttr,
    Rebase,
    Relation,
    Singleton,
    Split,
    Transform,
)
from whet.compiler.te.lang.scan import ScanOp
from whet.compiler.te.lang.tensor import (
    ComputeOp,
    GroupOp,
    HybridOp,
    Operation,
    PlaceholderOp,
    TensorComputeOp,
)
from whet.compiler.te.primitives import annotate, loops, storage
from whet.compiler.te.primitives import compute_at as attach
from whet.compiler.te.primitives import tensorize as tensorizing
from whet.compiler.te.primitives import transform_layout as layouts
from whet.compiler.tir.expr import COMM_REDUCE, TENSORIZED, IterVar, PrimExpr
from whet.compiler.tir.layouts.index_map import IndexMap

__all__ = [
    "AHEAD",
    "AT",
    "INLINE",
    "ROOT",
    "Fuse",
    "IterVarAttr",
    "Rebase",
    "Singleton",
    "Split",
    "Stage",
]

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule


_unannotated = cache(IterVarAttr)
Place = tuple[int, "Stage | None", "IterVar | None"]


class Stage:
    """The loops of one operation; its methods are TVM's schedule primitives.

    In the examples ``lower`` is ``whet.lower`` for a processor with AVX2.

    Attributes:
        op: the operation as it is computed now; ``origin_op``: as it was given.
        leaf_iter_vars: the loops, outermost first.
        all_iter_vars: the axes of the operation and everything made of them.
        relations: how they were made, in order.
        iter_var_attrs: axis -> its annotations (:class:`IterVarAttr`).
        attach_type: computed on its own (1), inlined (2), at a loop of another stage (4), which
            ``attach_stage`` and ``attach_ivar`` name, or ahead of the kernel's calls (6).
        scope: where its result is kept, e.g. ``"global"`` or ``"local"``; empty for the default.
        store_predicate: the condition under which it stores.
        launch_threads: the thread axes that run the whole stage.
        double_buffered: True after ``double_buffer``.
        nontemporal: the alignment of ``store_nontemporal`` in bytes; 0 without it.
        scan: the stage of the recurrence at whose steps it is computed, if not elsewhere.
        layout: how its result lies in memory, after ``transform_layout``; the maps are
            ``layout_transforms``; ``axis_separators``: the dimensions before which one stands.
        rolls: True after ``rolling_buffer``.
        group: the group that it belongs to, a stage without loops; None outside of all groups.
    """

    # the primitives, a function each
    split = loops.split
    fuse = loops.fuse
    reorder = loops.reorder
    tile = loops.tile
    vectorize = annotate.vectorize
    unroll = annotate.unroll
    parallel = annotate.parallel
    bind = annotate.bind
    env_threads = annotate.env_threads
    pragma = annotate.pragma
    tensorize = tensorizing.tensorize
    prefetch = annotate.prefetch
    compute_at = attach.compute_at
    compute_inline = attach.compute_inline
    compute_root = attach.compute_root
    compute_ahead = attach.compute_ahead
    set_scope = storage.set_scope
    storage_align = storage.storage_align
    double_buffer = storage.double_buffer
    store_nontemporal = storage.store_nontemporal
    set_store_predicate = storage.set_store_predicate
    rolling_buffer = storage.rolling_buffer
    transform_layout = layouts.transform_layout

    def __init__(self, schedule: Schedule, op: Operation) -> None:
        self.schedule = schedule
        self.op: Operation = op
        self.origin_op = op
        self.attach_type: int = ROOT
        self.attach_stage: Stage | None = None
        self.attach_ivar: IterVar | None = None
        self.scope = ""
        self.is_output = False
        self.store_predicate: PrimExpr | None = None
        self.launch_threads: list[IterVar] = []
        self.double_buffered: bool = False
        self.nontemporal: int = 0
        self.scan: Stage | None = None
        self.group: Stage | None = None
        self.layout: list[Transform] = []
        self.axis_separators: list[int] = []
        self.rolls: bool = False
        self.reset_axes()

    def reset_axes(self) -> None:
        """Begin with the operation's own axes."""
        axes: list[IterVar] = []
        if isinstance(self.op, (ComputeOp, HybridOp, ScanOp)):
            axes = [*self.op.axis, *self.op.reduce_axis]
        self.all_iter_vars = list(axes)
        self.leaf_iter_vars: list[IterVar] = list(axes)
        self.relations: list[Relation] = []
        self.iter_var_attrs: dict[IterVar, IterVarAttr] = {}
        if isinstance(self.op, TensorComputeOp):
            self.leaf_iter_vars = list(self.op.loops)
            tile = self.op.tile
            self.iter_var_attrs[tile] = replace(
                self.attr(tile), iter_type=TENSORIZED, tensor_intrin=self.op.intrin
            )

    @property
    def first_reduce(self) -> int:
        """The place of the first loop over a reduction axis; the number of loops without one."""
        leaves = self.leaf_iter_vars
        return next((k for k, a in enumerate(leaves) if a.iter_type == COMM_REDUCE), len(leaves))

    @property
    def tensorized(self) -> int | None:
        """The place of the outermost loop that an instruction computes; None without one."""
        for k, a in enumerate(self.leaf_iter_vars):
            attr = self.iter_var_attrs.get(a)
            if attr is not None and attr.tensor_intrin is not None:
                return k
        return None

    def attr(self, axis: IterVar) -> IterVarAttr:
        """The annotations of an axis or loop so far."""
        return self.iter_var_attrs.get(axis) or _unannotated(axis.iter_type)

    @property
    def children(self) -> list[Stage]:
        """The stages and groups that belong to this one, which is a group."""
        if not isinstance(self.op, GroupOp):
            return []
        return [s for s in (*self.schedule.stages, *self.schedule.groups) if s.group is self]

    @property
    def num_child_stages(self) -> int:
        """The number of stages and groups that belong to this one; 0 for any but a group."""
        return len(self.children)

    @property
    def layout_transforms(self) -> list[IndexMap]:
        """The maps of ``transform_layout``, in order."""
        return [t.forward_transform for t in self.layout]

    @property
    def place(self) -> Place:
        """Where it is computed: ``attach_type``, ``attach_stage``, ``attach_ivar``."""
        return self.attach_type, self.attach_stage, self.attach_ivar

    def put(self, place: Place) -> None:
        """Compute the stage at a place, and what belongs to it and stands nowhere else."""
        along = [
            s
            for s in self.children
            if s.place == self.place and not isinstance(s.op, PlaceholderOp)
        ]
        self.attach_type, self.attach_stage, self.attach_ivar = place
        for s in along:
            s.put(place)

    def detach(self, kind: int) -> None:
        """Attach the stage nowhere.

        At the root, one of a group is computed where the group is, and what a recurrence needs is
        computed in its steps.

        Args:
            kind: ``ROOT``, ``INLINE`` or ``AHEAD``.
        """
        place: Place = (kind, None, None)
        if kind == ROOT and self.group is not None:
            place = self.group.place
        elif kind == ROOT and self.scan is not None and isinstance(self.scan.op, ScanOp):
            place = (AT, self.scan, self.scan.op.scan_axis)
        self.put(place)

    def record(
        self, primitive: str, *args: Any, results: Sequence[Any] = (), **options: Any
    ) -> None:
        """Append a primitive to the schedule's trace.

        Args:
            primitive: its name.
            args, options: its arguments, without the stage.
            results: the axes that it made.
        """
        self.schedule.record(primitive, self, args, options, results)

    def copied(self, schedule: Schedule) -> Stage:
        """The same stage for another schedule; its attachment still names the old one's stage."""
        new = Stage.__new__(Stage)
        new.__dict__.update(self.__dict__)
        new.schedule = schedule
        new.all_iter_vars, new.leaf_iter_vars = list(self.all_iter_vars), list(self.leaf_iter_vars)
        new.relations, new.iter_var_attrs = list(self.relations), dict(self.iter_var_attrs)
        new.launch_threads, new.layout = list(self.launch_threads), list(self.layout)
        return new

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what was pickled; a stage of an earlier version has no groups or layouts."""
        new: dict[str, Any] = {
            "scan": None,
            "group": None,
            "layout": [],
            "axis_separators": [],
            "rolls": False,
        }
        self.__dict__.update({**new, **state})

    def move(self, twins: Mapping[Stage, Stage]) -> None:
        """Name the stages of another schedule instead of this one's."""
        if self.attach_stage is not None:
            self.attach_stage = twins[self.attach_stage]
        if self.scan is not None:
            self.scan = twins[self.scan]
        if self.group is not None:
            self.group = twins[self.group]

    def __repr__(self) -> str:
        return f"stage({self.op.name})"

    if not TYPE_CHECKING:  # type checkers know the names that are there

        def __getattr__(self, name: str) -> object:
            """An error that says where a primitive of TVM's went."""
            raise missing_member(Stage, name)
