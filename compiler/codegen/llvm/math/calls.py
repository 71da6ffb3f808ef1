"""Calls of mathematical functions: which way each one takes into LLVM text.

* float32: exp, log and their like are polynomials on lanes, written where they are used; sin, cos
  and pow are functions of the module, as they are long or have a slow path. Scalars take the same
  way, so that a tail computes what the vectors compute.
* float64, and what is rare: the C library, lane by lane. No vector library is needed.
* float16 and bfloat16: computed in float32, rounded once.

Accuracy of float32, denormals, infinities and NaN included: sqrt is exact, pow within 1 ulp,
the others of the first kind within 2 ulp (``scripts/check_math`` measures it).

With the target's ``fast_math``: exp, exp2, exp10 within 3 ulp but kept between 2**-126 and 2**127;
log, log2, log10 and rsqrt within 4 ulp (5 without FMA) and sigmoid within 5, for normal arguments
(the rsqrt of zero is NaN); tanh within 12. Float arithmetic may be reordered and contracted,
division be a multiplication by the reciprocal, and the sign of zero be lost; NaN and infinity keep
their meaning unless the target has ``fast_math_nnan`` or ``fast_math_ninf``, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

from whet.compiler.codegen.llvm import types as ty
from whet.compiler.codegen.llvm.math import exp as math_exp
from whet.compiler.codegen.llvm.math import log as math_log
from whet.compiler.codegen.llvm.math import pow as math_pow
from whet.compiler.codegen.llvm.math import trig as math_trig
from whet.compiler.codegen.llvm.math.lanes import Lanes
from whet.compiler.codegen.llvm.math.narrow import HALF_SUPPORT, narrowed, widened
from whet.compiler.codegen.llvm.writer import FunctionWriter
from whet.compiler.errors import CodegenError
from whet.compiler.target import Target
from whet.compiler.target.machine import features as feat
from whet.compiler.tir import dtype as dt

#: intrinsics of LLVM that processors have, for scalars and vectors
_NATIVE = {
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round": "round",
    "nearbyint": "nearbyint",
    "fabs": "fabs",
    "copysign": "copysign",
}
#: written where they are used
_INLINE: dict[str, Callable[[Lanes, str], str]] = {
    **{n: partial(math_exp.power_of, base=b) for n, b in math_exp.BASES.items()},
    **{n: partial(math_log.logarithm, base=b) for n, b in math_log.BASES.items()},
    "sigmoid": math_exp.sigmoid,
    "tanh": math_exp.tanh,
    "erf": math_exp.erf,
}
#: functions of the C library, called lane by lane
_LIBRARY = frozenset(
    [
        "exp",
        "exp2",
        "exp10",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "asin",
        "acos",
        "atan",
        "asinh",
        "acosh",
        "atanh",
        "cbrt",
        "erf",
        "erfc",
        "pow",
        "fmod",
        "atan2",
        "hypot",
        "nextafter",
        "ldexp",
    ]
)
#: what LLVM may do with float arithmetic of a target with fast_math: NaN and infinity stay
_RELAXED = "reassoc nsz arcp contract afn "
_FLAGS = ("nnan", "ninf", "nsz", "arcp", "contract", "reassoc")

KNOWN = _LIBRARY | _NATIVE.keys() | _INLINE.keys() | {"rsqrt", "popcount", "clz"}


class MathCalls:
    """Writes calls of mathematical functions for a target.

    Args:
        target: its features and ``fast_math`` decide.
        declare: adds a declaration or a whole function to the module, once.
        attributes: of the functions that are made.

    Attributes:
        flags: what float arithmetic may be relaxed to, as LLVM's flags with a space behind, or "".
    """

    def __init__(self, target: Target, declare: Callable[[str], None], attributes: str) -> None:
        attrs = target.canonical().attrs
        self.declare = declare
        self.attributes = attributes
        self.fast = bool(attrs.get("fast_math"))
        words = [str(attrs.get(k, "")) for k in ("mtriple", "mcpu", "mattr")]
        other = not words[0].startswith("x86_64")
        self.fused = words[0].startswith("aarch64") or _surely_has("fma", *words)
        self._tabled = not other and "+avx512vl" not in words[2].split(",")
        self._converts_half = other or _surely_has("f16c", *words)
        single = "".join(f"{f} " for f in _FLAGS if attrs.get(f"fast_math_{f}"))
        extra = "".join(f"{f} " for f in ("nnan", "ninf") if attrs.get(f"fast_math_{f}"))
        self.flags = _RELAXED + extra if self.fast else single

    def call(
        self, out: FunctionWriter, op: str, dtype: str, args: list[str], kinds: list[str]
    ) -> str:
        """The value of ``op``; ``kinds`` are the dtypes of ``args``."""
        name, lanes = dt.split(dtype)
        if op in ("popcount", "clz"):
            return self._bits(out, op, dtype, args[0], kinds[0])
        if name in ("float16", "bfloat16") and op not in ("fabs", "copysign"):
            if op == "nextafter":
                raise CodegenError(
                    f"nextafter of {name}", "its neighbour in float32 is another", "cast to float32"
                )
            wide = dt.vector("float32", lanes)
            args = [widened(out, a, k) if k == dtype else a for a, k in zip(args, kinds)]
            kinds = [wide if k == dtype else k for k in kinds]
            return narrowed(out, self.call(out, op, wide, args, kinds), wide, dtype)
        if name == "bfloat16":
            return _sign_bits(out, op, dtype, args)
        if op in _NATIVE:
            return self._native(out, op, dtype, args)
        if op == "rsqrt":
            return self._rsqrt(out, dtype, args)
        if name == "float32":
            w = Lanes(out, self.declare, lanes, self.fused, self.fast, self._tabled)
            if op in _INLINE:
                return _INLINE[op](w, args[0])
            if op in ("sin", "cos", "pow"):
                return self._function(out, op, dtype, args)
        if op == "sigmoid":
            return self._stable_sigmoid(out, dtype, args[0])
        return self._library(out, op, dtype, args, kinds)

    def support(self, body: str) -> str:
        """Functions that LLVM will call for what is in a module's text."""
        return HALF_SUPPORT if not self._converts_half and " half" in body else ""

    # intrinsics

    def _native(self, out: FunctionWriter, op: str, dtype: str, args: list[str]) -> str:
        kind, name = ty.type_of(dtype), f"@llvm.{_NATIVE[op]}.{ty.suffix(dtype)}"
        self.declare(f"declare {kind} {name}({', '.join([kind] * len(args))})")
        return out.pure(f"call {kind} {name}({', '.join(f'{kind} {a}' for a in args)})", *args)

    def _rsqrt(self, out: FunctionWriter, dtype: str, args: list[str]) -> str:
        one, kind = _constant(1.0, dtype), ty.type_of(dtype)
        if not self.fast:
            root = self._native(out, "sqrt", dtype, args)
            return out.pure(f"fdiv {kind} {one}, {root}", root)
        name = f"@llvm.sqrt.{ty.suffix(dtype)}"
        self.declare(f"declare {kind} {name}({kind})")
        root = out.pure(f"call {_RELAXED}{kind} {name}({kind} {args[0]})", *args)
        return out.pure(f"fdiv {_RELAXED}{kind} {one}, {root}", root)

    def _bits(self, out: FunctionWriter, op: str, dtype: str, x: str, source: str) -> str:
        """popcount, and clz, which is 32-bit whatever its argument."""
        kind, suffix = ty.type_of(source), ty.suffix(source)
        if op == "popcount":
            self.declare(f"declare {kind} @llvm.ctpop.{suffix}({kind})")
            v = out.pure(f"call {kind} @llvm.ctpop.{suffix}({kind} {x})", x)
        else:
            self.declare(f"declare {kind} @llvm.ctlz.{suffix}({kind}, i1)")
            v = out.pure(f"call {kind} @llvm.ctlz.{suffix}({kind} {x}, i1 false)", x)
        have, want = dt.bits(source), dt.bits(dtype)
        if have == want:
            return v
        how = "trunc" if have > want else "zext"
        return out.pure(f"{how} {kind} {v} to {ty.type_of(dtype)}", v)

    # compositions

    def _stable_sigmoid(self, out: FunctionWriter, dtype: str, x: str) -> str:
        """1 / (1 + exp(-x)) in float64, through exp(-|x|), which does not overflow."""
        kind, one = ty.type_of(dtype), _constant(1.0, dtype)
        size = self._native(out, "fabs", dtype, [x])
        minus = out.pure(f"fneg {kind} {size}", size)
        small = self._library(out, "exp", dtype, [minus], [dtype])
        below = out.pure(f"fcmp olt {kind} {x}, {_constant(0.0, dtype)}", x)
        bit = ty.type_of(dt.vector("bool", dt.lanes(dtype)))
        top = out.pure(f"select {bit} {below}, {kind} {small}, {kind} {one}", below, small)
        rest = out.pure(f"fadd {kind} {one}, {small}", small)
        return out.pure(f"fdiv {kind} {top}, {rest}", top, rest)

    # functions of the module

    def _function(self, out: FunctionWriter, op: str, dtype: str, args: list[str]) -> str:
        """A call of an internal function, which is written when it is first used."""
        kind, symbol = ty.type_of(dtype), f"@whet.{op}.{ty.suffix(dtype)}"
        params = ["%x", "%y"][: len(args)]
        inner = FunctionWriter()
        w = Lanes(inner, self.declare, dt.lanes(dtype), self.fused, self.fast, self._tabled)
        if op == "pow":
            result = math_pow.power(w, *params)
        else:
            result = self._with_slow_lanes(inner, w, op, dtype)
        given = ", ".join(f"{kind} {p}" for p in params)
        head = f"define internal {kind} {symbol}({given}) {self.attributes}"
        self.declare(f"{head} {{\n{inner.text()}\n  ret {kind} {result}\n}}")
        return out.pure(f"call {kind} {symbol}({', '.join(f'{kind} {a}' for a in args)})", *args)

    def _with_slow_lanes(self, out: FunctionWriter, w: Lanes, op: str, dtype: str) -> str:
        """sin or cos; a lane beyond the limit asks the C library."""
        kind, lanes = w.types["f"], w.lanes
        out.allocas.append(f"  %slot = alloca {kind}")
        quick = math_trig.wave(w, "%x", op)
        out.line(f"store {kind} {quick}, ptr %slot")
        far = some = w.test("ogt", w.magnitude("%x"), w.of(math_trig.LIMIT))
        if lanes > 1:
            packed = out.pure(f"bitcast {w.types['b']} {far} to i{lanes}", far)
            some = out.pure(f"icmp ne i{lanes} {packed}, 0", packed)
        with out.branch(some):
            # what stands in the branch must not be moved before it: it is made of a value in it
            again = out.here(f"freeze {kind} %x")
            slow = self._library(out, op, dtype, [again], [dtype])
            out.line(f"store {kind} {w.select(far, slow, quick)}, ptr %slot")
        return out.here(f"load {kind}, ptr %slot")

    # the C library

    def _library(
        self, out: FunctionWriter, op: str, dtype: str, args: list[str], kinds: list[str]
    ) -> str:
        name, lanes = dt.split(dtype)
        if name not in ("float32", "float64"):
            raise CodegenError(
                f"call {op} of {name}", "the C library has it for float32 and float64", "cast"
            )
        scalar, vector = ty.type_of(name), ty.type_of(dtype)
        types = [ty.type_of(dt.element(k)) for k in kinds]
        wides = [ty.type_of(k) for k in kinds]
        symbol = f"@{op}" + ("f" if name == "float32" else "")
        self.declare(f"declare {scalar} {symbol}({', '.join(types)})")

        def one(values: list[str]) -> str:
            given = ", ".join(f"{t} {v}" for t, v in zip(types, values))
            return out.pure(f"call {scalar} {symbol}({given})", *values)

        if lanes == 1:
            return one(args)
        made = "poison"
        for k in range(lanes):
            parts = [out.pure(f"extractelement {t} {a}, i64 {k}", a) for t, a in zip(wides, args)]
            v = one(parts)
            made = out.pure(f"insertelement {vector} {made}, {scalar} {v}, i64 {k}", made, v)
        return made


