"""The table of operations: what is known of each intrinsic that computes a value, a row each.

Whoever makes, folds, counts, estimates or generates calls reads its columns here. A new function of
the C library is a row, and a name in :mod:`tir.ops.mathematics` for people to call.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Operation:
    """An intrinsic.

    Attributes:
        text: a sentence for its documentation.
        fold: its value for constants; ValueError or ArithmeticError where there is none.
        math_h: True for a function of C's ``<math.h>`` of this name.
        cheap: costs about as much as an addition, where it decides whether to compute it again.
        simple: counts as an addition among a program's features, instead of a special function.
        gpu: for float32, the fused multiply-adds, special functions and other instructions that
            NVRTC 12.9 makes of it for sm_90, where no argument is out of the common range; None
            where nobody has counted.
        is_value: it computes a value of its arguments and nothing else.
        exact: its value for constants is that of every float type, without rounding.
    """

    text: str = ""
    fold: Callable[..., float] | None = None
    math_h: bool = True
    cheap: bool = False
    simple: bool = False
    gpu: tuple[float, float, float] | None = None
    is_value: bool = True
    exact: bool = False


_ONE_MORE = (0, 0, 1)  # one instruction of no float pipe


def _own(text: str, gpu: tuple[float, float, float] = _ONE_MORE) -> Operation:
    """An intrinsic of integers, bits or conditions, which C writes as an operator."""
    return Operation(text, math_h=False, cheap=True, gpu=gpu)


def _rounded(x: float) -> float:
    """The nearest integer, halves away from zero."""
    whole, rest = math.trunc(x), math.fabs(x - math.trunc(x))
    return math.copysign(float(abs(whole) + (rest >= 0.5)), x)


#: name without ``tir.`` -> the operation
OPERATIONS: dict[str, Operation] = {
    "exp": Operation("e to the power of x.", math.exp, gpu=(6, 1, 1)),
    "exp2": Operation("2 to the power of x.", lambda x: 2.0**x, gpu=(2, 1, 1)),
    "exp10": Operation("10 to the power of x.", lambda x: 10.0**x, math_h=False, gpu=(6, 1, 1)),
    "expm1": Operation("e to the power of x, minus 1.", math.expm1),
    "log": Operation("Natural logarithm.", math.log, gpu=(15, 0, 9)),
    "log2": Operation("Logarithm to base 2.", math.log2, gpu=(17, 0, 9)),
    "log10": Operation("Logarithm to base 10.", math.log10, gpu=(16, 0, 9)),
    "log1p": Operation("Natural logarithm of 1 + x.", math.log1p, gpu=(16, 0, 11)),
    "sqrt": Operation("Square root.", math.sqrt, gpu=(4, 1, 3)),
    "rsqrt": Operation("``1 / sqrt(x)``.", lambda x: 1 / math.sqrt(x), math_h=False, gpu=(2, 1, 1)),
    "cbrt": Operation("Cube root."),
    "sin": Operation("Sine.", math.sin, gpu=(12, 0, 18)),
    "cos": Operation("Cosine.", math.cos, gpu=(12, 0, 18)),
    "tan": Operation("Tangent.", math.tan, gpu=(13, 1, 16)),
    "sinh": Operation("Hyperbolic sine.", gpu=(14, 2, 6)),
    "cosh": Operation("Hyperbolic cosine.", gpu=(8, 2, 5)),
    "tanh": Operation("Hyperbolic tangent.", math.tanh, gpu=(9, 2, 4)),
    "asin": Operation("Inverse sine.", gpu=(14, 1, 8)),
    "acos": Operation("Inverse cosine.", gpu=(14, 1, 8)),
    "atan": Operation("Inverse tangent.", gpu=(11, 1, 5)),
    "asinh": Operation("Inverse hyperbolic sine."),
    "acosh": Operation("Inverse hyperbolic cosine."),
    "atanh": Operation("Inverse hyperbolic tangent."),
    "erf": Operation("The error function.", math.erf, gpu=(9, 1, 12)),
    "erfc": Operation("1 minus the error function."),
    "sigmoid": Operation("``1 / (1 + exp(-x))``.", math_h=False, gpu=(9, 2, 6)),
    "floor": Operation(
        "Rounded down. Integers stay as they are.",
        lambda x: math.copysign(math.floor(x), x),
        exact=True,
        cheap=True,
        simple=True,
        gpu=(0, 1, 0),
    ),
    "ceil": Operation(
        "Rounded up. Integers stay as they are.",
        lambda x: math.copysign(math.ceil(x), x),
        exact=True,
        cheap=True,
        simple=True,
        gpu=(0, 1, 0),
    ),
    "trunc": Operation(
        "Rounded towards zero. Integers stay as they are.",
        lambda x: math.copysign(math.trunc(x), x),
        exact=True,
        cheap=True,
        simple=True,
        gpu=(0, 1, 0),
    ),
    "round": Operation(
        "Rounded to the nearest integer, halves away from zero. Integers stay as they are.",
        _rounded,
        exact=True,
        cheap=True,
        simple=True,
        gpu=(1, 1, 1),
    ),
    "nearbyint": Operation(
        "Rounded to the nearest integer, halves to even. Integers stay as they are.",
        lambda x: math.copysign(builtins.round(x), x),
        exact=True,
        cheap=True,
        gpu=(0, 1, 0),
    ),
    "rint": Operation("Rounded to the nearest integer, halves to even."),
    "fabs": Operation(
        "Absolute value.", math.fabs, exact=True, cheap=True, simple=True, gpu=_ONE_MORE
    ),
    "abs": Operation("Absolute value.", math_h=False, gpu=_ONE_MORE),
    "fma": Operation("``x * y + z``, rounded once.", cheap=True, simple=True, gpu=(1, 0, 0)),
    "pow": Operation("``x`` to the power of ``y``.", math.pow, gpu=(30, 1, 25)),
    "fmod": Operation("The floating-point remainder, with the sign of ``x``.", math.fmod),
    "atan2": Operation(
        "The angle of the point (y, x): inverse tangent of ``x1 / x2``.", math.atan2
    ),
    "hypot": Operation("``sqrt(x**2 + y**2)``, which does not overflow on the way.", math.hypot),
    "copysign": Operation("``x`` with the sign of ``y``."),
    "nextafter": Operation("The next number after ``x`` towards ``y``."),
    "fmin": Operation("The smaller of two."),
    "fmax": Operation("The larger of two."),
    "min": Operation("The smaller of two.", math_h=False, simple=True, gpu=_ONE_MORE),
    "max": Operation("The larger of two.", math_h=False, simple=True, gpu=_ONE_MORE),
    "bitwise_and": _own(
        "The bits that both integers have; of bools, whether both are true.", _ONE_MORE
    ),
    "bitwise_or": _own(
        "The bits that either integer has; of bools, whether either is true.", _ONE_MORE
    ),
    "bitwise_xor": _own("The bits in which two integers differ."),
    "bitwise_not": _own("All bits flipped."),
    "shift_left": _own("``x << y``, of integers."),
    "shift_right": _own(
        "``x >> y``, of integers; of those with a sign, the sign stays.", _ONE_MORE
    ),
    "if_then_else": _own("One of two values, of which only that one is evaluated."),
    "likely": _own("A condition that nearly always holds.", (0, 0, 0)),
    "reinterpret": _own("The bits of a value as another type.", (0, 0, 0)),
    **dict.fromkeys(
        ("isnan", "isinf", "isfinite", "popcount", "clz", "ldexp", "q_multiply_shift"),
        Operation(math_h=False),
    ),
    "tvm_storage_sync": Operation(math_h=False, gpu=(0, 0, 0), is_value=False),
    "dp4a": Operation("The product of two packed int8x4.", math_h=False, gpu=(0, 0, 2)),
    "pack_bytes": Operation("Four integers as packed int8x4.", math_h=False, gpu=(0, 0, 3)),
    **dict.fromkeys(
        ("warp_shuffle", "warp_shuffle_up", "warp_shuffle_xor", "warp_shuffle_down"),
        Operation(math_h=False, gpu=(0, 0.5, 0.5), is_value=False),
    ),
}
_UNKNOWN = Operation(math_h=False)


def operation(name: str) -> Operation:
    """The operation of a name, with or without ``tir.``; of one that is not known an empty row."""
    return OPERATIONS.get(name) or OPERATIONS.get(name.removeprefix("tir."), _UNKNOWN)
