"""Derivatives of the functions of te: one row each."""

from __future__ import annotations

import math
from collections.abc import Callable

from whet.compiler.tir.expr import LT, NE, Call, FloatImm, PrimExpr
from whet.compiler.tir.ops import ops
from whet.compiler.tir.ops.ops import (
    add,
    compare,
    const,
    divide,
    multiply,
    negate,
    select,
    subtract,
)

Rule = Callable[..., PrimExpr]
"""From what comes from above, the result, and all arguments to what goes to one argument."""


def times(a: PrimExpr, b: PrimExpr | float) -> PrimExpr:
    """``a * b``; a factor 1 is left out."""
    b = const(b, a.dtype) if isinstance(b, (int, float)) else b
    for this, other in ((a, b), (b, a)):
        if isinstance(this, FloatImm) and this.value == 1.0:
            return other
    return multiply(a, b)


def _call(op: str, *args: PrimExpr) -> PrimExpr:
    return ops.call(op, *args)


def _square(x: PrimExpr) -> PrimExpr:
    return multiply(x, x)


def _one_plus(x: PrimExpr) -> PrimExpr:
    return add(const(1.0, x.dtype), x)


def _one_minus(x: PrimExpr) -> PrimExpr:
    return subtract(const(1.0, x.dtype), x)


def _sign(x: PrimExpr) -> PrimExpr:
    """-1 or 1, that of zero among the latter."""
    return _call("copysign", const(1.0, x.dtype), x)


def _unary(factor: Callable[[PrimExpr, PrimExpr], PrimExpr | float]) -> tuple[Rule, ...]:
    """The row of a function of one argument: the factor, of the result and the argument."""
    return (lambda s, out, x: times(s, factor(out, x)),)


def _over(divisor: Callable[[PrimExpr], PrimExpr]) -> tuple[Rule, ...]:
    """The row of a function of one argument whose derivative is one over something."""
    return (lambda s, out, x: divide(s, divisor(x)),)


def _root(x: PrimExpr) -> PrimExpr:
    return _call("sqrt", x)


def _power_of_exponent(s: PrimExpr, out: PrimExpr, x: PrimExpr, y: PrimExpr) -> PrimExpr:
    zero = const(0.0, x.dtype)
    return times(s, select(compare(LT, zero, x), multiply(out, _call("log", x)), zero))


def _power_of_base(s: PrimExpr, out: PrimExpr, x: PrimExpr, y: PrimExpr) -> PrimExpr:
    zero = const(0.0, x.dtype)
    less = _call("pow", x, subtract(y, const(1.0, y.dtype)))
    return times(s, select(compare(NE, y, zero), multiply(y, less), zero))


def _same_sign(s: PrimExpr, x: PrimExpr, y: PrimExpr) -> PrimExpr:
    return times(s, multiply(_sign(x), _sign(y)))


def _larger(first: bool) -> Rule:
    """What goes to one of two of which the larger is taken; the first, where they are equal."""

    def rule(s: PrimExpr, out: PrimExpr, x: PrimExpr, y: PrimExpr) -> PrimExpr:
        zero = const(0.0, s.dtype)
        less = compare(LT, x, y)
        return select(less, zero, s) if first else select(less, s, zero)

    return rule


def _smaller(first: bool) -> Rule:
    def rule(s: PrimExpr, out: PrimExpr, x: PrimExpr, y: PrimExpr) -> PrimExpr:
        zero = const(0.0, s.dtype)
        less = compare(LT, y, x)
        return select(less, zero, s) if first else select(less, s, zero)

    return rule


LARGER: tuple[Rule, ...] = (_larger(True), _larger(False))
SMALLER: tuple[Rule, ...] = (_smaller(True), _smaller(False))
_NONE: tuple[Rule, ...] = ()

