"""Operations on two values: quotients, float arithmetic, comparisons.

* Floats: the operations of float16 are LLVM's; those of bfloat16 are done in float32 and rounded,
  each by itself.
* Integers wrap. A divisor that is zero in the data gives 0, for the quotient and the remainder, and
  so does the remainder of the smallest number and -1, whose quotient wraps: as in numpy. A
  processor would end the process.
"""

from __future__ import annotations

from whet.compiler.codegen.llvm.text import types as ty
from whet.compiler.codegen.llvm.text.conversions import narrowed, widened
from whet.compiler.codegen.llvm.text.value import Value
from whet.compiler.codegen.llvm.text.writer import FunctionWriter
from whet.compiler.tir import dtype as dt


def float_operation(out: FunctionWriter, op: str, a: str, b: str, dtype: str) -> str:
    """``fadd``, ``fsub``, ``fmul`` or ``fdiv``."""
    if not dtype.startswith("bfloat16"):
        return out.op(op, f"{out.module.flags}{ty.type_of(dtype)}", a, b)
    x, y = (widened(Value(out, v, dtype)) for v in (a, b))
    wide = float_operation(out, op, x.text, y.text, x.dtype)
    return narrowed(Value(out, wide, x.dtype), "bfloat16").text


def compare(out: FunctionWriter, test: str, a: str, b: str, dtype: str) -> str:
    """A comparison of two values; false where one is NaN, but for ``ne``."""
    if dtype.startswith("bfloat16"):
        x, y = (widened(Value(out, v, dtype)) for v in (a, b))
        a, b, dtype = x.text, y.text, x.dtype
    if dt.is_float(dtype):
        how = "fcmp une" if test == "ne" else f"fcmp o{test}"
    elif test in ("eq", "ne"):
        how = "icmp " + test
    else:
        how = f"icmp {'u' if dt.is_uint(dtype) or dt.is_bool(dtype) else 's'}{test}"
    return out.op(how, ty.type_of(dtype), a, b)


def divided(out: FunctionWriter, op: str, a: str, b: str, dtype: str, number: int | None) -> str:
    """``sdiv``, ``udiv``, ``srem`` or ``urem`` that never traps; ``number`` is b if known.

    A divisor of 0 or -1 is replaced by 1, and the quotient chosen after: 0, or -a. The
    remainder by 1 is 0, which is what is wanted.
    """
    kind = ty.type_of(dtype)
    if number not in (None, 0, -1):
        return out.op(op, kind, a, b)
    zero, one, minus_one = (ty.constant(k, dtype) for k in (0, 1, -1))
    by_zero = bad = out.op("icmp eq", kind, b, zero)
    negated = ""
    if op[0] == "s":
        negated = out.op("icmp eq", kind, b, minus_one)
        bad = out.op("or", ty.condition_type(kind), by_zero, negated)
    result = out.op(op, kind, a, out.select(kind, bad, one, b))
    if op.endswith("rem"):
        return result
    if negated:
        result = out.select(kind, negated, out.op("sub", kind, zero, a), result)
    return out.select(kind, by_zero, zero, result)


def floor_divided(
    out: FunctionWriter, op: str, a: str, b: str, dtype: str, number: int | None
) -> str:
    """The quotient (``div``) that is rounded down, or its remainder (``rem``); 0 where b is 0."""
    kind, zero = ty.type_of(dtype), ty.zero(dtype)
    if number is not None and number > 0 and number & (number - 1) == 0:
        how, by = ("ashr", number.bit_length() - 1) if op == "div" else ("and", number - 1)
        return out.op(how, kind, a, ty.splat(str(by), dtype))
    quotient = divided(out, "sdiv", a, b, dtype, number) if op == "div" else ""
    rest = divided(out, "srem", a, b, dtype, number)
    signs = out.op("icmp slt", kind, out.op("xor", kind, rest, b), zero)
    bit = ty.condition_type(kind)
    differ = out.op("and", bit, signs, out.op("icmp ne", kind, rest, zero))
    if quotient:
        return out.op("add", kind, quotient, out.cast("sext", bit, differ, kind))
    return out.op("add", kind, rest, out.select(kind, differ, b, zero))
