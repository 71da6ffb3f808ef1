"""A structure's statements and accesses as tables of places on its tape.

With the tape's values for a config, a table of places becomes a table of numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whet.autotune.features import arithmetic
from whet.autotune.features.forms import Form, Loop, Size, Unknown, moves
from whet.autotune.features.nests import AT, VIRTUAL, Nest, Nests, constant
from whet.compiler.te.stage import Stage
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir.tracing.traced import Tape

INPUT, OUTPUT, WHOLE, PART = range(4)
"""Whose an access's tensor is: the caller's, to read or to store; an intermediate one, kept as a
whole or in parts."""

GLOBAL, SHARED, LOCAL = range(3)
"""Where a tensor is kept: for all, for a GPU's block, for a thread."""
LANES = {"threadIdx.x": 1, "threadIdx.y": 2, "threadIdx.z": 3}
"""Numbers of the axes of a block's threads; of other loops 0."""

Place = int


class Program:
    """What :mod:`counts` needs of a program, as places on the tape (``*_at``) and as constants.

    Statements are rows of loops, aligned at the innermost one; accesses are rows of dimensions,
    aligned at the last one, of loops. Missing ones have 1 step, length 1 and no motion.

    Attributes:
        extent_at: (S, L) loops' steps.
        kind, reduces, own: (S, L) the loops' kinds; whether they reduce; whether they are the
            statement's own and not those it is attached in.
        needed_at: (S, A) axes' extents of the whole tensor and its reduction.
        lane: (S, L) which axis of a block's threads a loop is, by :data:`LANES`.
        unroll_at: (S,) the ``auto_unroll_max_step`` around it.
        operations: (S, len(arithmetic.KINDS)) operations of one step.
        itemsize: (S,) bytes of an element.
        kept: (S,) whose the result is; ``region_at``: (S, D) its extents.
        scope: (S,) where the result is kept.
        root: (S,) the statement that it is attached in at last, itself where it is in none: those
            of one root are one kernel.
        guarded: (S,) whether the reduction leaves out steps.
        statement: (Q,) the statement of each access; accesses are sorted by it.
        stores, gathers, asks, times, bytes, role, place: (Q,) whether it is the store; whether an
            index depends on data; whether a condition guards it; how often it occurs; bytes of an
            element; whose tensor; where that is kept.
        length_at, far_at, step_at: (Q, D), (Q, D, L), (Q, D, L) dimensions' lengths; how far a
            whole loop, and one step of it, moves the index.
        renewed: (Q, L) whether each step of a loop puts other data into the shared memory that is
            accessed.
    """

    @staticmethod
    def of(nests: Nests, tape: Tape) -> Program:
        """The tables of a schedule's nests."""
        return _Flattened(nests, tape).program()

    extent_at: np.ndarray
    kind: np.ndarray
    reduces: np.ndarray
    own: np.ndarray
    needed_at: np.ndarray
    unroll_at: np.ndarray
    operations: np.ndarray
    itemsize: np.ndarray
    kept: np.ndarray
    lane: np.ndarray
    scope: np.ndarray
    root: np.ndarray
    guarded: np.ndarray
    region_at: np.ndarray
    statement: np.ndarray
    stores: np.ndarray
    gathers: np.ndarray
    asks: np.ndarray
    times: np.ndarray
    bytes: np.ndarray
    role: np.ndarray
    place: np.ndarray
    length_at: np.ndarray
    far_at: np.ndarray
    step_at: np.ndarray
    renewed: np.ndarray


