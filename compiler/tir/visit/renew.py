"""A copy of a tree with loop variables, let variables and buffers of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import Let, SizeVar, Var
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    Block,
    DeclBuffer,
    For,
    LetStmt,
    Stmt,
)
from whet.compiler.tir.visit.buffers import BufferRewriter
from whet.compiler.tir.visit.rewrite import LEAVES, Node, changed


def renewed(body: Node) -> Node:
    """The tree with new variables and buffers in place of those that it defines itself.

    Two copies of a statement in one function need this: each variable has one definition.
    """
    return _Renewer()(body)


class _New:
    """A block with a new variable in place of one; behind it, the one before."""

    __slots__ = ("_fresh", "_old", "_outer")

    def __init__(self, fresh: dict[Var, Var], old: Var) -> None:
        self._fresh, self._old = fresh, old
        self._outer = fresh.get(old)

    def __enter__(self) -> Var:
        old = self._old
        var = self._fresh[old] = type(old)(old.name, old.dtype)
        return var

    def __exit__(self, *error: object) -> None:
        if self._outer is None:
            self._fresh.pop(self._old, None)
        else:
            self._fresh[self._old] = self._outer


class _Renewer(BufferRewriter):
    def __init__(self) -> None:
        super().__init__(
            lambda b: self.buffers.get(b, b),
            rules={
                Var: self._var,
                SizeVar: self._var,
                Let: self._define,
                For: self._define,
                LetStmt: self._define,
                Allocate: self._allocate,
                AllocateConst: self._constant,
                DeclBuffer: self._declare,
                AttrStmt: self._about,
                Block: self._realized,
            },
        )
        self.fresh: dict[Var, Var] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    def _var(self, v: Var) -> Var:
        return self.fresh.get(v, v)

    def _new(self, v: Var) -> _New:
        return _New(self.fresh, v)

    def _copy(self, b: Buffer, data: Var) -> Buffer:
        shape, strides = tuple(map(self, b.shape)), tuple(map(self, b.strides))
        self.buffers[b] = replace(b, shape=shape, strides=strides, data=data)
        return self.buffers[b]

    def _define(self, n: Any) -> Any:
        """A node that defines a variable for its body, the last of its children."""
        *before, body = n.parts
        outside = [self(p) for p in before]
        with self._new(n.var) as var:
            out = n.with_parts((*outside, self(body)))
        out.var = var  # of a node that nobody else has yet
        return out

    def _allocate(self, n: Allocate) -> Allocate:
        held = self.buffers.get(n.buffer)
        with self._new(n.buffer.data) as data:
            out = Allocate(self._copy(n.buffer, data), self(n.body))
        if held is not None:
            self.buffers[n.buffer] = held
        return out

    def _realized(self, n: Block) -> Block:
        """A block with axes and buffers of its own."""
        for a in n.iter_vars:
            self.fresh[a.var] = Var(a.var.name, a.var.dtype)
        for b in (*n.alloc_buffers, *(m.buffer for m in n.match_buffers)):
            data = self.fresh[b.data] = Var(b.data.name, b.data.dtype)
            self._copy(b, data)
        out = self._block(n)
        axes = tuple([changed(a, var=self.fresh[a.var]) for a in out.iter_vars])
        return changed(out, iter_vars=axes)

    def _constant(self, n: AllocateConst) -> AllocateConst:
        data = self.fresh[n.buffer.data] = Var(n.buffer.data.name, n.buffer.data.dtype)
        return AllocateConst(self._copy(n.buffer, data), n.data, self(n.body))

    def _declare(self, n: DeclBuffer) -> DeclBuffer:
        return DeclBuffer(self._copy(n.buffer, self._var(n.buffer.data)), self(n.body))

    def _about(self, n: AttrStmt) -> AttrStmt:
        if not isinstance(n.node, Var):
            return self._attribute(n)
        if n.key != "thread_extent":
            return changed(self.children(n), node=self._var(n.node))
        value = self(n.value)
        with self._new(n.node) as var:
            return AttrStmt(var, n.key, value, self(n.body))


def defined_once(func: PrimFunc) -> PrimFunc:
    """The function with a variable and a buffer of its own for each definition.

    It is the same object where nothing is defined twice, as in all that comes from a schedule.
    """
    return func.with_body(renewed(func.body)) if _defines_twice(func) else func


def _defines_twice(func: PrimFunc) -> bool:
    defined: set[Var] = {p.data if isinstance(p, Buffer) else p for p in func.params}
    seen: set[int] = set()  # expressions may share parts
    stack: list[Node] = [func.body]
    while stack:
        n = stack.pop()
        kind = type(n)
        if kind in LEAVES or (id(n) in seen and not isinstance(n, Stmt)):
            continue
        seen.add(id(n))
        var = defined_by(n)
        if var is not None and var in defined:
            return True
        if var is not None:
            defined.add(var)
        stack.extend(n.parts)
    return False


def defined_by(n: Node) -> Var | None:
    """The variable that a loop, a ``let`` or an allocation defines."""
    kind = type(n)
    if kind in (For, LetStmt, Let):
        return n.var
    return n.buffer.data if kind in (Allocate, AllocateConst) else None
