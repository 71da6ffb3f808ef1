"""A structure's statements and accesses as tables of places on its tape.

With the tape's values for a config, a table of places becomes a table of numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np

from whet.autotune.features.loops import arithmetic
from whet.autotune.features.loops.forms import Form, Loop, Size, Unknown, moves
from whet.autotune.features.loops.nests import VIRTUAL, Nest, Nests
from whet.autotune.features.loops.sizes import TracedSizes, constant
from whet.compiler.te.bounds.threads import ancestors, scope_of
from whet.compiler.te.lang.relations import AT
from whet.compiler.te.stage import Stage
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import IntImm, Reduce
from whet.compiler.tir.tracing.traced import Tape

INPUT, OUTPUT, WHOLE, PART = range(4)
"""Owners of an access's tensor: the caller's, to read or to store; an intermediate one, kept as a
whole or in parts."""

GLOBAL, SHARED, LOCAL = range(3)
"""Memory of a tensor: for all, for a GPU's block, for a thread."""
LANES = {"threadIdx.x": 1, "threadIdx.y": 2, "threadIdx.z": 3}
"""Numbers of the axes of a block's threads; of other loops 0."""

Place = int


@dataclass(frozen=True)
class Column:
    """One number, or a table of them, of each statement or of each access.

    Attributes:
        name: of the field of :class:`Statement` or :class:`Access`.
        fill: what rows with fewer loops or dimensions have; the numbers are of its type.
        traced: the field holds places on the tape, at which the numbers stand.
        least: smaller numbers count as the fill: there is no share of 0 steps.
    """

    name: str
    fill: float = 0
    traced: bool = False
    least: bool = False


@dataclass(slots=True, kw_only=True)
class Statement:
    """A statement of a program. Rows of loops are aligned at the innermost one.

    Attributes:
        extent: the loops' steps.
        kind, reduces, own: the loops' kinds; 1 for those that reduce; for the statement's own, not
            those it is attached in.
        lane: the axis of a block's threads that each loop is, by :data:`LANES`.
        needed: the axes' extents of the whole tensor and its reduction.
        region: the extents of the result that is computed.
        unroll: the ``auto_unroll_max_step`` around it.
        operations: operations of one step, by kind (``arithmetic.KINDS``).
        itemsize: bytes of an element.
        kept: whose the result is.
        scope: where the result is kept.
        root: the statement that it is attached in at last, itself where it is in none: those of one
            root are one kernel.
        guarded: 1 if the reduction leaves out steps.
    """

    extent: list[Place]
    kind: list[int]
    reduces: list[bool]
    own: list[int]
    lane: list[int]
    needed: list[Place]
    region: list[Place]
    unroll: Place
    operations: list[int]
    itemsize: int
    kept: int
    scope: int
    root: int
    guarded: bool


@dataclass(slots=True, kw_only=True)
class Access:
    """A load or the store of a statement. Dimensions are aligned at the last one.

    Attributes:
        statement: the number of its statement; accesses are sorted by it.
        stores, gathers, asks: 1 for the store; if an index depends on data; if a condition guards
            it.
        times: how often it occurs.
        bytes: of an element.
        role, place: whose the tensor is; where that is kept.
        length: the dimensions' lengths.
        far, step: dimensions of loops: how far a whole loop, and one step of it, moves the index.
        renewed: loops each step of which puts other data into the shared memory that is accessed.
        tensor: the stage whose result it is; no column.
    """

    statement: int
    stores: bool
    gathers: bool
    asks: bool
    times: int
    bytes: int
    role: int
    place: int
    length: list[Place]
    far: list[list[Place]]
    step: list[list[Place]]
    renewed: list[bool]
    tensor: Stage

    def same(self, other: Access) -> bool:
        """True if two accesses of a statement are to one tensor and move alike."""
        mine = (self.tensor, self.stores, self.far, self.step)
        return mine == (other.tensor, other.stores, other.far, other.step)


