"""Loop IR as Python-like text: for people, for golden tests and for a program's identity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler.homes import imported
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import (
    COMPARISONS,
    Add,
    And,
    Broadcast,
    BufferLoad,
    BufferView,
    Call,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    ProducerLoad,
    Ramp,
    Reduce,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    Var,
    is_int,
)
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.stmt import (
    SERIAL,
    Allocate,
    AllocateConst,
    AssertStmt,
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
    has_blocks,
    is_nothing,
)
from whet.compiler.tir.tracing.traced import shown

#: how strongly the operators bind; other binary nodes print as functions
_PRECEDENCE: dict[type, int] = {
    Or: 1,
    And: 2,
    **dict.fromkeys(COMPARISONS, 4),
    **dict.fromkeys((Add, Sub), 6),
    **dict.fromkeys((Mul, Div, FloorDiv, FloorMod), 7),
}


class Printer:
    """Names variables and buffers uniquely, in the order of their first use, and prints trees."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.taken: set[str] = set()
        self.lines: list[str] = []
        self.kept: list[Any] = []  # an id is only a name while its object lives

    def name(self, thing: Var | Buffer, wanted: str = "") -> str:
        """The unique name of a variable or buffer, like ``wanted`` or its own."""
        known = self.names.get(id(thing))
        if known is not None:
            return known
        wanted = wanted or thing.name.replace(".", "_") or "v"
        name, i = wanted, 1
        while name in self.taken:
            name, i = f"{wanted}_{i}", i + 1
        self.taken.add(name)
        self.names[id(thing)] = name
        self.kept.append(thing)
        if isinstance(thing, Buffer):  # its address is no name of its own
            self.names.setdefault(id(thing.data), f"{name}.data")
        return name

    # expressions

    def expr(self, n: Any, outer: int = 0) -> str:
        """An expression; parenthesised when it binds less than ``outer``."""
        level = _PRECEDENCE.get(type(n))
        if level is None:
            show = _EXPRESSIONS.get(type(n))
            return repr(n) if show is None else show(self, n)
        text = f"{self.expr(n.a, level)} {n.symbol} {self.expr(n.b, level + 1)}"
        return f"({text})" if level < outer else text

    def _access(self, n: BufferLoad | BufferStore) -> str:
        return f"{self.name(n.buffer)}[{self.list(n.indices)}]"

    def _mask(self, n: BufferLoad | BufferStore) -> str:
        return "" if n.mask is None else f" where {self.expr(n.mask)}"

    def _load(self, n: BufferLoad) -> str:
        mask = self._mask(n)  # first: names are given in this order
        text = self._access(n)
        return f"({text}{mask})" if mask else text

    def _call(self, n: Call) -> str:
        if n.op == "reinterpret":
            return f"reinterpret({n.dtype!r}, {self.expr(n.args[0])})"
        if n.op.startswith("call_llvm_"):
            return f"{n.op}({n.dtype!r}, {self.list(n.args)})"
        return f"{n.op}({self.list(n.args)})"

    def _view(self, n: BufferView) -> str:
        shape = f"({self.list(n.shape)}{',' if len(n.shape) == 1 else ''})"
        more = f", strides=({self.list(n.strides)})" if n.strides else ""
        if not is_int(n.offset, 0):
            more += f", offset={self.expr(n.offset)}"
        return f"view({self.name(n.buffer)}, {shape}{more})"

    def _reduce(self, n: Reduce) -> str:
        axes = ", ".join(a.var.name for a in n.axis)
        return f"{n.combiner.name}({self.list(n.source)}, axis=[{axes}])"

    def list(self, nodes: tuple[Any, ...]) -> str:
        """Expressions separated by commas."""
        return ", ".join([self.expr(x) for x in nodes])

    # statements

    def stmt(self, n: Stmt, indent: int) -> None:
        """Append the lines of a statement."""
        show = _STATEMENTS.get(type(n))
        if show is not None:
            show(self, n, indent)
            return
        line = _LINES.get(type(n))
        self.line(repr(n) if line is None else line(self, n), indent)
        body = getattr(n, "body", None)
        if body is not None:
            self.stmt(body, indent + isinstance(n, While))

    def line(self, text: str, indent: int) -> None:
        """Append a line."""
        self.lines.append("    " * indent + text)

    def _sequence(self, n: SeqStmt, indent: int) -> None:
        for part in n.seq:
            self.stmt(part, indent)

    def _branch(self, n: IfThenElse, indent: int) -> None:
        test = self.expr(n.condition)
        self.line(f"if {f'likely({test})' if n.likely else test}:", indent)
        self.stmt(n.then_case, indent + 1)
        if n.else_case is not None:
            self.line("else:", indent)
            self.stmt(n.else_case, indent + 1)

    def _store(self, n: BufferStore) -> str:
        mask = self._mask(n)  # first: names are given in this order
        target = self._access(n)
        return f"{target} = {self.expr(n.value)}{mask}"

    def _allocate(self, n: Allocate) -> str:
        b, shape = n.buffer, self.list(n.buffer.shape)  # first: names are given in this order
        return f'{self.name(b)} = allocate([{shape}], "{b.dtype}", "{b.storage_scope}")'

    def _memory(self, b: Buffer, how: str) -> str:
        return f'{self.name(b)} = {how}([{self.list(b.shape)}], "{b.dtype}")'

    def _assert(self, n: AssertStmt) -> str:
        values = f" % ({self.list(n.values)})" if n.values else ""
        return f"assert {self.expr(n.condition)}, {n.message!r}{values}"

    def _attribute(self, n: AttrStmt) -> str:
        about = self.name(n.node) if isinstance(n.node, (Var, Buffer)) else repr(n.node)
        return f"attr({about}, {n.key!r}, {self.expr(n.value)})"

    def _loop(self, n: For, indent: int) -> None:
        if is_int(n.min, 0):
            span = self.expr(n.extent)
        else:
            span = f"{self.expr(n.min)}, {self.expr(n.min + n.extent)}"
        head = "range" if n.kind == SERIAL else n.kind
        if n.thread:
            span += f', "{n.thread}"'
        notes = "".join(f"  # {k} = {v}" for k, v in n.annotations.items())
        self.line(f"for {self.name(n.var)} in {head}({span}):{notes}", indent)
        self.stmt(n.body, indent + 1)


