"""LoopPartition: one loop of a nest split so that its main part needs no guard.

    for i in range(3):                          for i in range(2):
        for j in unrolled(4):                       for j in unrolled(4):
            if likely(i * 4 + j < 10):    ->            A[i * 4 + j] = 0
                A[i * 4 + j] = 0                for j in unrolled(4):
                                                    if likely(8 + j < 10):
                                                        A[8 + j] = 0

Guards that need a branch come first: of the loops in such a guard, the innermost one that is
neither unrolled nor vectorised is split. Guards over vector lanes are cheap masks and are looked
at only where no branch was found. At most one loop of a nest is split for guards, so that three odd
sizes do not make eight copies of a kernel.

Threads would wait for each other between the parts of a loop that they share, and one of them would
run its tail: such a loop stays one, and its steps branch.

    parallel i in range(3):                     parallel i in range(3):
        for j in unrolled(4):                       if i < 2:
            if likely(i * 4 + j < 10):    ->            for j in unrolled(4):
                A[i * 4 + j] = 0                            A[i * 4 + j] = 0
                                                    else:
                                                        for j in unrolled(4):
                                                            if likely(8 + j < 10):
                                                                A[8 + j] = 0

Lanes that read at a clamped index are no cheap masks but gathered one by one, in the innermost loop
even: where there are any, one more loop is split, so that its main part reads whole vectors.

    for j in range(2):                          for j in range(1):
        for jj in vectorized(8):          ->        for jj in vectorized(8):
            T[jj] = A[min(j * 8 + jj, 9)]               T[jj] = A[j * 8 + jj]
                                                for jj in vectorized(8):
                                                    T[jj] = A[min(8 + jj, 9)]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.arith.forms import undominated
from whet.compiler.passes.contract.bottom_up import bottom_up
from whet.compiler.passes.contract.option import PassConfig
from whet.compiler.target import Target
from whet.compiler.tir.expr import GE, LE, LT, BufferLoad, IntImm, Max, Min, PrimExpr, Var, is_int
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import (
    PARALLEL,
    SERIAL,
    THREAD_BINDING,
    UNROLLED,
    VECTORIZED,
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    is_nothing,
    nothing,
    seq,
)
from whet.compiler.tir.visit.renew import renewed
from whet.compiler.tir.visit.rewrite import (
    changed,
    conjuncts,
    nodes_of,
    statements_of,
    substitute,
    variables,
)

_HINT = "pragma_loop_partition_hint"
# statements around one other statement, that a partition looks through
_AROUND = (Allocate, AllocateConst, DeclBuffer, LetStmt, AttrStmt, AssertStmt)


def loop_partition(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function with the tails of its nests split off."""
    return func.with_body(_nests(func.body, config["tir.LoopPartition"], set()))


def _nests(body: Stmt, options: PassConfig, hints: set[Var]) -> Stmt:
    """Each outermost loop on its own."""
    if isinstance(body, SeqStmt):
        new = [_nests(x, options, hints) for x in body.seq]
        return body if all(a is b for a, b in zip(new, body.seq)) else seq(*new)
    if isinstance(body, _AROUND):
        _note_hint(body, hints)
        inner = _nests(body.body, options, hints)
        return body if inner is body.body else changed(body, body=inner)
    if not isinstance(body, For):
        return body
    guarded = False
    inside = _inside(body)
    for n in inside:
        guarded |= isinstance(n, IfThenElse) and n.likely
        _note_hint(n, hints)
    clamped = bool(_clamps(inside))
    if not guarded and not hints and not clamped:
        return body
    partition = _Partition(options, hints)
    out, done = partition.visit(body)
    if not done or clamped:
        partition.masks, partition.clamps = True, clamped
        out, _ = partition.visit(out)
    return out


