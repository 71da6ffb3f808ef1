"""Threads must not share a byte of an array that holds two elements a byte.

To store half a byte is to read the byte and to write it back: where one thread stores its lower
half and another its upper half at the same time, one of the two is lost. Of an index

    even multiples of loop variables  +  j  +  an even number

the bytes of two threads are apart where the elements are, if ``j``, the loop that goes through both
halves, is one of a thread's own, begins at an even number, and leaves out steps at its end only: a
condition may bound ``j``, as the guard of a tail does, and not choose among its steps. So the bytes
are apart where all multiples are even, and each thread stores to the same half.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.errors import LowerError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.analysis.effects import is_pure
from whet.compiler.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    BufferLoad,
    BufferView,
    FloorDiv,
    IntImm,
    Max,
    Min,
    PrimExpr,
    Var,
)
from whet.compiler.tir.printer import expr_text
from whet.compiler.tir.stmt import (
    PARALLEL,
    THREAD_BINDING,
    AttrStmt,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
)
from whet.compiler.tir.visit.rewrite import conjuncts, nodes_of, statements_of, variables


@dataclass(frozen=True, slots=True)
class Index:
    """The known facts of the lowest bit of an index.

    Attributes:
        odd: the atoms of which it has an odd multiple.
        single: it has one of that atom.
        const: its constant part.
    """

    odd: tuple[PrimExpr, ...]
    single: bool
    const: int

    @staticmethod
    def of(form: Affine) -> Index:
        """That of an index as an affine form."""
        odd = [(atom, c) for atom, c in form.terms.values() if c % 2]
        return Index(tuple(a for a, _ in odd), all(c == 1 for _, c in odd), form.const)

    @property
    def is_even(self) -> bool:
        """The index is an even number."""
        return not self.odd and self.const % 2 == 0


@dataclass(frozen=True, slots=True)
class _Loop:
    """A serial loop around a store.

    Attributes:
        var: its variable.
        begin: its first value.
        values: the variables that depend on its step.
        chosen: what chooses among its steps; None where each is taken but for some at its end.
    """

    var: Var
    begin: PrimExpr
    values: frozenset[Var]
    chosen: PrimExpr | None = None


@dataclass(frozen=True, slots=True)
class _Around:
    """The loops around a store: variables of threads, and the serial ones."""

    threads: tuple[Var, ...] = ()
    loops: tuple[_Loop, ...] = ()


@dataclass(frozen=True, slots=True)
class _Doubt:
    """Why threads may share a byte, and what helps."""

    why: str = ""
    way_out: str = ""


def check_apart(body: Stmt, packed: set[Var]) -> None:
    """Refuse stores of threads to the two halves of a byte.

    Args:
        body: statements over flat buffers.
        packed: the memory that holds two elements a byte.

    Raises:
        LowerError: it is not certain that no two threads store to one byte.
    """
    halves: dict[Var, int] = {}
    for store, around, index in _Stores(body, packed).found(body, _Around()):
        if not around.threads:
            continue
        half = _half_of(store, index, around)
        if isinstance(half, _Doubt) or halves.setdefault(store.buffer.data, half) != half:
            _refuse(store, around, half if isinstance(half, _Doubt) else _Doubt())


class _Stores:
    """The stores to packed memory, with the loops around them."""

    def __init__(self, body: Stmt, packed: set[Var]) -> None:
        self.packed = packed
        self.analyzer = Analyzer()
        changes = nodes_of(body, BufferStore, BufferView)
        self.changing = {n.buffer.data for n in changes}

    def found(self, n: Stmt, around: _Around) -> Iterator[tuple[BufferStore, _Around, Affine]]:
        """The stores in a statement; the index of each, of a vector the first one."""
        match n:
            case BufferStore():
                if n.buffer.data in self.packed:
                    if n.mask is not None:
                        around = self._under(around, n.mask)
                    (index,) = n.indices
                    yield n, around, self.analyzer.affine(getattr(index, "base", index))
            case For():
                bound = n.kind == THREAD_BINDING and n.thread not in ("vthread", "cthread")
                around = self._under(around, n.min)
                around = self._under(around, n.var < n.min + n.extent, True)
                if bound or n.kind == PARALLEL:
                    around = _with_thread(around, n.var)
                else:
                    one = _Loop(n.var, n.min, frozenset((n.var,)))
                    around = replace(around, loops=(*around.loops, one))
                with self.analyzer.inside(n.var, n.min, n.extent):
                    yield from self.found(n.body, around)
            case IfThenElse():
                yield from self.found(n.then_case, self._under(around, n.condition, True))
                if n.else_case is not None:
                    yield from self.found(n.else_case, self._under(around, n.condition))
            case While():
                yield from self.found(n.body, self._under(around, n.condition))
            case LetStmt():
                loops = tuple(
                    replace(a, values=a.values | {n.var}) if self._depends(n.value, a) else a
                    for a in around.loops
                )
                yield from self.found(n.body, replace(around, loops=loops))
            case _:
                if isinstance(n, AttrStmt) and n.key == "thread_extent":
                    around = _with_thread(around, getattr(n.node, "var", n.node))
                for p in statements_of(n):
                    yield from self.found(p, around)

    def _under(self, around: _Around, x: PrimExpr, bounds: bool = False) -> _Around:
        """The loops under a condition, or under a loop whose steps ``x`` says.

        Args:
            bounds: a condition that bounds a loop's variable from above takes none out before
                others.
        """
        parts = conjuncts(x) if bounds else [x]
        loops = []
        for a in around.loops:
            chosen = [p for p in parts if self._depends(p, a) and not (bounds and self._ends(p, a))]
            loops.append(replace(a, chosen=chosen[0]) if chosen and a.chosen is None else a)
        return replace(around, loops=tuple(loops))

    def _depends(self, x: PrimExpr, loop: _Loop) -> bool:
        """Its value may change with the loop's step."""
        if variables(x) & loop.values or not is_pure(x):
            return True
        return any(load.buffer.data in self.changing for load in nodes_of(x, BufferLoad))

    def _ends(self, condition: PrimExpr, loop: _Loop) -> bool:
        """Where it is false at a step of the loop, it is at all later ones."""
        match condition:
            case LT(a=low, b=high) | LE(a=low, b=high) | GT(a=high, b=low) | GE(a=high, b=low):
                gap = self.analyzer.affine(low) - self.analyzer.affine(high)
                return self._grows(gap, loop, 1)
        return False

    def _grows(self, form: Affine, loop: _Loop, sign: int) -> bool:
        """``form * sign`` does not become less at a later step of the loop."""
        for atom, c in form.terms.values():
            if not self._depends(atom, loop):
                continue
            parts: list[PrimExpr] | None
            match atom:
                case Var():
                    parts = [] if atom is loop.var and c * sign > 0 else None
                case Min() | Max():
                    parts = [atom.a, atom.b]
                case FloorDiv(b=IntImm(value=value)) if value > 0:
                    parts = [atom.a]
                case _:
                    parts = None
            if parts is None:
                return False
            if not all(self._grows(self.analyzer.affine(x), loop, c * sign) for x in parts):
                return False
        return True


