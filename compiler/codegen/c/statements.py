"""Statements as C text: loops, stores, conditions, memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from whet.compiler.arith.keys import structural_key
from whet.compiler.codegen.c.dialect import Dialect
from whet.compiler.codegen.c.expressions import Expressions
from whet.compiler.codegen.c.functions import SHORT_FLOATS
from whet.compiler.codegen.c.precedence import UNARY
from whet.compiler.codegen.c.scope import Scope
from whet.compiler.codegen.constants import constant
from whet.compiler.codegen.outside import handed_buffer, no_memory
from whet.compiler.errors import CodegenError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import (
    Add,
    BufferLoad,
    BufferView,
    Call,
    IntImm,
    Let,
    Not,
    PrimExpr,
    Var,
)
from whet.compiler.tir.ops import ops
from whet.compiler.tir.printer import expr_text
from whet.compiler.tir.stmt import (
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)
from whet.compiler.tir.visit.rewrite import nodes_of

# A buffer of at most so many bytes lives on the stack.
STACK_BYTES = 64 * 1024


def refuse_import(n: AttrStmt) -> None:
    """An error for LLVM text, which only a module of LLVM is linked with."""
    if n.key == "pragma_import_llvm":
        raise CodegenError(
            'pragma(..., "import_llvm", text)',
            "the module is C, which LLVM text is not linked with",
            "target llvm takes it",
        )


class Statements:
    """Writes statements.

    Args:
        scope: of the kernel.
        expressions: writes what they hold.

    Attributes:
        store_vector: writes a store of several lanes.
        rules: class of a statement -> what writes it; the kernel adds those of which it depends on
            where the code runs.
    """

    def __init__(self, scope: Scope, expressions: Expressions) -> None:
        self.scope = scope
        self.expressions = expressions
        self.d, self.names, self.line, self.values = scope.d, scope.names, scope.line, scope.values
        self.analyzer = scope.analyzer
        self.value, self.index = expressions.value, expressions.index
        self.begin, self.each_lane = expressions.begin, expressions.each_lane
        self.store_vector: Callable[[BufferStore, int], None] = self.store_lanes
        self.rules: dict[type, Callable[[Any], None]] = {
            SeqStmt: self._sequence,
            For: self._loop,
            BufferStore: self._store,
            IfThenElse: self._if,
            LetStmt: self._let,
            While: self._while,
            AttrStmt: self._attribute,
            Evaluate: self.evaluate,
            DeclBuffer: self._declare,
        }

    def statement(self, n: Stmt) -> None:
        """Write one statement.

        Raises:
            CodegenError: it has no meaning in this dialect.
        """
        rule = self.rules.get(type(n))
        if rule is None:
            raise CodegenError(
                f"write {type(n).__name__} as {self.d.name}", "this node has no meaning there"
            )
        rule(n)

    def _sequence(self, n: SeqStmt) -> None:
        for part in n.seq:
            self.statement(part)

    def _attribute(self, n: AttrStmt) -> None:
        refuse_import(n)
        self.statement(n.body)

    def _let(self, n: LetStmt) -> None:
        self.begin(n.value)
        self.expressions.bind(n.var, n.value)
        self.statement(n.body)

    def evaluate(self, n: Evaluate) -> None:
        """Write an expression for its effects."""
        if not isinstance(n.value, IntImm):
            self.begin(n.value)
            text = self.value(n.value, UNARY)
            self.line(f"(void){text};")

    # memory

    def _declare(self, n: DeclBuffer) -> None:
        b = n.buffer
        base = next((x for x in reversed(self.scope.memory) if x.data is b.data), None)
        if base is None:
            raise no_memory(b)
        pointer = self.scope.pointer(base)
        if base.dtype != b.dtype:
            kind = self.d.memory_type(b.dtype)
            name = self.names.new(b)
            self.line(f"{kind} *{name} = ({kind} *){pointer};")
            pointer = name
        self.scope.place(b, pointer)
        self.statement(n.body)

    # control flow

    def _loop(self, n: For) -> None:
        self.begin(n.extent)
        begin = self.index(n.min)
        name = self.names.new(n.var)
        last = n.extent if constant(n.min) == 0 else ops.add(n.min, n.extent)
        end = self._bound(last, name)
        for text in self.d.before_loop(n):
            self.line(text)
        self.analyzer.bind_loop(n.var, n.min, n.extent)
        self.scope.integers[n.var] = True
        self.line(f"for ({self.d.index} {name} = {begin}; {name} < {end}; ++{name}) {{")
        self._block(n.body)
        self.line("}")
        del self.analyzer.ranges[n.var], self.scope.integers[n.var]
        self.names.release(name)

    def _bound(self, n: PrimExpr, name: str) -> str:
        """The end of a loop; in a variable where it would be read again in each step."""
        if not _reads(n):
            return self.index(n, 11)
        end = self.names.fresh(f"{name}_end")
        self.line(f"const {self.d.index} {end} = {self.index(n)};")
        return end

    def _block(self, body: Stmt) -> None:
        with self.scope.block():
            self.statement(body)

    def _while(self, n: While) -> None:
        with self.scope.aside() as lines:
            self.begin(n.condition)
            test = self.value(n.condition)
            again = self.value(Not(n.condition))
        if not lines:
            self.line(f"while ({test}) {{")
        else:
            self.line("for (;;) {")
            self.scope.lines += lines
            self.line(f"    if ({again}) break;")
        self._block(n.body)
        self.line("}")

    def _if(self, n: IfThenElse) -> None:
        self.begin(n.condition)
        self.line(f"if ({self.value(n.condition)}) {{")
        with self.analyzer.assuming(n.condition):
            self._block(n.then_case)
        if n.else_case is not None:
            self.line("} else {")
            self._block(n.else_case)
        self.line("}")

    # stores

    def _store(self, n: BufferStore) -> None:
        self.begin(n.value)
        lanes = dt.lanes(n.value.dtype)
        if lanes == 1:
            self._store_one(n)
        else:
            self.store_vector(n, lanes)

    def store_lanes(self, n: BufferStore, lanes: int) -> None:
        """A vector's lanes; through an array where one might read what another one has written."""
        nodes = stored_nodes(n)
        if not overlaps(n):
            self.each_lane(lanes, nodes, lambda: self._store_one(n))
            return
        held = self.expressions.lanes_of(n.value, self.names.fresh("held"))
        var = Var(held, n.value.dtype)
        self.values[var] = held
        whole = replace(n, value=var)
        self.each_lane(lanes, nodes[1:], lambda: self._store_one(whole))

    def _store_one(self, n: BufferStore) -> None:
        """The store of a scalar, or of the lane at hand."""
        if n.mask is None:
            self.line(self._assignment(n))
            return
        test = self.value(n.mask)
        with self.scope.aside() as lines:
            text = self._assignment(n)
        self.line(f"if ({test}) {{" if lines else f"if ({test}) {text}")
        if lines:
            self.scope.lines += [*lines, "    " * (self.scope.depth + 1) + text]
            self.line("}")

    def _assignment(self, n: BufferStore) -> str:
        kind = n.buffer.dtype
        if kind in SHORT_FLOATS:
            write = self.value if self.d.native_short else self.expressions.unrounded
            raw = write(n.value)
            value = self.d.store(raw, kind, self.scope.use)
        else:
            value = self.value(n.value)
        target = self.expressions.indices.element(n.buffer, n.indices)
        added = self._in_place(n, value)
        return f"{target} {added}" if added else f"{target} = {value};"

    def _in_place(self, n: BufferStore, value: str) -> str:
        """``+= x;`` where a float grows in place, which is how people write it."""
        v = n.value
        plain = isinstance(v, Add) and v.dtype.startswith(("float32", "float64"))
        if not plain or not isinstance(v.a, BufferLoad) or v.a.mask is not None:  # type: ignore[attr-defined]
            return ""
        target = self.expressions.indices.element(n.buffer, n.indices)
        if self.value(v.a) != target or not value.startswith(f"{target} + "):  # type: ignore[attr-defined]
            return ""
        return f"+= {value[len(target) + 3 :]};"


