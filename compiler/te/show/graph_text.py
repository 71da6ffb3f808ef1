"""The text of a computation, whatever its schedule: what identifies the meaning of a workload."""

from __future__ import annotations

from collections.abc import Sequence

from whet.compiler.te.lang.graph import post_order
from whet.compiler.te.lang.scan import ScanOp
from whet.compiler.te.lang.tensor import ComputeOp, ExternOp, Tensor
from whet.compiler.tir.expr import Add, BinaryOp, Max, Min, PrimExpr, Reduce, Var
from whet.compiler.tir.printer import Printer
from whet.compiler.tir.visit.expect import expect
from whet.compiler.tir.visit.rewrite import LEAVES, nodes

#: an expression of more nodes than this, shared ones counted each time, is written step by step
_MOST_NODES = 50_000
_BUILT_IN = {"sum": Add, "min": Min, "max": Max}


def graph_text(outputs: Sequence[Tensor]) -> str:
    """Every operation behind ``outputs``, a line or more each, producers first.

    Raises:
        ArgumentError: for anything but a list of tensors.
    """
    expect(outputs, (list, tuple), "graph_text(outputs)")
    for t in outputs:
        expect(t, (Tensor,), "graph_text(outputs)")
    lines: list[str] = []
    for op in post_order([t.op for t in outputs]):
        p = Printer()
        if isinstance(op, ExternOp):
            lines += _extern(op, p)
            continue
        if isinstance(op, ScanOp):
            lines += _scan(op, p)
            continue
        shape = ", ".join(p.expr(d) for d in op.output_shape(0))
        if not isinstance(op, ComputeOp):
            lines.append(f"{op.name} = placeholder(({shape}), {op.output_dtype(0)})")
            continue
        axes = ", ".join(p.name(a.var) for a in op.axis)
        reduced = "".join(
            f", {p.name(a.var)} in ({p.expr(a.dom.min)}, {p.expr(a.dom.extent)})"
            for a in op.reduce_axis
            if a.dom is not None
        )
        for b in op.body:
            text = _text(b, p, lines)
            if isinstance(b, Reduce):
                text += f" where {p.expr(b.condition)} init {p.list(b.init)}{_combiner(b, p)}"
            lines.append(f"{op.name}[{axes}{reduced}] = ({shape}) {b.dtype} {text}")
    return "\n".join(lines)


def _combiner(n: Reduce, p: Printer) -> str:
    """The combination of a reducer, where its name does not say it."""
    c = n.combiner
    result = c.result[0]
    known = _BUILT_IN.get(c.name)
    if len(c.result) == 1 and known is not None and type(result) is known:
        assert isinstance(result, BinaryOp)
        if result.a is c.lhs[0] and result.b is c.rhs[0]:
            return ""
    values = f"({p.list((*c.lhs, *c.rhs))}) -> ({p.list(c.result)})"
    return f" combine {values} identity {p.list(c.identity)} part {n.value_index}"


def _scan(op: ScanOp, p: Printer) -> list[str]:
    """A line for each state: its first steps, and the update of what it was before."""
    return [
        f"{op.output(k).name} = scan({first.name}, {state.name} -> {step.name})"
        for k, (first, state, step) in enumerate(zip(op.init, op.state_placeholder, op.update))
    ]


def _extern(op: ExternOp, p: Printer) -> list[str]:
    ins = ", ".join(f"{p.name(b)} = {t.name}" for t, b in zip(op.inputs, op.input_placeholders))
    outs = ", ".join(f"{p.name(b)}: {b.dtype}[{p.list(b.shape)}]" for b in op.output_placeholders)
    p.stmt(op.body, 1)
    return [f"{op.name} = extern({ins}) -> {outs}:", *p.lines]


def _text(n: PrimExpr, p: Printer, lines: list[str]) -> str:
    """An expression; one that shares parts over and over, a line for each part before it."""
    inside = nodes((n,))
    size: dict[int, int] = {}
    for x in inside:
        size[id(x)] = 1 + sum(size[id(y)] for y in x.parts)
    if size[id(n)] <= _MOST_NODES:
        return p.expr(n)
    named: dict[int, PrimExpr] = {}
    for x in inside:
        if type(x) in LEAVES:
            named[id(x)] = x
            continue
        step = Var(f"%{len(lines)}", x.dtype)
        lines.append(f"{step.name} = {p.expr(x.with_parts(tuple(named[id(y)] for y in x.parts)))}")
        named[id(x)] = step
    return p.expr(named[id(n)])
