"""log, log2 and log10 of float32 lanes.

``x = 2**k * (1 + f)`` with 1 + f between sqrt(1/2) and sqrt(2), so that ``log(x) = k * log(2) +
log(1 + f)`` has nothing to cancel near 1. The coefficients are those that
``scripts/fit_polynomials`` prints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from whet.compiler.codegen.llvm.text.value import Value

_SMALLEST_NORMAL = 2.0**-126
_SQRT_HALF_BITS = 0x3F3504F3
_EXPONENT_BITS = -(1 << 23)  # all bits but the mantissa's


@dataclass(frozen=True, slots=True)
class _Base:
    """The constants that depend on the base.

    Attributes:
        unit: 1 / ln(base) in two parts.
        two: the logarithm of 2 in two parts; k times the first is exact.
        coefficients: of p, where ``log(1 + f) = unit * f + f * f * p(f)``.
        fast: the same to about 4 ulp.
    """

    unit: tuple[float, float]
    two: tuple[float, float]
    coefficients: tuple[float, ...]
    fast: tuple[float, ...]


_LOG2_E = math.log2(math.e)
_LOG2_E_HIGH = 1.4426950216293335  # the nearest float32
_LOG10_E = math.log10(math.e)
_LOG10_E_HIGH = 0.4342944920063019
_LOG10_2_HIGH = 19728 / 65536

BASES = {
    "log": _Base(
        (1.0, 0.0),
        (0.693359375, -2.1219444005469058e-4),
        (
            -0.49999988079071045,
            0.33333325386047363,
            -0.25001609325408936,
            0.20002013444900513,
            -0.16608454287052155,
            0.14180603623390198,
            -0.13247057795524597,
            0.12914548814296722,
            -0.07624770700931549,
        ),
        (
            -0.5000032186508179,
            0.3333471417427063,
            -0.24971279501914978,
            0.199069082736969,
            -0.17242790758609772,
            0.16180311143398285,
            -0.10083290189504623,
        ),
    ),
    "log2": _Base(
        (_LOG2_E_HIGH, _LOG2_E - _LOG2_E_HIGH),
        (1.0, 0.0),
        (
            -0.7213473320007324,
            0.4808982014656067,
            -0.3606986701488495,
            0.28857141733169556,
            -0.2395673543214798,
            0.20448657870292664,
            -0.19139081239700317,
            0.18708819150924683,
            -0.11025597900152206,
        ),
        (
            -0.721352219581604,
            0.4809180498123169,
            -0.36025744676589966,
            0.2872013747692108,
            -0.24878515303134918,
            0.23339997231960297,
            -0.14536447823047638,
        ),
    ),
    "log10": _Base(
        (_LOG10_E_HIGH, _LOG10_E - _LOG10_E_HIGH),
        (_LOG10_2_HIGH, math.log10(2.0) - _LOG10_2_HIGH),
        (
            -0.21714718639850616,
            0.14476478099822998,
            -0.10858088731765747,
            0.08686871081590652,
            -0.07212328910827637,
            0.06155842915177345,
            -0.057557810097932816,
            0.056288234889507294,
            -0.03330641984939575,
        ),
        (
            -0.21714864671230316,
            0.14477083086967468,
            -0.10844860225915909,
            0.08645433187484741,
            -0.07488711923360825,
            0.07027275115251541,
            -0.043786823749542236,
        ),
    ),
}


def _parts(x: Value) -> tuple[Value, Value]:
    """k and f; denormals are scaled up first, but in fast code."""
    small = None
    if not x.out.module.fast:
        small = x.test("olt", _SMALLEST_NORMAL)
        x = small.select(x * 2.0**25, x)
    bits = x.bits()
    above = bits - _SQRT_HALF_BITS
    k = above.op("ashr", 23).cast("sitofp", "float32")
    if small is not None:
        k = k + small.select(x.of(-25.0), 0.0)
    mantissa = bits - (above & _EXPONENT_BITS)
    return k, mantissa.floats() - 1.0


def logarithm(x: Value, base: _Base) -> Value:
    """The logarithm: -inf at zero, NaN below."""
    k, f = _parts(x)
    p = f.polynomial(base.fast if x.out.module.fast else base.coefficients)
    y = f * f * p
    if base.two[1]:
        y = k.fma(base.two[1], y)
    if base.unit[1]:
        y = f.fma(base.unit[1], y)
        y = f.fma(base.unit[0], y)
    else:
        y = f + y
    y = k.fma(base.two[0], y)
    zero = x.of(0.0)
    y = x.test("olt", math.inf).select(y, x)  # infinity and NaN are their own
    special = x.test("oeq", zero).select(x.of(-math.inf), math.nan)
    return x.test("ugt", zero).select(y, special)
