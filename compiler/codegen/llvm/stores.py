"""Stores: of scalars, of vectors, through a mask, lane by lane, and past the caches.

A vector is stored past the caches (``store_nontemporal``) where its address is a multiple of its
register's size, or of 16 bytes: numpy aligns arrays to no more than that, and a longer register
goes in parts of 16 then, which fill a line of memory as well. Only what makes the address odd is
looked at, so that the question is asked once before the loops; an innermost row of 1001 floats asks
it once a row.
"""

from __future__ import annotations

from whet.compiler.arith import Affine
from whet.compiler.codegen.llvm.expressions import Expressions
from whet.compiler.codegen.llvm.text import types as ty
from whet.compiler.target.machine.processors import architecture_of
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import LE, LT, Add, Broadcast, IntImm, PrimExpr, Ramp, Sub
from whet.compiler.tir.stmt import NONTEMPORAL, AttrStmt, BufferStore

# What a vector that is stored past the caches is aligned to at least, in bytes.
_ALIGNED = 16
_X86 = ("x86_64", "i686")
# Registers of so many bytes come with masks that cost nothing; else a masked store takes ten cycles
# (AVX2 on Zen 4) or goes lane by lane.
_CHEAP_MASKS = 64


class Stores:
    """Writes stores into a function.

    Attributes:
        past_caches: id of each buffer whose vectors are stored past the caches -> what its memory
            must be aligned to, in bytes.
    """

    def __init__(self, expressions: Expressions) -> None:
        self.scope, self.out = expressions.scope, expressions.out
        self.target = self.scope.module.target
        self.value, self.indices = expressions.value, expressions.indices
        self.past_caches: dict[int, int] = {}
        self._unfenced = False

    def nontemporal(self, n: AttrStmt) -> dict[int, int]:
        """The buffers that are stored past the caches inside an attribute."""
        if n.key != NONTEMPORAL or not isinstance(n.node, Buffer):
            return self.past_caches
        place = f"  {self.scope.pointers[id(n.node)]} = alloca "
        if any(line.startswith(place) for line in self.out.allocas):
            return self.past_caches
        whole = n.value.value if isinstance(n.value, IntImm) else _ALIGNED
        return {**self.past_caches, id(n.node): max(whole, _ALIGNED)}

    def fence(self) -> None:
        """Let others see what was stored past the caches, here."""
        if not self._unfenced:
            return
        if architecture_of(str(self.target.attrs["mtriple"])) in _X86:
            self.scope.module.declare("declare void @llvm.x86.sse.sfence()")
            self.out.line("call void @llvm.x86.sse.sfence()")
        else:
            self.out.line("fence release")

    def store(self, n: BufferStore) -> None:
        """Generate a store."""
        dtype, index = n.value.dtype, n.indices[0]
        value, kind = self.value(n.value), ty.memory_type(dtype)
        if dt.is_bool(dtype):
            value = self.out.cast("zext", ty.type_of(dtype), value, kind)
        if dt.lanes(dtype) == 1 or (isinstance(index, Ramp) and index.stride == 1):
            place = self.indices.linear(index.base if isinstance(index, Ramp) else index)
            self._store_at(n, place, value, kind)
        else:
            self._scatter(n, value, kind, index)
        self.scope.touch(n.buffer)

    def _store_at(self, n: BufferStore, place: Affine, value: str, kind: str) -> None:
        """Store a scalar, or a vector whose elements stand side by side."""
        lanes, size = dt.lanes(n.value.dtype), dt.itemsize(n.buffer.dtype)
        p = self.indices.pointer(n.buffer, place)
        if n.mask is not None:
            first = self._first_lanes(n.mask)
            if first is not None and self.target.vector_bytes < _CHEAP_MASKS:
                self._store_first(value, kind, p, first, size)
                return
            mask, bit = self.value(n.mask), ty.type_of(n.mask.dtype)
            name = f"@llvm.masked.store.{ty.suffix(ty.in_memory(n.value.dtype))}.p0"
            self.scope.module.declare(f"declare void {name}({kind}, ptr, i32, {bit})")
            self.out.line(f"call void {name}({kind} {value}, ptr {p}, i32 {size}, {bit} {mask})")
            return
        plain = f"store {kind} {value}, ptr {p}, align {size}"
        if id(n.buffer) not in self.past_caches or lanes * size % _ALIGNED:
            self.out.line(plain)
            return
        self._unfenced = True
        units = self._units(lanes * size, self.past_caches[id(n.buffer)])
        aligned = [self._is_aligned(n.buffer, place, size, unit) for unit in units]
        past = [self._in_parts(kind, value, p, unit // size, size, lanes) for unit in units]
        self.out.first_of(aligned, self.scope.pointers[id(n.buffer)], [*past, [plain]])

    def _first_lanes(self, mask: PrimExpr) -> int | None:
        """How many lanes from the first one on a mask lets pass, if it says so by itself."""
        if not isinstance(mask, (LT, LE)) or not dt.is_int(dt.element(mask.a.dtype)):
            return None
        a, b = self._forms(mask.a), self._forms(mask.b)
        over = [x - y for x, y in zip(a, b)]
        if not over or not all(form.is_const for form in over):
            return None
        on = [form.const < (1 if isinstance(mask, LE) else 0) for form in over]
        return sum(on) if on == sorted(on, reverse=True) else None

    def _forms(self, n: PrimExpr) -> list[Affine]:
        """Each lane of a sum of places that all lanes share and of ramps; empty for others."""
        if isinstance(n, Broadcast):
            return [self.indices.linear(n.value)] * dt.lanes(n.dtype)
        if isinstance(n, Ramp):
            return self.indices.of_lanes(n)
        if isinstance(n, (Add, Sub)):
            a, b = self._forms(n.a), self._forms(n.b)
            return [x + y if isinstance(n, Add) else x - y for x, y in zip(a, b)]
        return []

    def _store_first(self, value: str, kind: str, p: str, count: int, size: int) -> None:
        """Store the first lanes of a vector, in ever smaller powers of two."""
        scalar, begin = ty.scalar_of(kind), 0
        while begin < count:
            lanes = 1 << ((count - begin).bit_length() - 1)
            if lanes == 1:
                part, unit = self.out.extract(kind, value, begin), scalar
            else:
                chosen = ", ".join(f"i32 {k}" for k in range(begin, begin + lanes))
                part, unit = self.out.fresh("part"), f"<{lanes} x {scalar}>"
                self.out.line(
                    f"{part} = shufflevector {kind} {value}, {kind} poison, "
                    f"<{lanes} x i32> <{chosen}>"
                )
            at = self.out.here(f"getelementptr {scalar}, ptr {p}, i64 {begin}")
            self.out.line(f"store {unit} {part}, ptr {at}, align {size}")
            begin += lanes

    def _units(self, size: int, whole: int) -> list[int]:
        """The parts in which a vector of ``size`` bytes is stored past the caches, best first."""
        register = min(size & -size, self.target.vector_bytes)
        return [register] if whole > _ALIGNED else list(dict.fromkeys((register, _ALIGNED)))

    def _in_parts(
        self, kind: str, value: str, p: str, count: int, size: int, lanes: int
    ) -> list[str]:
        """Lines that store a vector past the caches, ``count`` elements at a time, in order."""
        scalar = ty.scalar_of(kind)
        lines: list[str] = []
        for begin in range(0, lanes, count):
            part, at = value, p
            if lanes > count:
                part, at = self.out.fresh("part"), self.out.fresh("at")
                chosen = ", ".join(f"i32 {k}" for k in range(begin, begin + count))
                lines += [
                    f"{part} = shufflevector {kind} {value}, {kind} poison, "
                    f"<{count} x i32> <{chosen}>",
                    f"{at} = getelementptr {scalar}, ptr {p}, i64 {begin}",
                ]
            vector, unit = f"<{count} x {scalar}>", count * size
            lines.append(f"store {vector} {part}, ptr {at}, align {unit}, !nontemporal !{{i32 1}}")
        return lines

    def _is_aligned(self, buffer: Buffer, place: Affine, size: int, unit: int) -> str:
        """True where an element is at a multiple of ``unit`` bytes, by what may make it none."""
        out = self.out
        base = self.scope.pointers[id(buffer)]
        begin = total = out.cast("ptrtoint", "ptr", base, "i64")
        odd = {v: c for v, c in place.terms.values() if c * size % unit}
        for v in sorted(odd, key=out.depth):
            part = out.op("mul", "i64", v, str(odd[v] * size % unit))
            total = out.op("add", "i64", total, part)
        if place.const * size % unit:
            total = out.op("add", "i64", total, str(place.const * size % unit))
        low = out.op("and", "i64", total, str(unit - 1))
        whole = self.past_caches[id(buffer)]
        if whole > unit:
            low = out.op("or", "i64", low, out.op("and", "i64", begin, str(whole - 1)))
        return out.op("icmp eq", "i64", low, "0")

    def _scatter(self, n: BufferStore, value: str, kind: str, index: PrimExpr) -> None:
        scalar, size = ty.scalar_of(kind), dt.itemsize(n.buffer.dtype)
        mask = "" if n.mask is None else self.value(n.mask)
        for k, form in enumerate(self.indices.of_lanes(index)):
            p = self.indices.pointer(n.buffer, form)
            one = self.out.extract(kind, value, k)
            store = f"store {scalar} {one}, ptr {p}, align {size}"
            if not mask:
                self.out.line(store)
                continue
            with self.out.branch(self.out.extract(ty.condition_type(kind), mask, k)):
                self.out.line(store)
