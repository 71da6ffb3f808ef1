"""pow of float32 lanes through float64, ``2**(y * log2(x))``, with C's rules for special cases.

log2 is good to 2**-44 and the power of two to 2**-40, so that the result is the correctly rounded
one but for one in some ten thousand. The coefficients are those that ``scripts/fit_polynomials``
prints.
"""

from __future__ import annotations

import math

from whet.compiler.codegen.llvm.math.lanes import Lanes

_MAGIC = 6755399441055744.0  # 1.5 * 2**52: the spacing of float64 there is 1
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_EXPONENT_BITS = -(1 << 52)

# log2(m) = s * p(s * s) with s = (m - 1) / (m + 1)
_LOG2 = (
    2.8853900817778473,
    0.9617966941187114,
    0.5770779406629921,
    0.41220943642396835,
    0.3198976981436701,
    0.2830204057725113,
)
# 2**r = 1 + r * p(r)
_EXP2 = (
    0.6931471805481199,
    0.24022650698128295,
    0.05550410935674781,
    0.00961812861315219,
    0.0013333454450444226,
    0.00015403826656812847,
    1.5309268382734038e-05,
    1.3178857793875763e-06,
)


def _log2(w: Lanes, x: str) -> str:
    """log2 of positive float64 lanes that are normal, of zero and of infinity."""
    bits = w.cast("bitcast", x, "d", "l")
    above = w.sub(bits, w.of(_SQRT_HALF_BITS, "l"), "l")
    # a 32-bit number is enough for k, and is converted faster
    k = w.cast("trunc", w.op("ashr", above, w.of(52, "l"), "l"), "l", "i")
    mantissa = w.sub(bits, w.op("and", above, w.of(_EXPONENT_BITS, "l"), "l"), "l")
    m, one = w.cast("bitcast", mantissa, "l", "d"), w.of(1.0, "d")
    s = w.div(w.sub(m, one, "d"), w.add(m, one, "d"), "d")
    p = w.polynomial(w.mul(s, s, "d"), _LOG2, "d")
    y = w.fma(s, p, w.cast("sitofp", k, "i", "d"), "d")
    y = w.select(w.test("oeq", x, w.of(0.0, "d"), "d"), w.of(-math.inf, "d"), y, "d")
    return w.select(w.test("olt", x, w.infinity("d"), "d"), y, x, "d")


def _exp2(w: Lanes, z: str) -> str:
    """2**z as float32."""
    z = w.at_least(w.at_most(z, 200.0, "d"), -200.0, "d")
    magic = w.of(_MAGIC + 1023, "d")
    shifted = w.add(z, magic, "d")
    r = w.sub(z, w.sub(shifted, magic, "d"), "d")
    p = w.fma(w.polynomial(r, _EXP2, "d"), r, w.of(1.0, "d"), "d")
    bits = w.cast("bitcast", shifted, "d", "l")
    scale = w.cast("bitcast", w.op("shl", bits, w.of(52, "l"), "l"), "l", "d")
    return w.cast("fptrunc", w.mul(p, scale, "d"), "d", "f")


def power(w: Lanes, x: str, y: str) -> str:
    """x**y."""
    zero, one = w.of(0.0), w.of(1.0)
    size = w.magnitude(x)
    log = _log2(w, w.cast("fpext", size, "f", "d"))
    out = _exp2(w, w.mul(w.cast("fpext", y, "f", "d"), log, "d"))
    # a negative x: the sign of an odd y, NaN for one that is no whole number
    half = w.mul(y, w.of(0.5))
    whole = w.test("oeq", w.intrinsic("trunc", "f", y), y)
    odd = w.op("and", whole, w.test("one", w.intrinsic("trunc", "f", half), half), "b")
    negative = w.test("slt", w.bits(x), w.of(0, "i"), "i")
    minus = w.out.pure(f"fneg {w.types['f']} {out}", out)
    out = w.select(w.op("and", odd, negative, "b"), minus, out)
    finite = w.op("and", w.test("olt", x, zero), w.test("ogt", x, w.of(-math.inf)), "b")
    broken = w.op("xor", whole, w.of(1, "b"), "b")
    out = w.select(w.op("and", finite, broken, "b"), w.of(math.nan), out)
    # 1 whatever the other is, NaN included
    far = w.test("oeq", w.magnitude(y), w.infinity())
    units = w.op("and", w.test("oeq", size, one), far, "b")
    units = w.op("or", units, w.test("oeq", x, one), "b")
    units = w.op("or", units, w.test("oeq", y, zero), "b")
    return w.select(units, one, out)
