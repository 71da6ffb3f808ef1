"""Sizes that may be traced: the algebra of bound inference for features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.autotune.features.loops.forms import (
    ZERO,
    Clamped,
    Form,
    Loop,
    Quotient,
    Remainder,
    Size,
    Unknown,
    difference,
    loops_of,
    same,
    same_form,
)
from whet.compiler.tir.expr import (
    Add,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Sub,
    Var,
)
from whet.compiler.tir.tracing.traced import least, most
from whet.compiler.tir.visit.rewrite import nodes

ASSUMED = 64
"""Steps of a loop whose length is known only when the kernel runs."""


def constant(n: Any, otherwise: int = ASSUMED) -> Size:
    """The number that an expression is; a nominal one where it is known only at run time."""
    return n.value if isinstance(n, IntImm) else otherwise


class TracedSizes:
    """Sizes that may be traced: the algebra of bound inference for features.

    Numbers of steps are ints, nominal ones where they are known only when the kernel runs. A
    division that occurs twice is one atom.

    Attributes:
        loops: the loops made so far, by the schedule's.
    """

    def __init__(self) -> None:
        self.loops: dict[IterVar, Loop] = {}
        self._remainders: list[Remainder] = []

    def size(self, n: Any) -> Size:
        """A number of steps."""
        return constant(n)

    def form(self, n: Any) -> Form:
        """The first index of an axis; 0 where it is known only when the kernel runs."""
        return Form({}, constant(n, 0))

    def clamped(self, given: Size, parent: Size) -> Size:
        """The size of a split, not above its loop's."""
        return most(least(given, parent), 1)

    def product(self, a: Size, b: Size) -> Size:
        """``a * b``."""
        return a * b

    def scaled(self, form: Form, by: Size) -> Form:
        """``by * form``."""
        return form.scaled(by)

    def ceildiv(self, a: Size, b: Size) -> Size:
        """``a / b`` rounded up."""
        return -(-a // b)

    def covered(self, outer: Size, inner: Size, parent: Size) -> bool:
        """True: guards have no part in features."""
        return True

    def shifted_inwards(self, begin: Form, steps: Size, whole: Size) -> Form | None:
        """The begin as it is: where a tail begins has no part in features, either."""
        return begin

    def extremes(
        self, index: PrimExpr, values: dict[Var, Form], inner: Sequence[IterVar]
    ) -> tuple[Form | None, Form | None]:
        """The least and the greatest value of an index over some loops."""
        form, loops = self.of(index, values), {self.loops[leaf] for leaf in inner}
        return self.extreme(form, loops, -1), self.extreme(form, loops, 1)

    def steps(self, low: Form, high: Form, whole: Size) -> Size | None:
        """The number of indices from ``low`` to ``high``, if it is known and below ``whole``."""
        distance = difference(high, low)
        return None if distance is None or not distance + 1 < whole else distance + 1

    def of(self, n: PrimExpr, env: dict[Var, Form]) -> Form:
        """The form of an expression over variables whose forms are known."""
        kind = type(n)
        if kind is IntImm:
            return Form({}, n.value)  # type: ignore[attr-defined]
        if isinstance(n, Var):
            return env.get(n, ZERO)
        if kind is Cast:
            return self.of(n.value, env)  # type: ignore[attr-defined]
        if kind not in _KNOWN:
            return _unknown(n, env)
        a, b = self.of(n.a, env), self.of(n.b, env)  # type: ignore[attr-defined]
        if kind is Add:
            return a.plus(b)
        if kind is Sub:
            return a.plus(b, -1)
        if kind in (Min, Max):
            inner = a if a.terms else b
            return Form({Clamped(inner): 1}) if inner.terms else inner
        if kind is Mul:
            if not b.terms:
                return a.scaled(b.const)
            return b.scaled(a.const) if not a.terms else _unknown(n, env)
        if b.terms:
            return _unknown(n, env)
        quotient, remainder = self.divided(a, b.const)
        return quotient if kind in (FloorDiv, Div) else remainder

    def divided(self, form: Form, by: Size) -> tuple[Form, Form]:
        """``form // by`` and ``form % by``."""
        if type(by) is int and by == 1:
            return form, ZERO
        whole: dict[Any, Size] = {}
        rest: dict[Any, Size] = {}
        for atom, c in form.terms.items():
            if c % by == 0:
                whole[atom] = c // by
            else:
                rest[atom] = c
        quotient = Form(whole, form.const // by)
        remainder = Form(rest, form.const % by)
        if not rest:
            return quotient, remainder
        low, high = self.extreme(remainder, None, -1), self.extreme(remainder, None, 1)
        if low is not None and high is not None and low.const >= 0 and high.const < by:
            return quotient, remainder
        for left in self._remainders:
            if same(left.of.by, by) and same_form(left.of.rest, remainder):
                break
        else:
            left = Remainder(Quotient(remainder, by))
            self._remainders.append(left)
        return quotient.plus(Form({left.of: 1})), Form({left: 1})

    def extreme(self, form: Form, inner: set[Loop] | None, sign: int) -> Form | None:
        """The greatest (``sign`` 1) or least (-1) value over all steps of the loops ``inner``.

        None: over all loops; the value is a constant then.
        """
        out = Form({}, form.const)
        for atom, c in form.terms.items():
            if inner is not None and not loops_of(atom) & inner:
                out = out.plus(Form({atom: c}))
                continue
            up = (c > 0) == (sign > 0)
            part: Form | None = None
            if type(atom) in (Loop, Remainder):
                count = atom.extent if type(atom) is Loop else atom.of.by
                part = Form({}, count - 1) if up else ZERO
            elif type(atom) is not Unknown:
                inside = atom.rest if type(atom) is Quotient else atom.form
                part = self.extreme(inside, inner, 1 if up else -1)
            if part is None:
                return None
            if type(atom) is Quotient:
                part = self.divided(part, atom.by)[0]
            elif type(atom) is Clamped and part.terms:
                part = Form({Clamped(part): 1})
            out = out.plus(part, c)
        return out


def _unknown(n: PrimExpr, env: dict[Var, Form]) -> Form:
    """The form of an expression that no linear form describes: the loops that it depends on."""
    inputs = (env.get(x, ZERO) for x in nodes([n]) if isinstance(x, Var))
    return Form({Unknown(set().union(*(form.loops() for form in inputs))): 1})


_KNOWN = {
    Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max,
}  # fmt: skip
