"""pow of float32 lanes through float64, ``2**(y * log2(x))``, with C's rules for special cases.

log2 is good to 2**-44 and the power of two to 2**-40, so that the result is the correctly rounded
one but for one in some ten thousand. The coefficients are those that ``scripts/fit_polynomials``
prints.
"""

from __future__ import annotations

import math

from whet.compiler.codegen.llvm.text.value import Value

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


def _log2(x: Value) -> Value:
    """log2 of positive float64 lanes that are normal, of zero and of infinity."""
    bits = x.bits()
    above = bits - _SQRT_HALF_BITS
    # a 32-bit number is enough for k, and is converted faster
    k = above.op("ashr", 52).cast("trunc", "int32")
    m = (bits - (above & _EXPONENT_BITS)).floats()
    s = (m - 1.0) / (m + 1.0)
    p = (s * s).polynomial(_LOG2)
    y = s.fma(p, k.cast("sitofp", "float64"))
    y = x.test("oeq", 0.0).select(x.of(-math.inf), y)
    return x.test("olt", math.inf).select(y, x)


def _exp2(z: Value) -> Value:
    """2**z as float32."""
    z = z.at_most(200.0).at_least(-200.0)
    shifted = z + (_MAGIC + 1023)
    r = z - (shifted - (_MAGIC + 1023))
    p = r.polynomial(_EXP2).fma(r, 1.0)
    return (p * (shifted.bits() << 52).floats()).cast("fptrunc", "float32")


def power(x: Value, y: Value) -> Value:
    """x**y."""
    zero, one = x.of(0.0), x.of(1.0)
    size = abs(x)
    log = _log2(size.cast("fpext", "float64"))
    out = _exp2(y.cast("fpext", "float64") * log)
    # a negative x: the sign of an odd y, NaN for one that is no integer
    half = y * 0.5
    whole = y.intrinsic("trunc").test("oeq", y)
    odd = whole & half.intrinsic("trunc").test("one", half)
    negative = x.bits().test("slt", 0)
    minus = -out
    out = (odd & negative).select(minus, out)
    finite = x.test("olt", zero) & x.test("ogt", -math.inf)
    broken = whole ^ 1
    out = (finite & broken).select(x.of(math.nan), out)
    # 1 whatever the other is, NaN included
    far = abs(y).test("oeq", math.inf)
    units = size.test("oeq", one) & far
    units = units | x.test("oeq", one)
    units = units | y.test("oeq", zero)
    return units.select(one, out)
