"""Sums, products, quotients, the smaller and the larger, comparisons.

* Floats: a product and a sum become one fused operation where the processor has it. The operations
  of float16 are LLVM's; those of bfloat16 are done in float32 and rounded, each by itself.
* Integers wrap. A divisor that is zero in the data gives 0, for the quotient and the remainder, and
  so does the remainder of the smallest number and -1, whose quotient wraps: as in numpy. A
  processor would end the process.
* min and max of floats are one instruction: where an operand is NaN, the result is the second one.
  In a reduction that is the next element: NaN is forgotten when a number follows.
"""

from __future__ import annotations

from whet.compiler.codegen.llvm import types as ty
from whet.compiler.codegen.llvm.addresses import Addresses
from whet.compiler.codegen.llvm.math.calls import MathCalls
from whet.compiler.codegen.llvm.math.narrow import narrowed, widened
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e


class Arithmetic(Addresses):
    """Generates operations of two operands.

    Attributes:
        math: mathematical functions for the target, and what float arithmetic may be relaxed to.
    """

    math: MathCalls

    def arithmetic(self, n: e.BinaryOp, op: str) -> str:
        """``add``, ``sub`` or ``mul``."""
        if self.is_index(n):
            return self.index_value(n)
        a, b = self.value(n.a), self.value(n.b)
        if dt.is_float(n.dtype):
            return self._floats(f"f{op}", a, b, n.dtype)
        return self.out.pure(f"{op} {ty.type_of(n.dtype)} {a}, {b}", a, b)

    def _floats(self, op: str, a: str, b: str, dtype: str) -> str:
        if not dtype.startswith("bfloat16"):
            return self.out.pure(f"{op} {self.math.flags}{ty.type_of(dtype)} {a}, {b}", a, b)
        wide = dt.vector("float32", dt.lanes(dtype))
        a, b = widened(self.out, a, dtype), widened(self.out, b, dtype)
        return narrowed(self.out, self._floats(op, a, b, wide), wide, dtype)

    def sum(self, n: e.BinaryOp, op: str) -> str:
        """``add`` or ``sub``, fused with a product."""
        if n.dtype.startswith(("float32", "float64")):
            if isinstance(n.a, e.Mul):
                z = self.value(n.b)
                return self._fma(n.a, z if op == "add" else self._negated(z, n.dtype), n.dtype)
            if isinstance(n.b, e.Mul):
                return self._fma(n.b, self.value(n.a), n.dtype, negate=op == "sub")
        return self.arithmetic(n, op)

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

    # division

    def div(self, n: e.Div) -> str:
        a, b = self.value(n.a), self.value(n.b)
        if dt.is_float(n.dtype):
            return self._floats("fdiv", a, b, n.dtype)
        return self._divided("div", a, b, n)

    def mod(self, n: e.Mod) -> str:
        a, b = self.value(n.a), self.value(n.b)
        if dt.is_float(n.dtype):
            return self.math.call(self.out, "fmod", n.dtype, [a, b], [n.dtype, n.dtype])
        return self._divided("rem", a, b, n)

    def _divided(self, op: str, a: str, b: str, n: e.BinaryOp) -> str:
        op = ("u" if dt.is_uint(n.dtype) else "s") + op
        return self.divided(op, a, b, ty.type_of(n.dtype), constant(n.b), dt.lanes(n.dtype))

    def floordiv(self, n: e.FloorDiv) -> str:
        if self.is_index(n):
            return self.index_value(n)
        if dt.is_uint(n.dtype):
            return self.div(e.Div(n.a, n.b, n.dtype))
        a, b = self.value(n.a), self.value(n.b)
        return self.floor_quotient(a, b, ty.type_of(n.dtype), constant(n.b), dt.lanes(n.dtype))

    def floormod(self, n: e.FloorMod) -> str:
        if self.is_index(n):
            return self.index_value(n)
        if dt.is_uint(n.dtype):
            return self.mod(e.Mod(n.a, n.b, n.dtype))
        a, b, kind = self.value(n.a), self.value(n.b), ty.type_of(n.dtype)
        return self.floor_remainder(a, b, kind, constant(n.b), dt.lanes(n.dtype))

    # order

    def minmax(self, n: e.BinaryOp, test: str) -> str:
        """The smaller (``lt``) or the larger (``gt``); the second where one is NaN."""
        if self.is_index(n):
            return self.index_value(n)
        a, b, kind = self.value(n.a), self.value(n.b), ty.type_of(n.dtype)
        c = self.test(a, b, test, n.dtype)
        bit = ty.type_of(dt.vector("bool", dt.lanes(n.dtype)))
        return self.out.pure(f"select {bit} {c}, {kind} {a}, {kind} {b}", c, a, b)

    def test(self, a: str, b: str, test: str, dtype: str) -> str:
        """A comparison of two values; false where one is NaN, but for ``ne``."""
        if dtype.startswith("bfloat16"):
            a, b = widened(self.out, a, dtype), widened(self.out, b, dtype)
            dtype = dt.vector("float32", dt.lanes(dtype))
        if dt.is_float(dtype):
            how = "fcmp " + {"eq": "oeq", "ne": "une"}.get(test, "o" + test)
        elif test in ("eq", "ne"):
            how = "icmp " + test
        else:
            how = f"icmp {'u' if dt.is_uint(dtype) or dt.is_bool(dtype) else 's'}{test}"
        return self.out.pure(f"{how} {ty.type_of(dtype)} {a}, {b}", a, b)


def constant(n: e.PrimExpr) -> int | None:
    """The number that an integer expression is, in all lanes."""
    if isinstance(n, e.Broadcast):
        n = n.value
    return n.value if isinstance(n, e.IntImm) else None
