"""exp and its like, sigmoid, tanh and erf of float32 lanes, with AVX-512.

A power of two is one instruction, which does without the bounds of its argument: overflow, zero and
denormal numbers come out right. tanh and erf are polynomials of pieces, whose coefficients are
looked up in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from whet.compiler.codegen.llvm.math import curves
from whet.compiler.codegen.llvm.math import exp as math_exp
from whet.compiler.codegen.llvm.math import registers as reg
from whet.compiler.codegen.llvm.math.exp import BASES, MAGIC, Base, E
from whet.compiler.codegen.llvm.math.tables import ERF, ERF_FAST, PIECES, TANH, TANH_FAST, Table
from whet.compiler.codegen.llvm.text.module import Module
from whet.compiler.codegen.llvm.text.value import Value

# 2**f = 1 + f * p(f) for f from 0 to 1
_FRACTION = (
    0.6931512951850891,
    0.2401645928621292,
    0.055799514055252075,
    0.009017481468617916,
    0.001866951584815979,
)


def power_of(x: Value, base: Base) -> Value:
    """b**x; in fast code 2**(x * log2(b)), whose argument is rounded."""
    if x.out.module.fast:
        return _power_of_two(x if base.log2 == 1.0 else x * base.log2)
    _, n = math_exp.nearest(x, base.log2, MAGIC)
    # of an x beyond all bounds there is no r, but n says what the power is
    return reg.scaled(_raised(math_exp.remainder(x, n, base), base), n)


def _raised(r: Value, base: Base) -> Value:
    """b**r, of an r that is kept within what rounding leaves."""
    r = reg.bounded(r, 0.51 / base.log2)
    exact = r.out.module.accuracy == "2ulp"
    return r.polynomial(base.coefficients if exact else base.short).fma(r, 1.0)


def _power_of_two(t: Value) -> Value:
    f = reg.fraction(t)
    return reg.scaled(f.polynomial(_FRACTION).fma(f, 1.0), t)


def sigmoid(x: Value) -> Value:
    """``1 / (1 + exp(-x))``, at 4 ulp and in fast code by a reciprocal and a step of Newton's."""
    if x.out.module.accuracy == "2ulp":
        return curves.sigmoid(x)
    if x.out.module.fast:
        total = _power_of_two(x * -E.log2) + 1.0
        y = reg.reciprocal(total)
        # where the total is infinite there is no error, and y is zero
        return reg.bounded((-total).fma(y, 1.0), 2.0**-13).fma(y, y)
    # all of it is scaled by 2**-64: a total is normal where the result is denormal
    shifted, n = math_exp.nearest(x, -E.log2, MAGIC)
    power = _raised(math_exp.remainder(-x, n, E), E)
    total = reg.scaled(power, shifted - (MAGIC + 64)) + curves.SCALE
    y = reg.reciprocal(total)
    error, y = reg.bounded((-total).fma(y, 1.0), 2.0**-13), y * curves.SCALE
    return error.fma(y, y)


def _by_pieces(x: Value, table: Table) -> Value:
    """An odd function by the polynomial of its argument's piece."""
    t = abs(x).at_most(table.highest)
    piece = t.at_least(2.0**table.lowest).bits() >> 21  # exponent and two bits more
    first = (127 + table.lowest) * 4 % PIECES

    def entry(row: tuple[float, ...]) -> Value:
        return reg.looked_up(row[PIECES - first :] + row[: PIECES - first], piece)

    rows, d = table.rows, t
    if table.centred:
        d, rows = t - entry(rows[0]), rows[1:]
    total = entry(rows[-1])
    for row in reversed(rows[:-1]):
        total = total.fma(d, entry(row))
    return total.intrinsic("copysign", x)


def tanh(x: Value) -> Value:
    """tanh by pieces."""
    return _by_pieces(x, TANH_FAST if x.out.module.fast else TANH)


def erf(x: Value) -> Value:
    """erf by pieces."""
    return _by_pieces(x, ERF_FAST if x.out.module.fast else ERF)


_POWERS: dict[str, Callable[[Value], Value]] = {
    name: partial(power_of, base=base) for name, base in BASES.items()
}
_OF_512_BITS = {"sigmoid": sigmoid, "tanh": tanh, "erf": erf}


def function_of(op: str, module: Module) -> Callable[[Value], Value] | None:
    """The function ``op`` of any number of lanes; None where other code is as good."""
    if not module.avx512:
        return None
    function = _POWERS.get(op)
    if function is None and module.target.vector_bytes == 64:
        function = _OF_512_BITS.get(op)
    return None if function is None else partial(reg.by_registers, function=function)