class _Flattened:
    def __init__(self, nests: Nests, tape: Tape) -> None:
        self.nests = nests
        self.tape = tape
        self.none = tape.place(0)
        self.statements: list[dict[str, Any]] = []
        self.roots: dict[int, int] = {}
        self.accesses: list[dict[str, Any]] = []
        for nest in nests.all:
            self._statement(nest)

    def program(self) -> Program:
        s, q = self.statements, self.accesses
        depth = max((len(x["extents"]) for x in s), default=1)
        rank = max((len(x["lengths"]) for x in q), default=1)
        axes = max((len(x["needed"]) for x in s), default=1)
        one, none = self.tape.place(1), self.none
        out = Program()
        out.extent_at = _aligned([x["extents"] for x in s], depth, one)
        out.kind = _aligned([x["kinds"] for x in s], depth, 0)
        out.reduces = _aligned([x["reduces"] for x in s], depth, 0).astype(bool)
        out.own = _aligned([x["own"] for x in s], depth, 0).astype(bool)
        out.needed_at = _aligned([x["needed"] for x in s], axes, one)
        out.region_at = _aligned([x["region"] for x in s], rank, one)
        out.lane = _aligned([x["lane"] for x in s], depth, 0)
        out.scope = np.array([x["scope"] for x in s], np.int64)
        out.root = np.array([self.roots[x["root"]] for x in s], np.int64)
        out.unroll_at = np.array([x["unroll"] for x in s], np.int64)
        out.operations = np.array([x["operations"] for x in s], np.float64)
        out.itemsize = np.array([x["itemsize"] for x in s], np.float64)
        out.kept = np.array([x["kept"] for x in s], np.int64)
        out.guarded = np.array([x["guarded"] for x in s], bool)
        out.statement = np.array([x["statement"] for x in q], np.int64)
        for name in ("stores", "gathers", "asks"):
            setattr(out, name, np.array([x[name] for x in q], bool))
        for name in ("times", "bytes", "role", "place"):
            setattr(out, name, np.array([x[name] for x in q], np.float64))
        out.length_at = _aligned([x["lengths"] for x in q], rank, one)
        out.renewed = _aligned([x["renewed"] for x in q], depth, 0).astype(bool)
        out.far_at = np.full((len(q), rank, depth), none, np.int64)
        out.step_at = np.full((len(q), rank, depth), none, np.int64)
        for k, x in enumerate(q):
            if x["far"]:
                corner = k, slice(rank - len(x["far"]), None), slice(depth - len(x["far"][0]), None)
                out.far_at[corner], out.step_at[corner] = x["far"], x["step"]
        return out

    def _statement(self, nest: Nest) -> None:
        op, place = nest.stage.op, self.tape.place
        shared = self._around_shared(nest.stage)  # for virtual threads there it is made once
        outer = [x for x in nest.around if x.kind != VIRTUAL or x not in shared]
        loops = _once_by_tag(outer + nest.loops)
        around = loops[: len(loops) - len(nest.loops)]
        self.roots[id(nest.stage)] = len(self.statements)
        dtype = nest.bodies[0].dtype
        unroll: Any = 0
        for loop in loops:
            unroll = loop.unroll if type(loop.unroll) is not int or loop.unroll else unroll
        self.statements.append({
            "extents": [place(x.extent) for x in loops],
            "kinds": [x.kind for x in loops],
            "reduces": [x.reduces for x in loops],
            "own": [0] * len(around) + [1] * len(nest.loops),
            "lane": [LANES.get(x.tag, 0) for x in loops],
            "scope": self._scope(nest.stage),
            "root": _root(nest.stage),
            "needed": [
                place(constant(a.dom.extent)) for a in (*op.axis, *op.reduce_axis) if a.dom
            ],
            "region": [place(nest.extents[a]) for a in op.axis],
            "unroll": place(unroll),
            "operations": arithmetic.count(nest.bodies),
            "itemsize": max(dt.bits(dtype) // 8, 1) * len(nest.bodies),
            "kept": self._role(nest.stage),
            "guarded": any(
                isinstance(x, e.Reduce) and not isinstance(x.condition, e.IntImm)
                for x in nest.bodies
            ),
        })  # fmt: skip
        env = nest.env()
        self._access(nest, loops, nest.stage, [nest.values[a] for a in op.axis], dtype, True)
        for n in nest.loads:
            producer = self.nests.schedule.stage_map[n.producer.op]
            forms = [self.nests.forms.of(i, env) for i in n.indices]
            held = self.nests.of_stage.get(producer)
            if held is not None and not held.whole:
                firsts = [held.first[a] for a in producer.op.axis]
                forms = [f.plus(first, -1) for f, first in zip(forms, firsts)]
            self._access(nest, loops, producer, forms, n.dtype, False, id(n) in nest.below)

    def _role(self, stage: Stage) -> int:
        if stage not in self.nests.of_stage:
            return INPUT
        if stage.is_output:
            return OUTPUT
        return PART if stage.attach_type == AT else WHOLE

    def _around_shared(self, stage: Stage) -> list[Loop]:
        """The loops around a stage that is kept in shared memory, or made on the way there."""
        found: list[Loop] = []
        at: Stage | None = stage
        while at is not None:
            nest = self.nests.of_stage.get(at)
            if nest is not None and self._scope(at) == SHARED:
                found += nest.around
            at = at.attach_stage if at.attach_type == AT else None
        return found

    def _scope(self, stage: Stage) -> int:
        held = self.nests.of_stage.get(stage)
        if held is None:
            return GLOBAL
        scope = self.nests.scope(held)
        return SHARED if scope.startswith("shared") else GLOBAL if scope == "global" else LOCAL

    def _access(
        self,
        nest: Nest,
        loops: list[Loop],
        of: Stage,
        forms: list[Form],
        dtype: str,
        stores: bool,
        asks: bool = False,
    ) -> None:
        held = self.nests.of_stage.get(of)
        if held is None:
            lengths: list[Size] = [constant(d) for d in of.op.output_shape(0)]
        else:
            lengths = _with_pads(of, [held.extents[a] for a in of.op.axis])
        far: list[list[Place]] = []
        step: list[list[Place]] = []
        for form, length in zip(forms, lengths):
            moved = moves(form, length)
            for rows, which in ((far, 0), (step, 1)):
                row = [self.none] * len(loops)
                for loop, how in moved.items():
                    if loop in loops:
                        row[loops.index(loop)] = self.tape.place(how[which])
                rows.append(row)
        shared = held is not None and self._scope(of) == SHARED
        around = held.around if held is not None and shared else []
        key = id(of), stores, far, step
        number = len(self.statements) - 1
        for known in reversed(self.accesses):
            if known["statement"] != number:
                break
            if known["key"] == key:
                known["times"] += 1
                return
        self.accesses.append({
            "key": key, "statement": number, "stores": stores, "times": 1, "far": far, "step": step,
            "gathers": any(type(atom) is Unknown for f in forms for atom in f.terms),
            "bytes": max(dt.bits(dtype) // 8, 1), "role": self._role(of), "place": self._scope(of),
            "lengths": [self.tape.place(x) for x in lengths], "asks": asks,
            "renewed": [loop in around for loop in loops],
        })  # fmt: skip


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


def _root(stage: Stage) -> int:
    """The id of the stage that a stage is attached in at last."""
    while stage.attach_type == AT and stage.attach_stage is not None:
        stage = stage.attach_stage
    return id(stage)


def _aligned(rows: list[list[int]], width: int, fill: int) -> np.ndarray:
    out = np.full((len(rows), width), fill, np.int64)
    for k, row in enumerate(rows):
        if row:
            out[k, width - len(row) :] = row
    return out
