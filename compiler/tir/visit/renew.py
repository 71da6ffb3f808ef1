"""A copy of a tree with loop variables, let variables and buffers of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.visit.rewrite import LEAVES, TABLE, Node, Rewriter


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

    def within(body: Any, v: e.Var, outer: e.Var | None) -> Any:
        # what a variable of this name means behind the body is what it meant before it
        new = rewrite(body)
        if outer is None:
            fresh.pop(v, None)
        else:
            fresh[v] = outer
        return new

    def loop(n: s.For) -> s.For:
        first, extent = rewrite(n.min), rewrite(n.extent)
        outer, var = fresh.get(n.var), new_var(n.var)
        body = within(n.body, n.var, outer)
        return s.For(var, first, extent, n.kind, body, n.annotations, n.thread)

    def let(n: Any) -> Any:
        value = rewrite(n.value)
        outer, var = fresh.get(n.var), new_var(n.var)
        body = within(n.body, n.var, outer)
        if isinstance(n, e.Let):
            return e.Let(var, value, body, n.dtype)
        return s.LetStmt(var, value, body)

    def allocate(n: s.Allocate) -> s.Allocate:
        outer, held = fresh.get(n.buffer.data), buffers.get(n.buffer)
        new = new_buffer(n.buffer)
        body = within(n.body, n.buffer.data, outer)
        if held is not None:
            buffers[n.buffer] = held
        return s.Allocate(new, body)

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
                outer, value = fresh.get(about), rewrite(n.value)
                var = new_var(about)
                return s.AttrStmt(var, n.key, value, within(n.body, about, outer))
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


def defined_once(func: PrimFunc) -> PrimFunc:
    """The function with a variable and a buffer of its own for each definition.

    It is the same object where nothing is defined twice, as in all that comes from a schedule.
    """
    return func.with_body(renewed(func.body)) if _defines_twice(func) else func


def _defines_twice(func: PrimFunc) -> bool:
    defined: set[e.Var] = {p.data if isinstance(p, Buffer) else p for p in func.params}
    seen: set[int] = set()  # expressions may share parts
    stack: list[Node] = [func.body]
    while stack:
        n = stack.pop()
        kind = type(n)
        if kind in LEAVES or (id(n) in seen and not isinstance(n, s.Stmt)):
            continue
        seen.add(id(n))
        var = None
        if kind in (s.For, s.LetStmt, e.Let):
            var = n.var
        elif kind in (s.Allocate, s.AllocateConst):
            var = n.buffer.data
        if var is not None and var in defined:
            return True
        if var is not None:
            defined.add(var)
        stack.extend(TABLE[kind][0](n))
    return False
