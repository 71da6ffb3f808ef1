"""What a tape need not write down: results that follow from ranges, and from common factors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whet.compiler.tir.tracing.traced import Tape

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": min,
    "max": max,
}
Interval = tuple[Any, Any]
"""The least and the greatest value that something may have."""


def simplified(tape: Tape, code: str, x: int, y: int) -> Any:
    """The result of an operation on two places where no instruction is needed; else None.

    Args:
        tape: whose places.
        code: of :data:`ARITHMETIC`.
        x, y: the operands' places.
    """
    (low, high), (least, most) = tape.ranges[x], tape.ranges[y]
    a = low if low == high else None
    b = least if least == most else None
    if a is not None and b is not None and not (b == 0 and code in ("//", "%")):
        return ARITHMETIC[code](a, b)
    if code == "*":
        if a == 0 or b == 0:
            return 0
        return tape.given(x) if b == 1 else tape.given(y) if a == 1 else None
    if code == "+":
        made = tape.made[x]
        if made and made[0] == "-" and made[2] == y:  # n - 1 + 1
            return tape.given(made[1])
        return tape.given(x) if b == 0 else tape.given(y) if a == 0 else None
    if code == "-":
        return _difference(tape, x, y, a, b)
    if code in ("min", "max"):
        return _chosen(tape, code, x, y)
    if b == 1:
        return tape.given(x) if code == "//" else 0
    if least >= 1:
        if low >= 0 and high < least:
            return 0 if code == "//" else tape.given(x)
        other = quotient(tape, x, y)
        if other is not None:
            return other if code == "//" else 0
    return None


def _difference(tape: Tape, x: int, y: int, a: int | None, b: int | None) -> Any:
    if x == y:
        return 0
    if b == 0:
        return tape.given(x)
    made = tape.made[y]
    # 0 - (0 - n), as in a division that rounds up
    return tape.given(made[2]) if a == 0 and made and made[:2] == ("-", x) else None


def _chosen(tape: Tape, code: str, x: int, y: int) -> Any:
    """The smaller or the larger of two where it is the same one in all runs."""
    (low, high), (least, most) = tape.ranges[x], tape.ranges[y]
    if high <= least or x == y or (low >= 0 and _has_factor(tape, y, x)):
        return tape.given(x if code == "min" else y)
    if most <= low or (least >= 0 and _has_factor(tape, x, y)):
        return tape.given(y if code == "min" else x)
    return None


def _has_factor(tape: Tape, x: int, y: int) -> bool:
    """Whether ``x`` was made as ``y`` times something that is at least 1."""
    made = tape.made[x]
    if made is None or made[0] != "*":
        return False
    this, other = made[1], made[2]
    return (this == y and tape.ranges[other][0] >= 1) or (other == y and tape.ranges[this][0] >= 1)


def quotient(tape: Tape, x: int, y: int) -> Any:
    """``x / y`` where it goes out evenly by the way ``x`` was made; None where that is unknown."""
    if x == y:
        return 1
    made = tape.made[x]
    if made is None:
        return None
    code, this, other = made
    if code == "*":
        rest = quotient(tape, this, y)
        if rest is not None:
            return _product(tape, rest, tape.given(other))
        rest = quotient(tape, other, y)
        return None if rest is None else _product(tape, rest, tape.given(this))
    if code == "-" and tape.ranges[this] == (0, 0):
        rest = quotient(tape, other, y)
        return None if rest is None else -rest
    return None


def _product(tape: Tape, a: Any, b: Any) -> Any:
    return a * b if type(a) is int and type(b) is int else tape.apply("*", a, b)


def interval(code: str, x: Interval, y: Interval) -> Interval:
    """The range of an operation's result."""
    (a, b), (c, d) = x, y
    if code == "+":
        return a + c, b + d
    if code == "-":
        return a - d, b - c
    if code in ("min", "max"):
        return ARITHMETIC[code](a, c), ARITHMETIC[code](b, d)
    if code == "*":
        if a >= 0 and c >= 0:
            return a * c, b * d
        ends = (a * c, a * d, b * c, b * d)
        return min(ends), max(ends)
    if c >= 1:
        if code == "%":
            return 0, d - 1
        ends = (a // c, a // d, b // c, b // d)
        return min(ends), max(ends)
    return -(1 << 80), 1 << 80


def decided(code: str, x: Interval, y: Interval) -> bool | None:
    """The answer to a comparison of values in two ranges, where it is the same for all of them."""
    (low, high), (least, most) = x, y
    if code == "==":
        if high < least or most < low:
            return False
        return True if low == high == least == most else None
    if high < least or (code == "<=" and high <= least):
        return True
    return False if low > most or (code == "<" and low >= most) else None
