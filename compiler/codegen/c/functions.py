"""The small functions that generated code may call, each written into it only when it is used.

They are written once for all types and both dialects, with ``T`` for the type, ``U`` for the
unsigned type of the same size and ``F`` for ``float`` or ``double``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from whet.compiler.tir import dtype as dt

if TYPE_CHECKING:
    from whet.compiler.codegen.c.dialect import Dialect

#: floats of 16 bits, which C99 does not have
SHORT_FLOATS = ("float16", "bfloat16")

_SIGNED: dict[str, str] = {
    "div": """
    /* rounded towards zero; a division by zero gives 0 */
    if (b == 0) return 0;
    return b == -1 ? (T)(0 - (U)a) : (T)(a / b);""",
    "mod": """
    /* the remainder of the division that rounds towards zero; 0 for b == 0 */
    return b == 0 || b == -1 ? 0 : (T)(a % b);""",
    "floordiv": """
    /* rounded down; a division by zero gives 0 */
    if (b == 0) return 0;
    if (b == -1) return (T)(0 - (U)a);
    return (T)(a / b - (a % b != 0 && (a < 0) != (b < 0)));""",
    "floormod": """
    /* the remainder with the sign of b; 0 for b == 0 */
    if (b == 0 || b == -1) return 0;
    return (T)(a % b + ((a % b != 0 && (a < 0) != (b < 0)) ? b : 0));""",
}
_UNSIGNED: dict[str, str] = {
    "div": "\n    return b == 0 ? 0 : (T)(a / b);  /* a division by zero gives 0 */",
    "mod": "\n    return b == 0 ? 0 : (T)(a % b);  /* 0 for b == 0 */",
}
_UNSIGNED |= {"floordiv": _UNSIGNED["div"], "floormod": _UNSIGNED["mod"]}
_ANY: dict[str, str] = {
    "min": "\n    return a < b ? a : b;",
    "max": "\n    return a > b ? a : b;",
    "shl": "\n    return b < 0 || b >= BITS ? 0 : (T)((U)a << b);",
    "shr": "\n    return b < 0 || b >= BITS ? (T)(a < 0 ? -1 : 0) : (T)(a >> b);",
}
_ANY_UNSIGNED: dict[str, str] = {
    "shl": "\n    return b >= BITS ? 0 : (T)((U)a << b);",
    "shr": "\n    return b >= BITS ? 0 : (T)(a >> b);",
}
_UNARY_INTEGER: dict[str, str] = {
    "popcount": """
    U rest = (U)a;
    T count = 0;
    for (; rest; rest &= (U)(rest - 1)) ++count;
    return count;""",
    "clz": """
    U rest = (U)a;
    T count = BITS;
    for (; rest; rest = (U)(rest >> 1)) --count;
    return count;""",
}
_UNARY_FLOAT: dict[str, str] = {
    "sigmoid": "\n    return ONE / (ONE + EXP(-a));",
    "rsqrt": "\n    return ONE / SQRT(a);",
    "exp10": "\n    return POW(TEN, a);",
}

_WIDEN = {
    "float16": """
    uint32_t sign = (uint32_t)(a & 0x8000u) << 16, rest = a & 0x7fffu, bits;
    float out;
    if (rest >= 0x7c00u) bits = sign | 0x7f800000u | (rest & 0x3ffu) << 13;
    else if (rest >= 0x400u) bits = sign | ((rest << 13) + 0x38000000u);
    else {  /* zero, or less than the smallest normal number */
        out = (float)rest * 0x1p-24f;
        return sign ? -out : out;
    }
    memcpy(&out, &bits, sizeof out);
    return out;""",
    "bfloat16": """
    uint32_t bits = (uint32_t)a << 16;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;""",
}
_NARROW = {
    "float16": """
    /* to the nearest, ties to even */
    uint32_t bits, sign, rest;
    memcpy(&bits, &a, sizeof bits);
    sign = bits >> 16 & 0x8000u;
    rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (rest >= 0x47800000u) return (uint16_t)(sign | 0x7c00u);
    if (rest < 0x38800000u) {
        float tiny;
        memcpy(&tiny, &rest, sizeof tiny);
        return (uint16_t)(sign | (uint32_t)nearbyintf(tiny * 0x1p24f));
    }
    rest += 0xfffu + (rest >> 13 & 1u);
    return (uint16_t)(sign | (rest - 0x38000000u) >> 13);""",
    "bfloat16": """
    /* to the nearest, ties to even */
    uint32_t bits;
    memcpy(&bits, &a, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);""",
}
_ODD = """
    /* to float, so that rounding once more to a shorter type is right */
    float out = (float)a;
    uint32_t bits;
    if ((double)out == a || out != out) return out;
    memcpy(&bits, &out, sizeof bits);
    if (((double)out < a) != (a < 0)) bits |= 1u;
    else bits = bits & 1u ? bits : bits - 1u;
    memcpy(&out, &bits, sizeof out);
    return out;"""


class Functions:
    """The functions that one source text uses, in the order in which they must stand."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.texts: dict[str, str] = {}

    def get(self, op: str, dtype: str) -> str:
        """The name of ``op`` for a type; its definition goes into the text."""
        dtype = dt.element(dtype)
        if (op, dtype) in self.dialect.own:
            return self.dialect.own[op, dtype]
        name = f"whet_{op}_{_suffix(dtype)}"
        if name not in self.texts:
            self.texts[name] = self._define(op, dtype, name)
        return name

    def reinterpret(self, source: str, dtype: str) -> str:
        """The name of the function that reads the bits of one type as another."""
        name = f"whet_reinterpret_{_suffix(source)}_{_suffix(dtype)}"
        given, kind = (self.dialect.value_type(t) for t in (source, dtype))
        body = f"\n    {kind} out;\n    memcpy(&out, &a, sizeof out);\n    return out;"
        self.texts.setdefault(name, self._function(kind, name, f"{given} a", body))
        return name

    def unaligned(self, dtype: str) -> str:
        """The name of the function that reads a number from memory of any alignment."""
        name, kind = f"whet_unaligned_{_suffix(dtype)}", self.dialect.memory_type(dtype)
        body = f"\n    {kind} out;\n    memcpy(&out, a, sizeof out);\n    return out;"
        self.texts.setdefault(name, self._function(kind, name, "const void *a", body))
        return name

    def text(self) -> str:
        """All definitions."""
        return "\n\n".join(self.texts.values())

    def _define(self, op: str, dtype: str, name: str) -> str:
        d = self.dialect
        if op == "widen":
            return self._function("float", name, "uint16_t a", _WIDEN[dtype])
        if op == "narrow":
            return self._function("uint16_t", name, "float a", _NARROW[dtype])
        if op == "round":
            there, back = self.get("narrow", dtype), self.get("widen", dtype)
            return self._function("float", name, "float a", f"\n    return {back}({there}(a));")
        if op == "odd":
            return self._function("float", name, "double a", _ODD)
        kind = d.value_type(dtype)
        if dt.is_float(dtype):
            body = _ANY.get(op) or _UNARY_FLOAT[op]
            short = "" if dtype == "float64" else "f"
            for word in ("EXP", "SQRT", "POW"):
                body = body.replace(word, word.lower() + short)
            body = body.replace("ONE", "1.0" + short).replace("TEN", "10.0" + short)
        elif dt.is_uint(dtype) or dt.is_bool(dtype):
            body = _UNSIGNED.get(op) or _ANY_UNSIGNED.get(op) or _ANY.get(op) or ""
        else:
            body = _SIGNED.get(op) or _ANY.get(op) or ""
        unary = op in _UNARY_FLOAT or op in _UNARY_INTEGER
        body = _UNARY_INTEGER.get(op) or body
        signed = dt.is_int(dtype) and not dt.is_uint(dtype)
        unsigned = d.memory_type("u" + dtype) if signed else kind
        body = body.replace("(U)a <<", f"({d.unsigned(dtype)})a <<") if op == "shl" else body
        for word, value in (("T", kind), ("U", unsigned), ("BITS", str(dt.bits(dtype)))):
            body = re.sub(rf"\b{word}\b", value, body)
        return self._function(kind, name, f"{kind} a" + ("" if unary else f", {kind} b"), body)

    def _function(self, result: str, name: str, params: str, body: str) -> str:
        return f"{self.dialect.function} {result} {name}({params})\n{{{body}\n}}"


def _suffix(dtype: str) -> str:
    if dtype == "bfloat16":
        return "bf16"
    kind = "f" if dt.is_float(dtype) else "u" if dt.is_uint(dtype) else "i"
    return "bool" if dt.is_bool(dtype) else f"{kind}{dt.bits(dtype)}"