#: processors with fma and f16c, of those that are named rather than described
_HASWELL_AND_LATER = (
    "x86-64-v3",
    "x86-64-v4",
    "haswell",
    "broadwell",
    "skylake",
    "znver",
    "alderlake",
)


@lru_cache(64)
def _surely_has(feature: str, mtriple: str, mcpu: str, mattr: str) -> bool:
    """Whether a target has a feature of x86-64, which comes with Haswell; where in doubt, not."""
    said = {name: on for on, name in feat.parse_mattr(mattr)}
    if feature in said:
        return said[feature]
    return said.get("avx512f", False) or mcpu.startswith(_HASWELL_AND_LATER)


def _constant(value: float, dtype: str) -> str:
    name, lanes = dt.split(dtype)
    text = ty.float_constant(value, name)
    return text if lanes == 1 else f"splat ({ty.type_of(name)} {text})"


def _sign_bits(out: FunctionWriter, op: str, dtype: str, args: list[str]) -> str:
    """fabs and copysign of bfloat16, whose registers hold its bits."""
    kind, lanes = ty.type_of(dtype), dt.lanes(dtype)

    def number(n: int) -> str:
        return str(n) if lanes == 1 else f"splat (i16 {n})"

    size = out.pure(f"and {kind} {args[0]}, {number(0x7FFF)}", args[0])
    if op == "fabs":
        return size
    sign = out.pure(f"and {kind} {args[1]}, {number(-0x8000)}", args[1])
    return out.pure(f"or {kind} {size}, {sign}", size, sign)
