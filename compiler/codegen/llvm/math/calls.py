"""Calls of mathematical functions as LLVM text.

* float32: exp, log and their like are polynomials on lanes, written where they are used; sin, cos
  and pow are functions of the module, as they are long or have a slow path. Scalars take the same
  way, so that a tail computes what the vectors compute.
* float64, and what is rare: the C library, lane by lane. No vector library is needed.
* float16 and bfloat16: computed in float32, rounded once.

Accuracy of float32, denormals, infinities and NaN included: sqrt is exact, pow within 1 ulp, the
others of the first kind within 2 ulp, or within 4 for a target with ``-math=4ulp``
(``scripts/check_math`` measures it). What ``-math=fast`` promises is in docs/numerics.md.

With the target's ``fast_math``, which implies that: float arithmetic may be reordered and
contracted, division be a multiplication by the reciprocal, and the sign of zero be lost; NaN and
infinity keep their meaning unless the target has ``fast_math_nnan`` or ``fast_math_ninf``, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from whet.compiler.codegen.llvm.math import avx512, curves
from whet.compiler.codegen.llvm.math import exp as math_exp
from whet.compiler.codegen.llvm.math import log as math_log
from whet.compiler.codegen.llvm.math import pow as math_pow
from whet.compiler.codegen.llvm.math import trig as math_trig
from whet.compiler.codegen.llvm.text import types as ty
from whet.compiler.codegen.llvm.text.conversions import is_narrow, narrowed, widened
from whet.compiler.codegen.llvm.text.module import RELAXED
from whet.compiler.codegen.llvm.text.value import Value
from whet.compiler.codegen.llvm.text.writer import FunctionWriter
from whet.compiler.errors import CodegenError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.ops.table import OPERATIONS

#: intrinsics of LLVM that processors have, for scalars and vectors
_NATIVE = frozenset(("sqrt", "floor", "ceil", "trunc", "round", "nearbyint", "fabs", "copysign"))
#: written where they are used
_INLINE: dict[str, Callable[[Value], Value]] = {
    **{n: partial(math_exp.power_of, base=b) for n, b in math_exp.BASES.items()},
    **{n: partial(math_log.logarithm, base=b) for n, b in math_log.BASES.items()},
    "sigmoid": curves.sigmoid,
    "tanh": curves.tanh,
    "erf": curves.erf,
}
#: functions of the C library, called lane by lane; glibc has exp10, too
_LIBRARY = {name for name, row in OPERATIONS.items() if row.math_h} | {"exp10", "ldexp"}
_LIBRARY -= {*_NATIVE, "fma", "rint", "fmin", "fmax"}

KNOWN = _LIBRARY | _NATIVE | _INLINE.keys() | {"rsqrt", "popcount", "clz"}


def math_call(op: str, dtype: str, args: list[Value]) -> Value:
    """The value of ``op``, one of :data:`KNOWN`."""
    name, x = dt.element(dtype), args[0]
    if op in ("popcount", "clz"):
        return _bit_count(op, dtype, x)
    if is_narrow(dtype) and op not in ("fabs", "copysign"):
        if op == "nextafter":
            raise CodegenError(
                f"nextafter of {name}", "its neighbour in float32 is another", "cast to float32"
            )
        wide = [widened(a) if a.dtype == dtype else a for a in args]
        return narrowed(math_call(op, wide[0].dtype, wide), name)
    if name == "bfloat16":
        return _sign_bits(args)
    if op in _NATIVE:
        return x.intrinsic(op, *args[1:])
    if op == "rsqrt":
        return _rsqrt(x)
    if name == "float32":
        if op in _INLINE:
            return (avx512.function_of(op, x.out.module) or _INLINE[op])(x)
        if op in ("sin", "cos", "pow"):
            return _module_function(op, args)
    if op == "sigmoid":
        return _stable_sigmoid(x)
    return _library(op, dtype, args)


def _bit_count(op: str, dtype: str, x: Value) -> Value:
    """popcount, and clz, which is 32-bit whatever its argument."""
    if op == "popcount":
        count = x.intrinsic("ctpop")
    else:
        kind, symbol = ty.type_of(x.dtype), f"@llvm.ctlz.{ty.suffix(x.dtype)}"
        x.out.module.declare(f"declare {kind} {symbol}({kind}, i1)")
        text = x.out.pure(f"call {kind} {symbol}({kind} {x.text}, i1 false)", x.text)
        count = Value(x.out, text, x.dtype)
    have, want = dt.bits(x.dtype), dt.bits(dtype)
    return count if have == want else count.cast("trunc" if have > want else "zext", f"int{want}")


def _sign_bits(args: list[Value]) -> Value:
    """fabs of one and copysign of two bfloat16, whose registers hold their bits."""
    x, *sign = (Value(a.out, a.text, a.dtype.replace("bfloat16", "int16")) for a in args)
    size = x & 0x7FFF
    return size | (sign[0] & -0x8000) if sign else size


def _rsqrt(x: Value) -> Value:
    flags = RELAXED if x.out.module.fast else ""
    root, one = x.out.intrinsic("sqrt", x.dtype, x.text, flags=flags), ty.constant(1.0, x.dtype)
    text = x.out.op(f"fdiv {flags}".rstrip(), ty.type_of(x.dtype), one, root)
    return Value(x.out, text, x.dtype)


def _stable_sigmoid(x: Value) -> Value:
    """1 / (1 + exp(-x)) in float64, through exp(-|x|), which does not overflow."""
    small, one = _library("exp", x.dtype, [-abs(x)]), x.of(1.0)
    top = x.test("olt", 0.0).select(small, one)
    return top / (one + small)


def _module_function(op: str, args: list[Value]) -> Value:
    """A call of an internal function, which is written when it is first used."""
    out, dtype = args[0].out, args[0].dtype
    kind, symbol = ty.type_of(dtype), f"@whet.{op}.{ty.suffix(dtype)}"
    names = ("%x", "%y")[: len(args)]
    inner = FunctionWriter(out.module)
    params = [Value(inner, name, dtype) for name in names]
    result = math_pow.power(*params) if op == "pow" else _with_slow_lanes(op, params[0])
    given = ", ".join(f"{kind} {p}" for p in names)
    head = f"define internal {kind} {symbol}({given}) {out.module.attributes}"
    out.module.declare(f"{head} {{\n{inner.text()}\n  ret {kind} {result.text}\n}}")
    texts = [a.text for a in args]
    text = out.pure(f"call {kind} {symbol}({', '.join(f'{kind} {a}' for a in texts)})", *texts)
    return Value(out, text, dtype)


def _with_slow_lanes(op: str, x: Value) -> Value:
    """sin or cos; a lane beyond the limit asks the C library."""
    out, kind, lanes = x.out, ty.type_of(x.dtype), dt.lanes(x.dtype)
    out.allocas.append(f"  %slot = alloca {kind}")
    quick = math_trig.wave(x, op)
    out.line(f"store {kind} {quick.text}, ptr %slot")
    far = abs(x).test("ogt", math_trig.LIMIT)
    some = far.text
    if lanes > 1:
        packed = out.cast("bitcast", ty.type_of(far.dtype), some, f"i{lanes}")
        some = out.op("icmp ne", f"i{lanes}", packed, "0")
    with out.branch(some):
        # what stands in the branch must not be moved before it: it is made of a value in it
        again = Value(out, out.here(f"freeze {kind} {x.text}"), x.dtype)
        slow = far.select(_library(op, x.dtype, [again]), quick)
        out.line(f"store {kind} {slow.text}, ptr %slot")
    return Value(out, out.here(f"load {kind}, ptr %slot"), x.dtype)


def _library(op: str, dtype: str, args: list[Value]) -> Value:
    """A call of the C library, lane by lane."""
    name, lanes = dt.split(dtype)
    if name not in ("float32", "float64"):
        raise CodegenError(
            f"call {op} of {name}", "the C library has it for float32 and float64", "cast"
        )
    out, scalar = args[0].out, ty.type_of(name)
    types = [ty.type_of(dt.element(a.dtype)) for a in args]
    symbol = f"@{op}" + ("f" if name == "float32" else "")
    out.module.declare(f"declare {scalar} {symbol}({', '.join(types)})")

    def one(values: list[str]) -> str:
        given = ", ".join(f"{t} {v}" for t, v in zip(types, values))
        return out.pure(f"call {scalar} {symbol}({given})", *values)

    if lanes == 1:
        return Value(out, one([a.text for a in args]), dtype)
    results = (
        one([out.extract(ty.type_of(a.dtype), a.text, k) for a in args]) for k in range(lanes)
    )
    return Value(out, out.vector(ty.type_of(dtype), results), dtype)
