"""Vectors as text: memory moves whole vectors, arithmetic goes lane by lane.

A block of lanes is written together. First its loads, each as one or a few vectors in variables;
those that run only under a condition stand in an ``if`` where it holds for all lanes or for none.
Then the lanes, each a scalar expression; and then the store. What cannot be moved whole, an
unaligned address or a register array, is read and written lane by lane.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from whet.compiler.arith.keys import structural_key
from whet.compiler.codegen.c.dialect import Dialect
from whet.compiler.codegen.c.indices import from_pointer
from whet.compiler.codegen.c.precedence import Text
from whet.compiler.codegen.c.scope import Held
from whet.compiler.codegen.c.statements import Statements, overlaps, stored_nodes
from whet.compiler.codegen.cuda.dot_product import PACK
from whet.compiler.codegen.cuda.lanes import lane_form, uniform
from whet.compiler.codegen.cuda.vectors import (
    block_lanes,
    can_part,
    part,
    piece_lanes,
    scattered,
    vector_loads,
    vector_type,
)
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    Add,
    And,
    Broadcast,
    BufferLoad,
    Call,
    CmpOp,
    IntImm,
    Let,
    Or,
    PrimExpr,
    Select,
    Shuffle,
)
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import BufferStore
from whet.compiler.tir.visit.rewrite import nodes_of

_WORD = 4  # bytes


class VectorStores:
    """Writes stores of vectors for CUDA; gives the statements and expressions their vector rules.

    Args:
        statements: of the kernel.

    Attributes:
        scattered: what goes one by one for want of alignment, e.g. ``"stores to C"``.
    """

    def __init__(self, statements: Statements) -> None:
        self.scope = scope = statements.scope
        self.statements, self.expressions = statements, statements.expressions
        self.d, self.names, self.line = scope.d, scope.names, scope.line
        self.analyzer = scope.analyzer
        self.value, self.index = self.expressions.value, self.expressions.index
        self.scattered: set[str] = set()
        # conditions of branches around, and of lanes that are stored
        self._given: list[Hashable] = []
        self._by_lanes = False  # whether each lane that is stored reads for itself
        self._read_as: dict[str, str] = {}  # text of a load -> the variable that holds it
        statements.store_vector = self.store
        self.expressions.rules[BufferLoad] = self._load

    # blocks of lanes

    def store(self, n: BufferStore, lanes: int) -> None:
        """A store of several lanes, in blocks that are written together."""
        block = min(lanes, block_lanes(n.value, n.buffer.dtype))
        if block == lanes:
            self._group(n, lanes)
        elif lanes % block or overlaps(n) or not all(map(can_part, stored_nodes(n))):
            self.statements.store_lanes(n, lanes)
        else:
            for first in range(0, lanes, block):
                value, *at = (part(x, first, block) for x in (n.value, *n.indices))
                mask = None if n.mask is None else part(n.mask, first, block)
                self._group(BufferStore(n.buffer, value, tuple(at), mask), block)

    def _group(self, n: BufferStore, lanes: int) -> None:
        """A store whose lanes are written together."""
        self.expressions.begin(n.value)
        test, free = self._condition(n.mask), replace(n, mask=None)
        if isinstance(test, bool):
            self._open_group(free if test else n, lanes)
            return
        self.line(f"if ({self._scalar(test)}) {{")
        with self._inside(test):
            self._open_group(free, lanes)
        self.line("}")

    def _open_group(self, n: BufferStore, lanes: int) -> None:
        self.scattered.update(scattered(n, self.analyzer))
        piece = 1 if n.mask is not None else self._piece(n)
        if piece > 1 and self._moved(n, piece):
            return
        # where a lane reads what another one writes, lanes that are not stored are read, too
        known = None if n.mask is None or overlaps(n) else structural_key(n.mask)
        with self._fresh_reads():
            self._by_lanes = known is not None
            self._hold(n.value)
            self._by_lanes = False
            if piece > 1:
                self._store_pieces(n, lanes, piece)
                return
            self._given.append(known)
            self.statements.store_lanes(n, lanes)
            self._given.pop()

    def _moved(self, n: BufferStore, piece: int) -> bool:
        """Write a mere copy; whether it was one."""
        v = n.value
        if not isinstance(v, BufferLoad) or self._condition(v.mask) is not True:
            return False
        lanes = dt.lanes(v.dtype)
        if lanes != piece or self._piece(v) != piece:
            return False
        self._store_piece(n, 0, piece, self._loaded(v, 0, piece))
        return True

    def _store_pieces(self, n: BufferStore, lanes: int, piece: int) -> None:
        later = lanes > piece and overlaps(n)
        pieces: Iterable[tuple[int, str]] = (
            (first, self._whole(n.value, first, piece)) for first in range(0, lanes, piece)
        )
        for first, name in list(pieces) if later else pieces:
            self._store_piece(n, first, piece, name)

    def _whole(self, value: PrimExpr, first: int, piece: int) -> str:
        """The variable that holds some lanes of a value."""
        held = self.scope.held.get(id(value))
        if held is not None and held.piece == piece:
            return held.names[first // piece]
        name = self.names.fresh("v")
        self.line(f"{vector_type(value.dtype, piece)} {name};")
        self._fill(name, value, first, piece)
        return name

    def _fill(self, name: str, value: PrimExpr, first: int, count: int) -> None:
        """Set the lanes of a variable."""
        for k in range(count):
            with self.scope.at_lane(first + k):
                text = self.value(value)
                self.line(f"{name}[{k}] = {text};")

    def _store_piece(self, n: BufferStore, first: int, piece: int, text: str) -> None:
        kind = vector_type(n.buffer.dtype, piece)
        self.line(f"whet_store<{kind}>({self._place(n, first)}, {text});")

    # reading

    def _load(self, n: BufferLoad) -> Text:
        if n.mask is not None and structural_key(n.mask) in self._given:
            n = replace(n, mask=None)  # a lane that is stored is read
        return self.expressions.load(n)

    def _hold(self, n: PrimExpr) -> None:
        """Write what a value reads into variables, as far as it can be read as vectors."""
        if dt.lanes(n.dtype) == 1 or id(n) in self.scope.held or isinstance(n, (Let, Shuffle)):
            return
        if isinstance(n, BufferLoad):
            self._hold_load(n)
            return
        if isinstance(n, Broadcast):
            self._hold_scalar(n)
            return
        parts = n.parts
        if isinstance(n, Select) or (isinstance(n, Call) and n.op == "if_then_else"):
            if any(map(vector_loads, parts[1:])) and self._hold_choice(n):
                return
            if isinstance(n, Call):
                parts = parts[:1]  # the others are read in lanes that take them alone
        elif isinstance(n, (And, Or)):
            parts = parts[:1]  # the second is asked for where the first does not decide
        for x in parts:
            self._hold(x)
        if isinstance(n, Call) and n.op == PACK:
            self._hold_words(n)

    def _hold_words(self, n: Call) -> None:
        """Words of bytes that lie side by side from word to word: four of them by a few moves."""
        rows = [self.scope.held.get(id(x)) for x in n.args]
        if dt.lanes(n.dtype) != _WORD or any(x is None or x.piece != _WORD for x in rows):
            return
        name = self.names.fresh("transposed")
        words = vector_type(n.dtype, _WORD)
        given = ", ".join(x.names[0] for x in rows if x is not None)
        self.line(f"const {words} {name} = whet_transpose4x4<{words}>({given});")
        self.scope.held[id(n)] = Held(n, (name,), _WORD)

    def _hold_scalar(self, n: Broadcast) -> None:
        """A value of all lanes that is worth a variable."""
        if not nodes_of(n.value, BufferLoad):
            return
        name = self.names.fresh("same")
        self.line(f"const {self.d.value_type(n.dtype)} {name} = {self._scalar(n.value)};")
        self.scope.held[id(n)] = Held(n, (name,), 0)

    def _hold_load(self, n: BufferLoad) -> None:
        piece, test = self._piece(n), self._condition(n.mask)
        if piece == 1 or test is False:
            return
        if self._by_lanes and n.mask is None and n.buffer.storage_scope != "global":
            return  # nothing may have written the lanes that are not stored
        firsts = range(0, dt.lanes(n.dtype), piece)
        if test is True:
            names = tuple(self._read(n, first, piece) for first in firsts)
        else:
            names = tuple(self.names.fresh(f"{n.buffer.name}_v") for _ in firsts)
            for name in names:
                self.line(f"{vector_type(n.buffer.dtype, piece)} {name} = {{}};")
            self.line(f"if ({self._scalar(test)}) {{")
            for name, first in zip(names, firsts):
                self.line(f"    {name} = {self._loaded(n, first, piece)};")
            self.line("}")
        self.scope.held[id(n)] = Held(n, names, piece)

    def _read(self, n: BufferLoad, first: int, piece: int) -> str:
        """The variable that holds a vector in memory; one for equal loads of a group."""
        text = self._loaded(n, first, piece)
        if text not in self._read_as:
            name = self._read_as[text] = self.names.fresh(f"{n.buffer.name}_v")
            self.line(f"const {vector_type(n.buffer.dtype, piece)} {name} = {text};")
        return self._read_as[text]

    def _hold_choice(self, n: Select | Call) -> bool:
        """Write one of two vectors; False where the lanes may choose differently."""
        condition, yes, no = n.parts
        test, lanes = self._condition(condition), dt.lanes(n.dtype)
        if isinstance(test, bool) or lanes & (lanes - 1):
            return False
        name = self.names.fresh("chosen")
        self.line(f"{_variable(dt.element(n.dtype), lanes, self.d)} {name};")
        self.line(f"if ({self._scalar(test)}) {{")
        with self._inside(test):
            self._take(name, yes, lanes)
        self.line("} else {")
        with self._inside(ops.logical_not(test)):
            self._take(name, no, lanes)
        self.line("}")
        self.scope.held[id(n)] = Held(n, (name,), lanes)
        return True

    def _take(self, name: str, value: PrimExpr, lanes: int) -> None:
        """A branch's value into the variable."""
        with self._fresh_reads():
            free = isinstance(value, BufferLoad) and self._condition(value.mask) is True
            if free and self._piece(value) == lanes:  # type: ignore[arg-type]
                self.line(f"{name} = {self._loaded(value, 0, lanes)};")  # type: ignore[arg-type]
                return
            self._hold(value)
            self._fill(name, value, 0, lanes)

    def _loaded(self, n: BufferLoad, first: int, piece: int) -> str:
        return f"whet_load<{vector_type(n.buffer.dtype, piece)}>({self._place(n, first)})"

    # small questions

    def _piece(self, n: BufferLoad | BufferStore) -> int:
        """Elements that go at once; 1 where they go one by one."""
        if len(n.indices) != 1 or n.buffer.strides:
            return 1
        return piece_lanes(n.buffer, n.indices[0], self.analyzer)

    def _place(self, n: BufferLoad | BufferStore, first: int) -> str:
        """A buffer's pointer and the index of a lane, as arguments of what moves a vector."""
        form = lane_form(n.indices[0])
        assert form is not None, "only what has a form is moved whole"
        at = Add(form[0], IntImm(form[0].dtype, first), form[0].dtype)
        index = self.analyzer.affine(from_pointer(n.buffer, at)).to_expr("int64")
        return f"{self.scope.pointer(n.buffer)}, {self.index(index)}"

    def _scalar(self, test: PrimExpr) -> str:
        with self.scope.at_lane(None):
            return self.value(test)

    def _condition(self, mask: PrimExpr | None) -> PrimExpr | bool:
        """The condition of all lanes; True where it is known to hold, False where lanes differ."""
        if mask is None:
            return True
        test = uniform(mask, self.analyzer)
        if test is None:
            return False
        return True if self._holds(test) else test

    def _holds(self, test: PrimExpr) -> bool:
        """True if a condition is known to hold here."""
        if isinstance(test, And):
            return self._holds(test.a) and self._holds(test.b)
        if isinstance(test, CmpOp) and self.analyzer.compare(test) is True:
            return True
        return structural_key(test) in self._given

    @contextmanager
    def _inside(self, test: PrimExpr) -> Iterator[None]:
        """A branch, one level deeper, in which a condition holds."""
        self.scope.memo.clear()
        self._given.append(structural_key(test))
        with self.scope.block(), self.analyzer.assuming(test):
            yield
        self._given.pop()
        self.scope.memo.clear()

    @contextmanager
    def _fresh_reads(self) -> Iterator[None]:
        """Variables that are written inside are not in scope after it."""
        held, read_as = dict(self.scope.held), dict(self._read_as)
        yield
        self.scope.held, self._read_as = held, read_as


def _variable(dtype: str, lanes: int, dialect: Dialect) -> str:
    """The type of a vector in registers, of any power of two of lanes."""
    if lanes <= 16:
        return vector_type(dtype, lanes)
    return f"whet_vector<{dialect.memory_type(dtype)}, {lanes}>"
