"""exp, exp2 and exp10 of float32 lanes, on any processor.

``b**x = 2**n * b**r``, where n is the integer nearest to ``x * log2(b)`` and r what is left. n
is found by adding a number so large that the sum has no fraction; its bits then hold n, and shifted
they are the power of two. The coefficients are those that ``scripts/fit_polynomials`` prints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from whet.compiler.codegen.llvm.text.value import Value

# 1.5 * 2**23: the spacing of floats there is 1
MAGIC = 12582912.0


@dataclass(frozen=True, slots=True)
class Base:
    """The constants that depend on the base.

    Attributes:
        log2: log2 of the base.
        parts: log of 2 to that base as a sum; n times the first is exact.
        fewer: the same for fast code and a fused multiply-add.
        low: b**low is less than half of the smallest float32.
        high: b**high is more than the largest.
        coefficients: of p, where ``b**r = 1 + r * p(r)``.
        short: the same to about 1.5 ulp.
    """

    log2: float
    parts: tuple[float, ...]
    fewer: tuple[float, ...]
    low: float
    high: float
    coefficients: tuple[float, ...]
    short: tuple[float, ...]


_LOG10_2 = 0.30102999566398119521
_LOG10_2_HIGH = 19728 / 65536

BASES = {
    "exp": Base(
        math.log2(math.e),
        (0.693359375, -2.1219444005469058e-4),
        (math.log(2.0),),  # that float32 is within 2**-28 of it
        -104.0,
        89.0,
        (
            1.0,
            0.4999999403953552,
            0.1666652113199234,
            0.04166827350854874,
            0.008368683978915215,
            0.001382008078508079,
        ),
        (
            0.9999997019767761,
            0.4999914765357971,
            0.16667647659778595,
            0.041898246854543686,
            0.008289819583296776,
        ),
    ),
    "exp2": Base(
        1.0,
        (1.0,),
        (1.0,),
        -151.0,
        129.0,
        (
            0.6931471824645996,
            0.24022647738456726,
            0.05550359562039375,
            0.009618503041565418,
            0.0013390998356044292,
            0.0001532784226583317,
        ),
        (
            0.6931470036506653,
            0.24022245407104492,
            0.0555071085691452,
            0.009671392850577831,
            0.0013269723858684301,
        ),
    ),
    "exp10": Base(
        math.log2(10.0),
        (_LOG10_2_HIGH, _LOG10_2 - _LOG10_2_HIGH),
        (_LOG10_2_HIGH, _LOG10_2 - _LOG10_2_HIGH),
        -45.5,
        39.0,
        (
            2.3025851249694824,
            2.6509487628936768,
            2.034656047821045,
            1.171295166015625,
            0.5418266654014587,
            0.20616695284843445,
        ),
        (
            2.302584409713745,
            2.6509037017822266,
            2.0347983837127686,
            1.17777419090271,
            0.536561131477356,
        ),
    ),
}
E = BASES["exp"]


def reduced(x: Value, base: Base, bias: int) -> tuple[Value, Value]:
    """n + bias in the low bits of an integer, and r."""
    shifted, n = nearest(x, base.log2, MAGIC + bias)
    return shifted.bits(), remainder(x, n, base)


def nearest(x: Value, log2: float, magic: float) -> tuple[Value, Value]:
    """``n + magic`` and n, the integer nearest to ``x * log2``."""
    far = x.of(magic)
    shifted = x + far if log2 == 1.0 else x.fma(log2, far)
    return shifted, shifted - far


def remainder(x: Value, n: Value, base: Base, power: float = 1.0) -> Value:
    """r, what n times the logarithm of ``2**power`` leaves of x."""
    module = x.out.module
    for part in base.fewer if module.fast and module.fused else base.parts:
        x = x - n if part * power == 1.0 else n.fma(-part * power, x)
    return x


def coefficients(r: Value, base: Base) -> tuple[float, ...]:
    """The coefficients of p, where ``b**r = 1 + r * p(r)``."""
    return base.short if r.out.module.fast else base.coefficients


def raised(r: Value, base: Base) -> Value:
    """b**r."""
    return r.polynomial(coefficients(r, base)).fma(r, 1.0)


def grown(r: Value) -> Value:
    """e**r - 1, to the last digit but in fast code."""
    return (r * r).fma(r.polynomial(coefficients(r, E)[1:]), r)


def power_of(x: Value, base: Base) -> Value:
    """b**x; in fast code 0 below 2**-126.5, and infinity from 2**127.5 on."""
    if x.out.module.fast:
        x = x.at_most(128.0 / base.log2).at_least(-127.0 / base.log2)
        bits, r = reduced(x, base, 127)
        return raised(r, base) * (bits << 23).floats()
    x = x.at_most(base.high).at_least(base.low)
    if x.out.module.accuracy == "4ulp":
        return _squared(x, base)
    bits, r = reduced(x, base, 254)
    # 2**n in two factors, so that neither overflows and a denormal result is rounded once
    half = bits >> 1
    first = (half << 23).floats()
    second = ((bits - half) << 23).floats()
    return raised(r, base) * first * second


def _squared(x: Value, base: Base) -> Value:
    """The square of b**(x / 2), which is normal where b**x is infinite or denormal."""
    shifted, n = nearest(x, base.log2 / 2, MAGIC + 127)
    double = remainder(x, n, base, power=2)  # 2 * r
    p = double.polynomial([c / 2 ** (k + 1) for k, c in enumerate(base.coefficients)])
    root = p.fma(double, 1.0) * (shifted.bits() << 23).floats()
    return root * root