def _clamps(inside: Sequence[Stmt]) -> list[PrimExpr]:
    """Of each index that vectorised loops clamp by a number: when its clamp does nothing."""
    lanes = {n.var for n in inside if isinstance(n, For) and n.kind == VECTORIZED}
    if not lanes:
        return []
    values = [n.value for n in inside if isinstance(n, BufferStore)]
    indices = [i for x in values for load in nodes_of(x, BufferLoad) for i in load.indices]
    found = []
    for n in dict.fromkeys(n for i in indices for n in nodes_of(i, Min, Max)):
        a, b = (bool(variables(x) & lanes) for x in (n.a, n.b))
        if a != b and isinstance(n.b if a else n.a, IntImm):
            holds = LE if isinstance(n, Min) else GE
            found.append(ops.compare(holds, *((n.a, n.b) if a else (n.b, n.a))))
    return found


def _note_hint(n: Stmt, hints: set[Var]) -> None:
    """Remember the loop that a hint is about: the one that it names or the next one inside."""
    if isinstance(n, For) and n.annotations.get(_HINT):
        hints.add(n.var)
    if not isinstance(n, AttrStmt) or n.key != _HINT or not int(n.value):
        return
    about = getattr(n.node, "var", n.node)
    inner: Stmt = n.body
    while not isinstance(about, Var) and isinstance(inner, _AROUND):
        inner = inner.body
    if isinstance(about, Var):
        hints.add(about)
    elif isinstance(inner, For):
        hints.add(inner.var)


