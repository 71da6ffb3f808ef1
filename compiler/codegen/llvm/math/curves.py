"""sigmoid, tanh and erf of float32 lanes, on any processor.

The coefficients are those that ``scripts/fit_polynomials`` and ``scripts/fit_rationals`` print.
"""

from __future__ import annotations

from whet.compiler.codegen.llvm.math.exp import E, grown, reduced
from whet.compiler.codegen.llvm.text.value import Value

SCALE = 2.0**-64

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

# in fast code, x * p(x * x) / q(x * x) up to where it is 1 or a little more
_TANH_TOP = 9.2
_TANH_P = (
    1.0,
    0.1337706446647644,
    0.0034909681417047977,
    2.053645221167244e-05,
    1.3260312847762634e-08,
)
_TANH_Q = (
    1.0,
    0.4671037793159485,
    0.025859186425805092,
    0.00032782263588160276,
    7.73661838593398e-07,
)
_ERF_TOP = 3.82
_ERF_P = (
    1.1283788681030273,
    0.3218890130519867,
    0.06861406564712524,
    0.008915407583117485,
    0.00031728108297102153,
)
_ERF_Q = (
    1.0,
    0.6185904741287231,
    0.1670529544353485,
    0.025442276149988174,
    0.002249691169708967,
    1.8414213627693243e-05,
)


def sigmoid(x: Value) -> Value:
    """``1 / (1 + exp(-x))``.

    At 2 ulp ``1 + exp(-x) = (1 + 2**n) + 2**n * (exp(r) - 1)`` rounds once. All of it is scaled by
    2**-64, so that nothing overflows before the result is denormal.
    """
    x = x.at_most(20.0).at_least(-104.0)
    bits, r = reduced(-x, E, 127 - 64)
    scale, one = (bits << 23).floats(), x.of(SCALE)
    power = grown(r)
    total = scale + one
    if x.out.module.accuracy != "2ulp":
        return one / scale.fma(power, total)
    lost = one - (total - scale)  # what total misses of 1 where 2**n is 2**24 or more
    return one / (total + scale.fma(power, lost))


def tanh(x: Value) -> Value:
    """``1 - 2 / (exp(2 * |x|) + 1)`` where that is a half or more, a polynomial below.

    At 4 ulp ``e / (e + 2)`` with ``e = exp(2 * |x|) - 1``, in fast code a quotient of polynomials.
    """
    if x.out.module.fast:
        return _quotient(x, _TANH_P, _TANH_Q, _TANH_TOP)
    t = abs(x).at_most(10.0)
    bits, r = reduced(t + t, E, 127)
    scale, one, two = (bits << 23).floats(), x.of(1.0), x.of(2.0)
    if x.out.module.accuracy == "4ulp":
        less = scale.fma(grown(r), scale - one)
        return (less / (less + two)).intrinsic("copysign", x)
    large = one - two / scale.fma(grown(r), scale + one)
    square = t * t
    small = (square * t).fma(square.polynomial(_TANH_SMALL), t)
    return t.test("ogt", _TANH_BORDER).select(large, small).intrinsic("copysign", x)


def erf(x: Value) -> Value:
    """``1 - exp(-e)``, where ``e = |x| + |x| * p(|x|)`` rounds once, also near zero.

    In fast code a quotient of polynomials.
    """
    if x.out.module.fast:
        return _quotient(x, _ERF_P, _ERF_Q, _ERF_TOP)
    t = abs(x).at_most(4.0)
    minus = -t
    exponent = t.two_chains(_ERF, t * t).fma(minus, minus)
    bits, r = reduced(exponent, E, 127)
    scale = (bits << 23).floats()
    less = -scale
    return less.fma(grown(r), 1.0 - scale).intrinsic("copysign", x)


def _quotient(x: Value, p: tuple[float, ...], q: tuple[float, ...], top: float) -> Value:
    """``x * p(x * x) / q(x * x)``, kept within [-1, 1]; constant beyond the top."""
    x = x.at_most(top).at_least(-top)
    square = x * x
    y = x * square.polynomial(p) / square.polynomial(q)
    return y.at_most(1.0).at_least(-1.0)