OF_STATEMENTS = (
    Column("extent", 1.0, traced=True, least=True), Column("kind"), Column("reduces", False),
    Column("own", False), Column("lane"), Column("needed", 1.0, traced=True, least=True),
    Column("region", 1.0, traced=True, least=True), Column("unroll", 0.0, traced=True),
    Column("operations", 0.0), Column("itemsize", 1.0), Column("kept"), Column("scope"),
    Column("root"), Column("guarded", False),
)  # fmt: skip
OF_ACCESSES = (
    Column("stores", False), Column("gathers", False), Column("asks", False), Column("times", 1.0),
    Column("bytes", 1.0), Column("role"), Column("place"),
    Column("length", 1.0, traced=True, least=True), Column("far", 0.0, traced=True, least=True),
    Column("step", 0.0, traced=True), Column("renewed", False),
)  # fmt: skip


class Program:
    """The statements and accesses of a schedule's nests as tables, for :class:`~.batch.Batch`.

    Attributes:
        statements: how many statements there are.
        statement: (Q,) the statement of each access.
        tables: column's name -> (S, ...) or (Q, ...) numbers, or places on the tape.
    """

    def __init__(self, nests: Nests, tape: Tape) -> None:
        rows = _Rows(nests, tape)
        self.statements = len(rows.statements)
        self.statement = np.array([x.statement for x in rows.accesses], np.int64)
        self.tables: dict[str, np.ndarray] = {}
        for columns, of in ((OF_STATEMENTS, rows.statements), (OF_ACCESSES, rows.accesses)):
            for column in columns:
                values = [getattr(x, column.name) for x in of]
                fill = tape.place(int(column.fill)) if column.traced else 0
                self.tables[column.name] = _aligned(values, fill)


