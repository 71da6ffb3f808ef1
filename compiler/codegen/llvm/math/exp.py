"""exp, exp2, exp10, sigmoid, tanh and erf of float32 lanes.

``b**x = 2**n * b**r``, where n is the whole number nearest to ``x * log2(b)`` and r what is left. n
is found by adding a number so large that the sum has no fraction; its bits then hold n, and shifted
they are the power of two. The coefficients are those that ``scripts/fit_polynomials`` prints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from whet.compiler.codegen.llvm.math.lanes import Lanes

# 1.5 * 2**23: the spacing of floats there is 1
_MAGIC = 12582912.0


@dataclass(frozen=True, slots=True)
class _Base:
    """What depends on the base.

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


def _reduced(w: Lanes, x: str, base: _Base, bias: int) -> tuple[str, str]:
    """n + bias in the low bits of an integer, and r."""
    magic = w.of(_MAGIC + bias)
    shifted = w.fma(x, w.of(base.log2), magic) if base.log2 != 1.0 else w.add(x, magic)
    n = w.sub(shifted, magic)
    if base.log2 == 1.0:
        return w.bits(shifted), w.sub(x, n)
    r = w.fma(n, w.of(-base.parts[0]), x)
    return w.bits(shifted), w.fma(n, w.of(-base.parts[1]), r)


def _raised(w: Lanes, r: str, base: _Base) -> str:
    """b**r."""
    p = w.polynomial(r, base.fast if w.fast else base.coefficients)
    return w.fma(p, r, w.of(1.0))


def power_of(w: Lanes, x: str, base: _Base) -> str:
    """b**x; in fast code the result is kept between 2**-126 and 2**127.4."""
    if w.fast:
        top = 127.4 / base.log2
        x = w.at_least(w.at_most(x, top), -125.9 / base.log2)
        bits, r = _reduced(w, x, base, 127)
        return w.mul(_raised(w, r, base), w.floats(w.shift("shl", bits, 23)))
    x = w.at_least(w.at_most(x, base.high), base.low)
    bits, r = _reduced(w, x, base, 254)
    # 2**n in two factors, so that neither overflows and a denormal result is rounded once
    half = w.shift("lshr", bits, 1)
    first = w.floats(w.shift("shl", half, 23))
    second = w.floats(w.shift("shl", w.sub(bits, half, "i"), 23))
    return w.mul(w.mul(_raised(w, r, base), first), second)


def _grown(w: Lanes, r: str, base: _Base) -> str:
    """b**r - 1 to the last digit; base e."""
    coefficients = base.fast if w.fast else base.coefficients
    return w.fma(w.mul(r, r), w.polynomial(r, coefficients[1:]), r)


def sigmoid(w: Lanes, x: str) -> str:
    """``1 / (1 + exp(-x))``, where ``1 + exp(-x) = (1 + 2**n) + 2**n * (exp(r) - 1)`` rounds once.

    All of it is scaled by 2**-64, so that nothing overflows before the result is denormal.
    """
    x = w.at_least(w.at_most(x, 20.0), -104.0)
    bits, r = _reduced(w, w.out.pure(f"fneg {w.types['f']} {x}", x), _E, 127 - 64)
    scale, one = w.floats(w.shift("shl", bits, 23)), w.of(2.0**-64)
    grown = _grown(w, r, _E)
    if w.fast:
        return w.div(one, w.fma(scale, grown, w.add(scale, one)))
    total = w.add(scale, one)
    lost = w.sub(one, w.sub(total, scale))  # what total misses of 1 where 2**n is 2**24 or more
    return w.div(one, w.add(total, w.fma(scale, grown, lost)))


def tanh(w: Lanes, x: str) -> str:
    """``1 - 2 / (exp(2 * |x|) + 1)`` where that is a half or more, a polynomial below.

    In fast code ``E / (E + 2)`` with ``E = exp(2 * |x|) - 1``.
    """
    t = w.at_most(w.magnitude(x), 10.0)
    bits, r = _reduced(w, w.add(t, t), _E, 127)
    scale, one, two = w.floats(w.shift("shl", bits, 23)), w.of(1.0), w.of(2.0)
    grown = _grown(w, r, _E)
    if w.fast:
        less = w.fma(scale, grown, w.sub(scale, one))
        return w.with_sign_of(w.div(less, w.add(less, two)), x)
    large = w.sub(one, w.div(two, w.fma(scale, grown, w.add(scale, one))))
    square = w.mul(t, t)
    small = w.fma(w.mul(square, t), w.polynomial(square, _TANH_SMALL), t)
    return w.with_sign_of(w.select(w.test("ogt", t, w.of(_TANH_BORDER)), large, small), x)


def erf(w: Lanes, x: str) -> str:
    """``1 - exp(-e)``, where ``e = |x| + |x| * p(|x|)`` rounds once, also near zero."""
    t = w.at_most(w.magnitude(x), 4.0)
    minus = w.out.pure(f"fneg {w.types['f']} {t}", t)
    exponent = w.fma(w.two_chains(t, _ERF, w.mul(t, t)), minus, minus)
    bits, r = _reduced(w, exponent, _E, 127)
    scale = w.floats(w.shift("shl", bits, 23))
    less = w.out.pure(f"fneg {w.types['f']} {scale}", scale)
    grown = w.fma(w.mul(r, r), w.polynomial(r, _E.coefficients[1:]), r)
    return w.with_sign_of(w.fma(less, grown, w.sub(w.of(1.0), scale)), x)
