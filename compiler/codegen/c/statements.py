"""Statements as C text: loops, stores, conditions, memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from whet.compiler.arith.keys import structural_key
from whet.compiler.codegen.c.expressions import Expressions
from whet.compiler.codegen.c.functions import SHORT_FLOATS
from whet.compiler.errors import CodegenError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.ops import ops
from whet.compiler.tir.printer import expr_text
from whet.compiler.tir.visit.rewrite import TABLE

# A buffer of at most so many bytes lives on the stack.
STACK_BYTES = 64 * 1024


class Statements(Expressions):
    """Writes statements; what depends on where the code runs is left to subclasses."""

    memory: list[Buffer]

    def statement(self, n: s.Stmt) -> None:
        """Write one statement.

        Raises:
            CodegenError: it has no meaning in this dialect.
        """
        if isinstance(n, s.SeqStmt):
            for part in n.seq:
                self.statement(part)
        elif isinstance(n, s.For):
            self._loop(n)
        elif isinstance(n, s.BufferStore):
            self._store(n)
        elif isinstance(n, s.IfThenElse):
            self._if(n)
        elif isinstance(n, s.LetStmt):
            self.begin(n.value)
            self.bind(n.var, n.value)
            self.statement(n.body)
        elif isinstance(n, s.While):
            self._while(n)
        elif isinstance(n, s.AttrStmt):
            self.attribute(n)
        elif isinstance(n, s.Evaluate):
            if not isinstance(n.value, e.IntImm):
                self.evaluate(n.value)
        else:
            self._holder(n)

    def _holder(self, n: s.Stmt) -> None:
        """What makes memory, or a claim, for a body."""
        if isinstance(n, s.Allocate):
            self.allocate(n)
        elif isinstance(n, s.DeclBuffer):
            self._declare(n)
        elif isinstance(n, s.AllocateConst):
            self.place(n.buffer, self.constant_array(n.buffer, n.data))
            self.statement(n.body)
        elif isinstance(n, s.AssertStmt):
            self.check(n)
        else:
            raise CodegenError(
                f"write {type(n).__name__} as {self.d.name}", "this node has no meaning there"
            )

    # what subclasses say

    def allocate(self, n: s.Allocate) -> None:
        """Write a buffer's memory and what runs while it exists."""
        raise NotImplementedError

    def constant_array(self, buffer: Buffer, data: np.ndarray) -> str:
        """Write an array that holds ``data``; its name."""
        raise NotImplementedError

    def check(self, n: s.AssertStmt) -> None:
        """Write an assertion and its body."""
        raise NotImplementedError

    def evaluate(self, n: e.PrimExpr) -> None:
        """Write an expression for what it does."""
        self.begin(n)
        text = self.value(n, 14)
        self.line(f"(void){text};")

    def attribute(self, n: s.AttrStmt) -> None:
        """Write what an attribute changes, and its body."""
        self.statement(n.body)

    def before_loop(self, n: s.For) -> None:
        """Write what stands before a loop."""
        if n.kind in (s.PARALLEL, s.THREAD_BINDING):
            self.line(f"/* {n.thread or n.kind}: the steps run one after the other here */")

    # memory

    def place(self, buffer: Buffer, pointer: str) -> None:
        """Say which pointer leads to a buffer's elements."""
        self.pointers[id(buffer)] = pointer
        self.memory.append(buffer)

    def _declare(self, n: s.DeclBuffer) -> None:
        b = n.buffer
        base = next((x for x in reversed(self.memory) if x.data is b.data), None)
        if base is None:
            raise CodegenError(
                f"declare the buffer {b.name}",
                f"nothing allocates the memory of {b.data.name}",
                "give it the data of a parameter or of an allocated buffer",
            )
        pointer = self.pointer(base)
        if base.dtype != b.dtype:
            kind = self.d.memory_type(b.dtype)
            name = self.names.set(b, self.names.fresh(b.name))
            self.line(f"{kind} *{name} = ({kind} *){pointer};")
            pointer = name
        self.place(b, pointer)
        self.statement(n.body)

    def shape_text(self, buffer: Buffer) -> str:
        """A buffer's dtype and shape, for a comment."""
        return f"{buffer.dtype}[{', '.join(expr_text(d) for d in buffer.shape)}]"

    # control flow

    def _loop(self, n: s.For) -> None:
        self.begin(n.extent)
        begin = self.index(n.min)
        name = self.names.set(n.var, self.names.fresh(n.var.name))
        if isinstance(n.min, e.IntImm) and n.min.value == 0:
            end = self._bound(n.extent, name)
        else:
            end = self._bound(ops.add(n.min, n.extent), name)
        self.before_loop(n)
        self.analyzer.bind_loop(n.var, n.min, n.extent)
        self.integers[n.var] = True
        self.line(f"for ({self.d.index} {name} = {begin}; {name} < {end}; ++{name}) {{")
        self._block(n.body)
        self.line("}")
        del self.analyzer.ranges[n.var], self.integers[n.var]
        self.names.release(name)

    def _bound(self, n: e.PrimExpr, name: str) -> str:
        """The end of a loop; in a variable where it would be read again in each step."""
        if not _reads(n):
            return self.index(n, 11)
        end = self.names.fresh(f"{name}_end")
        self.line(f"const {self.d.index} {end} = {self.index(n)};")
        return end

    def _block(self, body: s.Stmt) -> None:
        self.depth += 1
        self.statement(body)
        self.depth -= 1

    def _while(self, n: s.While) -> None:
        with self.aside() as lines:
            self.begin(n.condition)
            test = self.value(n.condition)
            again = self.value(e.Not(n.condition))
        if not lines:
            self.line(f"while ({test}) {{")
        else:
            self.line("for (;;) {")
            self.lines += lines
            self.line(f"    if ({again}) break;")
        self._block(n.body)
        self.line("}")

    def _if(self, n: s.IfThenElse) -> None:
        self.begin(n.condition)
        self.line(f"if ({self.value(n.condition)}) {{")
        with self.analyzer.assuming(n.condition):
            self._block(n.then_case)
        if n.else_case is not None:
            self.line("} else {")
            self._block(n.else_case)
        self.line("}")

    # stores

    def _store(self, n: s.BufferStore) -> None:
        self.begin(n.value)
        lanes = dt.lanes(n.value.dtype)
        if lanes == 1:
            self._store_one(n)
        else:
            self.store_vector(n, lanes)

    def store_vector(self, n: s.BufferStore, lanes: int) -> None:
        """A vector's lanes; through an array where one might read what another one has written."""
        nodes = [n.value, *n.indices, *([] if n.mask is None else [n.mask])]
        if not self._overlaps(n):
            self.each_lane(lanes, nodes, lambda: self._store_one(n))
            return
        held = self.names.fresh("held")
        self.line(f"{self.d.value_type(n.value.dtype)} {held}[{lanes}];")

        def keep() -> None:
            self.line(f"{held}[{self.lane}] = {self.value(n.value)};")

        self.each_lane(lanes, [n.value], keep)
        var = e.Var(held, n.value.dtype)
        self.values[var] = held
        whole = s.BufferStore(n.buffer, var, n.indices, n.mask)
        self.each_lane(lanes, nodes[1:], lambda: self._store_one(whole))

    def _overlaps(self, n: s.BufferStore) -> bool:
        """Whether the value reads the buffer anywhere else than where the same lane writes it."""
        at = [structural_key(i) for i in n.indices]

        def other(x: Any) -> bool:
            if isinstance(x, e.BufferLoad) and x.buffer.data is n.buffer.data:
                same = x.buffer is n.buffer and [structural_key(i) for i in x.indices] == at
                if not same:
                    return True
            return any(other(p) for p in TABLE[type(x)][0](x))

        return other(n.value)

    def _store_one(self, n: s.BufferStore) -> None:
        """The store of a scalar, or of the lane at hand."""
        if n.mask is None:
            self.line(self._assignment(n))
            return
        test = self.value(n.mask)
        with self.aside() as lines:
            text = self._assignment(n)
        self.line(f"if ({test}) {{" if lines else f"if ({test}) {text}")
        if lines:
            self.lines += [*lines, "    " * (self.depth + 1) + text]
            self.line("}")

    def _assignment(self, n: s.BufferStore) -> str:
        kind = n.buffer.dtype
        if kind in SHORT_FLOATS:
            raw = self.unrounded(n.value) if not self.d.native_short else self.value(n.value)
            value = self.d.store(raw, kind, self.use)
        else:
            value = self.value(n.value)
        target = self.element(n.buffer, n.indices)
        added = self._in_place(n, value)
        return f"{target} {added}" if added else f"{target} = {value};"

    def _in_place(self, n: s.BufferStore, value: str) -> str:
        """``+= x;`` where a float grows in place, which is how people write it."""
        v = n.value
        plain = isinstance(v, e.Add) and v.dtype.startswith(("float32", "float64"))
        if not plain or not isinstance(v.a, e.BufferLoad) or v.a.mask is not None:  # type: ignore[attr-defined]
            return ""
        target = self.element(n.buffer, n.indices)
        if self.value(v.a) != target or not value.startswith(f"{target} + "):  # type: ignore[attr-defined]
            return ""
        return f"+= {value[len(target) + 3 :]};"


def _reads(n: Any) -> bool:
    return isinstance(n, (e.BufferLoad, e.Call, e.Let)) or any(
        _reads(p) for p in TABLE[type(n)][0](n)
    )