FUNCTIONS: dict[str, tuple[Rule, ...]] = {
    "exp": _unary(lambda out, x: out),
    "exp2": _unary(lambda out, x: times(out, math.log(2))),
    "exp10": _unary(lambda out, x: times(out, math.log(10))),
    "expm1": _unary(lambda out, x: _call("exp", x)),
    "log": _over(lambda x: x),
    "log2": _over(lambda x: times(x, math.log(2))),
    "log10": _over(lambda x: times(x, math.log(10))),
    "log1p": _over(_one_plus),
    "sqrt": (lambda s, out, x: divide(s, times(out, 2.0)),),
    "rsqrt": _unary(lambda out, x: divide(times(out, -0.5), x)),
    "sin": _unary(lambda out, x: _call("cos", x)),
    "cos": _unary(lambda out, x: negate(_call("sin", x))),
    "tan": _unary(lambda out, x: _one_plus(_square(out))),
    "sinh": _unary(lambda out, x: _call("cosh", x)),
    "cosh": _unary(lambda out, x: _call("sinh", x)),
    "tanh": _unary(lambda out, x: _one_minus(_square(out))),
    "asin": _over(lambda x: _root(_one_minus(_square(x)))),
    "acos": _over(lambda x: negate(_root(_one_minus(_square(x))))),
    "atan": _over(lambda x: _one_plus(_square(x))),
    "asinh": _over(lambda x: _root(_one_plus(_square(x)))),
    "acosh": _over(lambda x: _root(subtract(_square(x), const(1.0, x.dtype)))),
    "atanh": _over(lambda x: _one_minus(_square(x))),
    "erf": _unary(lambda out, x: times(_call("exp", negate(_square(x))), 2 / math.sqrt(math.pi))),
    "sigmoid": _unary(lambda out, x: multiply(out, _one_minus(out))),
    "fabs": _unary(lambda out, x: _sign(x)),
    **dict.fromkeys(("floor", "ceil", "trunc", "round", "nearbyint", "rint"), _NONE),
    "fma": (
        lambda s, out, x, y, z: times(s, y),
        lambda s, out, x, y, z: times(s, x),
        lambda s, out, x, y, z: s,
    ),
    "pow": (_power_of_base, _power_of_exponent),
    "fmod": (
        lambda s, out, x, y: s,
        lambda s, out, x, y: negate(times(s, _call("trunc", divide(x, y)))),
    ),
    "atan2": (
        lambda s, out, y, x: divide(times(s, x), add(_square(x), _square(y))),
        lambda s, out, y, x: negate(divide(times(s, y), add(_square(x), _square(y)))),
    ),
    "hypot": (
        lambda s, out, x, y: divide(times(s, x), out),
        lambda s, out, x, y: divide(times(s, y), out),
    ),
    "copysign": (lambda s, out, x, y: _same_sign(s, x, y),),
    "ldexp": (lambda s, out, x, n: Call(s.dtype, "ldexp", (s, n)),),
    **dict.fromkeys(("fmin", "min"), SMALLER),
    **dict.fromkeys(("fmax", "max"), LARGER),
}
"""Function -> a rule for each argument that it has a derivative by; those left out have none."""


def by_operand(rules: tuple[Rule, ...], place: int) -> Rule | None:
    """The rule for an argument; None where the derivative is zero."""
    return rules[place] if place < len(rules) else None


def quotient(s: PrimExpr, out: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """What goes to the divisor of ``a / b``."""
    return negate(divide(times(s, out), b))


ARITHMETIC: dict[str, tuple[Rule, ...]] = {
    "Add": (lambda s, out, a, b: s, lambda s, out, a, b: s),
    "Sub": (lambda s, out, a, b: s, lambda s, out, a, b: negate(s)),
    "Mul": (lambda s, out, a, b: times(s, b), lambda s, out, a, b: times(s, a)),
    "Div": (lambda s, out, a, b: divide(s, b), quotient),
    "Mod": FUNCTIONS["fmod"],
    "Max": LARGER,
    "Min": SMALLER,
}
"""Class of a node -> a rule for each operand."""
