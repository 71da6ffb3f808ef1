"""A tile's computation matched with an instruction's: by what is read and written where.

An instruction's axis stands for an axis of the tile of the same extent, a tensor of its for one of
the stage's, of which the tile reads a region: index = first + steps x index in the instruction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import TYPE_CHECKING

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.arith.keys import structural_key
from whet.compiler.te.lang.tensor import Tensor
from whet.compiler.te.tensorize.terms import Term, Terms
from whet.compiler.te.tensorize.tile import Tile
from whet.compiler.tir.expr import CommReducer, IterVar, PrimExpr, Reduce, Var
from whet.compiler.tir.printer import expr_text

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(slots=True, frozen=True)
class Region:
    """The part of a tensor that an instruction's tensor stands for.

    Attributes:
        tensor: of the schedule.
        first: the indices of its first element, over the loops around the tile.
        steps: dimension -> for each dimension of the instruction's tensor, how far one step there
            moves the index.
    """

    tensor: Tensor
    first: tuple[Affine, ...]
    steps: tuple[tuple[int, ...], ...]

    def same(self, other: Region) -> bool:
        """True for the same part of the same tensor."""
        return (
            self.tensor == other.tensor
            and self.steps == other.steps
            and all(x.key == y.key for x, y in zip(self.first, other.first))
        )


@dataclass(slots=True, frozen=True)
class Match:
    """How a tile is what an instruction computes.

    Attributes:
        axes: instruction's axis -> the tile's axis.
        regions: instruction's input -> the part of a tensor.
        scalars: scalar parameter -> its value.
    """

    axes: dict[IterVar, IterVar]
    regions: dict[Tensor, Region] = field(default_factory=dict)
    scalars: dict[Var, PrimExpr] = field(default_factory=dict)


class Parting:
    """Where two computations part: of all places that were tried, the deepest with a reason."""

    def __init__(self) -> None:
        self.rank, self.text = (-1, False), ""

    def note(self, depth: int, theirs: str, ours: str, why: str = "") -> None:
        """Remember a place, unless a better one is known."""
        if (depth, bool(why)) > self.rank:
            self.rank = depth, bool(why)
            self.text = f"the stage has {ours} where the instruction has {theirs}" + (
                f": {why}" if why else ""
            )


def matched(tile: Tile, bodies: Sequence[PrimExpr]) -> Match:
    """How the tile is what its instruction computes.

    Raises:
        LowerError: it is not; the text shows both, and where they part.
    """
    parting = Parting()
    for axes in _assignments(tile, parting):
        for found in _Matcher(tile, axes, parting).all(bodies):
            return found
    raise tile.error(
        f"the tile is not what {tile.intrin.name} computes: {parting.text}",
        f"the stage:       {_stage_text(tile, bodies)}\nthe instruction: {_intrin_text(tile)}",
    )


def _assignments(tile: Tile, parting: Parting) -> Iterator[dict[IterVar, IterVar]]:
    """Axes of the tile for those of the instruction: first in the order in which both stand."""
    op = tile.intrin.op
    of_kinds: list[list[dict[IterVar, IterVar]]] = []
    for reduces, wanted in ((False, op.axis), (True, op.reduce_axis)):
        theirs = [a for a in wanted if int(a.domain.extent) != 1]
        ours = [x for x in tile.axes.values() if x.reduces is reduces and x.extent != 1]
        found = [
            dict(zip(theirs, [x.axis for x in order]))
            for order in permutations(ours, len(theirs))
            if len(ours) == len(theirs)
            and all(int(a.domain.extent) == x.extent for a, x in zip(theirs, order))
        ]
        if not found:
            kind = "reduced" if reduces else "data"
            parting.note(
                100,
                f"the {kind} axes {_axes_text({a.name: int(a.domain.extent) for a in theirs})}",
                f"the {kind} axes {_axes_text({x.axis.name: x.extent for x in ours})}",
            )
        of_kinds.append(found)
    for data, reduced in product(*of_kinds):
        yield {**data, **reduced}


def _axes_text(extents: Mapping[str, int]) -> str:
    return ", ".join(f"{name}({n})" for name, n in extents.items()) or "(none)"


class _Matcher:
    """Matches the bodies for one choice of axes."""

    def __init__(self, tile: Tile, axes: dict[IterVar, IterVar], parting: Parting) -> None:
        self.tile, self.axes, self.parting = tile, axes, parting
        op = tile.intrin.op
        self.free = set(tile.intrin.scalar_params)
        own = Analyzer()
        values: dict[Var, PrimExpr] = {}
        self.of: dict[Var, Var] = {}  # an instruction's axis -> the tile's variable
        for a in (*op.axis, *op.reduce_axis):
            values[a.var] = a.domain.min
            if a in axes:
                var = tile.axes[axes[a]].var
                assert var is not None
                begin = int(a.domain.min)
                end = begin + int(a.domain.extent) - 1
                own.bind(a.var, Affine({}, begin), Affine({}, end))
                values[a.var], self.of[a.var] = a.var, var
        self.theirs = Terms(own, values)
        self.ours = Terms(tile.bounds.analyzer, tile.values())
        self.inner: set[Var] = {x.var for x in tile.axes.values() if x.var is not None}

    def all(self, bodies: Sequence[PrimExpr]) -> Iterator[Match]:
        """Every way to match all bodies."""
        theirs = self.tile.intrin.op.body
        if len(theirs) != len(bodies):
            self.parting.note(99, f"{len(theirs)} outputs", f"{len(bodies)} outputs")
            return
        yield from self._bodies([*zip(theirs, bodies)], Match(self.axes))

    def _bodies(self, pairs: list[tuple[PrimExpr, PrimExpr]], known: Match) -> Iterator[Match]:
        if not pairs:
            yield known
            return
        (p, s), *rest = pairs
        for found in self._body(p, s, known):
            yield from self._bodies(rest, found)

    def _body(self, p: PrimExpr, s: PrimExpr, known: Match) -> Iterator[Match]:
        if not isinstance(p, Reduce) or not isinstance(s, Reduce):
            if isinstance(p, Reduce) or isinstance(s, Reduce):
                texts = ["a reduction" if isinstance(x, Reduce) else "none" for x in (p, s)]
                self.parting.note(0, *texts)
                return
            if p.dtype != s.dtype:
                self.parting.note(0, p.dtype, s.dtype)
                return
            yield from self.unify(self.theirs(p), self.ours(s), known, 1)
            return
        if not _same_combiner(p.combiner, s.combiner) or p.value_index != s.value_index:
            self.parting.note(
                1, f"{p.combiner.name} of {p.dtype}", f"{s.combiner.name} of {s.dtype}",
                "they reduce in another way",
            )  # fmt: skip
            return
        if p.init:
            self.parting.note(1, "a first value of its own", "the reduction")
            return
        pairs = [*zip(p.source, s.source), (p.condition, s.condition)]
        terms = [(self.theirs(x), self.ours(y)) for x, y in pairs]
        yield from self._sequence(terms, known, 2)

    def _sequence(
        self, pairs: Sequence[tuple[Term, Term]], known: Match, depth: int
    ) -> Iterator[Match]:
        if not pairs:
            yield known
            return
        for found in self.unify(*pairs[0], known, depth):
            yield from self._sequence(pairs[1:], found, depth)

    def unify(self, p: Term, s: Term, known: Match, depth: int) -> Iterator[Match]:
        """Every way in which the stage's term ``s`` is the instruction's term ``p``."""
        if p.op == "var" and p.what in self.free:
            yield from self._scalar(p, s, known, depth)
            return
        if p.op == "index" and s.op == "index":
            if self._moved(p.what).key == s.what.key:
                yield known
            else:
                self._part(depth, p, s, "the axes count from other numbers, or differ")
            return
        same = p.op == s.op and p.dtype == s.dtype and len(p.args) == len(s.args)
        if not same:
            self._part(depth, p, s, "" if p.dtype == s.dtype else f"{s.dtype} and {p.dtype}")
            return
        if p.op == "load":
            yield from self._load(p, s, known, depth)
        elif p.op == "var":
            if p.what is s.what:
                yield known
            else:
                self._part(depth, p, s, "a parameter goes into scalar_params")
        elif not p.args:
            if p.what == s.what:
                yield known
            else:
                self._part(depth, p, s)
        else:
            parts = self._commuted if p.commutes else self._in_order
            yield from parts(p.args, s.args, known, depth + 1)

    def _in_order(
        self, theirs: Sequence[Term], ours: Sequence[Term], known: Match, depth: int
    ) -> Iterator[Match]:
        return self._sequence([*zip(theirs, ours)], known, depth)

    def _commuted(
        self, theirs: Sequence[Term], ours: Sequence[Term], known: Match, depth: int
    ) -> Iterator[Match]:
        """Operands in any order."""
        if not theirs:
            yield known
            return
        for k, s in enumerate(ours):
            for found in self.unify(theirs[0], s, known, depth):
                rest = [*ours[:k], *ours[k + 1 :]]
                yield from self._commuted(theirs[1:], rest, found, depth)

    def _part(self, depth: int, p: Term, s: Term, why: str = "") -> None:
        self.parting.note(depth, expr_text(p.expr), expr_text(s.expr), why)

    def _scalar(self, p: Term, s: Term, known: Match, depth: int) -> Iterator[Match]:
        """A scalar parameter: any value that is the same in all of the tile."""
        value = self._outer(s)
        if value is None or value.dtype != p.what.dtype:
            self._part(depth, p, s, "a scalar parameter is the same in all of the tile")
            return
        before = known.scalars.get(p.what)
        if before is None:
            yield Match(known.axes, known.regions, {**known.scalars, p.what: value})
        elif structural_key(before) == structural_key(value):
            yield known

    def _outer(self, s: Term) -> PrimExpr | None:
        """A term's expression, over tensors and axes; None if it changes inside the tile."""
        waiting = [s]
        while waiting:
            x = waiting.pop()
            forms = (*x.indices, x.what) if x.op == "index" else x.indices
            if any(f.mentions(self.inner) for f in forms):
                return None
            waiting += x.args
        return s.expr

    def _moved(self, form: Affine) -> Affine:
        """A form of the instruction's over the tile's variables."""
        known = {v: Affine.atom(var, var) for v, var in self.of.items()}
        return form.mapped(lambda v: Affine.atom(v, v), known)

    # loads

    def _load(self, p: Term, s: Term, known: Match, depth: int) -> Iterator[Match]:
        region = self._region(p, s, depth)
        if region is None:
            return
        before = known.regions.get(p.what)
        if before is None:
            yield Match(known.axes, {**known.regions, p.what: region}, known.scalars)
        elif before.same(region):
            yield known
        else:
            self._part(depth, p, s, f"{p.what.name} stood for another part before")

    def _region(self, p: Term, s: Term, depth: int) -> Region | None:
        """The part of the stage's tensor that the instruction's stands for in a pair of reads."""
        first: list[Affine] = []
        steps: list[tuple[int, ...]] = []
        for form in s.indices:
            moves = {v: form.coefficient(v) for v in self.inner}
            base = form
            for v in moves:
                base = base.without(v)
            if base.mentions(self.inner):
                self._part(depth, p, s, "an index is no straight step of the tile's axes")
                return None
            row = self._row(p, {v: c for v, c in moves.items() if c})
            if row is None:
                self._part(depth, p, s, "they are read along other axes")
                return None
            offset = sum(k * g.const for k, g in zip(row, p.indices))
            first.append(base.shifted(-offset))
            steps.append(row)
        return Region(s.what, tuple(first), tuple(steps))

    def _row(self, p: Term, moves: dict[Var, int]) -> tuple[int, ...] | None:
        """Steps of one index for each dimension of the instruction's tensor; None for none."""
        theirs = [self._moved(g) for g in p.indices]
        row = []
        for g in theirs:
            if not g.terms:
                row.append(0)
                continue
            others = [h for h in theirs if h is not g]
            alone = [v for v, _ in g.terms.values() if not any(v in h.terms for h in others)]
            if not alone:
                return None
            step, rest = divmod(moves.get(alone[0], 0), g.coefficient(alone[0]))
            if rest:
                return None
            row.append(step)
        got = Affine({}, 0)
        for k, g in zip(row, theirs):
            got = got + g.scaled(k)
        left = {v: c for v, (_, c) in got.terms.items()}
        return tuple(row) if left == moves else None


