"""Values of a function that is written, with Python's operators: what they compute is LLVM text."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeAlias

from whet.compiler.codegen.llvm.text import types as ty
from whet.compiler.codegen.llvm.text.writer import FunctionWriter
from whet.compiler.tir import dtype as dt

Operand: TypeAlias = "Value | float"


def _operator(op: str) -> Callable[[Value, Operand], Value]:
    return lambda a, b: a.op(op, b)


def _arithmetic(op: str) -> Callable[[Value, Operand], Value]:
    return lambda a, b: a.op("f" + op if dt.is_float(a.dtype) else op, b)


class Value:
    """A number, or a vector of them. An operand may be a Python number: a constant in all lanes.

    Nothing here is marked as fast: reductions of arguments depend on what each operation rounds.

    Attributes:
        out: the function.
        text: the value's name, or a constant.
        dtype: e.g. ``"float32x8"``.
    """

    __slots__ = ("dtype", "out", "text")

    def __init__(self, out: FunctionWriter, text: str, dtype: str) -> None:
        self.out = out
        self.text = text
        self.dtype = dtype

    def of(self, number: float) -> Value:
        """A constant of the same type."""
        text = ty.constant(number, self.dtype)
        if number and self.dtype.startswith("float32x") and self.out.module.tabled:
            kind = ty.type_of(self.dtype)
            name = f"@whet.splat.{struct.pack('>f', number).hex()}.{dt.lanes(self.dtype)}"
            # Not a constant to LLVM, which would broadcast it again.
            self.out.module.declare(f"{name} = internal global {kind} {text}, align 64")
            text = self.out.pure(f"load {kind}, ptr {name}, align 64")
        return Value(self.out, text, self.dtype)

    def op(self, op: str, other: Operand) -> Value:
        """An operation of two operands, e.g. ``ashr``."""
        b = other if isinstance(other, Value) else self.of(other)
        text = self.out.op(op, ty.type_of(self.dtype), self.text, b.text)
        return Value(self.out, text, self.dtype)

    __add__ = _arithmetic("add")
    __sub__ = _arithmetic("sub")
    __mul__ = _arithmetic("mul")
    __truediv__ = _arithmetic("div")
    __and__ = _operator("and")
    __or__ = _operator("or")
    __xor__ = _operator("xor")
    __lshift__ = _operator("shl")
    __rshift__ = _operator("lshr")  # zeros come in from above

    def __rsub__(self, number: float) -> Value:
        return self.of(number) - self

    def __rtruediv__(self, number: float) -> Value:
        return self.of(number) / self

    def __neg__(self) -> Value:
        text = self.out.pure(f"fneg {ty.type_of(self.dtype)} {self.text}", self.text)
        return Value(self.out, text, self.dtype)

    def __abs__(self) -> Value:
        return self.intrinsic("fabs")

    def intrinsic(self, name: str, *others: Value) -> Value:
        """One of LLVM's intrinsics whose arguments and result are of one type."""
        text = self.out.intrinsic(name, self.dtype, self.text, *[x.text for x in others])
        return Value(self.out, text, self.dtype)

    def fma(self, factor: Operand, term: Operand) -> Value:
        """``self * factor + term``, rounded once where the target has that, else twice."""
        a, b = (x if isinstance(x, Value) else self.of(x) for x in (factor, term))
        return self.intrinsic("fmuladd", a, b)

    def polynomial(self, coefficients: Sequence[float]) -> Value:
        """The sum of ``coefficients[k] * self**k``."""
        total = self.of(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = total.fma(self, c)
        return total

    def two_chains(self, coefficients: Sequence[float], square: Value) -> Value:
        """The same sum as its even and its odd powers: one more operation, half the latency.

        A processor looks some 300 instructions ahead: long functions wait for their own chains.
        """
        odd = square.polynomial(coefficients[1::2])
        return odd.fma(self, square.polynomial(coefficients[::2]))

    def test(self, how: str, other: Operand) -> Value:
        """A comparison, e.g. ``olt``."""
        compare = "fcmp " if dt.is_float(self.dtype) else "icmp "
        return Value(self.out, self.op(compare + how, other).text, self._lanes_of("bool"))

    def select(self, yes: Value, no: Operand) -> Value:
        """``yes`` where this condition holds, else ``no``."""
        b = no if isinstance(no, Value) else yes.of(no)
        text = self.out.select(ty.type_of(yes.dtype), self.text, yes.text, b.text)
        return Value(self.out, text, yes.dtype)

    def at_most(self, bound: float) -> Value:
        """The smaller of the two; NaN stays NaN. One instruction on x86."""
        limit = self.of(bound)
        return limit.test("olt", self).select(limit, self)

    def at_least(self, bound: float) -> Value:
        """The larger of the two; NaN stays NaN."""
        limit = self.of(bound)
        return limit.test("ogt", self).select(limit, self)

    def cast(self, how: str, name: str) -> Value:
        """A conversion of each lane to a scalar type, e.g. ``sitofp`` to ``float32``."""
        dtype = self._lanes_of(name)
        text = self.out.cast(how, ty.type_of(self.dtype), self.text, ty.type_of(dtype))
        return Value(self.out, text, dtype)

    def bits(self) -> Value:
        """The bits of floats as integers."""
        return self.cast("bitcast", f"int{dt.bits(self.dtype)}")

    def floats(self) -> Value:
        """The floats whose bits these integers are."""
        return self.cast("bitcast", f"float{dt.bits(self.dtype)}")

    def _lanes_of(self, name: str) -> str:
        return dt.vector(name, dt.lanes(self.dtype))
