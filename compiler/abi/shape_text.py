"""Shapes that hold symbols: which dimension binds which symbol, and expressions over symbols.

The same expression is emitted as LLVM text for the checks in machine code and evaluated in Python
for the messages. Expressions are parsed, never evaluated as Python: they may come from a file.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping

from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.errors import CodegenError


class Text:
    """LLVM instructions of one function under construction, with fresh names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.block = "entry"
        self._count = 0

    def fresh(self, stem: str = "v") -> str:
        """A name that was not used before, without ``%``."""
        self._count += 1
        return f"{stem}{self._count}"

    def op(self, text: str) -> str:
        """Append an instruction with a result; the result's name."""
        name = "%" + self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Append an instruction without a result."""
        self.lines.append("  " + text)

    def label(self, name: str) -> None:
        """Begin the basic block ``name``."""
        self.lines.append(f"{name}:")
        self.block = name

    def field(self, pointer: str, offset: int, type_: str, align: int | None = None) -> str:
        """Load a ``type_`` that stands ``offset`` bytes behind ``pointer``."""
        at = self.op(f"getelementptr i8, ptr {pointer}, i64 {offset}") if offset else pointer
        return self.op(f"load {type_}, ptr {at}" + (f", align {align}" if align else ""))


@functools.lru_cache(4096)
def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise CodegenError(f"the dimension {text!r}", f"it cannot be read: {error}") from None


def names(dim: int | str) -> set[str]:
    """The symbols that a dimension mentions."""
    if isinstance(dim, int):
        return set()
    calls = {n.func for n in ast.walk(_parsed(dim)) if isinstance(n, ast.Call)}
    return {n.id for n in ast.walk(_parsed(dim)) if isinstance(n, ast.Name) and n not in calls}


def evaluate(dim: int | str, values: Mapping[str, int]) -> int:
    """The number that a dimension has when its symbols have ``values``."""
    if isinstance(dim, int):
        return dim

    def go(e: ast.expr) -> int:
        match e:
            case ast.Constant(value=int(value)):
                return value
            case ast.Name(id=name) if name in values:
                return values[name]
            case ast.UnaryOp(op=ast.USub(), operand=x):
                return -go(x)
            case ast.BinOp(left=left, op=op, right=right):
                a, b = go(left), go(right)
                match op:
                    case ast.Add():
                        return a + b
                    case ast.Sub():
                        return a - b
                    case ast.Mult():
                        return a * b
                    case ast.FloorDiv():
                        return a // (b or 1)
                    case ast.Mod():
                        return a % (b or 1)
            case ast.Call(func=ast.Name(id=("min" | "max") as which), args=args) if args:
                return (min if which == "min" else max)(map(go, args))
        raise _unknown(dim, e)

    return go(_parsed(dim))


def emit(dim: int | str, values: Mapping[str, str], text: Text) -> str:
    """Append LLVM instructions that compute a dimension as i64; the name of the result.

    Args:
        dim: the dimension.
        values: each symbol's LLVM value.
        text: where the instructions go.
    """
    if isinstance(dim, int):
        return str(dim)

    def pick(predicate: str, a: str, b: str) -> str:
        return text.op(f"select i1 {text.op(f'icmp {predicate} i64 {a}, {b}')}, i64 {a}, i64 {b}")

    def divide(a: str, b: str, want_mod: bool) -> str:
        zero = text.op(f"icmp eq i64 {b}, 0")
        d = text.op(f"select i1 {zero}, i64 1, i64 {b}")
        rest = text.op(f"srem i64 {a}, {d}")
        some = text.op(f"icmp ne i64 {rest}, 0")
        opposite = text.op(f"icmp slt i64 {text.op(f'xor i64 {rest}, {d}')}, 0")
        below = text.op(f"and i1 {some}, {opposite}")
        if want_mod:
            return text.op(f"add i64 {rest}, {text.op(f'select i1 {below}, i64 {d}, i64 0')}")
        quotient = text.op(f"sdiv i64 {a}, {d}")
        return text.op(f"sub i64 {quotient}, {text.op(f'zext i1 {below} to i64')}")

    def go(e: ast.expr) -> str:
        match e:
            case ast.Constant(value=int(value)):
                return str(value)
            case ast.Name(id=name) if name in values:
                return values[name]
            case ast.UnaryOp(op=ast.USub(), operand=x):
                return text.op(f"sub i64 0, {go(x)}")
            case ast.BinOp(left=left, op=op, right=right):
                a, b = go(left), go(right)
                match op:
                    case ast.Add():
                        return text.op(f"add i64 {a}, {b}")
                    case ast.Sub():
                        return text.op(f"sub i64 {a}, {b}")
                    case ast.Mult():
                        return text.op(f"mul i64 {a}, {b}")
                    case ast.FloorDiv():
                        return divide(a, b, False)
                    case ast.Mod():
                        return divide(a, b, True)
            case ast.Call(func=ast.Name(id=("min" | "max") as which), args=args) if args:
                values_ = [go(x) for x in args]
                return functools.reduce(
                    lambda a, b: pick("slt" if which == "min" else "sgt", a, b), values_
                )
        raise _unknown(dim, e)

    return go(_parsed(dim))


def _unknown(dim: str, e: ast.expr) -> CodegenError:
    return CodegenError(
        f"the dimension {dim!r}",
        f"{ast.unparse(e)!r} is not a symbol or an operation that a shape can hold",
        "operations: + - * // % min max",
    )


def bindings(sig: KernelSignature) -> dict[str, tuple[int, int]]:
    """Where each symbol gets its value: (parameter, dimension), or (parameter, -1) for a scalar.

    The strides of an array follow its dimensions: of a matrix, 2 and 3.

    Raises:
        CodegenError: a symbol stands alone in no shape and is no integer scalar.
    """
    found: dict[str, tuple[int, int]] = {}
    for i, p in enumerate(sig.params):
        if isinstance(p, ScalarParam) and "int" in p.dtype:
            found.setdefault(p.name, (i, -1))
    for i, p in enumerate(sig.params):
        if isinstance(p, BufferParam):
            for d, dim in enumerate(p.shape):
                if isinstance(dim, str) and dim.isidentifier():
                    found.setdefault(dim, (i, d))
    for i, p in enumerate(sig.params):
        if isinstance(p, BufferParam):
            for d, step in enumerate(p.strides, len(p.shape)):
                if isinstance(step, str) and step.isidentifier():
                    found.setdefault(step, (i, d))
    wanted = set(sig.symbols).union(
        *(names(d) for p in sig.params if isinstance(p, BufferParam) for d in p.shape + p.strides)
    )
    if missing := sorted(wanted - found.keys()):
        raise CodegenError(
            f"kernel {sig.name!r}",
            f"nothing gives the symbol {missing[0]!r} a value",
            "a symbol must stand alone as a dimension of an argument, or be an integer argument",
        )
    return {name: at for name, at in found.items() if name in wanted}
