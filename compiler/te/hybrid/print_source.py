"""A schedule's loops as the source of a script."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler.errors import ArgumentError, LowerError
from whet.compiler.te.hybrid.calls import FUNCTIONS
from whet.compiler.te.lang.tensor import Tensor
from whet.compiler.te.lower.schedule_ops import schedule_ops
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.binary import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Or,
    Sub,
)
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import (
    BufferLoad,
    Call,
    Cast,
    Div,
    FloatImm,
    IntImm,
    Let,
    Mod,
    Not,
    PrimExpr,
    Select,
    Var,
)
from whet.compiler.tir.stmt import (
    PARALLEL,
    SERIAL,
    THREAD_BINDING,
    UNROLLED,
    VECTORIZED,
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    is_nothing,
)
from whet.compiler.tir.visit.rewrite import substitute

_INFIX: dict[type, str] = {
    Add: "+", Sub: "-", Mul: "*", FloorDiv: "//", FloorMod: "%", And: "and", Or: "or",
    EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">=",
}  # fmt: skip
_LOOPS = {SERIAL: "range", UNROLLED: "unroll", VECTORIZED: "vectorize", PARALLEL: "parallel"}
_BITS = {
    "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "shift_left": "<<",
    "shift_right": ">>",
}  # fmt: skip


def printed(schedule: Any, inputs: Sequence[Any], outputs: Any, name: str) -> str:
    """The source of a function of ``inputs`` that returns ``outputs``.

    Raises:
        ArgumentError: for arguments that are none.
        LowerError: for what a script cannot say.
    """
    request = f"te.hybrid.build(..., {name!r})"
    if not hasattr(schedule, "stages"):
        raise ArgumentError(request, f"a {type(schedule).__name__} is not a schedule")
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ArgumentError(request, f"{name!r} is no name of a function")
    made = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    for x in (*inputs, *made):
        if not isinstance(x, (Tensor, Var)):
            raise ArgumentError(request, f"a {type(x).__name__} is neither a tensor nor a variable")
    schedule = schedule.normalize()
    buffers = {
        t: Buffer(t.name, t.shape, t.dtype) for t in (*inputs, *made) if isinstance(t, Tensor)
    }
    body = schedule_ops(schedule, buffers)
    writer = _Writer(request)
    arguments = [writer.name(buffers[x] if isinstance(x, Tensor) else x) for x in inputs]
    for x in inputs:  # sizes that are no arguments are those of an argument
        for k, d in enumerate(x.shape if isinstance(x, Tensor) else ()):
            if isinstance(d, Var) and not any(d is y for y in inputs):
                writer.names.setdefault(d, f"{writer.name(buffers[x])}.shape[{k}]")
    lines = ["from whet import te", "", "", "@te.hybrid.script"]
    lines.append(f"def {name}({', '.join(arguments)}):")
    for t in made:
        writer.line(
            f"{writer.name(buffers[t])} = output_tensor({writer.shape(t.shape)}, {t.dtype!r})"
        )
    writer.statement(body)
    writer.line(f"return {', '.join(writer.name(buffers[t]) for t in made)}")
    return "\n".join([*lines, *writer.lines, ""])


class _Writer:
    """Writes statements as Python."""

    def __init__(self, request: str) -> None:
        self.request = request
        self.lines: list[str] = []
        self.names: dict[Any, str] = {}
        self._taken = {*FUNCTIONS, *keyword.kwlist, "te"}
        self._depth = 1
        self._rules: dict[type, Callable[[Any], None]] = {
            SeqStmt: self._in_order,
            For: self._for,
            IfThenElse: self._if,
            Allocate: self._allocate,
            BufferStore: self._store,
            LetStmt: self._let,
            AssertStmt: self._assert,
            AttrStmt: lambda s: self.statement(s.body),
            Evaluate: self._evaluate,
        }

    def line(self, text: str) -> None:
        """Write one line."""
        self.lines.append("    " * self._depth + text)

    def name(self, x: Any) -> str:
        """The name of a buffer or a variable, which nothing else has."""
        if x not in self.names:
            plain = "".join(c if c.isalnum() or c == "_" else "_" for c in x.name)
            base = plain if plain.isidentifier() else f"v_{plain}"
            name, k = base, 0
            while name in self._taken:
                k += 1
                name = f"{base}_{k}"
            self._taken.add(name)
            self.names[x] = name
        return self.names[x]

    def shape(self, dims: Sequence[PrimExpr]) -> str:
        """A tuple of extents."""
        return f"({', '.join(map(self.expr, dims))}{',' if len(dims) == 1 else ''})"

    # statements

    def statement(self, s: Stmt) -> None:
        """Write one statement.

        Raises:
            LowerError: for a statement that scripts have not.
        """
        rule = self._rules.get(type(s))
        if rule is None:
            raise self._absent(s)
        rule(s)

    def _absent(self, x: Any) -> LowerError:
        return LowerError(
            self.request,
            f"a script has nothing for {type(x).__name__}: {x}",
            "te.lower(schedule, arguments) shows the loops of any schedule",
        )

    def _in_order(self, s: SeqStmt) -> None:
        for x in s.seq:
            self.statement(x)

    def _inside(self, s: Stmt) -> None:
        self._depth += 1
        before = len(self.lines)
        self.statement(s)
        if len(self.lines) == before:
            self.line("pass")
        self._depth -= 1

    def _for(self, s: For) -> None:
        body, low = s.body, ""
        if not (isinstance(s.min, IntImm) and s.min.value == 0):
            low = f"{self.expr(s.min)}, "
        end = self.expr(s.min + s.extent if low else s.extent)
        over = f"{_LOOPS.get(s.kind, 'range')}({low}{end})"
        if s.kind == THREAD_BINDING:
            over = f"bind({s.thread!r}, {self.expr(s.extent)})"
            body = substitute(s.body, {s.var: s.var + s.min}) if low else s.body
        self.line(f"for {self.name(s.var)} in {over}:")
        self._inside(body)

    def _if(self, s: IfThenElse) -> None:
        test = self.expr(s.condition)
        self.line(f"if likely({test}):" if s.likely else f"if {test}:")
        self._inside(s.then_case)
        if s.else_case is not None and not is_nothing(s.else_case):
            self.line("else:")
            self._inside(s.else_case)

    def _allocate(self, s: Allocate) -> None:
        b = s.buffer
        made = f"{self.shape(b.shape)}, {b.dtype!r}, {b.storage_scope!r}"
        if b.strides:
            raise self._absent(s)
        self.line(f"{self.name(b)} = allocate({made})")
        self.statement(s.body)

    def _store(self, s: BufferStore) -> None:
        if s.mask is not None:
            raise self._absent(s)
        self.line(f"{self._element(s)} = {self.expr(s.value)}")

    def _element(self, n: Any) -> str:
        indices = ", ".join(map(self.expr, n.indices))
        return f"{self.name(n.buffer)}[{indices or '()'}]"

    def _let(self, s: LetStmt) -> None:
        self.line(f"{self.name(s.var)} = {self.expr(s.value)}")
        self.statement(s.body)

    def _assert(self, s: AssertStmt) -> None:
        self.line(f"assert {self.expr(s.condition)}, {s.message!r}")
        self.statement(s.body)

    def _evaluate(self, s: Evaluate) -> None:
        if not is_nothing(s):
            raise self._absent(s)

    # expressions

    def expr(self, n: PrimExpr) -> str:
        """An expression, in parentheses where it has parts."""
        if isinstance(n, Var):
            return self.name(n)
        if isinstance(n, (IntImm, FloatImm)):
            return self._number(n)
        if isinstance(n, BufferLoad) and n.mask is None:
            return self._element(n)
        if isinstance(n, Cast):
            return f"cast({self.expr(n.value)}, {n.dtype!r})"
        if isinstance(n, (Max, Min)):
            return f"{type(n).__name__.lower()}({self.expr(n.a)}, {self.expr(n.b)})"
        if type(n) in _INFIX:
            return f"({self.expr(n.a)} {_INFIX[type(n)]} {self.expr(n.b)})"  # type: ignore[attr-defined]
        if isinstance(n, Div) and dt.is_float(n.dtype):
            return f"({self.expr(n.a)} / {self.expr(n.b)})"
        if isinstance(n, (Div, Mod)):
            return self._truncated(n)
        if isinstance(n, Not):
            return f"(not {self.expr(n.a)})"
        if isinstance(n, Select):
            return self._choice(n.condition, n.true_value, n.false_value)
        if isinstance(n, Let):
            return self.expr(substitute(n.body, {n.var: n.value}))
        if isinstance(n, Call):
            return self._call(n)
        raise self._absent(n)

    def _number(self, n: IntImm | FloatImm) -> str:
        if isinstance(n, IntImm):
            if dt.is_bool(n.dtype):
                return str(bool(n.value))
            return str(n.value) if n.dtype == "int32" else f"cast({n.value}, {n.dtype!r})"
        if n.value in (float("inf"), float("-inf")):
            return f"{'inf' if n.value > 0 else 'ninf'}({n.dtype!r})"
        return f"cast({n.value!r}, {n.dtype!r})"

    def _truncated(self, n: Div | Mod) -> str:
        """A division of integers that rounds towards zero."""
        a, b = self.expr(n.a), self.expr(n.b)
        if isinstance(n, Mod):
            return f"({a} - {self._quotient(a, b)} * {b})"
        return self._quotient(a, b)

    def _quotient(self, a: str, b: str) -> str:
        return f"({a} // {b} if ({a} < 0) == ({b} < 0) else -(-{a} // {b}))"

    def _choice(self, c: PrimExpr, a: PrimExpr, b: PrimExpr) -> str:
        return f"({self.expr(a)} if {self.expr(c)} else {self.expr(b)})"

    def _call(self, n: Call) -> str:
        op = n.op.removeprefix("tir.")
        if op == "if_then_else":
            return self._choice(*n.args)
        if op in _BITS and len(n.args) == 2:
            return f"({self.expr(n.args[0])} {_BITS[op]} {self.expr(n.args[1])})"
        if op == "bitwise_not":
            return f"(~{self.expr(n.args[0])})"
        known = {"pow": "power", "fabs": "abs"}.get(op, op)
        if known not in FUNCTIONS:
            raise self._absent(n)
        return f"{known}({', '.join(map(self.expr, n.args))})"