def _same_combiner(p: CommReducer, s: CommReducer) -> bool:
    """True for the same combination from the same first value."""
    if len(p.lhs) != len(s.lhs):
        return False
    names = dict(zip((*s.lhs, *s.rhs), (*p.lhs, *p.rhs)))
    if any(x.dtype != y.dtype for x, y in names.items()):
        return False
    terms = Terms(Analyzer(), {})
    pairs = [
        (terms(x), _renamed(terms(y), names))
        for x, y in ((*zip(p.result, s.result), *zip(p.identity, s.identity)))
    ]
    return all(_alike(x, y) for x, y in pairs)


def _renamed(t: Term, names: Mapping[Var, Var]) -> Term:
    if t.op == "var":
        return Term("var", (), t.dtype, t.expr, t.span, names.get(t.what, t.what))
    args = tuple(_renamed(x, names) for x in t.args)
    return Term(t.op, args, t.dtype, t.expr, t.span, t.what, t.indices)


def _alike(x: Term, y: Term) -> bool:
    if (x.op, x.dtype, len(x.args)) != (y.op, y.dtype, len(y.args)):
        return False
    if not x.args:
        return bool(x.what is y.what if x.op == "var" else x.what == y.what)
    orders = permutations(y.args) if x.commutes else [y.args]
    return any(all(map(_alike, x.args, order)) for order in orders)


def _stage_text(tile: Tile, bodies: Sequence[PrimExpr]) -> str:
    over = {x.axis.name: x.extent for x in tile.axes.values() if x.extent != 1}
    op = tile.stage.op
    return _computation(op.name, [a.name for a in op.axis], bodies, over)


def _intrin_text(tile: Tile) -> str:
    op = tile.intrin.op
    over = {a.name: int(a.domain.extent) for a in (*op.axis, *op.reduce_axis)}
    return _computation(op.name, [a.name for a in op.axis], op.body, over)


def _computation(
    name: str, axes: list[str], bodies: Sequence[PrimExpr], over: Mapping[str, int]
) -> str:
    texts = [expr_text(b) for b in bodies]
    return f"{name}[{', '.join(axes)}] = {'; '.join(texts)} over {_axes_text(over)}"
