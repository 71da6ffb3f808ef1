"""The text of a computation, whatever its schedule: what identifies the meaning of a workload."""

from __future__ import annotations

from collections.abc import Sequence

from whet.compiler.te.schedule import _post_order
from whet.compiler.te.tensor import ComputeOp, Tensor
from whet.compiler.tir import expr as e
from whet.compiler.tir.printer import Printer


def graph_text(outputs: Sequence[Tensor]) -> str:
    """Every operation behind ``outputs``, a line or two each, producers first."""
    lines = []
    for op in _post_order([t.op for t in outputs]):
        p = Printer()
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
            text = p.expr(b)
            if isinstance(b, e.Reduce):
                text += f" where {p.expr(b.condition)} init {p.list(b.init)}"
            lines.append(f"{op.name}[{axes}{reduced}] = ({shape}) {b.dtype} {text}")
    return "\n".join(lines)
