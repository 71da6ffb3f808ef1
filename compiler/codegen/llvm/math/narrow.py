"""float16 and bfloat16: conversions, and the arithmetic that is done in float32.

A bfloat16 in a register is its 16 bits as an integer, so that every target can load, store, select
and shuffle it; an operation widens to float32, and its result is rounded to the nearest, halves to
even, once. float16 is LLVM's ``half``.

A float64 is first rounded to float32 *to odd*: a result that is not exact keeps a last bit of 1, so
that the second rounding decides as if it were the only one (Boldo and Melquiond, 2008).
"""

from __future__ import annotations

from whet.compiler.codegen.llvm import types as ty
from whet.compiler.codegen.llvm.writer import FunctionWriter
from whet.compiler.tir import dtype as dt


class _Integers:
    """Operations on the bits of ``lanes`` floats."""

    def __init__(self, out: FunctionWriter, lanes: int) -> None:
        self.out = out
        self.lanes = lanes

    def type(self, name: str) -> str:
        return ty.type_of(dt.vector(name, self.lanes))

    def number(self, n: int, name: str) -> str:
        return str(n) if self.lanes == 1 else f"splat ({ty.type_of(name)} {n})"

    def cast(self, how: str, v: str, source: str, to: str) -> str:
        return self.out.pure(f"{how} {self.type(source)} {v} to {self.type(to)}", v)

    def op(self, how: str, a: str, b: str | int, name: str = "int32") -> str:
        b = self.number(b, name) if isinstance(b, int) else b
        return self.out.pure(f"{how} {self.type(name)} {a}, {b}", a, b)

    def select(self, c: str, a: str, b: str, name: str = "int32") -> str:
        kind = self.type(name)
        return self.out.pure(f"select {self.type('bool')} {c}, {kind} {a}, {kind} {b}", c, a, b)


def is_narrow(dtype: str) -> bool:
    """Whether it is float16 or bfloat16."""
    return dtype.startswith(("float16", "bfloat16"))


def widened(out: FunctionWriter, v: str, dtype: str) -> str:
    """A float16 or bfloat16 as float32."""
    w = _Integers(out, dt.lanes(dtype))
    if dtype.startswith("float16"):
        return w.cast("fpext", v, "float16", "float32")
    bits = w.op("shl", w.cast("zext", v, "int16", "int32"), 16)
    return w.cast("bitcast", bits, "int32", "float32")


def narrowed(out: FunctionWriter, v: str, source: str, dtype: str) -> str:
    """A float32 or float64 rounded to float16 or bfloat16, to the nearest, halves to even."""
    w = _Integers(out, dt.lanes(dtype))
    if dt.element(source) == "float64":
        v = _odd(w, v)
    if dtype.startswith("float16"):
        return w.cast("fptrunc", v, "float32", "float16")
    bits = w.cast("bitcast", v, "float32", "int32")
    last = w.op("and", w.op("lshr", bits, 16), 1)
    rounded = w.op("add", bits, w.op("add", last, 0x7FFF))
    quiet = w.op("or", bits, 0x400000)  # rounding could carry a NaN into infinity
    nan = w.op("fcmp uno", v, v, "float32")
    chosen = w.op("lshr", w.select(nan, quiet, rounded), 16)
    return w.cast("trunc", chosen, "int32", "int16")


def _odd(w: _Integers, v: str) -> str:
    """A float64 as float32, rounded to odd."""
    near = w.cast("fptrunc", v, "float64", "float32")
    back = w.cast("fpext", near, "float32", "float64")
    bits = w.cast("bitcast", near, "float32", "int32")
    # towards zero: one less where the magnitude has grown (that of infinity becomes the largest)
    size = w.out.pure(f"and {w.type('int64')} {_bits64(w, v)}, {w.number(2**63 - 1, 'int64')}", v)
    grown_size = w.op("and", _bits64(w, back), 2**63 - 1, "int64")
    grown = w.op("icmp sgt", grown_size, size, "int64")
    bits = w.op("sub", bits, w.cast("zext", grown, "bool", "int32"))
    inexact = w.op("fcmp one", back, v, "float64")
    bits = w.op("or", bits, w.cast("zext", inexact, "bool", "int32"))
    return w.cast("bitcast", bits, "int32", "float32")


def _bits64(w: _Integers, v: str) -> str:
    return w.cast("bitcast", v, "float64", "int64")


# What LLVM calls to convert a half where the processor has no instruction for it (x86-64 without
# f16c). Widening: the bits as a float are too small by 2**112. Rounding: that of the mantissa's
# addition, or for a denormal result that of adding a half, whose last bit is worth 2**-24.
HALF_SUPPORT = """
define weak hidden float @__extendhfsf2(half %x) nounwind {
  %h = bitcast half %x to i16
  %bits = zext i16 %h to i32
  %size = and i32 %bits, 32767
  %high = shl i32 %size, 13
  %small = bitcast i32 %high to float
  %scaled = fmul float %small, 0x46F0000000000000
  %finite = bitcast float %scaled to i32
  %special = or i32 %high, 2139095040
  %big = icmp uge i32 %size, 31744
  %chosen = select i1 %big, i32 %special, i32 %finite
  %signbit = and i32 %bits, 32768
  %sign = shl i32 %signbit, 16
  %out = or i32 %chosen, %sign
  %f = bitcast i32 %out to float
  ret float %f
}

define weak hidden half @__truncsfhf2(float %x) nounwind {
  %bits = bitcast float %x to i32
  %size = and i32 %bits, 2147483647
  %upper = lshr i32 %size, 13
  %last = and i32 %upper, 1
  %plus = add i32 %size, 4095
  %rounded = add i32 %plus, %last
  %rebased = sub i32 %rounded, 939524096
  %normal = lshr i32 %rebased, 13
  %magnitude = bitcast i32 %size to float
  %sum = fadd float %magnitude, 5.0e-1
  %sumbits = bitcast float %sum to i32
  %denormal = sub i32 %sumbits, 1056964608
  %tiny = icmp ult i32 %size, 947912704
  %finite = select i1 %tiny, i32 %denormal, i32 %normal
  %huge = icmp uge i32 %size, 1199566848
  %bounded = select i1 %huge, i32 31744, i32 %finite
  %payload = and i32 %upper, 1023
  %quiet = or i32 %payload, 32256
  %nan = icmp ugt i32 %size, 2139095040
  %chosen = select i1 %nan, i32 %quiet, i32 %bounded
  %signbit = lshr i32 %bits, 16
  %sign = and i32 %signbit, 32768
  %out = or i32 %chosen, %sign
  %short = trunc i32 %out to i16
  %h = bitcast i16 %short to half
  ret half %h
}
"""
