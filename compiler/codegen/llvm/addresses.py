"""Index arithmetic, addresses and loads.

Indices are i64 sums on affine forms, with the numbers of unrolled loops folded in. A pointer is the
buffer plus the outermost variables' part first, so that each part is written as far out as it can
be and what is left in the innermost loop is a constant offset.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.codegen.llvm import types as ty
from whet.compiler.codegen.llvm.writer import FunctionWriter
from whet.compiler.errors import CodegenError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.ops.ops import FOLD

_LINEAR_ATOMS = (e.FloorDiv, e.FloorMod, e.Min, e.Max, e.Mul)


class Addresses(ABC):
    """Knows where things are, and generates what computes it.

    Attributes:
        out: the function being written.
        env: variable -> its value as a form of i64 values; a number for a step of an unrolled loop.
        scalars: variable -> value and type, for arguments that are no indices.
        pointers: buffer's id -> its pointer value.
        memory: every buffer that was placed, with its pointer.
    """

    def __init__(self, declare: Callable[[str], None]) -> None:
        self.out = FunctionWriter()
        self.declare = declare
        self.env: dict[e.Var, Affine] = {}
        self.scalars: dict[e.Var, str] = {}
        self.pointers: dict[int, str] = {}
        self.memory: list[tuple[Buffer, str]] = []
        self._analyzer = Analyzer()
        self._forms: dict[int, tuple[e.PrimExpr, Affine]] = {}

    @abstractmethod
    def value(self, n: e.PrimExpr) -> str:
        """The value of an expression: a name or a constant."""

    def place(self, buffer: Buffer, pointer: str) -> None:
        """Say where a buffer's elements stand."""
        self.pointers[id(buffer)] = pointer
        self.memory.append((buffer, pointer))

    def bind(self, var: e.Var, value: e.PrimExpr) -> None:
        """Let a variable stand for a value, which is computed here."""
        if value.dtype in ("int32", "int64"):
            if self.is_index(value):
                self.env[var] = self.linear(value)
                return
            v = self.value(value)
            if value.dtype == "int32" and not is_number(v):
                v = self.out.pure(f"sext i32 {v} to i64", v)
            self.env[var] = form_of(v)
            return
        self.scalars[var] = self.value(value)

    # index arithmetic

    def linear(self, n: e.PrimExpr) -> Affine:
        """An index as a form of i64 values, numbers of unrolled loops folded in."""
        cached = self._forms.get(id(n))
        if cached is None:
            cached = (n, self._analyzer.affine(n))
            self._forms[id(n)] = cached
        return cached[1].mapped(self._atom, self.env)

    def _atom(self, atom: e.PrimExpr) -> Affine:
        """The form of an atom that is computed here: all but a variable."""
        kind = type(atom)
        if kind in _LINEAR_ATOMS:
            return self._linear_op(atom)  # type: ignore[arg-type]
        value = self.value(atom)
        if dt.bits(atom.dtype) < 64 and not dt.is_bool(atom.dtype):
            how = "zext" if dt.is_uint(atom.dtype) else "sext"
            value = self.out.pure(f"{how} {ty.type_of(atom.dtype)} {value} to i64", value)
        elif dt.is_bool(atom.dtype):
            value = self.out.pure(f"zext i1 {value} to i64", value)
        return form_of(value)

    def _linear_op(self, n: e.BinaryOp) -> Affine:
        x, y = self.linear(n.a), self.linear(n.b)
        kind = type(n)
        if x.is_const and y.is_const:
            if y.const == 0 and kind in e.DIVISIONS:
                raise CodegenError("an index", "it divides by zero")
            return Affine.constant(FOLD[kind](x.const, y.const))
        a, b = self.i64(x), self.i64(y)
        if kind is e.Mul:
            out = self.out.pure(f"mul nsw i64 {a}, {b}", a, b)
        elif kind in (e.Min, e.Max):
            test = "slt" if kind is e.Min else "sgt"
            c = self.out.pure(f"icmp {test} i64 {a}, {b}", a, b)
            out = self.out.pure(f"select i1 {c}, i64 {a}, i64 {b}", c, a, b)
        else:
            number = y.const if y.is_const else None
            if kind is e.FloorMod and number is not None and _is_power_of_2(number):
                return form_of(self.floor_remainder(a, b, "i64", number, 1))
            q = self.floor_quotient(a, b, "i64", number, 1)
            if kind is e.FloorDiv:
                out = q
            else:
                m = self.out.pure(f"mul nsw i64 {q}, {b}", q, b)
                out = self.out.pure(f"sub nsw i64 {a}, {m}", a, m)
        return form_of(out)

    def _by_depth(self, form: Affine) -> list[tuple[str, int]]:
        """The values and coefficients of a form, those of outer loops first."""
        terms = form.terms.values()
        if len(terms) < 2:
            return list(terms)
        depth = self.out.depth
        return sorted(terms, key=lambda t: depth(t[0]))

    def i64(self, form: Affine) -> str:
        """A form as one i64 value."""
        const, total = form.const, ""
        for v, c in self._by_depth(form):
            part = v if c == 1 else self.out.pure(f"mul nsw i64 {v}, {c}", v)
            total = (
                part if not total else self.out.pure(f"add nsw i64 {total}, {part}", total, part)
            )
        if not total:
            return str(const)
        return total if not const else self.out.pure(f"add nsw i64 {total}, {const}", total)

    def pointer(self, buffer: Buffer, index: Affine) -> str:
        """The address of an element."""
        p = self.pointers[id(buffer)]
        element = ty.memory_type(buffer.dtype)
        const = index.const
        for v, c in self._by_depth(index):
            step = v if c == 1 else self.out.pure(f"mul nsw i64 {v}, {c}", v)
            p = self.out.pure(f"getelementptr {element}, ptr {p}, i64 {step}", p, step)
        return self.out.pure(f"getelementptr {element}, ptr {p}, i64 {const}", p) if const else p

    def is_index(self, n: e.PrimExpr) -> bool:
        """True where a scalar integer expression is made of loop variables alone."""
        if dt.lanes(n.dtype) > 1 or n.dtype not in ("int32", "int64"):
            return False
        kind = type(n)
        if kind in (e.Var, e.SizeVar):
            return n in self.env
        if kind is e.IntImm:
            return True
        if kind in (e.Add, e.Sub, *_LINEAR_ATOMS):
            return self.is_index(n.a) and self.is_index(n.b)  # type: ignore[attr-defined]
        return False

    def index_value(self, n: e.PrimExpr) -> str:
        value = self.i64(self.linear(n))
        if is_number(value) or n.dtype == "int64":
            return value
        return self.out.pure(f"trunc i64 {value} to {ty.type_of(n.dtype)}", value)

    def floor_quotient(self, a: str, b: str, kind: str, number: int | None, lanes: int) -> str:
        if number is not None and _is_power_of_2(number):
            shift = str(number.bit_length() - 1)
            if lanes > 1:
                shift = ty.splat(shift, kind.split(" x ")[1].rstrip(">"), lanes)
            return self.out.pure(f"ashr {kind} {a}, {shift}", a)
        q = self.divided("sdiv", a, b, kind, number, lanes)
        r = self.divided("srem", a, b, kind, number, lanes)
        mixed = self.out.pure(f"xor {kind} {r}, {b}", r, b)
        zero = "zeroinitializer" if lanes > 1 else "0"
        bit = f"<{lanes} x i1>" if lanes > 1 else "i1"
        signs = self.out.pure(f"icmp slt {kind} {mixed}, {zero}", mixed)
        some = self.out.pure(f"icmp ne {kind} {r}, {zero}", r)
        less = self.out.pure(f"and {bit} {signs}, {some}", signs, some)
        one = self.out.pure(f"sext {bit} {less} to {kind}", less)
        return self.out.pure(f"add {kind} {q}, {one}", q, one)

    def floor_remainder(self, a: str, b: str, kind: str, number: int | None, lanes: int) -> str:
        """The remainder of :meth:`floor_quotient`; 0 where the divisor is 0."""
        if number is not None and _is_power_of_2(number):
            mask = str(number - 1)
            if lanes > 1:
                mask = ty.splat(mask, kind.split(" x ")[1].rstrip(">"), lanes)
            return self.out.pure(f"and {kind} {a}, {mask}", a)
        r = self.divided("srem", a, b, kind, number, lanes)
        zero = "zeroinitializer" if lanes > 1 else "0"
        bit = f"<{lanes} x i1>" if lanes > 1 else "i1"
        mixed = self.out.pure(f"xor {kind} {r}, {b}", r, b)
        signs = self.out.pure(f"icmp slt {kind} {mixed}, {zero}", mixed)
        some = self.out.pure(f"icmp ne {kind} {r}, {zero}", r)
        differ = self.out.pure(f"and {bit} {signs}, {some}", signs, some)
        more = self.out.pure(f"select {bit} {differ}, {kind} {b}, {kind} {zero}", differ, b)
        return self.out.pure(f"add {kind} {r}, {more}", r, more)

    def divided(self, op: str, a: str, b: str, kind: str, number: int | None, lanes: int) -> str:
        """``sdiv``, ``udiv``, ``srem`` or ``urem`` that never traps; ``number`` is b if known.

        A divisor of 0 or -1 is replaced by 1, and the quotient chosen after: 0, or -a. The
        remainder by 1 is 0, which is what is wanted.
        """
        if number is not None and number not in (0, -1):
            return self.out.pure(f"{op} {kind} {a}, {b}", a, b)
        bit = f"<{lanes} x i1>" if lanes > 1 else "i1"
        scalar = kind.split(" x ")[-1].rstrip(">")

        def number_of(n: int) -> str:
            return str(n) if lanes == 1 else f"splat ({scalar} {n})"

        def choose(c: str, x: str, y: str) -> str:
            return self.out.pure(f"select {bit} {c}, {kind} {x}, {kind} {y}", c, x, y)

        zero = bad = self.out.pure(f"icmp eq {kind} {b}, {number_of(0)}", b)
        minus = ""
        if op[0] == "s":
            minus = self.out.pure(f"icmp eq {kind} {b}, {number_of(-1)}", b)
            bad = self.out.pure(f"or {bit} {zero}, {minus}", zero, minus)
        safe = choose(bad, number_of(1), b)
        out = self.out.pure(f"{op} {kind} {a}, {safe}", a, safe)
        if op.endswith("rem"):
            return out
        if minus:
            out = choose(minus, self.out.pure(f"sub {kind} {number_of(0)}, {a}", a), out)
        return choose(zero, number_of(0), out)

    # loads

    def load(self, n: e.BufferLoad) -> str:
        index, lanes = n.indices[0], dt.lanes(n.dtype)
        if lanes == 1:
            p = self.pointer(n.buffer, self.linear(index))
            raw = self._read(n.buffer, n.dtype, p)
        elif isinstance(index, e.Ramp) and index.stride == 1:
            p = self.pointer(n.buffer, self.linear(index.base))
            raw = self._read_vector(n, p)
        else:
            return self._gather(n, index)
        if dt.is_bool(n.dtype):
            zero = "zeroinitializer" if lanes > 1 else "0"
            return self.out.pure(f"icmp ne {ty.memory_type(n.dtype)} {raw}, {zero}", raw)
        return raw

    def _read(self, buffer: Buffer, dtype: str, p: str) -> str:
        size = dt.itemsize(dtype)
        return self.out.load(
            f"load {ty.memory_type(dtype)}, ptr {p}, align {size}", self.pointers[id(buffer)]
        )

    def _read_vector(self, n: e.BufferLoad, p: str) -> str:
        if n.mask is None:
            return self._read(n.buffer, n.dtype, p)
        mask = self.value(n.mask)
        kind, bit = ty.memory_type(n.dtype), ty.type_of(n.mask.dtype)
        name = f"@llvm.masked.load.{ty.suffix(_in_memory(n.dtype))}.p0"
        self.declare(f"declare {kind} {name}(ptr, i32, {bit}, {kind})")
        size = dt.itemsize(n.dtype)
        text = f"call {kind} {name}(ptr {p}, i32 {size}, {bit} {mask}, {kind} zeroinitializer)"
        return self.out.load(text, self.pointers[id(n.buffer)])

    def lane_indices(self, index: e.PrimExpr) -> list[Affine]:
        """The index of each lane."""
        lanes = dt.lanes(index.dtype)
        if isinstance(index, e.Ramp):
            base = self.linear(index.base)
            return [base.shifted(k * index.stride) for k in range(lanes)]
        v, kind = self.value(index), ty.type_of(index.dtype)
        out: list[Affine] = []
        for k in range(lanes):
            one = self.out.pure(f"extractelement {kind} {v}, i64 {k}", v)
            if dt.bits(index.dtype) < 64:
                one = self.out.pure(f"sext {ty.type_of(dt.element(index.dtype))} {one} to i64", one)
            out.append(form_of(one))
        return out

    def _nowhere(self, kind: str) -> str:
        """A place on the stack that may be read and means nothing."""
        name = f"%nowhere.{kind}"
        line = f"  {name} = alloca {kind}"
        if line not in self.out.allocas:
            self.out.allocas.append(line)
        return name

    def _gather(self, n: e.BufferLoad, index: e.PrimExpr) -> str:
        name, lanes = dt.split(n.dtype)
        mask = None if n.mask is None else self.value(n.mask)
        scalar, vector = ty.memory_type(name), ty.memory_type(n.dtype)
        out = "poison"
        for k, lin in enumerate(self.lane_indices(index)):
            p = self.pointer(n.buffer, lin)
            if mask is not None:  # a lane that is off reads a place of its own
                bit = self.out.pure(f"extractelement <{lanes} x i1> {mask}, i64 {k}", mask)
                p = self.out.pure(f"select i1 {bit}, ptr {p}, ptr {self._nowhere(scalar)}", bit, p)
            v = self._read(n.buffer, name, p)
            out = self.out.pure(f"insertelement {vector} {out}, {scalar} {v}, i64 {k}", out, v)
        if mask is not None:
            out = self.out.pure(
                f"select <{lanes} x i1> {mask}, {vector} {out}, {vector} zeroinitializer", mask, out
            )
        if dt.is_bool(name):
            return self.out.pure(f"icmp ne {vector} {out}, zeroinitializer", out)
        return out


def form_of(value: str) -> Affine:
    """An i64 value as a form: a number, or a name."""
    return Affine.constant(int(value)) if is_number(value) else Affine.atom(value, value)


def _in_memory(dtype: str) -> str:
    name, lanes = dt.split(dtype)
    return dt.vector("int8", lanes) if name == "bool" else dtype


def _is_power_of_2(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def is_number(value: str) -> bool:
    return value.lstrip("-").isdigit()
