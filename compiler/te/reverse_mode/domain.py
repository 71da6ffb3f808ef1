"""Where a derivative is not zero: sums over index equations, solved.

What goes to ``A[j]`` from a computation that reads ``A[f(i)]`` is a sum over all ``i``, of which
those with ``f(i) == j`` count. Here the equations are solved, so that no zero is summed up: as far
as indices are affine forms, with quotients and remainders, the sums that stay have as few steps as
there are terms.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from whet.compiler.arith.affine import Affine
from whet.compiler.arith.analyzer import Analyzer
from whet.compiler.tir.expr import EQ, GE, LT, FloorDiv, IntImm, PrimExpr, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import substitute, variables

_HUGE = 1 << 62


@dataclass(frozen=True)
class Domain:
    """What is left of a sum over index equations.

    Attributes:
        axes: the variables still summed over, from 0, and their extents.
        values: of each variable that the sum began with, its value by ``axes`` and what is given.
        conditions: where they do not hold, there is nothing to add.
    """

    axes: list[tuple[Var, PrimExpr]]
    values: dict[Var, PrimExpr]
    conditions: list[PrimExpr]


@dataclass
class _Within:
    """The condition ``0 <= form < extent``."""

    form: Affine
    extent: Affine


@dataclass
class _System:
    """Equations ``form == 0`` over the variables that are summed over, as they are solved."""

    analyzer: Analyzer
    summed: dict[Var, Affine]
    equations: list[Affine] = field(default_factory=list)
    within: list[_Within] = field(default_factory=list)
    divisible: list[tuple[Affine, int]] = field(default_factory=list)
    unsolved: list[Affine] = field(default_factory=list)
    values: dict[Var, Affine] = field(default_factory=dict)
    quotients: set[Var] = field(default_factory=set)
    _named: dict[tuple[object, int], Affine] = field(default_factory=dict)

    def without_quotients(self, form: Affine) -> Affine:
        """The form with a variable for each quotient of summed ones, which equations define."""
        for key, (atom, _) in list(form.terms.items()):
            if not isinstance(atom, FloorDiv) or not (variables(atom) & self.summed.keys()):
                continue
            inner, divisor = self.analyzer.affine(atom.a), self.analyzer.affine(atom.b)
            if not divisor.is_const or divisor.const <= 0:
                continue
            form = form.replaced(key, self._quotient(inner, divisor.const, atom.dtype))
        return form

    def _quotient(self, inner: Affine, c: int, dtype: str) -> Affine:
        known = self._named.get((inner.key, c))
        if known is not None:
            return known
        q, m = Var("q", dtype), Var("m", dtype)
        low, high = self.analyzer.bounds(inner)
        if low is not None and high is not None:
            self.analyzer.bind(q, Affine.constant(low // c), Affine.constant(high // c))
        self.analyzer.bind(m, Affine.constant(0), Affine.constant(c - 1))
        self.quotients.add(q)
        self.summed[q], self.summed[m] = Affine.constant(_HUGE), Affine.constant(c)
        form = self._named[inner.key, c] = Affine.atom(q, q)
        split = self.without_quotients(inner)
        self.equations.append(split - form.scaled(c) - Affine.atom(m, m))
        return form

    def solve(self) -> None:
        """Express variables by the others until no equation is left that can be solved."""
        while self.equations:
            best = max(
                ((self._worth(v, c), k, v) for k, eq in enumerate(self.equations)
                 for v, c in self._solvable(eq)),
                key=lambda x: x[0], default=None,
            )  # fmt: skip
            if best is None:
                self.unsolved += self.equations
                self.equations = []
                return
            _, k, v = best
            self._eliminate(self.equations.pop(k), v)
        self.equations = []

    def _solvable(self, eq: Affine) -> list[tuple[Var, int]]:
        """The summed variables of an equation that stand in it by themselves alone."""
        hidden: set[Var] = set()
        for atom, _ in eq.terms.values():
            if not isinstance(atom, Var):
                hidden |= variables(atom)
        return [
            (atom, c)
            for atom, c in eq.terms.values()
            if isinstance(atom, Var) and atom in self.summed and atom not in hidden
        ]

    def _worth(self, v: Var, c: int) -> tuple[bool, int]:
        """Which variable to be rid of: one with a factor 1 first, then that of most steps."""
        extent = self.summed[v]
        return abs(c) == 1, extent.const if extent.is_const else _HUGE - 1

    def _eliminate(self, eq: Affine, v: Var) -> None:
        c = eq.terms[v][1]
        rest = eq.without(v).scaled(-1 if c > 0 else 1)  # abs(c) * v == rest
        if abs(c) != 1:
            self.divisible.append((rest, abs(c)))
            rest = self.analyzer.floordiv(rest, abs(c), v.dtype)
        extent = self.summed.pop(v)
        self._replace(v, rest)
        self.values[v] = rest
        if v not in self.quotients:
            self.within.append(_Within(rest, extent))

    def _replace(self, v: Var, by: Affine) -> None:
        def new(form: Affine) -> Affine:
            if not form.mentions({v}):
                return form
            if all(isinstance(a, Var) for a in form.atoms):
                return form.replaced(v, by)
            expr = substitute(form.to_expr(), {v: ops.cast(v.dtype, by.to_expr(v.dtype))})
            return self.analyzer.affine(expr)

        self.equations = [new(eq) for eq in self.equations]
        self.unsolved = [new(eq) for eq in self.unsolved]
        self.within = [_Within(new(w.form), w.extent) for w in self.within]
        self.divisible = [(new(form), c) for form, c in self.divisible]
        self.values = {x: new(form) for x, form in self.values.items()}

    def tighten(self) -> None:
        """Sum over the few steps for which a condition can hold, where they are fewer."""
        for v in sorted(self.summed, key=lambda v: -self._worth(v, 1)[1]):
            found = min(
                ((-(-w.extent.const // abs(c)), k) for k, w in enumerate(self.within)
                 if w.extent.is_const and (c := w.form.coefficient(v))
                 and any(x is v for x, _ in self._solvable(w.form))),
                default=None,
            )  # fmt: skip
            if found is None or found[0] >= self._worth(v, 1)[1]:
                continue
            self._shift(v, *found)

    def _shift(self, v: Var, steps: int, place: int) -> None:
        form = self.within[place].form
        c = form.coefficient(v)
        rest = form.without(v)  # 0 <= c * v + rest < extent
        t = Var(v.name, v.dtype)
        self.analyzer.bind(t, Affine.constant(0), Affine.constant(steps - 1))
        if c > 0:
            first = self.analyzer.floordiv(rest.scaled(-1).shifted(c - 1), c, v.dtype)
            value = first + Affine.atom(t, t)
        else:
            value = self.analyzer.floordiv(rest, -c, v.dtype) - Affine.atom(t, t)
        extent = self.summed.pop(v)
        self.summed[t] = Affine.constant(steps)
        self._replace(v, value)
        self.values[v] = value
        if v not in self.quotients:
            self.within.append(_Within(value, extent))

    def conditions(self) -> list[PrimExpr]:
        """What is not surely true of the solution."""
        out: list[PrimExpr] = []
        for form in self.unsolved:
            if not (form.is_const and form.const == 0):
                out.append(_compared(EQ, form))
        for form, c in self.divisible:
            mod = ops.floormod(form.to_expr(), c)
            rest = self.analyzer.affine(mod)
            if not (rest.is_const and rest.const == 0):
                out.append(ops.compare(EQ, mod, 0))
        for w in self.within:
            if not self.analyzer.at_most_zero(w.form.scaled(-1)):
                out.append(_compared(GE, w.form))
            over = w.form - w.extent
            if not self.analyzer.positive(over.scaled(-1)):
                out.append(_compared(LT, over))
        return out


def _compared(kind: type, form: Affine) -> PrimExpr:
    """``form`` compared with 0, positive terms on one side and negative ones on the other."""
    left = Affine({k: t for k, t in form.terms.items() if t[1] > 0}, max(form.const, 0))
    right = left - form
    a, b = left.to_expr(), right.to_expr()
    return ops.compare(kind, a, b)


def solve(
    analyzer: Analyzer,
    summed: list[tuple[Var, PrimExpr]],
    equations: list[tuple[PrimExpr, PrimExpr]],
) -> Domain:
    """The sum over variables, from 0 to their extents, of those values for which equations hold.

    Args:
        analyzer: knows the ranges of all variables; it learns those of new ones.
        summed: the variables, and their extents.
        equations: pairs of expressions that are equal, over ``summed`` and other variables.
    """
    system = _System(analyzer, {v: analyzer.affine(extent) for v, extent in summed})
    forms = [analyzer.affine(a) - analyzer.affine(b) for a, b in equations]
    system.equations = [system.without_quotients(form) for form in forms] + system.equations
    system.solve()
    system.tighten()
    axes = []
    for v, extent in system.summed.items():
        if extent.is_const and extent.const == 1:
            system._replace(v, Affine.constant(0))
            system.values[v] = Affine.constant(0)
        else:
            axes.append((v, extent.to_expr(v.dtype)))
    values = {v: ops.cast(v.dtype, form.to_expr(v.dtype)) for v, form in system.values.items()}
    return Domain(axes, values, system.conditions())


def is_zero(condition: PrimExpr) -> bool:
    """True for a condition that never holds."""
    return isinstance(condition, IntImm) and not condition.value
