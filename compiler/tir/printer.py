"""Loop IR as Python-like text: for people, for golden tests and for a program's identity."""

from __future__ import annotations

from typing import Any

from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.tracing.traced import shown

_PRECEDENCE = {
    "or": 1,
    "and": 2,
    "==": 4,
    "!=": 4,
    "<": 4,
    "<=": 4,
    ">": 4,
    ">=": 4,
    "+": 6,
    "-": 6,
    "*": 7,
    "/": 7,
    "//": 7,
    "%": 7,
}


_SCOPES = (s.LetStmt, s.AssertStmt, s.While, s.AttrStmt, s.DeclBuffer, s.AllocateConst)


class Printer:
    """Names variables and buffers uniquely, in the order of their first use, and prints trees."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.taken: set[str] = set()
        self.lines: list[str] = []
        self.kept: list[Any] = []  # an id is only a name while its object lives

    def name(self, thing: e.Var | Buffer, wanted: str = "") -> str:
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
        kind = type(n)
        if kind is e.IntImm:
            return str(bool(n.value)) if n.dtype == "bool" else shown(n.value)
        if kind in (e.Var, e.SizeVar):
            return self.name(n)
        if isinstance(n, e.BinaryOp):
            level = _PRECEDENCE.get(n.symbol)
            if level is None:
                return f"{n.symbol}({self.expr(n.a)}, {self.expr(n.b)})"
            text = f"{self.expr(n.a, level)} {n.symbol} {self.expr(n.b, level + 1)}"
            return f"({text})" if level < outer else text
        if kind is e.BufferLoad:
            mask = "" if n.mask is None else f" where {self.expr(n.mask)}"
            text = f"{self.name(n.buffer)}[{self.list(n.indices)}]"
            return f"({text}{mask})" if mask else text
        if kind is e.FloatImm:
            return f"{n.dtype}({n.value!r})"
        if kind is e.ProducerLoad:
            return f"{n.producer.name}[{self.list(n.indices)}]"
        if kind is e.Ramp:
            return f"ramp({self.expr(n.base)}, {n.stride}, {n.lanes})"
        if kind is e.Broadcast:
            return f"broadcast({self.expr(n.value)}, {n.lanes})"
        if kind is e.Cast:
            return f"{n.dtype}({self.expr(n.value)})"
        if kind is e.Call:
            if n.op == "reinterpret":
                return f"reinterpret({n.dtype!r}, {self.expr(n.args[0])})"
            return f"{n.op}({self.list(n.args)})"
        if kind is e.Select:
            return f"select({self.list((n.condition, n.true_value, n.false_value))})"
        if kind is e.Not:
            return f"not {self.expr(n.a, 3)}"
        if kind is e.StringImm:
            return repr(n.value)
        if kind is e.Let:
            return f"let({self.name(n.var)}, {self.list((n.value, n.body))})"
        if kind is e.Shuffle:
            return f"shuffle([{self.list(n.vectors)}], {list(n.indices)})"
        if kind is e.BufferView:
            return self._view(n)
        if kind is e.Reduce:
            axes = ", ".join(a.var.name for a in n.axis)
            return f"{n.combiner.name}({self.list(n.source)}, axis=[{axes}])"
        return repr(n)

    def _view(self, n: e.BufferView) -> str:
        shape = f"({self.list(n.shape)}{',' if len(n.shape) == 1 else ''})"
        more = f", strides=({self.list(n.strides)})" if n.strides else ""
        if not (isinstance(n.offset, e.IntImm) and n.offset.value == 0):
            more += f", offset={self.expr(n.offset)}"
        return f"view({self.name(n.buffer)}, {shape}{more})"

    def list(self, nodes: tuple[Any, ...]) -> str:
        """Expressions separated by commas."""
        return ", ".join([self.expr(x) for x in nodes])

    # statements

    def stmt(self, n: s.Stmt, indent: int) -> None:
        """Append the lines of a statement."""
        pad = "    " * indent
        kind = type(n)
        if kind is s.For:
            self._loop(n, indent)  # type: ignore[arg-type]
        elif kind is s.BufferStore:
            mask = "" if n.mask is None else f" where {self.expr(n.mask)}"  # type: ignore[attr-defined]
            target = f"{self.name(n.buffer)}[{self.list(n.indices)}]"  # type: ignore[attr-defined]
            self.lines.append(f"{pad}{target} = {self.expr(n.value)}{mask}")  # type: ignore[attr-defined]
        elif kind is s.SeqStmt:
            for part in n.seq:  # type: ignore[attr-defined]
                self.stmt(part, indent)
        elif kind is s.IfThenElse:
            assert isinstance(n, s.IfThenElse)
            test = self.expr(n.condition)
            self.lines.append(f"{pad}if {f'likely({test})' if n.likely else test}:")
            self.stmt(n.then_case, indent + 1)
            if n.else_case is not None:
                self.lines.append(f"{pad}else:")
                self.stmt(n.else_case, indent + 1)
        elif kind is s.Allocate:
            b = n.buffer  # type: ignore[attr-defined]
            shape = self.list(b.shape)
            self.lines.append(
                f'{pad}{self.name(b)} = allocate([{shape}], "{b.dtype}", "{b.storage_scope}")'
            )
            self.stmt(n.body, indent)  # type: ignore[attr-defined]
        elif kind in _SCOPES:
            self._scope(n, indent)
        elif kind is s.Evaluate:
            self.lines.append(pad + ("pass" if s.is_nothing(n) else self.expr(n.value)))  # type: ignore[attr-defined]
        else:
            self.lines.append(f"{pad}{n!r}")

    def _scope(self, n: Any, indent: int) -> None:
        """A statement that says something about the one inside it."""
        pad, kind = "    " * indent, type(n)
        if kind is s.While:
            self.lines.append(f"{pad}while {self.expr(n.condition)}:")
            self.stmt(n.body, indent + 1)
            return
        if kind is s.LetStmt:
            line = f"{self.name(n.var)} = {self.expr(n.value)}"
        elif kind is s.AssertStmt:
            values = f" % ({self.list(n.values)})" if n.values else ""
            line = f"assert {self.expr(n.condition)}, {n.message!r}{values}"
        elif kind is s.AttrStmt:
            about = self.name(n.node) if isinstance(n.node, (e.Var, Buffer)) else repr(n.node)
            line = f"attr({about}, {n.key!r}, {self.expr(n.value)})"
        else:
            b = n.buffer
            what = "constant" if kind is s.AllocateConst else "decl_buffer"
            line = f'{self.name(b)} = {what}([{self.list(b.shape)}], "{b.dtype}")'
        self.lines.append(pad + line)
        self.stmt(n.body, indent)

    def _loop(self, n: s.For, indent: int) -> None:
        pad = "    " * indent
        lower = isinstance(n.min, e.IntImm) and n.min.value == 0
        if lower:
            span = self.expr(n.extent)
        else:
            from whet.compiler.tir.ops.ops import add

            span = f"{self.expr(n.min)}, {self.expr(add(n.min, n.extent))}"
        head = "range" if n.kind == s.SERIAL else n.kind
        if n.thread:
            span += f', "{n.thread}"'
        notes = "".join(f"  # {k} = {v}" for k, v in n.annotations.items())
        self.lines.append(f"{pad}for {self.name(n.var)} in {head}({span}):{notes}")
        self.stmt(n.body, indent + 1)


def expr_text(node: Any) -> str:
    """An expression as text."""
    return Printer().expr(node)


def stmt_text(stmt: s.Stmt) -> str:
    """A statement as text."""
    p = Printer()
    p.stmt(stmt, 0)
    return "\n".join(p.lines)


def function_text(func: PrimFunc) -> str:
    """A function as text: a signature line and the loops."""
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
