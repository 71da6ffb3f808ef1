"""Accesses of a kernel to memory that threads share, and which of them meet, for ThreadSync.

An index names its thread where it is a number of mixed radix among whose digits all thread
variables are: ``threadIdx.y * 64 + i * 8 + threadIdx.x`` with ``i < 8`` and ``threadIdx.x < 8``.
Two accesses with such indices, of the same digits, meet in one thread only, whatever the loops.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.arith.radix import is_mixed_radix
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, Call, IntImm, PrimExpr, Ramp, Var, int_value
from whet.compiler.tir.printer import Printer
from whet.compiler.tir.stmt import (
    SHARED_OFFSET,
    AttrStmt,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
)
from whet.compiler.tir.visit.rewrite import nodes_of, variables

SECOND_HALF = "double_buffer_write"
"""Key of an attribute around stores into the half of a buffer that this step of a loop does not
read; its value is the loop's variable."""

Whose = tuple[Var, bool]
_ANY = "*"  # an index that is another one each time


@dataclass(frozen=True)
class Access:
    """One access to memory that threads share.

    Attributes:
        buffer: what is accessed; views of one memory are one.
        index: the index as text, or ``"*"``: another one each time.
        used: the variables of the index.
        write: whether it writes.
        text: the index as it is written.
        digits: the index in mixed radix, None where it is none.
        half: the loop for whose next step it stores, where it does.
        alone: the threads of which only one comes here, and which.
    """

    buffer: Buffer
    index: str
    used: frozenset[Var]
    write: bool
    text: str
    digits: Digits | None
    half: Var | None
    alone: frozenset[tuple[Var, int]] = frozenset()

    def each_time(self, var: Var | None) -> Access:
        """The access in all steps of a loop over ``var``, None for a ``while``."""
        half = None if self.half is var else self.half
        index = _ANY if var is None or var in self.used else self.index
        same = half is self.half and index == self.index
        return self if same else replace(self, index=index, half=half)

    def what(self) -> str:
        """The access in words, for an error."""
        return f"{self.buffer.name}[{self.text}] is {'written' if self.write else 'read'}"


@dataclass(frozen=True)
class Digits:
    """``const + symbols + the sum of factor * digit``.

    Attributes:
        const: the number in it.
        symbols: what is the same for the whole block.
        digits: (factor, how many values, whose), each from 0 on. Whose: the thread variable and
            whether it counts upwards, None for a loop.
    """

    const: int
    symbols: Affine
    digits: tuple[tuple[int, int | None, Whose | None], ...]

    def reach(self) -> int | None:
        """The largest sum of the digits, None where it is not known."""
        if any(count is None for _, count, _ in self.digits):
            return None
        return sum(factor * (count - 1) for factor, count, _ in self.digits if count is not None)


