"""A copy of a tree with loop variables, let variables and buffers of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.rewrite import Node, Rewriter


def renewed(body: Node) -> Node:
    """The tree with new variables and buffers in place of those that it defines itself.

    Two copies of a statement in one function need this: each variable has one definition.
    """
    fresh: dict[e.Var, e.Var] = {}
    buffers: dict[Buffer, Buffer] = {}

    def new_var(v: e.Var) -> e.Var:
        fresh[v] = type(v)(v.name, v.dtype)
        return fresh[v]

    def new_buffer(b: Buffer, own: bool = True) -> Buffer:
        data = e.Var(b.data.name, b.data.dtype) if own else fresh.get(b.data, b.data)
        if own:
            fresh[b.data] = data
        shape = tuple(rewrite(d) for d in b.shape)
        steps = tuple(rewrite(d) for d in b.strides)
        buffers[b] = replace(b, shape=shape, strides=steps, data=data)
        return buffers[b]

    def loop(n: s.For) -> s.For:
        first, extent = rewrite(n.min), rewrite(n.extent)
        var = new_var(n.var)
        return s.For(var, first, extent, n.kind, rewrite(n.body), n.annotations, n.thread)

    def let(n: Any) -> Any:
        value = rewrite(n.value)
        var = new_var(n.var)
        if isinstance(n, e.Let):
            return e.Let(var, value, rewrite(n.body), n.dtype)
        return s.LetStmt(var, value, rewrite(n.body))

    def allocate(n: s.Allocate) -> s.Allocate:
        return s.Allocate(new_buffer(n.buffer), rewrite(n.body))

    def const(n: s.AllocateConst) -> s.AllocateConst:
        return s.AllocateConst(new_buffer(n.buffer), n.data, rewrite(n.body))

    def declare(n: s.DeclBuffer) -> s.DeclBuffer:
        return s.DeclBuffer(new_buffer(n.buffer, own=False), rewrite(n.body))

    def load(n: e.BufferLoad) -> e.BufferLoad:
        n = rewrite.children(n)
        b = buffers.get(n.buffer)
        return n if b is None else e.BufferLoad(b, n.indices, n.dtype, n.mask)

    def view(n: e.BufferView) -> e.BufferView:
        n = rewrite.children(n)
        b = buffers.get(n.buffer)
        return n if b is None else e.BufferView(b, n.shape, n.strides, n.offset, n.dtype)

    def store(n: s.BufferStore) -> s.BufferStore:
        n = rewrite.children(n)
        b = buffers.get(n.buffer)
        return n if b is None else s.BufferStore(b, n.value, n.indices, n.mask)

    def attr(n: s.AttrStmt) -> s.AttrStmt:
        about = n.node
        if isinstance(about, Buffer):
            about = buffers.get(about, about)
        elif isinstance(about, e.Var):
            if n.key == "thread_extent":
                return s.AttrStmt(new_var(about), n.key, rewrite(n.value), rewrite(n.body))
            about = fresh.get(about, about)
        return s.AttrStmt(about, n.key, rewrite(n.value), rewrite(n.body))

    def swap(v: e.Var) -> e.Var:
        return fresh.get(v, v)

    rewrite = Rewriter(
        {
            e.Var: swap,
            e.SizeVar: swap,
            e.Let: let,
            e.BufferLoad: load,
            e.BufferView: view,
            s.For: loop,
            s.LetStmt: let,
            s.Allocate: allocate,
            s.AllocateConst: const,
            s.DeclBuffer: declare,
            s.BufferStore: store,
            s.AttrStmt: attr,
        }
    )
    return rewrite(body)
