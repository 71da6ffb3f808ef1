"""The statement of an extern operation, on the buffers that its tensors are kept in."""

from __future__ import annotations

from collections.abc import Sequence

from whet.compiler.errors import LowerError
from whet.compiler.te.lang.tensor import ExternOp, HybridOp
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferView, IntImm, PrimExpr, Var
from whet.compiler.tir.stmt import DeclBuffer, Stmt
from whet.compiler.tir.visit.buffers import replace_buffers
from whet.compiler.tir.visit.rewrite import Node, Rewriter, nodes_of, substitute


def extern_nest(op: ExternOp, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
    """The operation's statement, reading ``ins`` and writing ``outs``.

    Variables that its declared buffers have for sizes, strides and offsets get the values of the
    real buffers.

    Raises:
        LowerError: where a declared buffer says something that the real one is not.
    """
    declared = (*op.input_placeholders, *op.output_placeholders)
    real = (*ins, *outs)
    values: dict[Var, PrimExpr] = {}
    views = {n.buffer.data for n in nodes_of(op.body, DeclBuffer)}
    for b, r in zip(declared, real):
        _bind(op, b, r, values)
        if b.data in views:
            _check_compact(op, b, r)
    body = _with_views(op.body, dict(zip(declared, real)))
    body = replace_buffers(body, dict(zip(declared, real)))
    return substitute(body, values)


def _check_compact(op: ExternOp, b: Buffer, real: Buffer) -> None:
    """A view of a declared buffer's memory knows nothing of the strides of the real one."""
    plain = isinstance(real.elem_offset, IntImm) and not real.elem_offset.value
    if real.strides or not plain:
        raise LowerError(
            f"lower: the extern operation {op.name}",
            f"its statement has another view of the memory of {b.name}, which is not compact here",
            "give a compact tensor, or index the buffer itself",
        )


def _with_views(body: Stmt, buffers: dict[Buffer, Buffer]) -> Stmt:
    """The statement whose views of whole buffers have the real ones' strides and offsets."""

    def view(n: BufferView) -> Node:
        real = buffers.get(n.buffer)
        whole = n.strides is n.buffer.strides and n.offset is n.buffer.elem_offset
        if real is None or not whole:
            return rewrite.children(n)
        return BufferView(n.buffer, real.shape, real.strides, real.elem_offset, n.dtype)

    rewrite = Rewriter({BufferView: view})
    return rewrite(body)


def _bind(op: ExternOp, b: Buffer, real: Buffer, values: dict[Var, PrimExpr]) -> None:
    for d, (x, y) in enumerate(zip(b.shape, real.shape)):
        _match(op, b, f"dimension {d}", x, y, values)
    if isinstance(op, HybridOp):
        return  # it has elements by their indices, wherever they are kept
    if b.strides:
        for d, (x, y) in enumerate(zip(b.strides, real.steps())):
            # a dimension of one step or none has no stride that matters
            size = real.shape[d]
            if not (isinstance(size, IntImm) and size.value <= 1 and isinstance(x, IntImm)):
                _match(op, b, f"the stride of dimension {d}", x, y, values)
    elif real.strides:
        for d, (x, y) in enumerate(zip(b.steps(), real.strides)):
            _match(op, b, f"the stride of dimension {d}", x, y, values)
    _match(op, b, "the offset", b.elem_offset, real.elem_offset, values)
    if b.storage_scope != real.storage_scope and op.output_placeholders.count(b):
        raise LowerError(
            f"lower: the extern operation {op.name}",
            f"its buffer {b.name} is declared in scope {b.storage_scope}, and {real.name} is kept "
            f"in {real.storage_scope}",
            "declare it with the scope that the stage has",
        )


def _match(
    op: ExternOp,
    b: Buffer,
    what: str,
    x: PrimExpr,
    y: PrimExpr,
    values: dict[Var, PrimExpr],
) -> None:
    """Learn that ``x`` is ``y``, or see that it can be."""
    from whet.compiler.arith import Analyzer
    from whet.compiler.tir.printer import expr_text

    if x is y:
        return
    if isinstance(x, Var):
        x = values.setdefault(x, y)
    analyzer = Analyzer()
    difference = analyzer.affine(x) - analyzer.affine(y)
    if difference.is_const and difference.const:
        raise LowerError(
            f"lower: the extern operation {op.name}",
            f"{what} of its buffer {b.name} is declared as {expr_text(x)}, and is {expr_text(y)}",
            "declare it with a te.var, or as it is",
        )
