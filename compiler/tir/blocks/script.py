"""Functions with blocks as text that reads like TVMScript."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import (
    COMM_REDUCE,
    DATA_PAR,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    FloatImm,
    IntImm,
    IterVar,
    Max,
    Min,
    PrimExpr,
    Ramp,
    Range,
    Select,
    Var,
    int_value,
    is_int,
)
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.printer import Printer
from whet.compiler.tir.stmt import (
    PARALLEL,
    SERIAL,
    THREAD_BINDING,
    UNROLLED,
    VECTORIZED,
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    For,
    Stmt,
)
from whet.compiler.tir.visit.rewrite import variables

_HEADS = {
    SERIAL: "T.serial",
    PARALLEL: "T.parallel",
    VECTORIZED: "T.vectorized",
    UNROLLED: "T.unroll",
    THREAD_BINDING: "T.thread_binding",
}
_AXES = {DATA_PAR: ("spatial", "S"), COMM_REDUCE: ("reduce", "R")}


class ScriptPrinter(Printer):
    """Prints statements that have blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.taken.add("T")
        self.extents: dict[int, PrimExpr] = {}  # of the loops around, by their variables' ids

    def function(self, func: PrimFunc) -> str:
        """A function as text."""
        params = []
        for x in func.params:
            kind = self.buffer(x) if isinstance(x, Buffer) else f"T.{x.dtype}"
            params.append(f"{self.name(x)}: {kind}")
        self.line("@T.prim_func", 0)
        self.line(f"def {func.name}({', '.join(params)}):", 0)
        said = {k: v for k, v in func.attrs.items() if isinstance(v, (str, bool, int))}
        if said:
            self.line(f"T.func_attr({_notes(said)})", 1)
        body = func.body
        if isinstance(body, BlockRealize) and not body.iter_values and is_int(body.predicate, 1):
            self.line(f'# with T.block("{body.block.name_hint}"):', 1)
            self.inside(body.block, 1)
        else:
            self.stmt(body, 1)
        return "\n".join(self.lines)

    def buffer(self, b: Buffer) -> str:
        """The type of a parameter."""
        return f'T.Buffer({self.shape(b)}, "{b.dtype}")'

    def shape(self, b: Buffer) -> str:
        """The shape of a buffer as a tuple."""
        return f"({self.list(b.shape)}{',' if b.ndim == 1 else ''})"

    def expr(self, n: Any, outer: int = 0) -> str:
        """An expression; parenthesised when it binds less than ``outer``."""
        show = _EXPRESSIONS.get(type(n))
        return super().expr(n, outer) if show is None else show(self, n)

    def stmt(self, n: Stmt, indent: int) -> None:
        """Append the lines of a statement."""
        show = _STATEMENTS.get(type(n))
        if show is None:
            super().stmt(n, indent)
        else:
            show(self, n, indent)

    def _access(self, n: BufferLoad | BufferStore) -> str:
        return f"{self.name(n.buffer)}[{self.list(n.indices) or '()'}]"

    # loops and blocks

    def nest(self, n: For, indent: int) -> None:
        """A loop; plain ones that stand in each other alone are one line."""
        grid = [n]
        while _is_plain(grid[-1]) and isinstance(grid[-1].body, For) and _is_plain(grid[-1].body):
            inner = grid[-1].body
            if variables(inner.extent) & {x.var for x in grid}:
                break
            grid.append(inner)
        for x in grid:
            self.extents[id(x.var)] = x.extent
        if len(grid) > 1:
            extents = self.list(tuple(x.extent for x in grid))
            names = ", ".join(self.name(x.var) for x in grid)
            self.line(f"for {names} in T.grid({extents}):", indent)
        else:
            self.line(f"for {self.name(n.var)} in {self._span(n)}:", indent)
        self.stmt(grid[-1].body, indent + 1)
        self.leave(x.var for x in grid)

    def leave(self, done: Iterable[Var]) -> None:
        """Let others have the names of variables behind their scope."""
        for v in done:
            self.taken.discard(self.names[id(v)])

    def _span(self, n: For) -> str:
        if _is_plain(n):
            return f"range({self.expr(n.extent)})"
        args = [self.expr(n.extent)]
        if not is_int(n.min, 0):
            args = [self.expr(n.min), self.expr(n.min + n.extent)]
        if n.thread:
            args.append(f'thread="{n.thread}"')
        if n.annotations:
            args.append(f"annotations={_notes(n.annotations)}")
        return f"{_HEADS[n.kind]}({', '.join(args)})"

    def realize(self, n: BlockRealize, indent: int) -> None:
        """A block under the loops that give its axes their values."""
        self.line(f'with T.block("{n.block.name_hint}"):', indent)
        self.axes(n, indent + 1)
        if not is_int(n.predicate, 1):
            self.line(f"T.where({self.expr(n.predicate)})", indent + 1)
        self.block(n.block, indent + 1)
        self.leave(a.var for a in n.block.iter_vars)

    def plain_block(self, n: Block, indent: int) -> None:
        """A block on its own, whose axes have no values."""
        self.line(f'with T.block("{n.name_hint}"):', indent)
        for a in n.iter_vars:
            self.line(f"{self.name(a.var)} = {self._axis(a)})", indent + 1)
        self.block(n, indent + 1)

    def block(self, n: Block, indent: int) -> None:
        """What a block says of itself behind its axes."""
        self.line(f"T.reads({self.regions(n.reads)})", indent)
        self.line(f"T.writes({self.regions(n.writes)})", indent)
        self.inside(n, indent)

    def inside(self, n: Block, indent: int) -> None:
        """The notes, buffers and statements of a block."""
        if n.annotations:
            self.line(f"T.block_attr({_notes(n.annotations)})", indent)
        for b in n.alloc_buffers:
            more = "" if b.dtype == "float32" else f', "{b.dtype}"'
            more += "" if b.storage_scope == "global" else f', scope="{b.storage_scope}"'
            self.line(f"{self.name(b)} = T.alloc_buffer({self.shape(b)}{more})", indent)
        for m in n.match_buffers:
            source, b = self.region(m.source), m.buffer
            text = f'T.match_buffer({source}, {self.shape(b)}, "{b.dtype}")'
            self.line(f"{self.name(b)} = {text}", indent)
        if n.init is not None:
            self.line("with T.init():", indent)
            self.stmt(n.init, indent + 1)
        self.stmt(n.body, indent)

    def axes(self, n: BlockRealize, indent: int) -> None:
        """The axes of a block with their values; those that are loops themselves in one line."""
        run: list[tuple[IterVar, PrimExpr]] = []
        for a, value in zip(n.block.iter_vars, n.iter_values):
            if self._is_loop(a, value):
                run.append((a, value))
                continue
            self._remap(run, indent)
            run = []
            text = self.expr(value)
            self.line(f"{self.name(a.var)} = {self._axis(a)}, {text})", indent)
        self._remap(run, indent)

    def _is_loop(self, a: IterVar, value: PrimExpr) -> bool:
        extent = self.extents.get(id(value)) if isinstance(value, Var) else None
        if extent is None or a.iter_type not in _AXES:
            return False
        whole = a.domain.extent
        return extent is whole or (
            int_value(extent) is not None and int_value(extent) == int_value(whole)
        )

    def _remap(self, run: Sequence[tuple[IterVar, PrimExpr]], indent: int) -> None:
        if len(run) == 1:
            ((a, value),) = run
            self.line(f"{self.name(a.var)} = {self._axis(a)}, {self.expr(value)})", indent)
        elif run:
            values = self.list(tuple(v for _, v in run))
            names = ", ".join(self.name(a.var) for a, _ in run)
            kinds = "".join(_AXES[a.iter_type][1] for a, _ in run)
            self.line(f'{names} = T.axis.remap("{kinds}", [{values}])', indent)

    def _axis(self, a: IterVar) -> str:
        kind = _AXES.get(a.iter_type, ("opaque", "O"))[0]
        dom = a.domain
        if is_int(dom.min, 0):
            return f"T.axis.{kind}({self.expr(dom.extent)}"
        return f"T.axis.{kind}(({self.expr(dom.min)}, {self.expr(dom.min + dom.extent)})"

    def regions(self, regions: Sequence[BufferRegion]) -> str:
        """Regions separated by commas."""
        return ", ".join(map(self.region, regions))

    def region(self, x: BufferRegion) -> str:
        """A region: an index where a dimension has one element of it."""
        return f"{self.name(x.buffer)}[{', '.join(map(self._range, x.region)) or '()'}]"

    def _range(self, r: Range) -> str:
        if is_int(r.extent, 1):
            return self.expr(r.min)
        return f"{self.expr(r.min)}:{self.expr(r.min + r.extent)}"


