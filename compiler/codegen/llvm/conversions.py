"""Conversions between data types."""

from __future__ import annotations

from whet.compiler.codegen.llvm import types as ty
from whet.compiler.codegen.llvm.math.narrow import is_narrow, narrowed, widened
from whet.compiler.codegen.llvm.writer import FunctionWriter
from whet.compiler.tir import dtype as dt


def converted(out: FunctionWriter, v: str, src: str, dst: str) -> str:
    """``v`` of type ``src`` as ``dst``.

    A float becomes an integer by dropping its fraction; one that the integer type does not hold
    gives any number. An integer that is too long loses its upper bits. A number is true unless it
    is zero.
    """
    if src == dst:
        return v
    if is_narrow(src):
        wide = dt.vector("float32", dt.lanes(src))
        return converted(out, widened(out, v, src), wide, dst)
    if is_narrow(dst):
        if not dt.is_float(src):
            wide = dt.vector("float32", dt.lanes(dst))
            v, src = converted(out, v, src, wide), wide
        return narrowed(out, v, src, dst)
    a, b = ty.type_of(src), ty.type_of(dst)
    if dt.is_bool(dst):
        zero = "zeroinitializer" if dt.lanes(src) > 1 else ("0.0" if dt.is_float(src) else "0")
        op = "fcmp une" if dt.is_float(src) else "icmp ne"
        return out.pure(f"{op} {a} {v}, {zero}", v)
    if a == b:  # int32 and uint32 are one to LLVM
        return v
    made = out.pure(f"{_operation(src, dst)} {a} {v} to {b}", v)
    if dt.is_float(src) and not dt.is_float(dst):
        # LLVM 20 takes the lesser of a converted float and 0 for a conversion that saturates at no
        # bits, and ends the process; it does not look through this.
        return out.pure(f"freeze {b} {made}", made)
    return made


def _operation(src: str, dst: str) -> str:
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
