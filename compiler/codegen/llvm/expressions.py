"""Expressions as LLVM operations: leaves, vectors, conditions and calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler.codegen.llvm import types as ty
from whet.compiler.codegen.llvm.addresses import is_number
from whet.compiler.codegen.llvm.arithmetic import Arithmetic
from whet.compiler.codegen.llvm.conversions import converted
from whet.compiler.codegen.llvm.math.calls import KNOWN
from whet.compiler.errors import CodegenError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir.ops.ops import FOLD

_BITWISE = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "shift_left": "shl"}
_EFFECTS = ("call_packed", "call_extern")
_COMPARE = {e.EQ: "eq", e.NE: "ne", e.LT: "lt", e.LE: "le", e.GT: "gt", e.GE: "ge"}


class Expressions(Arithmetic):
    """Generates expressions into a function."""

    def __init__(self, declare: Callable[[str], None]) -> None:
        super().__init__(declare)
        self._rules: dict[type, Callable[[Any], str]] = {
            e.IntImm: self._int_imm,
            e.FloatImm: lambda n: ty.float_constant(n.value, n.dtype),
            e.Var: self._var,
            e.SizeVar: self._var,
            e.Cast: self._cast,
            e.Add: lambda n: self.sum(n, "add"),
            e.Sub: lambda n: self.sum(n, "sub"),
            e.Mul: lambda n: self.arithmetic(n, "mul"),
            e.Div: self.div,
            e.Mod: self.mod,
            e.FloorDiv: self.floordiv,
            e.FloorMod: self.floormod,
            e.Min: lambda n: self.minmax(n, "lt"),
            e.Max: lambda n: self.minmax(n, "gt"),
            **dict.fromkeys(_COMPARE, self._compare),
            e.And: lambda n: self._logic(n, "and"),
            e.Or: lambda n: self._logic(n, "or"),
            e.Not: self._not,
            e.Select: lambda n: self._select(n.condition, n.true_value, n.false_value),
            e.BufferLoad: self.load,
            e.Ramp: self._ramp,
            e.Broadcast: self._broadcast,
            e.Call: self._call,
            e.Let: self._let,
            e.Shuffle: self._shuffle,
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

    def _let(self, n: e.Let) -> str:
        self.bind(n.var, n.value)
        return self.value(n.body)

    def _shuffle(self, n: e.Shuffle) -> str:
        """Lanes picked from vectors side by side: at once from two alike, else one by one."""
        kinds = {v.dtype for v in n.vectors}
        if len(n.vectors) == 2 and len(kinds) == 1 and dt.lanes(n.vectors[0].dtype) > 1:
            a, b = (self.value(v) for v in n.vectors)
            kind = ty.type_of(n.vectors[0].dtype)
            order = ", ".join(f"i32 {k}" for k in n.indices)
            mask = f"<{len(n.indices)} x i32> <{order}>"
            if len(n.indices) > 1:
                return self.out.pure(f"shufflevector {kind} {a}, {kind} {b}, {mask}", a, b)
        lanes: list[tuple[str, int | None, str]] = []
        for v in n.vectors:
            text, count = self.value(v), dt.lanes(v.dtype)
            kind = ty.type_of(v.dtype)
            lanes += [(text, None if count == 1 else k, kind) for k in range(count)]
        scalar = ty.type_of(dt.element(n.dtype))
        picked = []
        for k in n.indices:
            text, lane, kind = lanes[k]
            if lane is not None:
                text = self.out.pure(f"extractelement {kind} {text}, i64 {lane}", text)
            picked.append(text)
        if len(picked) == 1:
            return picked[0]
        out, vector = "poison", ty.type_of(n.dtype)
        for k, text in enumerate(picked):
            out = self.out.pure(
                f"insertelement {vector} {out}, {scalar} {text}, i64 {k}", out, text
            )
        return out

    # conditions

    def _compare(self, n: e.CmpOp) -> str:
        test = _COMPARE[type(n)]
        if self.is_index(n.a) and self.is_index(n.b):
            difference = self.linear(n.a) - self.linear(n.b)
            if difference.is_const:
                return "true" if FOLD[type(n)](difference.const, 0) else "false"
            left = self.i64(difference.shifted(-difference.const))
            how = test if test in ("eq", "ne") else "s" + test
            return self.out.pure(f"icmp {how} i64 {left}, {-difference.const}", left)
        return self.test(self.value(n.a), self.value(n.b), test, n.a.dtype)

    def _logic(self, n: e.BinaryOp, op: str) -> str:
        a = self.value(n.a)
        if a in ("true", "false"):
            decided = a == ("false" if op == "and" else "true")
            return a if decided else self.value(n.b)
        if dt.lanes(n.dtype) == 1 and _may_trap(n.b):  # a guards what b reads
            yes, no = (n.b, e.IntImm("bool", 0)) if op == "and" else (e.IntImm("bool", 1), n.b)
            return self._if_then_else(e.Call("bool", "if_then_else", (n.a, yes, no)))
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
        if dt.lanes(condition.dtype) > 1:
            raise CodegenError(
                f"an if_then_else of {n.dtype} with a condition for each lane",
                "one of its values reads memory, and a branch is taken by all lanes",
                "give the BufferLoad a mask and choose with tir.Select",
            )
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
        return converted(self.out, self.value(n.value), src, dst)

    def _call(self, n: e.Call) -> str:
        if n.op == "if_then_else":
            return self._if_then_else(n)
        kind = ty.type_of(n.dtype)
        args = [self.value(a) for a in n.args]
        if n.op in _BITWISE or n.op == "shift_right":
            op = _BITWISE.get(n.op) or ("lshr" if dt.is_uint(n.dtype) else "ashr")
            return self.out.pure(f"{op} {kind} {args[0]}, {args[1]}", *args)
        if n.op == "reinterpret":
            source = ty.type_of(n.args[0].dtype)
            return self.out.pure(f"bitcast {source} {args[0]} to {kind}", *args)
        if n.op in KNOWN:
            return self.math.call(self.out, n.op, n.dtype, args, [a.dtype for a in n.args])
        raise CodegenError(f"call {n.op}", "LLVM code has no such function")


def _may_trap(n: e.PrimExpr) -> bool:
    if isinstance(n, e.BufferLoad) or (isinstance(n, e.Call) and n.op in _EFFECTS):
        return True
    return any(_may_trap(p) for p in n.parts)