def stored_nodes(n: BufferStore) -> list[PrimExpr]:
    """The value of a store, its indices, and its mask if it has one."""
    return [n.value, *n.indices, *([] if n.mask is None else [n.mask])]


def overlaps(n: BufferStore) -> bool:
    """True if the value reads the buffer anywhere else than where the same lane writes it."""
    at = [structural_key(i) for i in n.indices]

    def moved(x: BufferLoad) -> bool:
        return x.buffer is not n.buffer or [structural_key(i) for i in x.indices] != at

    reads = nodes_of(n.value, BufferLoad)
    return any(x.buffer.data is n.buffer.data and moved(x) for x in reads)


def _reads(n: Any) -> bool:
    return isinstance(n, (BufferLoad, Call, Let)) or any(map(_reads, n.parts))


def shape_text(buffer: Buffer) -> str:
    """A buffer's dtype and shape, for a comment."""
    return f"{buffer.dtype}[{', '.join(expr_text(d) for d in buffer.shape)}]"


def written_memory(body: Stmt) -> set[int]:
    """The ids of the data variables of memory that a kernel may write."""
    handed = map(handed_buffer, nodes_of(body, BufferView, Call))
    written = [n.buffer for n in nodes_of(body, BufferStore, DeclBuffer)]
    return {id(b.data) for b in (*handed, *written) if b is not None}


def initializer(buffer: Buffer, data: np.ndarray, dialect: Dialect) -> str:
    """The size of an array of constants and its elements: ``[3] = {..}``."""
    array = np.ascontiguousarray(data).reshape(-1)
    if buffer.dtype in SHORT_FLOATS:
        items = [f"0x{x:04x}" for x in array.view(np.uint16).tolist()]
    elif dt.is_float(buffer.dtype):
        items = [dialect.floating(x, buffer.dtype) for x in array.tolist()]
    else:
        items = [dialect.integer(int(x), buffer.dtype) for x in array.tolist()]
    rows = [", ".join(items[k : k + 8]) for k in range(0, len(items), 8)] or ["0"]
    body = ",\n".join(f"    {row}" for row in rows)
    return f"[{max(len(items), 1)}] = {{\n{body}\n}}"
