"""PrivatizeShared: shared memory of which each thread uses a part of its own becomes registers.

Before, in a kernel of 32 threads::

    R = allocate([256], "float32", "shared")
    for u in unrolled(2):
        R[u * 128 + threadIdx.x * 4 + ramp(4)] = X[u * 128 + threadIdx.x * 4 + ramp(4)]
    ... R[u * 128 + threadIdx.x * 4 + v] ...

After::

    R = allocate([8], "float32", "local")
    for u in unrolled(2):
        R[u * 4 + ramp(4)] = X[u * 128 + threadIdx.x * 4 + ramp(4)]
    ... R[u * 4 + v] ...

The terms of an index are those of loops, and those of threads, which part them into groups: in the
program above v and lanes below threadIdx.x, u above it. Where no group reaches the factor of the
thread above it, and every thread of the block has a term, no two threads meet, and the groups alone
say which of a thread's elements it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.passes.contract.uses import handed_on
from whet.compiler.passes.gpu.verify_scopes import refuse_warps
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, IntImm, PrimExpr, Ramp, Var
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import Allocate, AttrStmt, BufferStore, For
from whet.compiler.tir.visit.buffers import BufferRewriter, at_base
from whet.compiler.tir.visit.rewrite import post_order_visit

# A thread has 255 registers of 32 bits at most.
_MOST_BYTES = 1024
_ZERO = ops.const(0)


def privatize_shared(func: PrimFunc) -> PrimFunc:
    """The kernel with its threads' own parts of shared memory in registers.

    Raises:
        LowerError: a warp's threads would use each other's memory.
    """
    accesses = _Accesses(func)
    plans = {b: p for b in accesses.uses if (p := accesses.plan(b)) is not None}
    if plans:
        affine = accesses.analyzer.affine
        rewrite = BufferRewriter(
            lambda b: plans[b].buffer if b in plans else b,
            lambda b, indices: (at_base(indices[0], lambda i: plans[b].index(affine(i))),),
        )
        func = func.with_body(rewrite(func.body))
    return refuse_warps(func)


@dataclass
class _Use:
    """The accesses to a buffer.

    Attributes:
        forms: of each access's first element, with the number of its elements.
        other: whether it is used in any other way, e.g. handed to a function.
    """

    forms: list[tuple[Affine, int]] = field(default_factory=list)
    other: bool = False


@dataclass(frozen=True)
class _Group:
    """Terms of indices between those of two threads.

    Attributes:
        base: what the factors are multiples of: the first one past the thread below.
        end: the factor of the thread above, which they must not reach; 0: there is none.
        step: what ``base`` becomes.
        count: the values that the terms of an access take together, in units of ``base``.
    """

    base: int
    end: int
    step: int = 1
    count: int = 1


@dataclass(frozen=True)
class _Plan:
    """How a thread numbers its own elements.

    Attributes:
        groups: of terms, the smallest factors first.
        threads: the threads' variables.
        buffer: in registers.
    """

    groups: tuple[_Group, ...]
    threads: frozenset[Var]
    buffer: Buffer

    def index(self, form: Affine) -> PrimExpr:
        """The element of an access."""
        terms = {}
        for key, (atom, factor) in form.terms.items():
            if atom not in self.threads:
                g = _group_of(self.groups, factor)
                terms[key] = (atom, factor // g.base * g.step)
        const = sum(
            value * g.step for g, value in zip(self.groups, _parts(self.groups, form.const))
        )
        return Affine(terms, const).to_expr()


class _Accesses:
    """The accesses of a kernel to its shared memory."""

    def __init__(self, func: PrimFunc) -> None:
        self.analyzer = Analyzer()
        self.uses: dict[Buffer, _Use] = {}
        self.values: dict[PrimExpr, int] = {}
        self.block: set[Var] = set()
        self.whole = True
        post_order_visit(func.body, self._declare)
        post_order_visit(func.body, self._use)

    def _declare(self, n: object) -> None:
        if isinstance(n, Allocate) and n.buffer.storage_scope in ("shared", "warp"):
            self.uses[n.buffer] = _Use()
        elif isinstance(n, For):
            self._range(n.var, n.min, n.extent)
        elif isinstance(n, AttrStmt) and n.key == "thread_extent":
            self._range(n.node, _ZERO, n.value)
            if n.node.name.startswith("threadIdx"):
                self.whole = self.whole and n.node in self.values
                if self.values.get(n.node) != 1:
                    self.block.add(n.node)

    def _range(self, var: Var, least: PrimExpr, extent: PrimExpr) -> None:
        self.analyzer.bind_loop(var, least, extent)
        if isinstance(least, IntImm) and isinstance(extent, IntImm) and least.value >= 0:
            self.values[var] = least.value + extent.value

    def _use(self, n: object) -> None:
        if isinstance(n, (BufferLoad, BufferStore)) and n.buffer in self.uses:
            use = self.uses[n.buffer]
            index = n.indices[0]
            base, lanes = (index.base, index.lanes) if isinstance(index, Ramp) else (index, 1)
            use.other = use.other or (isinstance(index, Ramp) and index.stride != 1)
            use.forms.append((self.analyzer.affine(base), lanes))
        elif (held := handed_on(n)) is not None and held in self.uses:
            self.uses[held].other = True

    def plan(self, buffer: Buffer) -> _Plan | None:
        """How a thread would number its part of a buffer; None where threads may meet."""
        use = self.uses[buffer]
        threads = self.block
        if buffer.storage_scope == "warp":  # each warp has its own
            threads = {t for t in threads if t.name == "threadIdx.x"}
        if use.other or not use.forms or not threads or not self.whole:
            return None
        places: dict[PrimExpr, int] = {}
        for form, _ in use.forms:
            atoms = [atom for atom, _ in form.terms.values()]
            if form.const < 0 or any(not isinstance(a, Var) for a in atoms):
                return None
            if threads.difference(atoms) or any(a not in self.values for a in atoms):
                return None
            for atom, factor in form.terms.values():
                if factor < 0 or (atom in threads and places.setdefault(atom, factor) != factor):
                    return None
        groups = self._groups(use, places)
        size = math.prod(g.count for g in groups)
        if not groups or size * dt.itemsize(buffer.dtype) > _MOST_BYTES:
            return None
        local = replace(buffer, shape=(ops.const(size),), storage_scope="local")
        return _Plan(tuple(groups), frozenset(threads), local)

    def _groups(self, use: _Use, places: dict[PrimExpr, int]) -> list[_Group]:
        """The groups of terms around the threads' ones; none where threads may meet."""
        bounds = [(1, 1), *sorted((factor, self.values[t]) for t, factor in places.items())]
        plain = [
            _Group(factor * extent, end)
            for (factor, extent), end in zip(bounds, [*(f for f, _ in bounds[1:]), 0])
        ]
        if any(0 < g.end < g.base for g in plain):
            return []
        counts = [1] * len(plain)
        for form, lanes in use.forms:
            tops = _parts(plain, form.const)
            tops[0] += lanes - 1
            for atom, factor in form.terms.values():
                if atom in places:
                    continue
                g = _group_of(plain, factor)
                if factor % g.base or (g.end and factor >= g.end):
                    return []
                tops[plain.index(g)] += factor // g.base * (self.values[atom] - 1)
            counts = [max(c, top + 1) for c, top in zip(counts, tops)]
        found, step = [], 1
        for g, count in zip(plain, counts):
            if g.end and g.base * count > g.end:
                return []
            found.append(replace(g, step=step, count=count))
            step *= count
        return found


def _group_of(groups: Sequence[_Group], factor: int) -> _Group:
    """The group that a factor belongs to: the last one that begins at or below it."""
    return next(g for g in reversed(groups) if g.base <= factor)


def _parts(groups: Sequence[_Group], number: int) -> list[int]:
    """A number as digits of the groups, in units of their bases."""
    out = []
    for g in reversed(groups):
        out.append(number // g.base)
        number %= g.base
    return out[::-1]