class Accesses:
    """Finds the accesses of statements, and tells whether two of them meet."""

    def __init__(self, body: Stmt) -> None:
        self.printer = Printer()
        self.analyzer = Analyzer()
        self.block: dict[Var, int | None] = {}  # variables that tell threads apart -> how many
        self.loops: dict[Var, tuple[int, int | None]] = {}  # variable -> begin, steps
        self.varying: set[Var] = set()  # other variables that the body defines
        self.alone: frozenset[tuple[Var, int]] = frozenset()  # as an Access has it
        self.offsets: dict[Var, int] = {}
        self.half: Var | None = None
        self._met: dict[tuple[int, int], bool] = {}
        self._kept: list[Access] = []
        self._spans: dict[Buffer, tuple[int, int]] = {}  # first byte, end
        # the memory that the kernel stores to
        self.written = {n.buffer.data for n in nodes_of(body, BufferStore)}

    def enter(self, n: Stmt) -> None:
        """Learn what holds inside a statement."""
        if isinstance(n, AttrStmt) and n.key == "thread_extent":
            count = int_value(n.value)
            if "threadIdx" in n.node.name and count != 1:
                self.block[n.node] = count
            self.analyzer.bind_loop(n.node, IntImm("int32", 0), n.value)
        elif isinstance(n, AttrStmt) and n.key == SHARED_OFFSET:
            # others stand behind all buffers of constant size
            if isinstance(n.value, IntImm) and _size(n.node) is not None:
                self.offsets[n.node.data] = n.value.value
        elif isinstance(n, AttrStmt) and n.key == SECOND_HALF:
            assert isinstance(n.value, Var)
            self.half = n.value
        elif isinstance(n, For):
            self.analyzer.bind_loop(n.var, n.min, n.extent)
            if isinstance(n.min, IntImm):
                self.loops[n.var] = n.min.value, int_value(n.extent)
            else:
                self.varying.add(n.var)
        elif isinstance(n, LetStmt):
            self.varying.add(n.var)

    def leave(self, n: Stmt) -> None:
        """Forget what held inside a statement."""
        if isinstance(n, AttrStmt) and n.key == SECOND_HALF:
            self.half = None

    def of(self, node: Stmt, skip: Stmt | None = None) -> list[Access]:
        """The accesses of a statement, without those below ``skip``."""
        found: list[Access] = []
        stack: list[Any] = [node]
        if isinstance(node, IfThenElse):
            stack = [node.condition]
        while stack:
            n = stack.pop()
            if n is skip and n is not node:
                continue
            if isinstance(n, (BufferLoad, BufferStore)) and self._counts(n, node):
                found.append(self._access(n))
            stack.extend(n.parts)
        return found

    def _counts(self, n: BufferLoad | BufferStore, around: Stmt) -> bool:
        """True if other threads of the block may see an access."""
        if n.buffer.storage_scope.startswith("shared"):
            return True
        if n.buffer.storage_scope != "global" or n.buffer.data not in self.written:
            return False
        # `C[i] = C[i] + x`: the element is this thread's, or UnifyThreads had refused
        own = isinstance(around, BufferStore) and around.buffer is n.buffer and n is not around
        return not (own and self._text(n) == self._text(around))  # type: ignore[arg-type]

    def _text(self, n: BufferLoad | BufferStore) -> str:
        return ", ".join(self.printer.expr(i) for i in n.indices)

    def _access(self, n: BufferLoad | BufferStore) -> Access:
        used = frozenset(v for i in n.indices for v in variables(i))
        at = self._text(n)
        index = at if self.block.keys() <= used | {v for v, _ in self.alone} else _ANY
        write = isinstance(n, BufferStore)
        digits = self._digits(n.indices[0]) if len(n.indices) == 1 else None
        half = self.half if write else None
        return Access(n.buffer, index, used, write, at, digits, half, self.alone)

    # whether two accesses meet

    def conflict(self, a: Access, b: Access) -> bool:
        """True if two accesses, one after the other, may be two threads' to one place."""
        if not (a.write or b.write):
            return False
        if a.buffer.data is not b.buffer.data:
            return self._overlap(a.buffer, b.buffer)
        if (a.half is None) != (b.half is None):
            return False  # the halves of a double buffer
        if a.write and b.write and a.text == b.text:
            return False  # a stage's steps write an element each
        if a.buffer.storage_scope == "global" and a.write and b.write:
            return False  # all who write an element write the same
        if a.buffer.storage_scope == "global" and a.text == b.text and self._by_one(a, b):
            return False
        if a.index == b.index and a.index != _ANY and self._by_one(a, b):
            return False
        key = id(a), id(b)
        if key not in self._met:
            self._met[key] = not self._one_thread(a.digits, b.digits, a.alone & b.alone)
            self._kept += [a, b]  # an id is a name while its object lives
        return self._met[key]

    def _by_one(self, a: Access, b: Access) -> bool:
        """True if one thread does both, of two accesses at indices that are written the same."""
        named = (a.used & b.used) | {v for v, _ in a.alone & b.alone}
        return self.block.keys() <= named

    def _overlap(self, a: Buffer, b: Buffer) -> bool:
        """True if two shared buffers have bytes in common."""
        if a.data not in self.offsets or b.data not in self.offsets:
            return False
        (first, first_end), (second, second_end) = self._span(a), self._span(b)
        return first < second_end and second < first_end

    def _span(self, b: Buffer) -> tuple[int, int]:
        """Where in the arena a shared buffer is; unrolled kernels ask for each pair of accesses."""
        if b not in self._spans:
            begin = self.offsets[b.data]
            self._spans[b] = begin, begin + (_size(b) or 0)
        return self._spans[b]

    def _one_thread(
        self, a: Digits | None, b: Digits | None, alone: frozenset[tuple[Var, int]]
    ) -> bool:
        """True if equal indices mean the same thread, or no two indices are equal."""
        if a is None or b is None or a.symbols.key != b.symbols.key:
            return False
        if _apart(a, b) or _apart(b, a):
            return True
        if a.const != b.const:
            return False
        merged: dict[int, tuple[int | None, Whose | None]] = {}
        for factor, count, whose in (*a.digits, *b.digits):
            known, other = merged.get(factor, (1, whose))
            if not _is_same(whose, other):
                return False
            most = None if known is None or count is None else max(known, count)
            merged[factor] = most, whose
        both = [{w[0] for _, _, w in x.digits if w is not None} for x in (a, b)]
        if any(not self.block.keys() <= found | {v for v, _ in alone} for found in both):
            return False
        return is_mixed_radix((factor, count) for factor, (count, _) in merged.items())

    def _digits(self, index: PrimExpr) -> Digits | None:
        ramp = index if isinstance(index, Ramp) else None
        form = self.analyzer.affine(index if ramp is None else ramp.base)
        const, symbols = form.const, form
        found: dict[int, tuple[int | None, Whose | None]] = {}

        def add(factor: int, count: int | None, whose: Whose | None) -> bool:
            if factor in found:
                known, other = found[factor]
                if whose is not None or other is not None or known is None or count is None:
                    return False
                count = known + count - 1
            found[factor] = count, whose
            return True

        for key, (atom, factor) in form.terms.items():
            place = self._place(atom)
            if place is None:
                if self._varies(atom):
                    return None
                continue
            symbols = symbols.without(key)
            begin, count, thread = place
            if factor < 0 and count is None:
                return None
            const += factor * (begin if factor > 0 else begin + (count or 0) - 1)
            if not add(abs(factor), count, None if thread is None else (thread, factor > 0)):
                return None
        if ramp is not None and (ramp.stride < 1 or not add(ramp.stride, ramp.lanes, None)):
            return None
        digits = tuple((f, c, t) for f, (c, t) in found.items())
        return Digits(const, Affine(symbols.terms, 0), digits)

    def _place(self, atom: PrimExpr) -> tuple[int, int | None, Var | None] | None:
        if atom in self.block:
            return 0, self.block[atom], atom  # type: ignore[index,return-value]
        if atom in self.loops:
            begin, steps = self.loops[atom]  # type: ignore[index]
            return begin, steps, None
        return None

    def _varies(self, atom: PrimExpr) -> bool:
        """True if an atom's value may differ between two accesses of a block."""
        inside = self.block.keys() | self.loops.keys() | self.varying
        return not inside.isdisjoint(variables(atom)) or bool(nodes_of(atom, BufferLoad, Call))


def _size(b: Buffer) -> int | None:
    """Its bytes, None where an argument gives them."""
    (count,) = b.get_flattened_buffer().shape
    return dt.itemsize(b.dtype) * count.value if isinstance(count, IntImm) else None


def _apart(a: Digits, b: Digits) -> bool:
    """True if all indices of one are below those of the other."""
    reach = a.reach()
    return reach is not None and a.const + reach < b.const


def _is_same(a: Whose | None, b: Whose | None) -> bool:
    if a is None or b is None:
        return a is b
    return a[0] is b[0] and a[1] == b[1]
