"""Conversions between data types, and the roundings of float16 and bfloat16.

A bfloat16 in a register is its 16 bits as an integer, so that every target can load, store, select
and shuffle it; an operation widens to float32, and its result is rounded to the nearest, halves to
even, once. float16 is LLVM's ``half``.

A float64 is first rounded to float32 *to odd*: a result that is not exact keeps a last bit of 1, so
that the second rounding decides as if it were the only one (Boldo and Melquiond, 2008).
"""

from __future__ import annotations

from whet.compiler.codegen.llvm.text import types as ty
from whet.compiler.codegen.llvm.text.value import Value
from whet.compiler.codegen.llvm.text.writer import FunctionWriter
from whet.compiler.tir import dtype as dt


def converted(out: FunctionWriter, v: str, src: str, dst: str) -> str:
    """``v`` of type ``src`` as ``dst``.

    A float becomes an integer by dropping its fraction; one that the integer type does not hold
    gives any number. An integer that is too long loses its upper bits. A number is true unless it
    is zero.
    """
    if src == dst:
        return v
    wide = dt.vector("float32", dt.lanes(src))
    if is_narrow(src):
        return converted(out, widened(Value(out, v, src)).text, wide, dst)
    if is_narrow(dst):
        source = wide if not dt.is_float(src) else src
        return narrowed(Value(out, converted(out, v, src, source), source), dt.element(dst)).text
    a, b = ty.type_of(src), ty.type_of(dst)
    if dt.is_bool(dst):
        op, zero = ("fcmp une", "0.0") if dt.is_float(src) else ("icmp ne", "0")
        return out.pure(f"{op} {a} {v}, {'zeroinitializer' if dt.lanes(src) > 1 else zero}", v)
    if a == b:  # int32 and uint32 are one to LLVM
        return v
    result = out.cast(_operation(src, dst), a, v, b)
    if dt.is_float(src) and not dt.is_float(dst):
        # LLVM 20 takes the lesser of a converted float and 0 for a conversion that saturates at no
        # bits, and ends the process; it does not look through this.
        return out.pure(f"freeze {b} {result}", result)
    return result


def _operation(src: str, dst: str) -> str:
    shorter = dt.bits(dst) < dt.bits(src)
    unsigned = dt.is_uint(src) or dt.is_bool(src)
    match dt.is_float(src), dt.is_float(dst):
        case True, True:
            return "fptrunc" if shorter else "fpext"
        case True, False:
            return "fptoui" if dt.is_uint(dst) else "fptosi"
        case False, True:
            return "uitofp" if unsigned else "sitofp"
    if not dt.is_bool(src) and shorter:
        return "trunc"
    return "zext" if unsigned else "sext"


def is_narrow(dtype: str) -> bool:
    """True for float16 and bfloat16."""
    return dtype.startswith(("float16", "bfloat16"))


def widened(v: Value) -> Value:
    """A float16 or bfloat16 as float32."""
    if v.dtype.startswith("float16"):
        return v.cast("fpext", "float32")
    return (v.cast("zext", "int32") << 16).floats()


def narrowed(v: Value, name: str) -> Value:
    """A float32 or float64 rounded to float16 or bfloat16, to the nearest, halves to even."""
    if dt.element(v.dtype) == "float64":
        v = _odd(v)
    if name == "float16":
        return v.cast("fptrunc", name)
    bits = v.bits()
    rounded = bits + (((bits >> 16) & 1) + 0x7FFF)
    quiet = bits | 0x400000  # rounding could carry a NaN into infinity
    return (v.test("uno", v).select(quiet, rounded) >> 16).cast("trunc", name)


def _odd(v: Value) -> Value:
    """A float64 as float32, rounded to odd."""
    near = v.cast("fptrunc", "float32")
    back = near.cast("fpext", "float64")
    bits = near.bits()
    # towards zero: one less where the magnitude has grown (that of infinity becomes the largest)
    size = v.bits() & 2**63 - 1
    bits = bits - (back.bits() & 2**63 - 1).test("sgt", size).cast("zext", "int32")
    bits = bits | back.test("one", v).cast("zext", "int32")
    return bits.floats()


# Functions that LLVM calls to convert a float16 where the processor cannot (x86-64 without
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
