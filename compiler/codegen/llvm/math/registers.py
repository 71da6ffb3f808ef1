"""Instructions of AVX-512 that no operation of LLVM stands for, on values of one register."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from whet.compiler.codegen.llvm.text import types as ty
from whet.compiler.codegen.llvm.text.value import Value
from whet.compiler.tir import dtype as dt

_CURRENT = 4  # round as the processor is set
_LEAST_SIZE = 0b0010  # the smaller magnitude, with the sign of the first
_FLOOR = 0b0001  # no bit of the fraction stays; rounded down


def by_registers(x: Value, function: Callable[[Value], Value]) -> Value:
    """A function of float32 lanes, written for each register of them; the last may have spare ones.

    Args:
        x: any number of lanes.
        function: maps a register of lanes to another one.
    """
    width, lanes = x.out.module.target.vector_bytes // 4, dt.lanes(x.dtype)
    if lanes == 1:
        kind = f"<{width} x float>"
        text = f"insertelement {kind} poison, float {x.text}, i64 0"
        whole = Value(x.out, x.out.pure(text, x.text), f"float32x{width}")
        return Value(x.out, x.out.extract(kind, function(whole).text, 0), x.dtype)
    if lanes == width:
        return function(x)
    parts = [function(_picked(x, x, k, width)) for k in range(0, lanes, width)]
    while len(parts) > 1:
        parts += [parts[-1]] * (len(parts) % 2)
        size = 2 * dt.lanes(parts[0].dtype)
        parts = [_picked(a, b, 0, size) for a, b in zip(parts[::2], parts[1::2])]
    return parts[0] if dt.lanes(parts[0].dtype) == lanes else _picked(parts[0], parts[0], 0, lanes)


def _picked(a: Value, b: Value, start: int, count: int) -> Value:
    """So many lanes of two vectors side by side; beyond the second they mean nothing."""
    kind, have = ty.type_of(a.dtype), 2 * dt.lanes(a.dtype)
    lanes = (f"i32 {k}" if k < have else "i32 poison" for k in range(start, start + count))
    mask = f"<{count} x i32> <{', '.join(lanes)}>"
    text = a.out.pure(f"shufflevector {kind} {a.text}, {kind} {b.text}, {mask}", a.text, b.text)
    return Value(a.out, text, f"float32x{count}")


def scaled(x: Value, power: Value) -> Value:
    """``x * 2**floor(power)``, rounded once; infinite powers give infinity and zero."""
    return _masked("scalef", (x, power))


def bounded(x: Value, size: float) -> Value:
    """x within [-size, size]; NaN becomes a number there."""
    return _masked("range", (x, x.of(size)), _LEAST_SIZE)


def fraction(x: Value) -> Value:
    """``x - floor(x)``; zero for infinities."""
    return _masked("reduce", (x,), _FLOOR)


def reciprocal(x: Value) -> Value:
    """1 / x within 2**-14 of it."""
    kind, bits = ty.type_of(x.dtype), 32 * dt.lanes(x.dtype)
    mask = f"i{max(8, dt.lanes(x.dtype))}"
    symbol = f"@llvm.x86.avx512.rcp14.ps.{bits}"
    x.out.module.declare(f"declare {kind} {symbol}({kind}, {kind}, {mask})")
    given = f"{kind} {x.text}, {kind} zeroinitializer, {mask} -1"
    return Value(x.out, x.out.pure(f"call {kind} {symbol}({given})", x.text), x.dtype)


def looked_up(numbers: Sequence[float], index: Value) -> Value:
    """One of 32 numbers for each lane of 512 bits, by the lowest five bits of its index."""
    kind, places = "<16 x float>", "<16 x i32>"
    low, high = (
        "<" + ", ".join(f"float {ty.constant(v, 'float32')}" for v in half) + ">"
        for half in (numbers[:16], numbers[16:])
    )
    symbol = "@llvm.x86.avx512.vpermi2var.ps.512"
    index.out.module.declare(f"declare {kind} {symbol}({kind}, {places}, {kind})")
    text = f"call {kind} {symbol}({kind} {low}, {places} {index.text}, {kind} {high})"
    return Value(index.out, index.out.pure(text, index.text), "float32x16")


def _masked(name: str, operands: Sequence[Value], how: int | None = None) -> Value:
    """An instruction with a mask, which is full here, rounded as the processor is set."""
    x = operands[0]
    kind, lanes = ty.type_of(x.dtype), dt.lanes(x.dtype)
    given = [(kind, v.text) for v in operands]
    given += [("i32", str(how))] if how is not None else []
    given += [(kind, "zeroinitializer"), (f"i{max(8, lanes)}", "-1")]
    given += [("i32", str(_CURRENT))] if lanes == 16 else []
    symbol = f"@llvm.x86.avx512.mask.{name}.ps.{32 * lanes}"
    x.out.module.declare(f"declare {kind} {symbol}({', '.join(t for t, _ in given)})")
    text = f"call {kind} {symbol}({', '.join(f'{t} {v}' for t, v in given)})"
    return Value(x.out, x.out.pure(text, *[v.text for v in operands]), x.dtype)