def _is_plain(n: For) -> bool:
    return n.kind == SERIAL and is_int(n.min, 0) and not n.annotations


def _notes(said: dict[str, Any]) -> str:
    """Notes by name as a dictionary."""
    parts = [f'"{k}": {_note(v)}' for k, v in said.items()]
    return "{" + ", ".join(parts) + "}"


def _note(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _float(p: ScriptPrinter, n: FloatImm) -> str:
    text = repr(float(n.value)).removesuffix(".0")
    return f"T.{n.dtype}({text if text[-1].isdigit() else repr(text)})"


def _int(p: ScriptPrinter, n: IntImm) -> str:
    if n.dtype == "int32":
        return str(n.value)
    return f"T.{n.dtype}({bool(n.value) if n.dtype == 'bool' else n.value})"


_EXPRESSIONS: dict[type, Callable[[ScriptPrinter, Any], str]] = {
    IntImm: _int,
    FloatImm: _float,
    Min: lambda p, n: f"T.min({p.expr(n.a)}, {p.expr(n.b)})",
    Max: lambda p, n: f"T.max({p.expr(n.a)}, {p.expr(n.b)})",
    Cast: lambda p, n: f'T.Cast("{n.dtype}", {p.expr(n.value)})',
    Select: lambda p, n: f"T.Select({p.list((n.condition, n.true_value, n.false_value))})",
    Ramp: lambda p, n: f"T.Ramp({p.expr(n.base)}, {n.stride}, {n.lanes})",
    Broadcast: lambda p, n: f"T.Broadcast({p.expr(n.value)}, {n.lanes})",
    Call: lambda p, n: f"T.{Printer._call(p, n)}",
}
_STATEMENTS: dict[type, Callable[[ScriptPrinter, Any, int], None]] = {
    For: ScriptPrinter.nest,
    BlockRealize: ScriptPrinter.realize,
    Block: ScriptPrinter.plain_block,
}
