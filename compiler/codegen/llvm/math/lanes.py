"""Operations on the lanes of a float32 vector (or one float), written as LLVM text.

The polynomials of the ``math_*`` files are written with these. Nothing here is marked as fast: the
reductions depend on what each operation rounds.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache

from whet.compiler.codegen.llvm import types as ty
from whet.compiler.codegen.llvm.writer import FunctionWriter
from whet.compiler.tir import dtype as dt

_KINDS = {"f": "float32", "i": "int32", "b": "bool", "d": "float64", "l": "int64"}
_INFINITY = float("inf")


@lru_cache(4096)
def constant(value: float, kind: str, lanes: int) -> str:
    """A number in all lanes; kinds as in :class:`Lanes`."""
    text = ty.float_constant(value, _KINDS[kind]) if kind in "fd" else str(int(value))
    return text if lanes == 1 else f"splat ({ty.type_of(_KINDS[kind])} {text})"


class Lanes:
    """Writes operations on ``lanes`` lanes.

    Kinds of lanes are letters: f float32, d float64, i int32, l int64, b bool. Values are names or
    constants as LLVM text.

    Args:
        out: where to write.
        declare: adds a declaration to the module, once.
        lanes: 1 for scalars.
        fused: whether the target surely has a fused multiply-add.
        fast: whether accuracy may be given up for speed.
        tabled: whether vectors of a constant are read from memory as they are. Without AVX-512 a
            processor must broadcast the constant else, and that takes a place beside the
            multiply-adds: gelu took 10.1 ns a vector instead of 9.2 (Zen 4, 256 bits).
    """

    def __init__(
        self,
        out: FunctionWriter,
        declare: Callable[[str], None],
        lanes: int,
        fused: bool,
        fast: bool,
        tabled: bool = False,
    ) -> None:
        self.out = out
        self.declare = declare
        self.lanes = lanes
        self.fused = fused
        self.fast = fast
        self.tabled = tabled and lanes > 1
        self.types = {k: ty.type_of(dt.vector(name, lanes)) for k, name in _KINDS.items()}

    def of(self, value: float, kind: str = "f") -> str:
        """A constant in all lanes."""
        text = constant(value, kind, self.lanes)
        if not self.tabled or kind != "f" or value == 0:
            return text
        vector = self.types[kind]
        name = f"@whet.splat.{struct.pack('>f', value).hex()}.{self.lanes}"
        # Not a constant to LLVM, which would broadcast it again.
        self.declare(f"{name} = internal global {vector} {text}, align 64")
        return self.out.pure(f"load {vector}, ptr {name}, align 64")

    def op(self, name: str, a: str, b: str, kind: str = "f") -> str:
        """An operation of two operands, e.g. ``fadd``."""
        return self.out.pure(f"{name} {self.types[kind]} {a}, {b}", a, b)

    def add(self, a: str, b: str, kind: str = "f") -> str:
        return self.op("fadd" if kind in "fd" else "add", a, b, kind)

    def sub(self, a: str, b: str, kind: str = "f") -> str:
        return self.op("fsub" if kind in "fd" else "sub", a, b, kind)

    def mul(self, a: str, b: str, kind: str = "f") -> str:
        return self.op("fmul" if kind in "fd" else "mul", a, b, kind)

    def div(self, a: str, b: str, kind: str = "f") -> str:
        return self.op("fdiv", a, b, kind)

    def fma(self, a: str, b: str, c: str, kind: str = "f") -> str:
        """``a * b + c``, rounded once where the target has that operation, else twice."""
        return self.intrinsic("fmuladd", kind, a, b, c)

    def intrinsic(self, name: str, kind: str, *args: str) -> str:
        """One of LLVM's intrinsics whose arguments and result are of one kind."""
        t = self.types[kind]
        symbol = f"@llvm.{name}.{ty.suffix(dt.vector(_KINDS[kind], self.lanes))}"
        self.declare(f"declare {t} {symbol}({', '.join([t] * len(args))})")
        return self.out.pure(f"call {t} {symbol}({', '.join(f'{t} {a}' for a in args)})", *args)

    def polynomial(self, x: str, coefficients: Sequence[float], kind: str = "f") -> str:
        """The sum of ``coefficients[k] * x**k``."""
        total = self.of(coefficients[-1], kind)
        for c in reversed(coefficients[:-1]):
            total = self.fma(total, x, self.of(c, kind), kind)
        return total

    def two_chains(self, x: str, coefficients: Sequence[float], square: str) -> str:
        """The same sum as its even and its odd powers: one more operation, half the latency.

        A processor looks some 300 instructions ahead: long functions wait for their own chains.
        """
        odd = self.polynomial(square, coefficients[1::2])
        even = self.polynomial(square, coefficients[::2])
        return self.fma(odd, x, even)

    def test(self, how: str, a: str, b: str, kind: str = "f") -> str:
        """A comparison, e.g. ``olt``."""
        compare = "fcmp" if kind in "fd" else "icmp"
        return self.out.pure(f"{compare} {how} {self.types[kind]} {a}, {b}", a, b)

    def select(self, c: str, a: str, b: str, kind: str = "f") -> str:
        t = self.types[kind]
        return self.out.pure(f"select {self.types['b']} {c}, {t} {a}, {t} {b}", c, a, b)

    def at_most(self, x: str, bound: float, kind: str = "f") -> str:
        """The smaller of the two; NaN stays NaN. One instruction on x86."""
        c = self.of(bound, kind)
        return self.select(self.test("olt", c, x, kind), c, x, kind)

    def at_least(self, x: str, bound: float, kind: str = "f") -> str:
        """The larger of the two; NaN stays NaN."""
        c = self.of(bound, kind)
        return self.select(self.test("ogt", c, x, kind), c, x, kind)

    def cast(self, how: str, x: str, source: str, to: str) -> str:
        """A conversion, e.g. ``bitcast`` from kind ``f`` to kind ``i``."""
        return self.out.pure(f"{how} {self.types[source]} {x} to {self.types[to]}", x)

    def bits(self, x: str) -> str:
        return self.cast("bitcast", x, "f", "i")

    def floats(self, x: str) -> str:
        return self.cast("bitcast", x, "i", "f")

    def shift(self, how: str, x: str, by: int) -> str:
        return self.op(how, x, self.of(by, "i"), "i")

    def magnitude(self, x: str) -> str:
        """``|x|``."""
        return self.intrinsic("fabs", "f", x)

    def with_sign_of(self, x: str, sign: str) -> str:
        """``x`` with the sign of ``sign``, NaN and zero included."""
        return self.intrinsic("copysign", "f", x, sign)

    def infinity(self, kind: str = "f") -> str:
        return self.of(_INFINITY, kind)
