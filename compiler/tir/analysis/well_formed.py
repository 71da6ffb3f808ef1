"""True if variables and buffers are defined, once each, around every use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from whet.compiler.errors import LowerError
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, BufferView, IterVar, Let, Var, is_int
from whet.compiler.tir.function import IRModule, PrimFunc, functions_of
from whet.compiler.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    For,
    LetStmt,
)
from whet.compiler.tir.visit.expect import FUNCTION, FUNCTIONS, NODES, expect
from whet.compiler.tir.visit.renew import defined_by
from whet.compiler.tir.visit.rewrite import variables


def verify_ssa(func: PrimFunc) -> bool:
    """True if no variable is defined twice in a function, and no buffer's memory made twice.

    Raises:
        ArgumentError: for anything but a PrimFunc.
    """
    expect(func, FUNCTION, "verify_ssa(func)")
    return not any(True for _ in ssa_errors(func))


def ssa_errors(func: PrimFunc) -> Iterator[str]:
    """Messages about variables and memory that are defined twice."""
    defined: set[Var] = {p.data if isinstance(p, Buffer) else p for p in func.params}
    if len(defined) != len(func.params):
        yield "a parameter stands there twice"
    stack: list[Any] = [func.body]
    while stack:
        n = stack.pop()
        var = _defined(n)
        if var is not None:
            if var in defined:
                yield f"{var.name} is defined twice"
            defined.add(var)
        stack.extend(n.parts)


def _defined(n: Any) -> Var | None:
    """The variable that a node defines."""
    if isinstance(n, AttrStmt) and n.key == "thread_extent":
        about = getattr(n.node, "var", n.node)
        return about if isinstance(about, Var) else None
    return defined_by(n)


def verify_well_formed(func: PrimFunc | IRModule, assert_mode: bool = True) -> bool:
    """True if everything that a function uses is defined where it is used.

    Args:
        func: the function, or all of a module.
        assert_mode: raise instead of returning False.

    Raises:
        LowerError: naming the variable or buffer.
        ArgumentError: for anything but a PrimFunc or a module.
    """
    expect(func, FUNCTIONS, "verify_well_formed(func)")
    for f in functions_of(func):
        for error in well_formed_errors(f):
            if assert_mode:
                name = f.attrs.get("global_symbol", "main")
                raise LowerError(f"verify_well_formed({name})", error, f.script)
            return False
    return True


def well_formed_errors(func: PrimFunc) -> list[str]:
    """Messages about variables and buffers that are used outside their definition."""
    walk = _Scopes()
    for p in func.params:
        walk.define(p)
    walk.vars.update(func.attrs.get("symbols", ()))
    walk.visit(func.body)
    return walk.errors


def undefined_vars(node: Any, defs: tuple | list = ()) -> list[Var]:
    """The variables that a statement or expression uses and does not define.

    Args:
        node: a statement, an expression or a function.
        defs: variables and buffers that are defined outside.

    Raises:
        ArgumentError: for anything else.
    """
    expect(node, (*FUNCTION, *NODES), "undefined_vars(node)")
    expect(defs, (tuple, list), "undefined_vars(defs)")
    for d in defs:
        expect(d, (Buffer, Var, IterVar), "undefined_vars(defs)")
    walk = _Scopes()
    if isinstance(node, PrimFunc):
        defs = [*defs, *node.params]
        node = node.body
    for d in defs:
        walk.define(d)
    walk.visit(node)
    return list(walk.free)


class _Scopes:
    """Walks a tree with what is defined at each place."""

    def __init__(self) -> None:
        self.vars: set[Var] = set()
        self.buffers: set[Buffer] = set()
        self.errors: list[str] = []
        self.free: dict[Var, None] = {}

    def buffer(self, b: Buffer) -> None:
        """A buffer is defined from here on."""
        self.buffers.add(b)
        self.vars.add(b.data)

    def define(self, x: Any) -> None:
        """A parameter is defined; the size of a buffer defines the variables that it is made of."""
        if not isinstance(x, Buffer):
            self.vars.add(getattr(x, "var", x))
            return
        self.buffer(x)
        for d in (*x.shape, *x.strides, x.elem_offset):
            self.vars |= variables(d)

    def visit(self, n: Any) -> None:
        """Look at a node and all inside it."""
        if isinstance(n, Var):
            if n not in self.vars:
                self.errors.append(f"{n.name} is used where it is not defined")
                self.free[n] = None
            return
        if isinstance(n, (For, LetStmt, Let)):
            *before, body = n.parts
            for p in before:
                self.visit(p)
            self._within(body, n.var)
        elif isinstance(n, (Allocate, AllocateConst, DeclBuffer)):
            self._holder(n)
        elif isinstance(n, AttrStmt) and n.key == "thread_extent":
            self.visit(n.value)
            self._within(n.body, getattr(n.node, "var", n.node))
        else:
            if isinstance(n, (BufferLoad, BufferStore, BufferView)):
                self._use(n.buffer)
            for p in n.parts:
                self.visit(p)

    def _within(self, body: Any, var: Any) -> None:
        known = var in self.vars
        self.vars.add(var)
        self.visit(body)
        if not known:
            self.vars.discard(var)

    def _holder(self, n: Allocate | AllocateConst | DeclBuffer) -> None:
        b = n.buffer
        for d in (*b.shape, *b.strides, b.elem_offset):
            self.visit(d)
        if isinstance(n, DeclBuffer) and b.data not in self.vars:
            self.errors.append(f"{b.name} is a view of {b.data.name}, which is not defined there")
            self.free[b.data] = None
        known = b.data in self.vars
        self.buffer(b)
        self.visit(n.body)
        self.buffers.discard(b)
        if not known:
            self.vars.discard(b.data)

    def _use(self, b: Buffer) -> None:
        if b not in self.buffers:
            self.errors.append(f"the buffer {b.name} is used where it is not defined")
            if b.data not in self.vars:
                self.free[b.data] = None


def verify_compact_buffer(func: PrimFunc) -> bool:
    """True if all buffers among the parameters are row-major, without gaps or offsets.

    Raises:
        ArgumentError: for anything but a PrimFunc.
    """
    expect(func, FUNCTION, "verify_compact_buffer(func)")
    return all(
        not p.strides and is_int(p.elem_offset, 0) for p in func.params if isinstance(p, Buffer)
    )
