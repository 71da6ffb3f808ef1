"""sin and cos of float32 lanes: fast up to 2**16, the C library's beyond.

``x = n * pi / 2 + r``. pi / 2 is subtracted in three parts with fused operations, where the target
has them: the first difference is exact, as it is a multiple of 2**-23 and less than 1. Else the
reduction is done in float64 lanes, in two parts, n times the first of which is exact. The
coefficients are those that ``scripts/fit_polynomials`` prints.
"""

from __future__ import annotations

import math

from whet.compiler.codegen.llvm.math.lanes import Lanes

LIMIT = 65536.0
_MAGIC = 12582912.0  # 1.5 * 2**23: the spacing of floats there is 1
_WIDE_MAGIC = 6755399441055744.0  # 1.5 * 2**52

# pi / 2 as a sum of three float32
_PARTS = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
# pi / 2 as a number of 33 bits and the rest in float64
_WIDE_PARTS = (1.5707963267341256, 6.077100506506192e-11)

_SIN = (
    -0.1666666716337204,
    0.008333380334079266,
    -0.0001985349808819592,
    2.8372471660986776e-06,
)
# the -1/2 of r * r first
_COS = (-0.5, 0.04166664555668831, -0.00138873013202101, 2.443066841806285e-05)


def _reduced(w: Lanes, t: str) -> tuple[str, str]:
    """n in the low bits of an integer, and r."""
    if not w.fused:
        return _reduced_wide(w, t)
    magic = w.of(_MAGIC)
    shifted = w.fma(t, w.of(2 / math.pi), magic)
    n = w.sub(shifted, magic)
    r = t
    for part in _PARTS:
        r = w.fma(n, w.of(-part), r)
    return w.bits(shifted), r


def _reduced_wide(w: Lanes, t: str) -> tuple[str, str]:
    wide, magic = w.cast("fpext", t, "f", "d"), w.of(_WIDE_MAGIC, "d")
    shifted = w.add(w.mul(wide, w.of(2 / math.pi, "d"), "d"), magic, "d")
    n = w.sub(shifted, magic, "d")
    for part in _WIDE_PARTS:
        wide = w.sub(wide, w.mul(n, w.of(part, "d"), "d"), "d")
    bits = w.cast("trunc", w.cast("bitcast", shifted, "d", "l"), "l", "i")
    return bits, w.cast("fptrunc", wide, "d", "f")


def wave(w: Lanes, x: str, op: str) -> str:
    """sin or cos of the lanes within the limit; the others mean nothing."""
    t = w.magnitude(x)
    n, r = _reduced(w, t)
    if op == "cos":
        n = w.add(n, w.of(1, "i"), "i")
    square = w.mul(r, r)
    sine = w.fma(w.mul(square, r), w.polynomial(square, _SIN), r)
    cosine = w.fma(square, w.polynomial(square, _COS), w.of(1.0))
    odd = w.test("ne", w.op("and", n, w.of(1, "i"), "i"), w.of(0, "i"), "i")
    chosen = w.select(odd, cosine, sine)
    sign = w.shift("shl", w.shift("lshr", n, 1), 31)
    if op == "sin":
        negative = w.op("and", w.bits(x), w.of(-(1 << 31), "i"), "i")
        sign = w.op("xor", sign, negative, "i")
    return w.floats(w.op("xor", w.bits(chosen), sign, "i"))