#: how expressions other than operators print
_EXPRESSIONS: dict[type, Callable[[Printer, Any], str]] = {
    IntImm: lambda p, n: str(bool(n.value)) if n.dtype == "bool" else shown(n.value),
    FloatImm: lambda p, n: f"{n.dtype}({n.value!r})",
    StringImm: lambda p, n: repr(n.value),
    Var: lambda p, n: p.name(n),
    SizeVar: lambda p, n: p.name(n),
    **dict.fromkeys((Mod, Min, Max), lambda p, n: f"{n.symbol}({p.expr(n.a)}, {p.expr(n.b)})"),
    BufferLoad: Printer._load,
    ProducerLoad: lambda p, n: f"{n.producer.name}[{p.list(n.indices)}]",
    Ramp: lambda p, n: f"ramp({p.expr(n.base)}, {n.stride}, {n.lanes})",
    Broadcast: lambda p, n: f"broadcast({p.expr(n.value)}, {n.lanes})",
    Cast: lambda p, n: f"{n.dtype}({p.expr(n.value)})",
    Call: Printer._call,
    Select: lambda p, n: f"select({p.list((n.condition, n.true_value, n.false_value))})",
    Not: lambda p, n: f"not {p.expr(n.a, 3)}",
    Let: lambda p, n: f"let({p.name(n.var)}, {p.list((n.value, n.body))})",
    Shuffle: lambda p, n: f"shuffle([{p.list(n.vectors)}], {list(n.indices)})",
    BufferView: Printer._view,
    Reduce: Printer._reduce,
}
#: how statements print that are more than a line in front of their body
_STATEMENTS: dict[type, Callable[[Printer, Any, int], None]] = {
    For: Printer._loop,
    SeqStmt: Printer._sequence,
    IfThenElse: Printer._branch,
}
#: the lines of the others
_LINES: dict[type, Callable[[Printer, Any], str]] = {
    BufferStore: Printer._store,
    Allocate: Printer._allocate,
    AllocateConst: lambda p, n: p._memory(n.buffer, "constant"),
    DeclBuffer: lambda p, n: p._memory(n.buffer, "decl_buffer"),
    LetStmt: lambda p, n: f"{p.name(n.var)} = {p.expr(n.value)}",
    AssertStmt: Printer._assert,
    AttrStmt: Printer._attribute,
    While: lambda p, n: f"while {p.expr(n.condition)}:",
    Evaluate: lambda p, n: "pass" if is_nothing(n) else p.expr(n.value),
}


def expr_text(node: Any) -> str:
    """An expression as text."""
    return Printer().expr(node)


#: the printer of what has blocks, which reads like TVMScript
_SCRIPT = "whet.compiler.tir.blocks.script:ScriptPrinter"


def stmt_text(stmt: Stmt) -> str:
    """A statement as text."""
    p = imported(_SCRIPT)() if has_blocks(stmt) else Printer()
    p.stmt(stmt, 0)
    return "\n".join(p.lines)


def function_text(func: PrimFunc) -> str:
    """A function as text: a signature line and the loops."""
    if has_blocks(func.body):
        return str(imported(_SCRIPT)().function(func))
    p = Printer()
    params = []
    for x in func.params:
        if isinstance(x, Buffer):
            params.append(f"{p.name(x)}: {x.dtype}[{p.list(x.shape)}]")
        else:
            params.append(f"{p.name(x)}: {x.dtype}")
    p.lines.append(f"def {func.attrs.get('global_symbol', 'main')}({', '.join(params)}):")
    p.stmt(func.body, 1)
    return "\n".join(p.lines)


PrimExpr.text = expr_text
Stmt.text = stmt_text
PrimFunc.text = function_text
