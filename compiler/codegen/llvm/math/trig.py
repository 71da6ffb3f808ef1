"""sin and cos of float32 lanes: fast up to 2**16, the C library's beyond.

``x = n * pi / 2 + r``. pi / 2 is subtracted in three parts with fused operations, where the target
has them: the first difference is exact, as it is a multiple of 2**-23 and less than 1. Else the
reduction is done in float64 lanes, in two parts, n times the first of which is exact. The
coefficients are those that ``scripts/fit_polynomials`` prints.
"""

from __future__ import annotations

import math

from whet.compiler.codegen.llvm.text.value import Value

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


def _reduced(t: Value) -> tuple[Value, Value]:
    """n in the low bits of an integer, and r."""
    if not t.out.module.fused:
        return _reduced_wide(t)
    magic = t.of(_MAGIC)
    shifted = t.fma(2 / math.pi, magic)
    n, r = shifted - magic, t
    for part in _PARTS:
        r = n.fma(-part, r)
    return shifted.bits(), r


def _reduced_wide(t: Value) -> tuple[Value, Value]:
    wide = t.cast("fpext", "float64")
    shifted = wide * (2 / math.pi) + _WIDE_MAGIC
    n = shifted - _WIDE_MAGIC
    for part in _WIDE_PARTS:
        wide = wide - n * part
    return shifted.bits().cast("trunc", "int32"), wide.cast("fptrunc", "float32")


def wave(x: Value, op: str) -> Value:
    """sin or cos of the lanes within the limit; the others mean nothing."""
    n, r = _reduced(abs(x))
    if op == "cos":
        n = n + 1
    square = r * r
    sine = (square * r).fma(square.polynomial(_SIN), r)
    cosine = square.fma(square.polynomial(_COS), 1.0)
    chosen = (n & 1).test("ne", 0).select(cosine, sine)
    sign = (n >> 1) << 31
    if op == "sin":
        sign = sign ^ (x.bits() & -(1 << 31))
    return (chosen.bits() ^ sign).floats()
