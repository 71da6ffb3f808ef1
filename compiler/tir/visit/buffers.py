"""Rewriting where buffers are used and made: other buffers, other indices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, BufferView, PrimExpr, Ramp, Var
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    Block,
    BufferStore,
    DeclBuffer,
    Stmt,
)
from whet.compiler.tir.visit.rewrite import Node, Rewriter, changed, substitute, variables

Index = Callable[[Buffer, tuple[PrimExpr, ...]], tuple[PrimExpr, ...]]


class BufferRewriter(Rewriter):
    """Puts ``buffer(b)`` in place of each buffer ``b``; the same object where nothing changes.

    Args:
        buffer: from an old buffer to the new one, or to itself.
        index: from the old buffer and the indices of an access to the indices in the new one; a
            view's offset counts as one index. The indices stay as they are without it.
        rules: for other classes of nodes, or in place of those here.
        once: as :class:`Rewriter` has it.
    """

    def __init__(
        self,
        buffer: Callable[[Buffer], Buffer],
        index: Index | None = None,
        rules: Mapping[type, Callable[[Any], Node]] | None = None,
        once: bool = False,
    ) -> None:
        own: dict[type, Callable[[Any], Node]] = {
            BufferLoad: self._access,
            BufferView: self._view,
            BufferStore: self._access,
            Allocate: self._holder,
            DeclBuffer: self._holder,
            AllocateConst: self._holder,
            AttrStmt: self._attribute,
            Block: self._block,
        }
        super().__init__({**own, **(rules or {})}, once)
        self.buffer = buffer
        self.index = index or _same

    def _access(self, n: Any) -> Any:
        n = self.children(n)
        new = self.buffer(n.buffer)
        if new is n.buffer:
            return n
        return changed(n, buffer=new, indices=self.index(n.buffer, n.indices))

    def _view(self, n: BufferView) -> BufferView:
        n = self.children(n)
        new = self.buffer(n.buffer)
        if new is n.buffer:
            return n
        (offset,) = self.index(n.buffer, (n.offset,))
        return BufferView(new, n.shape, n.strides, offset, n.dtype)

    def _holder(self, n: Any) -> Stmt:
        n = self.children(n)
        return changed(n, buffer=self.buffer(n.buffer))

    def _attribute(self, n: AttrStmt) -> AttrStmt:
        n = self.children(n)
        return changed(n, node=self.buffer(n.node)) if isinstance(n.node, Buffer) else n

    def _block(self, n: Block) -> Block:
        n = self.children(n)
        regions = {
            name: tuple([changed(x, buffer=self.buffer(x.buffer)) for x in getattr(n, name)])
            for name in ("reads", "writes")
        }
        matched = tuple([
            changed(m, buffer=self.buffer(m.buffer), source=changed(
                m.source, buffer=self.buffer(m.source.buffer)))
            for m in n.match_buffers
        ])  # fmt: skip
        made = tuple(map(self.buffer, n.alloc_buffers))
        return changed(n, **regions, match_buffers=matched, alloc_buffers=made)


def _same(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
    return indices


def at_base(index: PrimExpr, change: Callable[[PrimExpr], PrimExpr]) -> PrimExpr:
    """An index changed: of the lanes of a ramp its base."""
    return changed(index, base=change(index.base)) if isinstance(index, Ramp) else change(index)


def with_sizes(b: Buffer, values: Mapping[Var, PrimExpr]) -> Buffer:
    """A buffer with variables of its shape and strides replaced; itself where there are none."""
    shape, strides = (tuple(substitute(d, values) for d in sizes) for sizes in (b.shape, b.strides))
    return changed(b, shape=shape, strides=strides)


def replace_buffers(node: Node, buffers: Mapping[Buffer, Buffer]) -> Node:
    """The tree with buffers replaced by others of the same rank, where they are used and made.

    What else shares their memory shares that of the others.
    """
    if not buffers:
        return node
    data = {b.data: c.data for b, c in buffers.items()}
    known = dict(buffers)

    def buffer(b: Buffer) -> Buffer:
        if b not in known and b.data in data:
            known[b] = replace(b, data=data[b.data])
        return known.get(b, b)

    rewrite = BufferRewriter(buffer, rules={Var: lambda v: data.get(v, v)}, once=True)
    return rewrite(node)


def scalars_of(func: PrimFunc) -> list[Var]:
    """The scalar parameters of a function and the sizes of its arrays."""
    found: dict[Var, None] = {}
    for p in func.params:
        sizes = (*p.shape, *p.strides) if isinstance(p, Buffer) else (p,)
        found.update(dict.fromkeys(v for d in sizes for v in variables(d)))
    return list(found)
