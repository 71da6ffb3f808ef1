"""Extents of shapes: numbers, symbols, and arithmetic over symbols as small frozen values.

A signature and a launch plan hold them, and they leave the process as JSON: a number, a symbol's
name, or a list ``["*", "n", 2]``. Files of earlier versions hold the text ``"n * 2"`` instead,
which :func:`parse` reads; text is parsed, never evaluated as Python.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from whet.compiler.errors import CodegenError


@dataclass(frozen=True, slots=True)
class Symbol:
    """A size that a call's arguments bind."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Operation:
    """``a op b``, an operation of :data:`OPERATORS`, in integers that do not overflow."""

    op: str
    a: Extent
    b: Extent

    def __str__(self) -> str:
        return _text(self, 0)


Extent: TypeAlias = "int | Symbol | Operation"
Shape = tuple[Extent, ...]


@dataclass(frozen=True, slots=True)
class Operator:
    """One operation of extents.

    Attributes:
        compute: its value; a division by 0 is one by 1.
        precedence: how tightly its text binds; 0: it is written as a call.
        syntax: its class in Python's syntax tree, or None.
    """

    compute: Callable[[int, int], int]
    precedence: int = 0
    syntax: type[ast.operator] | None = None


OPERATORS = {
    "+": Operator(operator.add, 6, ast.Add),
    "-": Operator(operator.sub, 6, ast.Sub),
    "*": Operator(operator.mul, 7, ast.Mult),
    "//": Operator(lambda a, b: a // (b or 1), 7, ast.FloorDiv),
    "%": Operator(lambda a, b: a % (b or 1), 7, ast.Mod),
    "min": Operator(min),
    "max": Operator(max),
}
_OF_SYNTAX = {row.syntax: op for op, row in OPERATORS.items() if row.syntax}


def packed_shape(shape: Shape) -> Shape:
    """The bytes of an array of four-bit elements, two a byte, row-major; the even one is low.

    The last dimension is halved where it is even for all symbols; else the bytes have one
    dimension, since rows may not begin with a byte::

        (n, 8)  ->  (n, 4)        (3, n * 2)  ->  (3, n)        (3, 5)  ->  (8,)        ()  ->  (1,)
        (3, n)  ->  ((n * 3 + 1) // 2,)
    """
    half = _half(shape[-1]) if shape else None
    if half is not None:
        return (*shape[:-1], half)
    size: Extent = 1
    for d in shape:
        if isinstance(size, int) and (isinstance(d, int) or size == 1):
            size = size * d if isinstance(d, int) else d
        else:
            size = Operation("*", size, d)
    if isinstance(size, int):
        return ((size + 1) // 2,)
    return (Operation("//", Operation("+", size, 1), 2),)


def holds_rows(shape: Shape) -> bool:
    """True of one dimension that :func:`packed_shape` made of several with symbols."""
    match shape:
        case (Operation("//", Operation("+", Operation("*"), 1), 2),):
            return True
    return False


def _half(extent: Extent) -> Extent | None:
    """Half of an extent that is even for all symbols; None of another."""
    match extent:
        case int():
            return extent // 2 if extent % 2 == 0 else None
        case Operation("*", a, b):
            for x, other in ((a, b), (b, a)):
                half = _half(x)
                if half is not None:
                    return other if half == 1 else Operation("*", other, half)
        case Operation("+" | "-" | "min" | "max" as op, a, b):
            low, high = _half(a), _half(b)
            if low is not None and high is not None:
                return Operation(op, low, high)
    return None


def symbols_of(extent: Extent) -> set[str]:
    """The names of the symbols in an extent."""
    if isinstance(extent, Operation):
        return symbols_of(extent.a) | symbols_of(extent.b)
    return {extent.name} if isinstance(extent, Symbol) else set()


def evaluate(extent: Extent, values: Mapping[str, int]) -> int:
    """The number that an extent is where its symbols have ``values``."""
    if isinstance(extent, Symbol):
        if extent.name not in values:
            raise no_extent(extent.name, extent.name)
        return values[extent.name]
    if isinstance(extent, Operation):
        return OPERATORS[extent.op].compute(evaluate(extent.a, values), evaluate(extent.b, values))
    return extent


def to_data(extents: Sequence[Extent | str]) -> list:
    """Extents, and names of arrays, as JSON-able data."""
    return [_data(x) for x in extents]


def from_data(data: Sequence[Any]) -> Shape:
    """The extents that :func:`to_data` described, or an earlier version's texts."""
    return tuple(_read(x) for x in data)


def _data(extent: Extent | str) -> Any:
    if isinstance(extent, Operation):
        return [extent.op, _data(extent.a), _data(extent.b)]
    return extent.name if isinstance(extent, Symbol) else extent


def _read(data: Any) -> Extent:
    if isinstance(data, str):
        return parse(data)
    if isinstance(data, list):
        op, a, b = data
        if op not in OPERATORS:
            raise no_extent(str(data), str(op))
        return Operation(op, _read(a), _read(b))
    return operator.index(data)


def parse(text: str) -> Extent:
    """An extent that is written as Python's syntax: ``"n"``, ``"(n + 3) // 4"``.

    Raises:
        CodegenError: it is none.
    """
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise CodegenError(f"the dimension {text!r}", f"it cannot be read: {error}") from None

    def go(n: ast.expr) -> Extent:
        match n:
            case ast.Constant(value=int(value)):
                return value
            case ast.Name(id=name):
                return Symbol(name)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
                return -value
            case ast.UnaryOp(op=ast.USub(), operand=x):
                return Operation("-", 0, go(x))
            case ast.BinOp(left=a, op=op, right=b) if type(op) in _OF_SYNTAX:
                return Operation(_OF_SYNTAX[type(op)], go(a), go(b))
            case ast.Call(func=ast.Name(id=("min" | "max") as op), args=args) if args:
                return functools.reduce(lambda a, b: Operation(op, a, b), map(go, args))
            case ast.Call(func=ast.Name(id=("int32" | "int64")), args=[x]):
                return go(x)
        raise no_extent(text, ast.unparse(n))

    return go(tree)


def _text(extent: Extent, outer: int) -> str:
    """The text of an extent, in parentheses where it binds less than ``outer``."""
    if not isinstance(extent, Operation):
        return str(extent)
    level = OPERATORS[extent.op].precedence
    if not level:
        return f"{extent.op}({extent.a}, {extent.b})"
    text = f"{_text(extent.a, level)} {extent.op} {_text(extent.b, level + 1)}"
    return f"({text})" if level < outer else text


def no_extent(extent: str, part: str) -> CodegenError:
    """The error that names the part of a shape that no extent can hold."""
    return CodegenError(
        f"the dimension {extent!r}",
        f"{part!r} is not a symbol or an operation that a shape can hold",
        "operations: + - * // % min max",
    )
