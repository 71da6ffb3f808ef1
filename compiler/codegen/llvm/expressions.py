"""Expressions as LLVM operations.

* A product and a sum of floats become one fused operation where the processor has it.
* min and max of floats are one instruction: where an operand is NaN, the result is the second one.
  In a reduction that is the next element: NaN is forgotten when a number follows.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from whet.compiler.arith import Affine
from whet.compiler.codegen.constants import constant, limit_first
from whet.compiler.codegen.llvm.arithmetic import compare, divided, float_operation, floor_divided
from whet.compiler.codegen.llvm.calls import CALLS
from whet.compiler.codegen.llvm.indices import INDEX_TYPES, Indices
from whet.compiler.codegen.llvm.math.calls import KNOWN, math_call
from whet.compiler.codegen.llvm.scope import Scope
from whet.compiler.codegen.llvm.strided import Places, deinterleaved, in_registers, spread
from whet.compiler.codegen.llvm.text import types as ty
from whet.compiler.codegen.llvm.text.conversions import converted
from whet.compiler.codegen.llvm.text.value import Value
from whet.compiler.codegen.outside import no_value
from whet.compiler.errors import CodegenError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
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
    Ramp,
    Select,
    Shuffle,
    SizeVar,
    Sub,
    Var,
)
from whet.compiler.tir.ops.ops import FOLD

_BITWISE = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "shift_left": "shl"}
_EFFECTS = ("call_packed", "call_extern", "call_llvm_intrin")
_COMPARE = {EQ: "eq", NE: "ne", LT: "lt", LE: "le", GT: "gt", GE: "ge"}
_DECIDED = ("true", "false")


class Expressions:
    """Writes expressions into a function.

    Args:
        scope: of the function.

    Attributes:
        indices: writes those parts that are indices.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.out = scope.out
        self.indices = Indices(scope, self.value)
        self.linear, self.i64 = self.indices.linear, self.indices.i64
        self.pointer, self.is_index = self.indices.pointer, self.indices.is_index
        self._rules: dict[type, Callable[[Any], str]] = {
            IntImm: self._int_imm,
            FloatImm: lambda n: ty.constant(n.value, n.dtype),
            Var: self._var,
            SizeVar: self._var,
            Cast: self._cast,
            Add: lambda n: self._sum(n, "add"),
            Sub: lambda n: self._sum(n, "sub"),
            Mul: lambda n: self._arithmetic(n, "mul"),
            Div: lambda n: self._division(n, "div"),
            Mod: lambda n: self._division(n, "rem"),
            FloorDiv: lambda n: self._floor_division(n, "div"),
            FloorMod: lambda n: self._floor_division(n, "rem"),
            Min: lambda n: self._minmax(n, "lt"),
            Max: lambda n: self._minmax(n, "gt"),
            **dict.fromkeys(_COMPARE, self._compare),
            And: lambda n: self._logic(n, "and", "false"),
            Or: lambda n: self._logic(n, "or", "true"),
            Not: self._not,
            Select: lambda n: self._select(n.condition, n.true_value, n.false_value),
            BufferLoad: self._load,
            Ramp: self._ramp,
            Broadcast: self._broadcast,
            Call: self._call,
            Let: self._let,
            Shuffle: self._shuffle,
        }

    def value(self, n: PrimExpr) -> str:
        """The value of an expression: a name or a constant."""
        kind = type(n)
        if n.dtype in INDEX_TYPES and kind is not IntImm and self.is_index(n):
            return self.indices.value_of(n)
        rule = self._rules.get(kind)
        if rule is None:
            raise CodegenError(
                f"generate LLVM code for {kind.__name__}", "this node has no meaning there"
            )
        return rule(n)

    def bind(self, var: Var, value: PrimExpr) -> None:
        """Let a variable stand for a value, which is computed here."""
        if value.dtype in INDEX_TYPES and self.is_index(value):
            self.scope.env[var] = self.linear(value)
        else:  # data, which is compared as it is: a difference of two may overflow
            self.scope.scalars[var] = self.value(value)

    # leaves and vectors

    def _int_imm(self, n: IntImm) -> str:
        if n.dtype == "bool":
            return "true" if n.value else "false"
        half = 1 << (dt.bits(n.dtype) - 1)  # a coefficient may need more bits: it wraps
        return str((n.value + half) % (2 * half) - half)

    def _var(self, n: Var) -> str:
        if n in self.scope.scalars:
            return self.scope.scalars[n]
        if n not in self.scope.env:
            raise no_value(n)
        return self.indices.value_of(n)

    def _ramp(self, n: Ramp) -> str:
        name, lanes = dt.split(n.dtype)
        kind = ty.type_of(name)
        base = self._broadcast(Broadcast(n.base, lanes, n.dtype))
        steps = "<" + ", ".join(f"{kind} {k * n.stride}" for k in range(lanes)) + ">"
        return self.out.op("add", ty.type_of(n.dtype), base, steps)

    def _broadcast(self, n: Broadcast) -> str:
        value, vector = self.value(n.value), ty.type_of(n.dtype)
        if not value.startswith("%"):
            return ty.splat(value, n.dtype)
        kind, pure = ty.scalar_of(vector), self.out.pure
        one = pure(f"insertelement {vector} poison, {kind} {value}, i64 0", value)
        lanes = f"<{n.lanes} x i32> zeroinitializer"
        return pure(f"shufflevector {vector} {one}, {vector} poison, {lanes}", one)

    def _let(self, n: Let) -> str:
        self.bind(n.var, n.value)
        return self.value(n.body)

    def _shuffle(self, n: Shuffle) -> str:
        """Lanes picked from vectors side by side: at once from two alike, else one by one."""
        values, dtypes = [self.value(v) for v in n.vectors], [v.dtype for v in n.vectors]
        if len(values) == 2 and len({*dtypes}) == 1 and "x" in dtypes[0] and len(n.indices) > 1:
            kind, (a, b) = ty.type_of(dtypes[0]), values
            order = ", ".join(f"i32 {k}" for k in n.indices)
            mask = f"<{len(n.indices)} x i32> <{order}>"
            return self.out.pure(f"shufflevector {kind} {a}, {kind} {b}, {mask}", a, b)
        lanes = [(v, k, t) for v, t in zip(values, dtypes) for k in range(dt.lanes(t))]
        picked = [
            self.out.extract(ty.type_of(dtype), v, k) if "x" in dtype else v
            for v, k, dtype in (lanes[i] for i in n.indices)
        ]
        return picked[0] if len(picked) == 1 else self.out.vector(ty.type_of(n.dtype), picked)

    # arithmetic

    def _arithmetic(self, n: BinaryOp, op: str) -> str:
        """``add``, ``sub`` or ``mul``."""
        a, b = self.value(n.a), self.value(n.b)
        if dt.is_float(n.dtype):
            return float_operation(self.out, f"f{op}", a, b, n.dtype)
        return self.out.op(op, ty.type_of(n.dtype), a, b)

    def _sum(self, n: BinaryOp, op: str) -> str:
        """``add`` or ``sub``, fused with a product."""
        if n.dtype.startswith(("float32", "float64")):
            if isinstance(n.a, Mul):
                z = self.value(n.b)
                return self._fma(n.a, z if op == "add" else self._negated(z, n.dtype))
            if isinstance(n.b, Mul):
                return self._fma(n.b, self.value(n.a), negate=op == "sub")
        return self._arithmetic(n, op)

    def _negated(self, v: str, dtype: str) -> str:
        return self.out.pure(f"fneg {ty.type_of(dtype)} {v}", v)

    def _fma(self, product: Mul, z: str, negate: bool = False) -> str:
        """A multiplication and an addition, in one step where the processor has it."""
        x, y = self.value(product.a), self.value(product.b)
        if negate:
            x = self._negated(x, product.dtype)
        return self.out.intrinsic("fmuladd", product.dtype, x, y, z)

    def _division(self, n: BinaryOp, op: str) -> str:
        """The quotient (``div``) that is rounded towards zero, or its remainder (``rem``)."""
        a, b = self.value(n.a), self.value(n.b)
        if not dt.is_float(n.dtype):
            op = ("u" if dt.is_uint(n.dtype) else "s") + op
            return divided(self.out, op, a, b, n.dtype, constant(n.b))
        if op == "div":
            return float_operation(self.out, "fdiv", a, b, n.dtype)
        return math_call("fmod", n.dtype, [Value(self.out, v, n.dtype) for v in (a, b)]).text

    def _floor_division(self, n: BinaryOp, op: str) -> str:
        if dt.is_uint(n.dtype):
            return self._division(n, op)
        a, b = self.value(n.a), self.value(n.b)
        return floor_divided(self.out, op, a, b, n.dtype, constant(n.b))

    def _minmax(self, n: BinaryOp, test: str) -> str:
        """The smaller (``lt``) or the larger (``gt``); the second where one is NaN."""
        a, b = map(self.value, limit_first(n))
        c = compare(self.out, test, a, b, n.dtype)
        return self.out.select(ty.type_of(n.dtype), c, a, b)

    # conditions

    def _compare(self, n: CmpOp) -> str:
        test = _COMPARE[type(n)]
        if self.is_index(n.a) and self.is_index(n.b):
            difference = self.linear(n.a) - self.linear(n.b)
            if difference.is_const:
                return "true" if FOLD[type(n)](difference.const, 0) else "false"
            left = self.i64(difference.shifted(-difference.const))
            how = test if test in ("eq", "ne") else "s" + test
            return self.out.op(f"icmp {how}", "i64", left, str(-difference.const))
        return compare(self.out, test, self.value(n.a), self.value(n.b), n.a.dtype)

    def _logic(self, n: BinaryOp, op: str, decisive: str) -> str:
        a = self.value(n.a)
        if a in _DECIDED:
            return a if a == decisive else self.value(n.b)
        if dt.lanes(n.dtype) == 1 and _may_trap(n.b):  # a guards what b reads
            known = IntImm("bool", int(op == "or"))
            values = (n.b, known) if op == "and" else (known, n.b)
            return self._if_then_else(n.a, *values)
        b = self.value(n.b)
        if b in _DECIDED:
            return b if b == decisive else a
        return self.out.op(op, ty.type_of(n.dtype), a, b)

    def _not(self, n: Not) -> str:
        a = self.value(n.a)
        if a in _DECIDED:
            return "false" if a == "true" else "true"
        return self.out.op("xor", ty.type_of(n.dtype), a, ty.splat("true", n.dtype))

    def _select(self, condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> str:
        c = self.value(condition)
        if c in _DECIDED:
            return self.value(yes if c == "true" else no)
        a, b, kind = self.value(yes), self.value(no), ty.type_of(yes.dtype)
        bit = ty.type_of(condition.dtype)
        return self.out.pure(f"select {bit} {c}, {kind} {a}, {kind} {b}", c, a, b)

    def _if_then_else(self, condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> str:
        """Both values without a branch where neither reads; else a branch around a slot."""
        c, bit = self.value(condition), ty.type_of(condition.dtype)
        if c in _DECIDED:
            return self.value(yes if c == "true" else no)
        if not (_may_trap(yes) or _may_trap(no)):
            return self._select(condition, yes, no)
        if dt.lanes(condition.dtype) > 1:
            raise CodegenError(
                f"an if_then_else of {yes.dtype} with a condition for each lane",
                "one of its values reads memory, and a branch is taken by all lanes",
                "give the BufferLoad a mask and choose with tir.Select",
            )
        kind = ty.type_of(yes.dtype)
        slot = self.out.define(self.out.slot(kind, "slot"))
        for test, branch in ((c, yes), ("", no)):
            with self.out.branch(test or self.out.op("xor", bit, c, "true")):
                v = self.value(branch)
                self.out.line(f"store {kind} {v}, ptr {slot}")
        return self.out.here(f"load {kind}, ptr {slot}")

    # loads

    def _load(self, n: BufferLoad) -> str:
        index = n.indices[0]
        if dt.lanes(n.dtype) == 1:
            raw = self._read(n.buffer, n.dtype, self.pointer(n.buffer, self.linear(index)))
        elif isinstance(index, Ramp) and index.stride == 1:
            raw = self._read_vector(n, self.pointer(n.buffer, self.linear(index.base)))
        elif isinstance(index, Ramp) and self._in_registers(n, index):
            raw = self._strided(n, index)
        else:
            raw = self._gather(n, index)
        if not dt.is_bool(n.dtype):
            return raw
        return self.out.op("icmp ne", ty.memory_type(n.dtype), raw, ty.zero(n.dtype))

    def _read(self, buffer: Buffer, dtype: str, p: str) -> str:
        text = f"load {ty.memory_type(dtype)}, ptr {p}, align {dt.itemsize(dtype)}"
        return self.out.load(text, self.scope.pointers[id(buffer)])

    def _read_vector(self, n: BufferLoad, p: str, places: Places | None = None) -> str:
        """Elements side by side; with ``places``, those where lanes stand are under their mask."""
        if n.mask is None:
            return self._read(n.buffer, n.dtype, p)
        mask = self.value(n.mask)
        if places is not None:
            mask = spread(self.out, mask, dt.lanes(n.dtype), places)
        kind, bit = ty.memory_type(n.dtype), ty.type_of(n.mask.dtype)
        name = f"@llvm.masked.load.{ty.suffix(ty.in_memory(n.dtype))}.p0"
        self.out.module.declare(f"declare {kind} {name}(ptr, i32, {bit}, {kind})")
        given = f"ptr {p}, i32 {dt.itemsize(n.dtype)}, {bit} {mask}, {kind} zeroinitializer"
        return self.out.load(f"call {kind} {name}({given})", self.scope.pointers[id(n.buffer)])

    def _in_registers(self, n: BufferLoad, index: Ramp) -> bool:
        """True where lanes a stride apart are read as whole vectors."""
        # without instructions for it, a masked load is a branch for each element
        masked = self.scope.module.target.vector_bytes >= 32 and dt.itemsize(n.dtype) in (4, 8)
        return in_registers(index.lanes, index.stride) and (n.mask is None or masked)

    def _strided(self, n: BufferLoad, index: Ramp) -> str:
        base = self.linear(index.base)

        def load(begin: int, places: Places) -> str:
            return self._read_vector(n, self.pointer(n.buffer, base.shifted(begin)), places)

        kind = ty.memory_type(n.dtype)
        return deinterleaved(self.out, kind, index.lanes, index.stride, load)

    def _gather(self, n: BufferLoad, index: PrimExpr) -> str:
        name, lanes = dt.split(n.dtype)
        mask = "" if n.mask is None else self.value(n.mask)
        vector = ty.memory_type(n.dtype)

        def lane(k: int, form: Affine) -> str:
            p = self.pointer(n.buffer, form)
            if mask:  # a lane that is off reads a place of its own
                bit = self.out.extract(f"<{lanes} x i1>", mask, k)
                p = self.out.select("ptr", bit, p, self._nowhere(ty.memory_type(name)))
            return self._read(n.buffer, name, p)

        out = self.out.vector(vector, map(lane, count(), self.indices.of_lanes(index)))
        return self.out.select(vector, mask, out, "zeroinitializer") if mask else out

    def _nowhere(self, kind: str) -> str:
        """A place on the stack that may be read and means nothing."""
        name = f"%nowhere.{kind}"
        line = f"  {name} = alloca {kind}"
        if line not in self.out.allocas:
            self.out.allocas.append(line)
        return name

    # conversions and calls

    def _cast(self, n: Cast) -> str:
        if n.dtype == "int64" and self.is_index(n.value):
            return self.i64(self.linear(n.value))
        return converted(self.out, self.value(n.value), n.value.dtype, n.dtype)

    def _call(self, n: Call) -> str:
        if n.op in CALLS:
            return CALLS[n.op](self, n)
        if n.op == "if_then_else":
            return self._if_then_else(*n.args)
        kind = ty.type_of(n.dtype)
        args = [Value(self.out, self.value(a), a.dtype) for a in n.args]
        if n.op in _BITWISE or n.op == "shift_right":
            op = _BITWISE.get(n.op) or ("lshr" if dt.is_uint(n.dtype) else "ashr")
            return self.out.op(op, kind, args[0].text, args[1].text)
        if n.op == "reinterpret":
            return self.out.cast("bitcast", ty.type_of(args[0].dtype), args[0].text, kind)
        if n.op in KNOWN:
            return math_call(n.op, n.dtype, args).text
        raise CodegenError(f"call {n.op}", "LLVM code has no such function")


def _may_trap(n: PrimExpr) -> bool:
    if isinstance(n, BufferLoad) or (isinstance(n, Call) and n.op in _EFFECTS):
        return True
    return any(map(_may_trap, n.parts))
