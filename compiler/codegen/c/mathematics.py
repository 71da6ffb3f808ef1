"""Calls of intrinsics as calls of the C library or of small functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whet.compiler.codegen.c.functions import SHORT_FLOATS
from whet.compiler.codegen.c.precedence import ATOM, BITS, EQUAL, UNARY, Text
from whet.compiler.errors import CodegenError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import Broadcast, Call, IntImm
from whet.compiler.tir.ops.table import OPERATIONS

if TYPE_CHECKING:
    from whet.compiler.codegen.c.expressions import Expressions

#: functions of <math.h>; those of float32 have an f at the end
LIBRARY: dict[str, str] = {name: name for name, row in OPERATIONS.items() if row.math_h}
_SMALL = ("sigmoid", "rsqrt", "exp10")
_TESTS = ("isnan", "isinf", "isfinite")
_BITWISE = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
_SHIFTS = {"shift_left": "shl", "shift_right": "shr"}


def call_text(w: Expressions, n: Call) -> Text | None:
    """The call of an intrinsic; None for one that is not known here."""
    if n.op.startswith("call_llvm_"):
        raise CodegenError(
            f"{n.op}({n.args[0]})",
            f"{w.d.name} code has no intrinsics of LLVM's",
            'the target "llvm" has them; elsewhere tensorize with plain loops',
        )
    op = n.op.removeprefix("tir.")
    if op in _BITWISE or op == "bitwise_not":
        return _bitwise(w, n, op)
    if op in _SHIFTS:
        return _shift(w, n, op)
    if op in ("popcount", "clz") and dt.is_int(n.args[0].dtype):
        return f"{w.use.get(op, n.args[0].dtype)}({w.value(n.args[0])})", ATOM
    if op in _TESTS:
        return _test(w, n, op)
    if op == "reinterpret":
        return _reinterpreted(w, n)
    if op == "ldexp":
        power = w.value(n.args[1], UNARY)
        return _float_call(w, n, "ldexp", f"{_floats(w, n)[0]}, (int){power}")
    if op in ("fabs", "abs") and dt.is_int(n.dtype):
        return None
    if op in w.d.library:
        return _float_call(w, n, w.d.library[op], ", ".join(_floats(w, n)))
    if op in _SMALL:
        kind = "float32" if dt.element(n.dtype) in SHORT_FLOATS else n.dtype
        text = f"{w.use.get(op, kind)}({_floats(w, n)[0]})"
        return _rounded(w, n, text)
    return None


def _reinterpreted(w: Expressions, n: Call) -> Text:
    if dt.lanes(n.args[0].dtype) != dt.lanes(n.dtype):
        raise CodegenError(
            f"reinterpret {n.args[0].dtype} as {n.dtype}",
            f"{w.d.name} code has a vector's lanes one by one",
            'the target "llvm" has vectors',
        )
    source, kind = dt.element(n.args[0].dtype), dt.element(n.dtype)
    for t in (source, kind):
        if t in SHORT_FLOATS and not w.d.native_short:
            raise CodegenError(
                f"reinterpret {source} as {kind}",
                f"{w.d.name} code holds a {t} as a float",
                "reinterpret a float32",
            )
    return f"{w.use.reinterpret(source, kind)}({w.value(n.args[0])})", ATOM


def _floats(w: Expressions, n: Call) -> list[str]:
    """The arguments, 16-bit floats as float."""
    return [w.d.as_float(w.value(a), dt.element(a.dtype)) for a in n.args]


def _float_call(w: Expressions, n: Call, name: str, args: str) -> Text:
    kind = dt.element(n.dtype)
    if not dt.is_float(kind):
        raise CodegenError(f"call {n.op} of {kind}", "it is a function of floats", "cast")
    return _rounded(w, n, f"{name}{'' if kind == 'float64' else 'f'}({args})")


def _rounded(w: Expressions, n: Call, text: str) -> Text:
    kind = dt.element(n.dtype)
    return (w.d.rounded(text, kind, w.use) if kind in SHORT_FLOATS else text), ATOM


def _bitwise(w: Expressions, n: Call, op: str) -> Text:
    a = w.value(n.args[0], UNARY)
    if op != "bitwise_not":
        return f"{a} {_BITWISE[op]} {w.value(n.args[1], UNARY)}", BITS
    return (f"({w.d.value_type(n.dtype)})~{a}", UNARY) if dt.is_uint(n.dtype) else (f"~{a}", BITS)


def _shift(w: Expressions, n: Call, op: str) -> Text:
    by = n.args[1].value if isinstance(n.args[1], Broadcast) else n.args[1]
    kind, value = dt.element(n.dtype), w.value(n.args[0], UNARY)
    if not isinstance(by, IntImm) or not 0 <= by.value < dt.bits(kind):
        return f"{w.use.get(_SHIFTS[op], kind)}({w.value(n.args[0])}, {w.value(n.args[1])})", ATOM
    if op == "shift_right":
        if dt.bits(kind) == 64:  # small numbers, and choices of them, are of type int in C
            value = f"({w.d.value_type(kind)}){value}"
        return f"{value} >> {by.value}", BITS
    return f"({w.d.value_type(kind)})(({w.d.unsigned(kind)}){value} << {by.value})", UNARY


def _test(w: Expressions, n: Call, op: str) -> Text:
    x = n.args[0]
    if not dt.is_float(x.dtype):
        return str(int(op == "isfinite")), ATOM
    return f"{op}({_floats(w, n)[0]}) != 0", EQUAL