class _Partition:
    """Splits one loop of a nest at a time.

    Attributes:
        masks: whether to look at guards over vector lanes.
        clamps: whether to look at nothing but clamped lanes.
    """

    def __init__(self, options: PassConfig, hints: set[Var]) -> None:
        self.masks = False
        self.clamps = False
        self.hints = hints
        self.tails: list[Stmt] = []  # what only few steps run is split no further
        self.constant_loops = options["partition_const_loop"]
        self.unroll_hinted = options["unroll_loop_with_partition_hint_no_interval"]
        self.analyzer = Analyzer()
        self.threads: set[Var] = set()  # loops over a block's threads around the statement
        # those that wait for each other in the loop at hand, whose parts are to be alike for them
        self.waiting: set[Var] = set()

    def visit(self, n: Stmt) -> tuple[Stmt, bool]:
        """The statement with one loop split, innermost first; True if one was."""
        if isinstance(n, SeqStmt):
            parts = [self.visit(x) for x in n.seq]
            return seq(*[p for p, _ in parts]), any(done for _, done in parts)
        if isinstance(n, _AROUND):
            body, done = self.visit(n.body)
            return (changed(n, body=body), True) if done else (n, False)
        if isinstance(n, IfThenElse) and self._is_alone(n):
            body, done = self.visit(n.then_case)
            return (changed(n, then_case=body), True) if done else (n, False)
        if not isinstance(n, For) or any(n is x for x in self.tails):
            return n, False
        self.analyzer.bind_loop(n.var, n.min, n.extent)
        if _is_of_block(n):
            self.threads.add(n.var)
        try:
            body, done = self.visit(n.body)
            if done:
                return changed(n, body=body), True
            return self._split(n) if self._may_split(n) else (n, False)
        finally:
            del self.analyzer.ranges[n.var]
            self.threads.discard(n.var)

    def _is_alone(self, n: IfThenElse) -> bool:
        """True for a branch beside which there is nothing, or what only few steps run."""
        return n.else_case is None or any(n.else_case is x for x in self.tails)

    def _may_split(self, n: For) -> bool:
        """True for a loop that is split, if it has guards."""
        if n.kind not in (SERIAL, PARALLEL):
            return False
        if self.hints:
            return n.var in self.hints
        return self.constant_loops or not isinstance(n.extent, IntImm)

    def _split(self, loop: For) -> tuple[Stmt, bool]:
        inside = _inside(loop.body)
        loops = [n for n in inside if isinstance(n, For)]
        inner = {n.var: n.kind for n in loops}
        for n in loops:
            self.analyzer.bind_loop(n.var, n.min, n.extent)
        self.waiting = self.threads if any(map(_is_shared, inside)) else set()
        try:
            return self._split_with(loop, inner, inside)
        finally:
            for var in inner:
                self.analyzer.ranges.pop(var, None)

    def _split_with(
        self, loop: For, inner: dict[Var, str], inside: Sequence[Stmt]
    ) -> tuple[Stmt, bool]:
        begin = self.analyzer.affine(loop.min)
        clamps = _clamps(inside) if self.masks else []
        # the clamp goes when the main part is simplified, which takes numbers for its ends
        edges = [x for c in clamps if (x := self._edge(c, loop.var, inner)) and x[0].is_const]
        if self.clamps and not edges:
            return loop, False
        for guard in inside:
            if isinstance(guard, IfThenElse) and guard.likely:
                found = [self._edge(c, loop.var, inner) for c in conjuncts(guard.condition)]
                edges += [x for x in found if x]
        # the main part begins at the greatest of the first, and ends at the least of the last
        first, last = ([form for form, is_last in edges if is_last == k] for k in (False, True))
        if not first and not last:
            if self.unroll_hinted and loop.var in self.hints and loop.kind == SERIAL:
                return changed(loop, kind=UNROLLED), True
            return loop, False
        # [lo, main_lo) and [main_hi, hi) are guarded, between them nothing is; beyond is no effect
        ends = [begin + self.analyzer.affine(loop.extent), *self._live_end(loop, inner, inside)]
        lo, hi = begin.to_expr(), self._extreme(ends, ops.minimum)
        main_lo = self._extreme([begin, *first], ops.maximum)
        main_lo = ops.minimum(main_lo, hi) if first else main_lo
        main_hi = ops.maximum(self._extreme([*ends, *last], ops.minimum), main_lo)
        main = _unguarded(loop.body, lambda c: self._edge(c, loop.var, inner) is not None)
        if loop.kind == PARALLEL and not self.clamps:
            before = self._branch(loop, lo, main_lo) if first else None
            after = self._branch(loop, main_hi, hi) if last else None
            if after is not None:
                main = IfThenElse(ops.compare(LT, loop.var, main_hi), main, after)
            if before is not None:
                main = IfThenElse(ops.compare(GE, loop.var, main_lo), main, before)
            return self._part(changed(loop, body=main), lo, hi), True
        parts = [self._part(changed(loop, body=main), main_lo, main_hi)]
        tail = changed(loop, kind=SERIAL)
        if first:
            parts.insert(0, self._tail(self._part(tail, lo, main_lo)))
        if last:
            parts.append(self._tail(self._part(tail, main_hi, hi)))
        return seq(*parts), True

    def _extreme(
        self, forms: list[Affine], pick: Callable[[PrimExpr, PrimExpr], PrimExpr]
    ) -> PrimExpr:
        """The least or greatest of several forms, without those that never are it."""
        sign = 1 if pick is ops.minimum else -1
        kept = undominated(forms, sign, self.analyzer.at_most_zero)
        return reduce(pick, [f.to_expr() for f in kept])

    def _part(self, loop: For, begin: PrimExpr, end: PrimExpr) -> Stmt:
        """The loop from one step to another."""
        first = self.analyzer.affine(begin)
        extent = self.analyzer.affine(end) - first
        if self.analyzer.at_most_zero(extent):
            return nothing()
        return changed(loop, min=first.to_expr(), extent=extent.to_expr())

    def _branch(self, loop: For, begin: PrimExpr, end: PrimExpr) -> Stmt | None:
        """The body of a guarded part, as a branch of the loop; None: the part has no steps."""
        part = self._part(changed(loop, kind=SERIAL), begin, end)
        if is_nothing(part):
            return None
        own = renewed(part)
        assert isinstance(own, For)
        step = own.min if is_int(own.extent, 1) else loop.var
        self.tails.append(substitute(own.body, {own.var: step}))
        return self.tails[-1]

    def _tail(self, part: Stmt) -> Stmt:
        """A guarded part, with variables of its own."""
        self.tails.append(renewed(part))
        return self.tails[-1]

    def _edge(
        self, c: PrimExpr, var: Var, inner: dict[Var, str], sign: int = 1
    ) -> tuple[Affine, bool] | None:
        """Up to where (True) or from where on (False) a guard holds for all inner steps.

        With ``sign`` -1: up to where it holds for any inner step. None for a guard that this loop
        cannot get rid of.
        """
        d = self.analyzer.inequality(c)
        if d is None or variables(c) & self.waiting:
            return None
        lanes = any(inner.get(v) == VECTORIZED for v in variables(c))
        if lanes and not self.masks:
            return None
        coef, rest = d.coefficient(var), d.without(var)
        if not coef or rest.mentions({var}):
            return None
        # Bounds of the inner loops must be known here: an inner serial loop in the guard would
        # have been split instead.
        worst = self.analyzer.eliminate(rest, set(inner), sign)
        if worst is None or worst.mentions({*inner, var}):
            return None
        if coef > 0:
            return self.analyzer.floordiv(worst.scaled(-1), coef).shifted(1), True
        # -|coef| * var + worst <= 0  <=>  var >= ceil(worst / |coef|)
        return self.analyzer.floordiv(worst.shifted(-coef - 1), -coef), False

    def _live_end(self, loop: For, inner: dict[Var, str], inside: Sequence[Stmt]) -> list[Affine]:
        """The one step from which on nothing has an effect; none if that is not known."""
        allocated = {id(n.buffer) for n in inside if isinstance(n, Allocate)}
        ends: list[Affine] = []

        def effect(n: Stmt, end: Affine | None) -> bool:
            """True where everything inside is over at a known step; collects the steps."""
            if isinstance(n, SeqStmt):
                return all(effect(x, end) for x in n.seq)
            if isinstance(n, (For, Allocate, AllocateConst, LetStmt, AttrStmt)):
                return effect(n.body, end)
            if isinstance(n, IfThenElse) and n.else_case is None and n.likely:
                for c in conjuncts(n.condition):
                    masks, self.masks = self.masks, True
                    edge = self._edge(c, loop.var, inner, -1)
                    self.masks = masks
                    if edge is not None and edge[1]:
                        end = edge[0]
                        break
                return effect(n.then_case, end)
            if isinstance(n, BufferStore):
                if id(n.buffer) in allocated:
                    return True
                if end is None:
                    return False
                ends.append(end)
                return True
            return is_nothing(n)

        known = effect(loop.body, None) and len({f.key for f in ends}) == 1
        return ends[-1:] if known else []


def _is_of_block(n: Stmt) -> bool:
    """True for a loop over threads of a block."""
    return isinstance(n, For) and n.kind == THREAD_BINDING and n.thread.startswith("threadIdx")


def _is_shared(n: Stmt) -> bool:
    """True where the threads of a block have a statement's memory, or its work, together."""
    kept = isinstance(n, Allocate) and n.buffer.storage_scope.startswith("shared")
    return kept or _is_of_block(n)


def _inside(body: Stmt) -> list[Stmt]:
    """A statement and all statements in it, outer ones first."""
    out: list[Stmt] = []
    stack = [body]
    while stack:
        n = stack.pop()
        out.append(n)
        stack += reversed(statements_of(n))
    return out


def _unguarded(body: Stmt, holds: Callable[[PrimExpr], bool]) -> Stmt:
    """The statement without the guards that hold."""

    def branch(n: IfThenElse) -> Stmt:
        if not n.likely:
            return n
        left = [c for c in conjuncts(n.condition) if not holds(c)]
        if not left:
            return n.then_case
        return IfThenElse(ops.all_of(*left), n.then_case, n.else_case, True)

    return bottom_up(body, {IfThenElse: branch})
