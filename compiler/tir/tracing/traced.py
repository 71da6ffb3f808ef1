"""Ints that remember how they were computed, so that one run of a program stands for many.

    tape = Tape()
    n = tape.leaf(8, 1, 64)                 # 8 now, anything from 1 to 64 in other runs
    m = -(-100 // n) * 2 if n > 4 else n    # asks whether n > 4: a guard
    tape.events                             # what to compute, and what was asked, in order

Whatever a traced int is asked that is not arithmetic (an order, its hash, its text, ``range`` of
it) is written down as a guard: another run takes the same way as long as all guards turn out alike.
Guards whose answer follows from the ranges of the leaves are left out.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable
from typing import Any

from whet.compiler.tir.tracing.tape_algebra import ARITHMETIC, decided, interval, simplified

Instruction = tuple[str, int, int]
"""A code of :data:`ARITHMETIC` with its operands' places; or ``("const", value, 0)``."""

QUESTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "is": lambda a, b: a,
}
"""The comparisons of guards; ``"is"`` is the value itself."""


class Guard(tuple):
    """``(code, a, b, answer)``: a question of :data:`QUESTIONS` about two places of the tape."""

    __slots__ = ()


class Tape:
    """The arithmetic done with traced ints, and the questions to them.

    Attributes:
        events: instructions and guards in order; instruction number k (guards do not count) makes
            the value at place ``leaves + k``.
        values: the value at each place, in this run.
        leaves: how many of the first places are leaves.
        ranges: the least and the greatest value of each place in any run that takes this way.
        made: the instruction that made each place; None for leaves.
    """

    def __init__(self) -> None:
        self.events: list[Instruction | Guard] = []
        self.values: list[Any] = []
        self.leaves = 0
        self.ranges: list[tuple[Any, Any]] = []
        self.made: list[Instruction | None] = []
        self._constants: dict[Any, int] = {}
        self._results: dict[Instruction, int | TracedInt] = {}
        self._answers: dict[tuple[str, int, int], Any] = {}

    def leaf(self, value: int, low: int, high: int) -> int | TracedInt:
        """An int from outside; all leaves are made before anything is computed.

        Args:
            value: what it is in this run.
            low, high: what it may be in any run.
        """
        place = self._append(value, (low, high), None)
        self.leaves = len(self.values)
        return value if low == high else TracedInt(self, place)

    def apply(self, code: str, a: Any, b: Any) -> int | TracedInt:
        """An operation of :data:`ARITHMETIC` on ints, at least one of them traced."""
        x = a.node if type(a) is TracedInt and a.tape is self else self.place(a)
        y = b.node if type(b) is TracedInt and b.tape is self else self.place(b)
        made = (code, x, y)
        result = self._results.get(made)
        if result is None:
            result = simplified(self, code, x, y)
            if result is None:
                result = self._written(made)
            self._results[made] = result
        return result

    def _written(self, made: Instruction) -> int | TracedInt:
        """The result of a new instruction."""
        code, x, y = made
        if code in ("//", "%") and self.ranges[y][0] <= 0 <= self.ranges[y][1]:
            self.ask("==", TracedInt(self, y), 0)  # runs that divide by 0 are not like this one
        value = ARITHMETIC[code](self.values[x], self.values[y])
        self.events.append(made)
        return self.given(self._append(value, interval(code, self.ranges[x], self.ranges[y]), made))

    def ask(self, code: str, a: Any, b: Any) -> bool:
        """The answer to a comparison, written down unless it is the same in all runs."""
        known = decided(code, self._interval(a), self._interval(b))
        if known is not None:
            return known
        x, y = self.place(a), self.place(b)
        if x == y:
            return code != "<"
        answer = self._answers.get((code, x, y))
        if answer is None:
            answer = QUESTIONS[code](self.values[x], self.values[y])
            self._answers[(code, x, y)] = answer
            self.events.append(Guard((code, x, y, answer)))
            self._learn(code, x, y, answer)
        return bool(answer)

    def _interval(self, x: Any) -> tuple[Any, Any]:
        known = type(x) is TracedInt and x.tape is self
        return self.ranges[x.node] if known else (x, x)

    def whole(self, place: int) -> int:
        """The value at a place: from now on a constant."""
        value = self.values[place]
        low, high = self.ranges[place]
        if low != high:
            self.events.append(Guard(("is", place, place, value)))
            self.ranges[place] = (value, value)
        return value

    def place(self, x: Any) -> int:
        """Where an operand stands on the tape."""
        if type(x) is TracedInt:
            if x.tape is not self:
                return self.place(x.tape.whole(x.node))
            return x.node
        # 1 and 1.0 and True are one key: operands are ints, and floats only in comparisons
        known = self._constants.get(x)
        if known is None:
            made = ("const", x, 0)
            self.events.append(made)
            known = self._constants[x] = self._append(x, (x, x), made)
        return known

    def _append(self, value: Any, interval: tuple[Any, Any], made: Instruction | None) -> int:
        self.values.append(value)
        self.ranges.append(interval)
        self.made.append(made)
        return len(self.values) - 1

    def given(self, place: int) -> int | TracedInt:
        """The value at a place: a plain int where it is the same in all runs."""
        low, high = self.ranges[place]
        return low if low == high else TracedInt(self, place)

    def _learn(self, code: str, x: int, y: int, answer: bool) -> None:
        """Narrow the ranges of both operands by an answer."""
        (a, b), (c, d) = self.ranges[x], self.ranges[y]
        if not (isinstance(a, int) and isinstance(c, int)):
            return
        if code == "==":
            if answer:
                self.ranges[x] = self.ranges[y] = (max(a, c), min(b, d))
            elif c == d:
                self.ranges[x] = (a + (a == c), b - (b == c))
            elif a == b:
                self.ranges[y] = (c + (c == a), d - (d == a))
            return
        strict = (code == "<") == answer  # x < y, or not x <= y
        if answer:
            self.ranges[x] = (a, min(b, d - strict))
            self.ranges[y] = (max(c, a + strict), d)
        else:
            self.ranges[x] = (max(a, c + strict), b)
            self.ranges[y] = (c, min(d, b - strict))


