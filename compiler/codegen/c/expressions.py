"""Expressions as C text.

An expression is a text with its precedence, so that parentheses stand only where they are needed.
Vectors have no type in C99: a vector is its lanes, and all expressions are written for the lane at
hand, a variable or a number. Indices are sums in the type of subscripts and do not wrap; values do
as their types say, through unsigned arithmetic, where C leaves signed overflow undefined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler.codegen.c.functions import SHORT_FLOATS
from whet.compiler.codegen.c.indices import Indices
from whet.compiler.codegen.c.mathematics import call_text
from whet.compiler.codegen.c.precedence import (
    ADD,
    AND,
    ATOM,
    BITS,
    CHOICE,
    EQUAL,
    LESS,
    MUL,
    OR,
    SHIFT,
    UNARY,
    Text,
    paren,
    signed_text,
)
from whet.compiler.codegen.c.scope import Scope
from whet.compiler.codegen.c.sharing import shared_nodes
from whet.compiler.codegen.constants import constant, limit_first
from whet.compiler.codegen.outside import no_value
from whet.compiler.errors import CodegenError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CmpOp,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    Shuffle,
    SizeVar,
    Sub,
    Var,
)
from whet.compiler.tir.visit.rewrite import nodes_of

_LEVEL = {Add: ADD, Sub: ADD, Mul: MUL, Div: MUL}


class Expressions:
    """Writes expressions; lines that must stand before one go into the scope's.

    Args:
        scope: of the kernel.
        intrinsic: the call of what the kernel's surroundings provide; None for other functions.

    Attributes:
        indices: writes those parts that are indices.
        rules: class of a node -> its text.
    """

    def __init__(self, scope: Scope, intrinsic: Callable[[Call], Text | None]) -> None:
        self.scope = scope
        self.d, self.use, self.names, self.line = scope.d, scope.use, scope.names, scope.line
        self.values = scope.values
        self._intrinsic = intrinsic
        self.indices = Indices(scope, self.text)
        self.index, self.is_index = self.indices.index, self.indices.is_index
        self.rules: dict[type, Callable[[Any], Text]] = {
            IntImm: lambda n: signed_text(self.d.integer(n.value, n.dtype)),
            FloatImm: lambda n: signed_text(self.d.floating(n.value, n.dtype)),
            Var: self._var,
            SizeVar: self._var,
            Cast: self._cast,
            **dict.fromkeys((Add, Sub, Mul), self._arithmetic),
            **dict.fromkeys((Div, Mod, FloorDiv, FloorMod), self._division),
            Min: lambda n: self._called("min", n),
            Max: lambda n: self._called("max", n),
            **dict.fromkeys((EQ, NE, LT, LE, GT, GE), self._compare),
            And: lambda n: self._logic(n, "&&", AND),
            Or: lambda n: self._logic(n, "||", OR),
            Not: lambda n: ("!" + self.value(n.a, UNARY), UNARY),
            Select: lambda n: self._choice(n.condition, n.true_value, n.false_value),
            BufferLoad: self.load,
            Broadcast: lambda n: self.text(n.value),
            Let: self._let,
            Shuffle: self._shuffle,
            Call: self._call,
        }

    # entry points

    def value(self, n: PrimExpr, outer: int = 0) -> str:
        """The value of an expression (of a vector: its lane); it binds at least like ``outer``."""
        return paren(self.text(n), outer)

    def begin(self, n: PrimExpr) -> None:
        """Prepare for an expression: find what it shares, if it is large enough to matter."""
        self.scope.memo.clear()
        self.scope.shared = shared_nodes(n)

    def text(self, n: PrimExpr) -> Text:
        """The value of an expression, with its precedence."""
        held = self.scope.held.get(id(n))
        if held is not None and isinstance(self.scope.lane, int):
            lane = held.lane(self.scope.lane)
            return (f"{lane} != 0", EQUAL) if dt.is_bool(n.dtype) else (lane, ATOM)
        number = self.scope.shared.get(id(n))
        if number is not None and (number, self.scope.lane) in self.scope.memo:
            return self.scope.memo[number, self.scope.lane]
        if self.is_index(n):
            text = self.indices.value_of(n)
        else:
            rule = self.rules.get(type(n))
            if rule is None:
                raise CodegenError(
                    f"write {type(n).__name__} as {self.d.name}",
                    "this node has no meaning there",
                )
            text = rule(n)
        if number is not None:
            name = self.names.fresh("t")
            self.line(f"const {self.d.value_type(n.dtype)} {name} = {text[0]};")
            text = self.scope.memo[number, self.scope.lane] = (name, ATOM)
        return text

    # variables, loads, names

    def _var(self, n: Var) -> Text:
        if n not in self.values:
            raise no_value(n)
        text = self.values[n]
        return (f"{text}[{self.scope.lane}]" if dt.lanes(n.dtype) > 1 else text), ATOM

    def load(self, n: BufferLoad) -> Text:
        """An element of memory; 0 where a mask does not hold."""
        element = self.indices.element(n.buffer, n.indices)
        text = self.d.load(element, n.buffer.dtype, self.use), ATOM
        if dt.is_bool(n.dtype):
            text = f"{text[0]} != 0", EQUAL
        if n.mask is None:
            return text
        zero = FloatImm if dt.is_float(n.dtype) else IntImm
        none = self.value(zero(dt.element(n.dtype), 0))
        return f"{self.value(n.mask, OR)} ? {paren(text, OR)} : {none}", CHOICE

    def _let(self, n: Let) -> Text:
        self.bind(n.var, n.value)
        return self.text(n.body)

    def bind(self, var: Var, value: PrimExpr) -> None:
        """Give a variable a value, in a line of its own."""
        if dt.lanes(value.dtype) > 1:
            self.values[var] = self.lanes_of(value, self.names.new(var))
            return
        index = value.dtype in ("int32", "int64") and (
            self.is_index(value) or constant(value) is not None
        )
        text = self.index(value) if index else self.value(value)
        kind = self.d.index if index else self.d.value_type(value.dtype)
        name = self.names.new(var)
        self.line(f"const {kind} {name} = {text};")
        if index or value.dtype in ("int32", "int64"):
            self.scope.integers[var] = index
        else:
            self.values[var] = name

    def lanes_of(self, value: PrimExpr, name: str) -> str:
        """Write a vector's lanes into an array of this name; the name itself."""
        lanes = dt.lanes(value.dtype)
        self.line(f"{self.d.value_type(value.dtype)} {name}[{lanes}];")
        self.each_lane(
            lanes, [value], lambda: self.line(f"{name}[{self.scope.lane}] = {self.value(value)};")
        )
        return name

    def each_lane(self, lanes: int, nodes: list[PrimExpr], write: Callable[[], None]) -> None:
        """Call ``write`` for each lane: once inside a loop, or with each number."""
        picked = any(nodes_of(n, Shuffle) for n in nodes)  # by their numbers
        if lanes <= self.d.expanded_lanes or picked:
            for k in range(lanes):
                with self.scope.at_lane(k):
                    write()
            return
        name = self.names.fresh("lane")
        if self.d.lane_pragma:
            self.line(self.d.lane_pragma)
        self.line(f"for ({self.d.index} {name} = 0; {name} < {lanes}; ++{name}) {{")
        with self.scope.block(), self.scope.at_lane(name):
            write()
        self.line("}")
        self.names.release(name)

    def _shuffle(self, n: Shuffle) -> Text:
        lane = self.scope.lane if dt.lanes(n.dtype) > 1 else 0
        assert isinstance(lane, int)
        k = n.indices[lane]
        before = self.scope.lane
        for v in n.vectors:
            count = dt.lanes(v.dtype)
            if k < count:
                self.scope.lane = k if count > 1 else before
                text = self.text(v)
                self.scope.lane = before
                return text
            k -= count
        raise CodegenError("a shuffle", f"it picks lane {n.indices[lane]}, which does not exist")

    # arithmetic

    def _arithmetic(self, n: BinaryOp) -> Text:
        name = dt.element(n.dtype)
        if dt.is_float(name):
            return self._float_infix(n)
        if dt.is_bool(name):
            return f"{self.value(n.a, UNARY)} {'&' if isinstance(n, Mul) else '^'} " + self.value(
                n.b, UNARY
            ), BITS
        text = self._wrapping(n, outermost=True)
        if name in ("uint32", "uint64"):
            return text
        return f"({self.d.value_type(name)}){paren(text, UNARY)}", UNARY

    def _float_infix(self, n: BinaryOp) -> Text:
        name = dt.element(n.dtype)
        if name in SHORT_FLOATS and not self.d.native_short:
            return self.d.rounded(self.unrounded(n), name, self.use), ATOM
        return self._infix(n)

    def _infix(self, n: BinaryOp) -> Text:
        level = _LEVEL[type(n)]
        return f"{self.value(n.a, level)} {n.symbol} {self.value(n.b, level + 1)}", level

    def unrounded(self, n: PrimExpr) -> str:
        """The value of a 16-bit float before its last rounding, for what rounds it anyway."""
        if isinstance(n, (Add, Sub, Mul, Div)) and not self.d.native_short:
            return self._infix(n)[0]
        if isinstance(n, Cast) and dt.element(n.value.dtype) == "float32":
            return self.value(n.value)
        return self.d.as_float(self.value(n), dt.element(n.dtype))

    def _wrapping(self, n: PrimExpr, outermost: bool = False) -> Text:
        """Sums and products in unsigned arithmetic, which wraps; other values as operands of it."""
        name = dt.element(n.dtype)
        kind = self.d.unsigned(name)
        named = id(n) in self.scope.shared and not outermost
        if isinstance(n, (Add, Sub, Mul)) and not named and not self.is_index(n):
            level = _LEVEL[type(n)]
            a, b = self._wrapping(n.a), self._wrapping(n.b)
            return f"{paren(a, level)} {n.symbol} {paren(b, level + 1)}", level
        if isinstance(n, Broadcast):
            return self._wrapping(n.value)
        if isinstance(n, IntImm):
            return self.d.integer(n.value, "uint64" if dt.bits(name) == 64 else "uint32"), ATOM
        if name in ("uint32", "uint64"):
            return self.text(n)
        return f"({kind}){self.value(n, UNARY)}", UNARY

    def _division(self, n: BinaryOp) -> Text:
        name = dt.element(n.dtype)
        kind = type(n)
        if dt.is_float(name):
            return self._float_division(n)
        floor = kind in (FloorDiv, FloorMod)
        number = constant(n.b)
        if number is not None and number > 0 and (not floor or dt.is_uint(name)):
            symbol = "/" if kind in (Div, FloorDiv) else "%"
            return f"{self.value(n.a, MUL)} {symbol} {self.value(n.b, UNARY)}", MUL
        op = {Div: "div", Mod: "mod", FloorDiv: "floordiv", FloorMod: "floormod"}[kind]
        return self._called(op, n)

    def _float_division(self, n: BinaryOp) -> Text:
        if isinstance(n, Div):
            return self._float_infix(n)
        if isinstance(n, Mod):
            return self._call(Call(n.dtype, "fmod", (n.a, n.b)))
        quotient = Call(n.dtype, "floor", (Div(n.a, n.b, n.dtype),))
        if isinstance(n, FloorDiv):
            return self.text(quotient)
        return self.text(Sub(n.a, Mul(quotient, n.b, n.dtype), n.dtype))

    def _called(self, op: str, n: BinaryOp) -> Text:
        """An operation by a small function."""
        a, b = limit_first(n) if isinstance(n, (Min, Max)) else (n.a, n.b)
        return f"{self.use.get(op, n.dtype)}({self.value(a)}, {self.value(b)})", ATOM

    # conditions

    def _compare(self, n: CmpOp) -> Text:
        level = EQUAL if isinstance(n, (EQ, NE)) else LESS
        if self._both_indices(n):
            return f"{self.index(n.a, SHIFT)} {n.symbol} {self.index(n.b, SHIFT)}", level
        if dt.is_uint(n.a.dtype) and constant(n.b) == 0 and isinstance(n, (GE, LT)):
            return str(int(isinstance(n, GE))), ATOM  # a compiler would warn
        return f"{self.value(n.a, SHIFT)} {n.symbol} {self.value(n.b, SHIFT)}", level

    def _both_indices(self, n: CmpOp) -> bool:
        return all(
            self.is_index(x)
            or (isinstance(x, IntImm) and dt.element(x.dtype) in ("int32", "int64"))
            for x in (n.a, n.b)
        )

    def _logic(self, n: BinaryOp, symbol: str, level: int) -> Text:
        parts = [self.value(x, level if type(x) is type(n) else BITS) for x in (n.a, n.b)]
        return f"{parts[0]} {symbol} {parts[1]}", level

    def _choice(self, c: PrimExpr, yes: PrimExpr, no: PrimExpr) -> Text:
        """One of two values; where one needs lines of its own, those run only when it is taken."""
        test = self.value(c, OR)
        with self.scope.aside() as yes_lines:
            a = self.value(yes, OR)
        with self.scope.aside() as no_lines:
            b = self.value(no, OR)
        if not yes_lines and not no_lines:
            return f"{test} ? {a} : {b}", CHOICE
        name = self.names.fresh("chosen")
        self.line(f"{self.d.value_type(yes.dtype)} {name};")
        self.line(f"if ({test}) {{")
        self.scope.lines += yes_lines
        self.line(f"    {name} = {a};")
        self.line("} else {")
        self.scope.lines += no_lines
        self.line(f"    {name} = {b};")
        self.line("}")
        return name, ATOM

    # conversions and calls

    def _cast(self, n: Cast) -> Text:
        src, dst = dt.element(n.value.dtype), dt.element(n.dtype)
        if src == dst:
            return self.text(n.value)
        if dt.is_bool(dst):
            zero = FloatImm(src, 0.0) if dt.is_float(src) else IntImm(src, 0)
            return f"{self.value(n.value, SHIFT)} != {self.value(zero)}", EQUAL
        if dst in SHORT_FLOATS:
            return self._to_short(n.value, src, dst)
        text = paren(self.text(n.value), UNARY)
        if src in SHORT_FLOATS:
            text = self.d.as_float(text, src)
            if dst == "float32":
                return text, ATOM
        return f"({self.d.value_type(dst)}){text}", UNARY

    def _to_short(self, value: PrimExpr, src: str, dst: str) -> Text:
        if src == "float64":
            return self.d.from_double(self.value(value), dst, self.use), ATOM
        if dt.is_float(src):
            text = self.d.as_float(self.value(value), src)
        else:
            text = f"(float){self.value(value, UNARY)}"
        return self.d.rounded(text, dst, self.use), ATOM

    def _call(self, n: Call) -> Text:
        if n.op == "if_then_else":
            return self._choice(*n.args)
        if n.op in ("likely", "tir.likely"):
            return self.text(n.args[0])
        text = self._intrinsic(n) or call_text(self, n)
        if text is None:
            raise CodegenError(f"call {n.op}", f"{self.d.name} code has no such function")
        return text