def _with_thread(around: _Around, var: Var) -> _Around:
    return replace(around, threads=(*around.threads, var))


def _half_of(store: BufferStore, index: Affine, around: _Around) -> int | _Doubt:
    """The half of its bytes that a thread stores first, or why threads may share a byte."""
    lanes = dt.lanes(store.value.dtype)
    if getattr(store.indices[0], "stride", 1) != 1 or (lanes > 1 and store.mask is not None):
        return _Doubt()
    half = _half(index, around)
    return _Doubt() if lanes > 1 and half == 1 else half


def _half(form: Affine, around: _Around) -> int | _Doubt:
    """The same, of a store to the first place of a vector, or to one."""
    known = {a.var for a in around.loops} | set(around.threads)
    if any(not isinstance(a, Var) and variables(a) & known for a, _ in form.terms.values()):
        return _Doubt()
    index = Index.of(form)
    if not index.odd:
        return index.const % 2
    loop = next((a for a in around.loops if a.var is index.odd[0]), None)
    if len(index.odd) > 1 or not index.single or loop is None:
        return _Doubt()
    name, begin = loop.var.name, loop.begin
    if loop.chosen is not None:
        return _Doubt(
            f"of the steps of {name}, {expr_text(loop.chosen)} chooses some, and another thread "
            "may take the others",
            f"let {name} go over elements of one thread, and bound it from above only",
        )
    if not isinstance(begin, IntImm):
        return _Doubt(
            f"{name} begins at {expr_text(begin)}, which may be odd",
            f"let {name} begin at a number, and add {expr_text(begin)} times an even number",
        )
    return _Doubt() if (begin.value + index.const) % 2 else 0


def _refuse(store: BufferStore, around: _Around, doubt: _Doubt) -> None:
    names = ", ".join(v.name for v in around.threads)
    name, kind = store.buffer.name, store.buffer.dtype
    index = store.indices[0]
    why = (
        f"two elements of {kind} are one byte, and two threads may store to one: one of the two "
        "elements would be lost"
    )
    raise LowerError(
        f"{name}[{expr_text(getattr(index, 'base', index))}] of {kind} is stored by the threads "
        f"of {names}",
        f"{why}; {doubt.why}" if doubt.why else why,
        doubt.way_out
        or "split an axis by an even factor and leave the inner loop to one thread, so that each "
        f"stores whole bytes; rows of an odd length: fuse the axes of {name} first",
    )