class TracedInt:
    """An int that writes down on a tape what is done with it.

    It passes for an int (``isinstance(x, int)`` holds) without being one, since C code that is
    given a true int looks at its digits and asks nobody.
    """

    __slots__ = ("node", "tape")

    def __init__(self, tape: Tape, node: int) -> None:
        self.tape = tape
        self.node = node

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return int

    def __getattr__(self, name: str) -> Any:
        if not hasattr(int, name):
            raise AttributeError(name)
        return getattr(self.__index__(), name)

    def __index__(self) -> int:
        return self.tape.whole(self.node)

    __int__ = __index__

    def __repr__(self) -> str:
        return str(self.__index__())

    def __format__(self, spec: str) -> str:
        return format(self.__index__(), spec)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        import numpy as np

        return np.asarray(self.__index__(), dtype)

    def __round__(self, digits: int | None = None) -> int:
        return round(self.__index__(), digits)

    def __bool__(self) -> bool:
        return not self.tape.ask("==", self, 0)

    def __pos__(self) -> TracedInt:
        return self

    __trunc__ = __floor__ = __ceil__ = __pos__

    def __neg__(self) -> int | TracedInt:
        return self.tape.apply("-", 0, self)

    def __abs__(self) -> int | TracedInt:
        return -self if self.tape.ask("<", self, 0) else self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self


def _number(x: Any) -> bool:
    return type(x) is int or isinstance(x, (int, float))


def _concrete(
    function: Callable[[Any, Any], Any], swapped: bool
) -> Callable[[TracedInt, Any], Any]:
    def run(self: TracedInt, other: Any) -> Any:
        if not isinstance(other, numbers.Number):
            return NotImplemented
        whole, other = self.__index__(), int(other) if type(other) is TracedInt else other
        return function(other, whole) if swapped else function(whole, other)

    return run


def _traced(code: str, swapped: bool) -> Callable[[TracedInt, Any], Any]:
    concrete = _concrete(ARITHMETIC[code], swapped)

    def run(self: TracedInt, other: Any) -> Any:
        kind = type(other)
        if kind is int or kind is TracedInt:
            apply = self.tape.apply
            return apply(code, other, self) if swapped else apply(code, self, other)
        return run(self, int(other)) if isinstance(other, int) else concrete(self, other)

    return run


def _asked(code: str, swapped: bool = False, negated: bool = False) -> Callable[..., Any]:
    """A comparison as a question to the tape."""

    def run(self: TracedInt, other: Any) -> Any:
        if not _number(other):
            return NotImplemented
        pair = (other, self) if swapped else (self, other)
        return self.tape.ask(code, *pair) is not negated

    return run


for _name, _run in (
    ("eq", _asked("==")), ("ne", _asked("==", negated=True)), ("lt", _asked("<")),
    ("le", _asked("<=")), ("gt", _asked("<", swapped=True)), ("ge", _asked("<=", swapped=True)),
    ("float", lambda x: float(x.__index__())), ("hash", lambda x: hash(x.__index__())),
):  # fmt: skip
    setattr(TracedInt, f"__{_name}__", _run)
for _name, _code in (("add", "+"), ("sub", "-"), ("mul", "*"), ("floordiv", "//"), ("mod", "%")):
    setattr(TracedInt, f"__{_name}__", _traced(_code, False))
    setattr(TracedInt, f"__r{_name}__", _traced(_code, True))
for _name in ("truediv", "pow", "lshift", "rshift", "and", "or", "xor"):
    _function = getattr(operator, f"__{_name}__")
    setattr(TracedInt, f"__{_name}__", _concrete(_function, False))
    setattr(TracedInt, f"__r{_name}__", _concrete(_function, True))


def whole(value: Any) -> int:
    """A number as an int; a traced one stays traced."""
    return value if type(value) is TracedInt else int(value)  # type: ignore[return-value]


def shown(value: Any) -> str:
    """A number as an error shows it; this asks nothing of a traced one."""
    return str(value.tape.values[value.node]) if type(value) is TracedInt else str(value)


def least(a: Any, b: Any) -> Any:
    """The smaller of two ints, without asking which it is."""
    return _chosen("min", a, b)


def most(a: Any, b: Any) -> Any:
    """The larger of two ints, without asking which it is."""
    return _chosen("max", a, b)


def _chosen(code: str, a: Any, b: Any) -> Any:
    for x in (a, b):
        if type(x) is TracedInt:
            return x.tape.apply(code, a, b)
    return ARITHMETIC[code](a, b)