class _Rows:
    """Nests as statements and accesses."""

    def __init__(self, nests: Nests, tape: Tape) -> None:
        self.nests = nests
        self.tape = tape
        self.statements: list[Statement] = []
        self.accesses: list[Access] = []
        roots = {nest.stage: k for k, nest in enumerate(nests.all)}
        for nest in nests.all:
            self._statement(nest, roots)

    def _statement(self, nest: Nest, roots: dict[Stage, int]) -> None:
        op, place = nest.stage.op, self.tape.place
        shared = self._around_shared(nest.stage)  # for virtual threads there it is made once
        outer = [x for x in nest.around if x.kind != VIRTUAL or x not in shared]
        loops = _once_by_tag(outer + nest.loops)
        dtype = nest.bodies[0].dtype
        pragmas = (x.unroll for x in reversed(loops) if type(x.unroll) is not int or x.unroll)
        own = len(nest.loops)
        self.statements.append(Statement(
            extent=[place(x.extent) for x in loops],
            kind=[x.kind for x in loops],
            reduces=[x.reduces for x in loops],
            own=[0] * (len(loops) - own) + [1] * own,
            lane=[LANES.get(x.tag, 0) for x in loops],
            scope=self._scope(nest.stage),
            root=roots[_root(nest.stage)],
            needed=[place(constant(a.dom.extent)) for a in (*op.axis, *op.reduce_axis) if a.dom],
            region=[place(nest.extents[a]) for a in op.axis],
            unroll=place(next(pragmas, 0)),
            operations=arithmetic.count(nest.bodies),
            itemsize=max(dt.bits(dtype) // 8, 1) * len(nest.bodies),
            kept=self._role(nest.stage),
            guarded=any(
                isinstance(x, Reduce) and not isinstance(x.condition, IntImm)
                for x in nest.bodies
            ),
        ))  # fmt: skip
        env = nest.env()
        self._access(loops, nest.stage, [nest.values[a] for a in op.axis], dtype, True)
        for producer, n in self.nests.reads(nest.stage):
            forms = [self.nests.sizes.of(i, env) for i in n.indices]
            held = self.nests.stages.get(producer)
            if held is not None and not held.whole:
                forms = [f - held.mins[a] for f, a in zip(forms, producer.op.axis)]
            self._access(loops, producer, forms, n.dtype, False, id(n) in nest.below)

    def _role(self, stage: Stage) -> int:
        if stage not in self.nests.stages:
            return INPUT
        if stage.is_output:
            return OUTPUT
        return PART if stage.attach_type == AT else WHOLE

    def _around_shared(self, stage: Stage) -> list[Loop]:
        """The loops around a stage that is kept in shared memory, or made on the way there."""
        loops: list[Loop] = []
        at: Stage | None = stage
        while at is not None:
            nest = self.nests.stages.get(at)
            if nest is not None and self._scope(at) == SHARED:
                loops += nest.around
            at = at.attach_stage if at.attach_type == AT else None
        return loops

    def _scope(self, stage: Stage) -> int:
        held = self.nests.stages.get(stage)
        if held is None:
            return GLOBAL
        scope = scope_of(stage)
        return SHARED if scope.startswith("shared") else GLOBAL if scope == "global" else LOCAL

    def _access(
        self,
        loops: list[Loop],
        of: Stage,
        forms: list[Form],
        dtype: str,
        stores: bool,
        asks: bool = False,
    ) -> None:
        held = self.nests.stages.get(of)
        if held is None:
            lengths: list[Size] = [constant(d) for d in of.op.output_shape(0)]
        else:
            lengths = _with_pads(of, [held.extents[a] for a in of.op.axis])
        scope = self._scope(of)
        forms, lengths = _laid_out(of, forms, lengths, self.nests.sizes)
        far: list[list[Place]] = []
        step: list[list[Place]] = []
        for form, length in zip(forms, lengths):
            moved = moves(form, length)
            for rows, which in ((far, 0), (step, 1)):
                how = (moved[loop][which] if loop in moved else 0 for loop in loops)
                rows.append([self.tape.place(size) for size in how])
        around = held.around if held is not None and scope == SHARED else []
        new = Access(
            statement=len(self.statements) - 1, stores=stores, times=1, far=far, step=step,
            gathers=any(type(atom) is Unknown for f in forms for atom in f.terms),
            bytes=max(dt.bits(dtype) // 8, 1), role=self._role(of), place=scope,
            length=[self.tape.place(x) for x in lengths], asks=asks,
            renewed=[loop in around for loop in loops], tensor=of,
        )  # fmt: skip
        mine = takewhile(lambda x: x.statement == new.statement, reversed(self.accesses))
        if (known := next(filter(new.same, mine), None)) is not None:
            known.times += 1
        else:
            self.accesses.append(new)


def _laid_out(
    stage: Stage, forms: list[Form], lengths: list[Size], sizes: TracedSizes
) -> tuple[list[Form], list[Size]]:
    """The indices and lengths of the places of ``transform_layout``, from those of elements."""
    for layout in stage.layout:
        axes, made = layout.original_variables, layout.transformed_variables
        extents, values = dict(zip(axes, lengths)), dict(zip(axes, forms))
        layout.extents_down(extents, sizes)
        layout.values_down(extents, values, sizes)
        forms, lengths = [values[a] for a in made], [extents[a] for a in made]
    return forms, lengths


def _with_pads(stage: Stage, lengths: list[Size]) -> list[Size]:
    """The lengths of a stage's dimensions, its rows as far apart as ``storage_align`` says."""
    if len(lengths) < 2:
        return lengths
    attr = stage.iter_var_attrs.get(stage.op.axis[-2])
    if attr is None or not attr.dim_align_factor:
        return lengths
    pad = (attr.dim_align_offset - lengths[-1]) % attr.dim_align_factor
    return [*lengths[:-1], lengths[-1] + pad]


def _once_by_tag(loops: list[Loop]) -> list[Loop]:
    """Loops without those over threads that an inner loop spreads over the same threads anew."""
    kept: list[Loop] = []
    seen: set[str] = set()
    for loop in reversed(loops):
        if loop.tag not in seen:
            kept.append(loop)
        if loop.tag:
            seen.add(loop.tag)
    return kept[::-1]


def _root(stage: Stage) -> Stage:
    """The stage that a stage is attached in at last."""
    return next((up for up, _ in reversed(list(ancestors(stage)))), stage)


def _aligned(rows: list[Any], fill: int) -> np.ndarray:
    """Rows of numbers, of lists or of lists of lists, each aligned at its end, as a table."""
    if not rows or not isinstance(rows[0], list):
        return np.array(rows, np.int64)
    width = max(map(len, rows))
    inner = [x for row in rows for x in row if isinstance(x, list)]
    blank: Any = [fill] * max(map(len, inner)) if inner else fill
    if inner:
        rows = [[blank[len(x) :] + x for x in row] for row in rows]
    return np.array([[blank] * (width - len(row)) + row for row in rows], np.int64)
