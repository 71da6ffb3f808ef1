"""Stores: of scalars, of vectors, through a mask, lane by lane, and past the caches.

A vector is stored past the caches (``store_nontemporal``) where its address is a multiple of its
register's size, or of 16 bytes: numpy aligns arrays to no more than that, and a longer register
goes in parts of 16 then, which fill a line of memory as well. Only what makes the address odd is
looked at, so that the question is asked once before the loops; an innermost row of 1001 floats asks
it once a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whet.compiler.codegen.llvm import types as ty
from whet.compiler.codegen.llvm.addresses import Linear
from whet.compiler.codegen.llvm.memory import Memory
from whet.compiler.target.machine.processors import architecture_of
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import Buffer

if TYPE_CHECKING:
    from whet.compiler.codegen.llvm.kernel import ModuleText

# What a vector that is stored past the caches is aligned to at least, in bytes.
_ALIGNED = 16
_X86 = ("x86_64", "i686")


class Stores(Memory):
    """Generates stores into a function.

    Attributes:
        past_caches: id of each buffer whose vectors are stored past the caches -> what its memory
            must be aligned to, in bytes.
    """

    def __init__(self, module: ModuleText, name: str) -> None:
        super().__init__(module, name)
        self.past_caches: dict[int, int] = {}
        self._unfenced = False

    def attribute(self, n: s.AttrStmt) -> None:
        """The statement inside an attribute, with what the attribute says of it."""
        before = self.past_caches
        if n.key == s.NONTEMPORAL and isinstance(n.node, Buffer):
            place = f"  {self.pointers[id(n.node)]} = alloca "
            if not any(line.startswith(place) for line in self.out.allocas):
                whole = n.value.value if isinstance(n.value, e.IntImm) else _ALIGNED
                self.past_caches = {**before, id(n.node): max(whole, _ALIGNED)}
        self.statement(n.body)
        self.past_caches = before

    def fence(self) -> None:
        """Let others see what was stored past the caches, here."""
        if not self._unfenced:
            return
        if architecture_of(str(self.module.target.attrs["mtriple"])) in _X86:
            self.declare("declare void @llvm.x86.sse.sfence()")
            self.out.line("call void @llvm.x86.sse.sfence()")
        else:
            self.out.line("fence release")

    def store(self, n: s.BufferStore) -> None:
        """Generate a store."""
        value, kind = self.value(n.value), ty.type_of(n.value.dtype)
        lanes, index = dt.lanes(n.value.dtype), n.indices[0]
        if dt.is_bool(n.value.dtype):
            memory = ty.memory_type(n.value.dtype)
            value, kind = self.out.pure(f"zext {kind} {value} to {memory}", value), memory
        if lanes == 1 or (isinstance(index, e.Ramp) and index.stride == 1):
            place = self.linear(index.base if isinstance(index, e.Ramp) else index)
            self._store_at(n, place, value, kind)
        else:
            self._scatter(n, value, kind, index)
        self.touch(n.buffer)

    def _store_at(self, n: s.BufferStore, place: Linear, value: str, kind: str) -> None:
        """Store a scalar, or a vector whose elements stand side by side."""
        lanes, size = dt.lanes(n.value.dtype), dt.itemsize(n.buffer.dtype)
        p = self.pointer(n.buffer, place)
        if n.mask is not None:
            mask, bit = self.value(n.mask), ty.type_of(n.mask.dtype)
            short = "int8" if dt.is_bool(n.value.dtype) else dt.element(n.value.dtype)
            name = f"@llvm.masked.store.{ty.suffix(dt.vector(short, lanes))}.p0"
            self.declare(f"declare void {name}({kind}, ptr, i32, {bit})")
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
        self.out.first_of(aligned, self.pointers[id(n.buffer)], [*past, [plain]])

    def _units(self, size: int, whole: int) -> list[int]:
        """The parts in which a vector of ``size`` bytes is stored past the caches, best first."""
        register = min(size & -size, self.module.target.vector_bytes)
        return [register] if whole > _ALIGNED else list(dict.fromkeys((register, _ALIGNED)))

    def _in_parts(
        self, kind: str, value: str, p: str, count: int, size: int, lanes: int
    ) -> list[str]:
        """Lines that store a vector past the caches, ``count`` elements at a time, in order."""
        scalar = kind.split(" x ")[-1].rstrip(">")
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

    def _is_aligned(self, buffer: Buffer, place: Linear, size: int, unit: int) -> str:
        """Whether an element is at a multiple of ``unit`` bytes, by what may make it none."""
        out, (const, terms) = self.out, place
        base = self.pointers[id(buffer)]
        total = out.pure(f"ptrtoint ptr {base} to i64", base)
        odd = {v: c for v, c in terms.items() if c * size % unit}
        for v in sorted(odd, key=out.depth):
            part = out.pure(f"mul i64 {v}, {odd[v] * size % unit}", v)
            total = out.pure(f"add i64 {total}, {part}", total, part)
        if const * size % unit:
            total = out.pure(f"add i64 {total}, {const * size % unit}", total)
        low = out.pure(f"and i64 {total}, {unit - 1}", total)
        whole = self.past_caches[id(buffer)]
        if whole > unit:
            begin = out.pure(f"ptrtoint ptr {base} to i64", base)
            rest = out.pure(f"and i64 {begin}, {whole - 1}", begin)
            low = out.pure(f"or i64 {low}, {rest}", low, rest)
        return out.pure(f"icmp eq i64 {low}, 0", low)

    def _scatter(self, n: s.BufferStore, value: str, kind: str, index: e.PrimExpr) -> None:
        scalar, size = ty.memory_type(dt.element(n.value.dtype)), dt.itemsize(n.buffer.dtype)
        mask = None if n.mask is None else self.value(n.mask)
        for k, lin in enumerate(self.lane_indices(index)):
            p = self.pointer(n.buffer, lin)
            one = self.out.pure(f"extractelement {kind} {value}, i64 {k}", value)
            store = f"store {scalar} {one}, ptr {p}, align {size}"
            if mask is None:
                self.out.line(store)
                continue
            lanes = dt.lanes(n.value.dtype)
            bit = self.out.pure(f"extractelement <{lanes} x i1> {mask}, i64 {k}", mask)
            with self.out.branch(bit):
                self.out.line(store)
