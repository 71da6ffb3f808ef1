"""exp, exp2, exp10, sigmoid, tanh and erf of float32 lanes.

``b**x = 2**n * b**r``, where n is the integer nearest to ``x * log2(b)`` and r what is left. n
is found by adding a number so large that the sum has no fraction; its bits then hold n, and shifted
they are the power of two. The coefficients are those that ``scripts/fit_polynomials`` prints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from whet.compiler.codegen.llvm.text.value import Value

# 1.5 * 2**23: the spacing of floats there is 1
_MAGIC = 12582912.0


@dataclass(frozen=True, slots=True)
class _Base:
    """The constants that depend on the base.

    Attributes:
        log2: log2 of the base.
        parts: log of 2 to that base in two parts; n times the first is exact.
        low: b**low is less than half of the smallest float32.
        high: b**high is more than the largest.
        coefficients: of p, where ``b**r = 1 + r * p(r)``.
        fast: the same to about 1.5 ulp.
    """

    log2: float
    parts: tuple[float, float]
    low: float
    high: float
    coefficients: tuple[float, ...]
    fast: tuple[float, ...]


_LOG10_2 = 0.30102999566398119521
_LOG10_2_HIGH = 19728 / 65536

BASES = {
    "exp": _Base(
        math.log2(math.e),
        (0.693359375, -2.1219444005469058e-4),
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
    "exp2": _Base(
        1.0,
        (1.0, 0.0),
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
    "exp10": _Base(
        math.log2(10.0),
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
_E = BASES["exp"]

# erf(x) = 1 - exp(-(x + x * p(x))), for x from 0 to 4
_ERF = (
    0.12837916612625122,
    0.6366195678710938,
    0.10277630388736725,
    -0.019147822633385658,
    -0.0001695039973128587,
    0.0016756755067035556,
    -0.0006373623618856072,
    0.00011886085121659562,
    -9.387896170665044e-06,
)

# tanh(x) = x + x**3 * p(x * x) up to 0.55
_TANH_SMALL = (
    -0.33333316445350647,
    0.13332527875900269,
    -0.053844694048166275,
    0.02103550359606743,
    -0.006217485293745995,
)
_TANH_BORDER = 0.55


def _reduced(x: Value, base: _Base, bias: int) -> tuple[Value, Value]:
    """n + bias in the low bits of an integer, and r."""
    magic = x.of(_MAGIC + bias)
    if base.log2 == 1.0:
        shifted = x + magic
        n = shifted - magic
        return shifted.bits(), x - n
    shifted = x.fma(base.log2, magic)
    n = shifted - magic
    high, low = base.parts
    r = n.fma(-high, x)
    return shifted.bits(), n.fma(-low, r)


def _coefficients(r: Value, base: _Base) -> tuple[float, ...]:
    return base.fast if r.out.module.fast else base.coefficients


def _raised(r: Value, base: _Base) -> Value:
    """b**r."""
    return r.polynomial(_coefficients(r, base)).fma(r, 1.0)


def power_of(x: Value, base: _Base) -> Value:
    """b**x; in fast code the result is kept between 2**-126 and 2**127.4."""
    if x.out.module.fast:
        x = x.at_most(127.4 / base.log2).at_least(-125.9 / base.log2)
        bits, r = _reduced(x, base, 127)
        return _raised(r, base) * (bits << 23).floats()
    bits, r = _reduced(x.at_most(base.high).at_least(base.low), base, 254)
    # 2**n in two factors, so that neither overflows and a denormal result is rounded once
    half = bits >> 1
    first = (half << 23).floats()
    second = ((bits - half) << 23).floats()
    return _raised(r, base) * first * second


def _grown(r: Value, coefficients: tuple[float, ...] = _E.coefficients) -> Value:
    """e**r - 1 to the last digit."""
    return (r * r).fma(r.polynomial(coefficients[1:]), r)


def sigmoid(x: Value) -> Value:
    """``1 / (1 + exp(-x))``, where ``1 + exp(-x) = (1 + 2**n) + 2**n * (exp(r) - 1)`` rounds once.

    All of it is scaled by 2**-64, so that nothing overflows before the result is denormal.
    """
    x = x.at_most(20.0).at_least(-104.0)
    bits, r = _reduced(-x, _E, 127 - 64)
    scale, one = (bits << 23).floats(), x.of(2.0**-64)
    grown = _grown(r, _coefficients(r, _E))
    total = scale + one
    if x.out.module.fast:
        return one / scale.fma(grown, total)
    lost = one - (total - scale)  # what total misses of 1 where 2**n is 2**24 or more
    return one / (total + scale.fma(grown, lost))


def tanh(x: Value) -> Value:
    """``1 - 2 / (exp(2 * |x|) + 1)`` where that is a half or more, a polynomial below.

    In fast code ``E / (E + 2)`` with ``E = exp(2 * |x|) - 1``.
    """
    t = abs(x).at_most(10.0)
    bits, r = _reduced(t + t, _E, 127)
    scale, one, two = (bits << 23).floats(), x.of(1.0), x.of(2.0)
    grown = _grown(r, _coefficients(r, _E))
    if x.out.module.fast:
        less = scale.fma(grown, scale - one)
        return (less / (less + two)).intrinsic("copysign", x)
    large = one - two / scale.fma(grown, scale + one)
    square = t * t
    small = (square * t).fma(square.polynomial(_TANH_SMALL), t)
    return t.test("ogt", _TANH_BORDER).select(large, small).intrinsic("copysign", x)


def erf(x: Value) -> Value:
    """``1 - exp(-e)``, where ``e = |x| + |x| * p(|x|)`` rounds once, also near zero."""
    t = abs(x).at_most(4.0)
    minus = -t
    exponent = t.two_chains(_ERF, t * t).fma(minus, minus)
    bits, r = _reduced(exponent, _E, 127)
    scale = (bits << 23).floats()
    less = -scale
    return less.fma(_grown(r), 1.0 - scale).intrinsic("copysign", x)
