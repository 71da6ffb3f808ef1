"""Expressions as LLVM operations: arithmetic, conditions, conversions and calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler.codegen.llvm import types as ty
from whet.compiler.codegen.llvm.addresses import Addresses, is_number
from whet.compiler.errors import CodegenError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir.rewrite import TABLE

#: intrinsics of LLVM, for scalars and vectors
_LLVM_CALLS = {
    "exp": "exp",
    "log": "log",
    "log2": "log2",
    "log10": "log10",
    "sqrt": "sqrt",
    "sin": "sin",
    "cos": "cos",
    "pow": "pow",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round": "roundeven",
    "fabs": "fabs",
}
#: functions of the C library, called lane by lane
_LIBM_CALLS = ("tan", "tanh", "sinh", "cosh", "asin", "acos", "atan", "erf", "fmod")
_BITWISE = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "shift_left": "shl"}
_COMPARE = {e.EQ: "eq", e.NE: "ne", e.LT: "lt", e.LE: "le", e.GT: "gt", e.GE: "ge"}


class Expressions(Addresses):
    """Generates expressions into a function."""

    def __init__(self, declare: Callable[[str], None]) -> None:
        super().__init__(declare)
        self._rules: dict[type, Callable[[Any], str]] = {
            e.IntImm: self._int_imm,
            e.FloatImm: lambda n: ty.float_constant(n.value, n.dtype),
            e.Var: self._var,
            e.SizeVar: self._var,
            e.Cast: self._cast,
            e.Add: lambda n: self._sum(n, "add"),
            e.Sub: lambda n: self._sum(n, "sub"),
            e.Mul: lambda n: self._arithmetic(n, "mul"),
            e.Div: self._div,
            e.Mod: self._mod,
            e.FloorDiv: self._floordiv,
            e.FloorMod: self._floormod,
            e.Min: lambda n: self._minmax(n, "lt"),
            e.Max: lambda n: self._minmax(n, "gt"),
            **dict.fromkeys(_COMPARE, self._compare),
            e.And: lambda n: self._logic(n, "and"),
            e.Or: lambda n: self._logic(n, "or"),
            e.Not: self._not,
            e.Select: lambda n: self._select(n.condition, n.true_value, n.false_value),
            e.BufferLoad: self.load,
            e.Ramp: self._ramp,
            e.Broadcast: self._broadcast,
            e.Call: self._call,
        }

    def value(self, n: e.PrimExpr) -> str:
        """The value of an expression: a name or a constant."""
        rule = self._rules.get(type(n))
        if rule is None:
            raise CodegenError(
                f"generate LLVM code for {type(n).__name__}", "this node has no meaning there"
            )
        return rule(n)

    # leaves

    def _int_imm(self, n: e.IntImm) -> str:
        if n.dtype == "bool":
            return "true" if n.value else "false"
        half = 1 << (dt.bits(n.dtype) - 1)  # a coefficient may need more bits: it wraps
        return str((n.value + half) % (2 * half) - half)

    def _var(self, n: e.Var) -> str:
        if n in self.scalars:
            return self.scalars[n]
        if n not in self.env:
            raise CodegenError(
                f"the variable {n.name}",
                "nothing gives it a value",
                "use it in the shape of an argument or pass it as an argument",
            )
        value = self.i64(self.env[n])
        if is_number(value) or n.dtype == "int64":
            return value
        return self.out.pure(f"trunc i64 {value} to {ty.type_of(n.dtype)}", value)

    def _ramp(self, n: e.Ramp) -> str:
        name, lanes = dt.split(n.dtype)
        kind = ty.type_of(name)
        base = self._broadcast(e.Broadcast(n.base, lanes, n.dtype))
        steps = "<" + ", ".join(f"{kind} {k * n.stride}" for k in range(lanes)) + ">"
        return self.out.pure(f"add {ty.type_of(n.dtype)} {base}, {steps}", base)

    def _broadcast(self, n: e.Broadcast) -> str:
        name = dt.element(n.dtype)
        value, kind, lanes = self.value(n.value), ty.type_of(name), n.lanes
        if not value.startswith("%"):
            return ty.splat(value, kind, lanes)
        vector = ty.type_of(n.dtype)
        one = self.out.pure(f"insertelement {vector} poison, {kind} {value}, i64 0", value)
        return self.out.pure(
            f"shufflevector {vector} {one}, {vector} poison, <{lanes} x i32> zeroinitializer", one
        )

    # arithmetic

    def _arithmetic(self, n: e.BinaryOp, op: str) -> str:
        if self.is_index(n):
            return self.index_value(n)
        a, b = self.value(n.a), self.value(n.b)
        prefix = "f" if dt.is_float(n.dtype) else ""
        return self.out.pure(f"{prefix}{op} {ty.type_of(n.dtype)} {a}, {b}", a, b)

    def _sum(self, n: e.BinaryOp, op: str) -> str:
        if n.dtype.startswith(("float32", "float64")):
            if isinstance(n.a, e.Mul):
                z = self.value(n.b)
                return self._fma(n.a, z if op == "add" else self._negated(z, n.dtype), n.dtype)
            if isinstance(n.b, e.Mul):
                return self._fma(n.b, self.value(n.a), n.dtype, negate=op == "sub")
        return self._arithmetic(n, op)

    def _negated(self, v: str, dtype: str) -> str:
        return self.out.pure(f"fneg {ty.type_of(dtype)} {v}", v)

    def _fma(self, product: e.Mul, z: str, dtype: str, negate: bool = False) -> str:
        """A multiplication and an addition, in one step where the processor has it."""
        x, y = self.value(product.a), self.value(product.b)
        if negate:
            x = self._negated(x, dtype)
        kind, name = ty.type_of(dtype), f"@llvm.fmuladd.{ty.suffix(dtype)}"
        self.declare(f"declare {kind} {name}({kind}, {kind}, {kind})")
        return self.out.pure(f"call {kind} {name}({kind} {x}, {kind} {y}, {kind} {z})", x, y, z)

    def _div(self, n: e.Div) -> str:
        a, b = self.value(n.a), self.value(n.b)
        kind = ty.type_of(n.dtype)
        if dt.is_float(n.dtype):
            return self.out.pure(f"fdiv {kind} {a}, {b}", a, b)
        # a division by zero must stay under the guards it is under
        return self.out.here(f"{'udiv' if dt.is_uint(n.dtype) else 'sdiv'} {kind} {a}, {b}")

    def _mod(self, n: e.Mod) -> str:
        a, b = self.value(n.a), self.value(n.b)
        kind = ty.type_of(n.dtype)
        if dt.is_float(n.dtype):
            return self.out.pure(f"frem {kind} {a}, {b}", a, b)
        return self.out.here(f"{'urem' if dt.is_uint(n.dtype) else 'srem'} {kind} {a}, {b}")

    def _floordiv(self, n: e.FloorDiv) -> str:
        if self.is_index(n):
            return self.index_value(n)
        if dt.is_uint(n.dtype):
            return self._div(e.Div(n.a, n.b, n.dtype))
        a, b = self.value(n.a), self.value(n.b)
        return self.floor_quotient(a, b, ty.type_of(n.dtype), _constant(n.b), dt.lanes(n.dtype))

    def _floormod(self, n: e.FloorMod) -> str:
        if self.is_index(n):
            return self.index_value(n)
        if dt.is_uint(n.dtype):
            return self._mod(e.Mod(n.a, n.b, n.dtype))
        a, b, kind = self.value(n.a), self.value(n.b), ty.type_of(n.dtype)
        q = self.floor_quotient(a, b, kind, _constant(n.b), dt.lanes(n.dtype))
        m = self.out.pure(f"mul {kind} {q}, {b}", q, b)
        return self.out.pure(f"sub {kind} {a}, {m}", a, m)

    def _minmax(self, n: e.BinaryOp, test: str) -> str:
        if self.is_index(n):
            return self.index_value(n)
        a, b, kind = self.value(n.a), self.value(n.b), ty.type_of(n.dtype)
        c = self._test(a, b, test, n.dtype)
        bit = ty.type_of(dt.vector("bool", dt.lanes(n.dtype)))
        return self.out.pure(f"select {bit} {c}, {kind} {a}, {kind} {b}", c, a, b)

    def _test(self, a: str, b: str, test: str, dtype: str) -> str:
        if dt.is_float(dtype):
            how = "fcmp " + {"eq": "oeq", "ne": "une"}.get(test, "o" + test)
        elif test in ("eq", "ne"):
            how = "icmp " + test
        else:
            how = f"icmp {'u' if dt.is_uint(dtype) or dt.is_bool(dtype) else 's'}{test}"
        return self.out.pure(f"{how} {ty.type_of(dtype)} {a}, {b}", a, b)

    # conditions

    def _compare(self, n: e.CmpOp) -> str:
        test = _COMPARE[type(n)]
        if self.is_index(n.a) and self.is_index(n.b):
            (ca, ta), (cb, tb) = self.linear(n.a), self.linear(n.b)
            terms = dict(ta)
            for v, c in tb.items():
                terms[v] = terms.get(v, 0) - c
            terms = {v: c for v, c in terms.items() if c}
            if not terms:
                return "true" if _decide(test, ca, cb) else "false"
            left = self.i64((0, terms))
            how = test if test in ("eq", "ne") else "s" + test
            return self.out.pure(f"icmp {how} i64 {left}, {cb - ca}", left)
        return self._test(self.value(n.a), self.value(n.b), test, n.a.dtype)

    def _logic(self, n: e.BinaryOp, op: str) -> str:
        a = self.value(n.a)
        if a in ("true", "false"):
            decided = a == ("false" if op == "and" else "true")
            return a if decided else self.value(n.b)
        b = self.value(n.b)
        if b in ("true", "false"):
            return b if b == ("false" if op == "and" else "true") else a
        return self.out.pure(f"{op} {ty.type_of(n.dtype)} {a}, {b}", a, b)

    def _not(self, n: e.Not) -> str:
        a, lanes = self.value(n.a), dt.lanes(n.dtype)
        if a in ("true", "false"):
            return "false" if a == "true" else "true"
        ones = "true" if lanes == 1 else ty.splat("true", "i1", lanes)
        return self.out.pure(f"xor {ty.type_of(n.dtype)} {a}, {ones}", a)

    def _select(self, condition: e.PrimExpr, yes: e.PrimExpr, no: e.PrimExpr) -> str:
        c = self.value(condition)
        if c in ("true", "false"):
            return self.value(yes if c == "true" else no)
        a, b, kind = self.value(yes), self.value(no), ty.type_of(yes.dtype)
        bit = ty.type_of(condition.dtype)
        return self.out.pure(f"select {bit} {c}, {kind} {a}, {kind} {b}", c, a, b)

    def _if_then_else(self, n: e.Call) -> str:
        """Both values without a branch where neither reads; else a branch around a slot."""
        condition, yes, no = n.args
        c = self.value(condition)
        if c in ("true", "false"):
            return self.value(yes if c == "true" else no)
        if not (_may_trap(yes) or _may_trap(no)):
            return self._select(condition, yes, no)
        kind, slot = ty.type_of(n.dtype), self.out.fresh("slot")
        self.out.allocas.append(f"  {slot} = alloca {kind}")
        self.out.define(slot)
        for test, branch in ((c, yes), (None, no)):
            if test is None:
                bit = ty.type_of(condition.dtype)
                test = self.out.pure(f"xor {bit} {c}, true", c)
            with self.out.branch(test):
                v = self.value(branch)
                self.out.line(f"store {kind} {v}, ptr {slot}")
        return self.out.here(f"load {kind}, ptr {slot}")

    # conversions and calls

    def _cast(self, n: e.Cast) -> str:
        src, dst = n.value.dtype, n.dtype
        if self.is_index(n.value) and dst == "int64":
            return self.i64(self.linear(n.value))
        v = self.value(n.value)
        a, b = ty.type_of(src), ty.type_of(dst)
        if a == b:
            return v
        how = _conversion(src, dst)
        if how == "nonzero":
            zero = "zeroinitializer" if dt.lanes(src) > 1 else ("0.0" if dt.is_float(src) else "0")
            op = "fcmp une" if dt.is_float(src) else "icmp ne"
            return self.out.pure(f"{op} {a} {v}, {zero}", v)
        return self.out.pure(f"{how} {a} {v} to {b}", v)

    def _call(self, n: e.Call) -> str:
        if n.op == "if_then_else":
            return self._if_then_else(n)
        kind = ty.type_of(n.dtype)
        args = [self.value(a) for a in n.args]
        if n.op in _BITWISE or n.op == "shift_right":
            op = _BITWISE.get(n.op) or ("lshr" if dt.is_uint(n.dtype) else "ashr")
            return self.out.pure(f"{op} {kind} {args[0]}, {args[1]}", *args)
        if n.op in _LLVM_CALLS:
            name = f"@llvm.{_LLVM_CALLS[n.op]}.{ty.suffix(n.dtype)}"
            self.declare(f"declare {kind} {name}({', '.join([kind] * len(args))})")
            given = ", ".join(f"{kind} {a}" for a in args)
            return self.out.pure(f"call {kind} {name}({given})", *args)
        if n.op in _LIBM_CALLS:
            return self._libm(n, args)
        raise CodegenError(f"call {n.op}", "LLVM code has no such function")

    def _libm(self, n: e.Call, args: list[str]) -> str:
        name, lanes = dt.split(n.dtype)
        if name not in ("float32", "float64"):
            raise CodegenError(
                f"call {n.op} of {name}", "the C library has it for float32 and float64", "cast"
            )
        scalar, vector = ty.type_of(name), ty.type_of(n.dtype)
        symbol = f"@{n.op}" + ("f" if name == "float32" else "")
        self.declare(f"declare {scalar} {symbol}({', '.join([scalar] * len(args))})")

        def one(values: list[str]) -> str:
            given = ", ".join(f"{scalar} {v}" for v in values)
            return self.out.pure(f"call {scalar} {symbol}({given})", *values)

        if lanes == 1:
            return one(args)
        out = "poison"
        for k in range(lanes):
            parts = [self.out.pure(f"extractelement {vector} {a}, i64 {k}", a) for a in args]
            v = one(parts)
            out = self.out.pure(f"insertelement {vector} {out}, {scalar} {v}, i64 {k}", out, v)
        return out


def _constant(n: e.PrimExpr) -> int | None:
    if isinstance(n, e.Broadcast):
        n = n.value
    return n.value if isinstance(n, e.IntImm) else None


def _decide(test: str, a: int, b: int) -> bool:
    return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[test]


def _may_trap(n: e.PrimExpr) -> bool:
    if isinstance(n, e.BufferLoad):
        return True
    if isinstance(n, (e.Div, e.Mod, e.FloorDiv, e.FloorMod)) and not dt.is_float(n.dtype):
        return _constant(n.b) in (None, 0)
    return any(_may_trap(p) for p in TABLE[type(n)][0](n))


def _conversion(src: str, dst: str) -> str:
    if dt.is_bool(dst):
        return "nonzero"
    if dt.is_float(src) and dt.is_float(dst):
        return "fptrunc" if dt.bits(dst) < dt.bits(src) else "fpext"
    if dt.is_float(src):
        return "fptoui" if dt.is_uint(dst) else "fptosi"
    unsigned = dt.is_uint(src) or dt.is_bool(src)
    if dt.is_float(dst):
        return "uitofp" if unsigned else "sitofp"
    if not dt.is_bool(src) and dt.bits(dst) < dt.bits(src):
        return "trunc"
    return "zext" if unsigned else "sext"
