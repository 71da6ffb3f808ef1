"""RemoveNoOp: no loops, branches or buffers that nothing needs.

T = allocate([64])
for i in range(n):       ->  pass
    pass
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler.passes.contract.bottom_up import bottom_up
from whet.compiler.passes.contract.option import PassConfig
from whet.compiler.target import Target
from whet.compiler.tir.analysis.effects import is_pure
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, BufferView, IntImm, Var
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    is_nothing,
    nothing,
)
from whet.compiler.tir.visit.rewrite import nodes_of


def remove_no_op(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function without statements that have no effect."""
    used: set[Var | Buffer] = set()  # buffers and memory, read, written or handed over
    read: set[Var] = set()

    for n in nodes_of(func.body, BufferLoad, BufferStore, BufferView, Var):
        if isinstance(n, Var):
            read.add(n)
        else:
            used |= {n.buffer, n.buffer.data}

    def loop(n: For) -> Stmt:
        none = isinstance(n.extent, IntImm) and n.extent.value <= 0
        return nothing() if none or is_nothing(n.body) else n

    def branch(n: IfThenElse) -> Stmt:
        empty = n.else_case is None or is_nothing(n.else_case)
        return nothing() if empty and is_nothing(n.then_case) else n

    def holder(n: Allocate | AllocateConst | DeclBuffer) -> Stmt:
        what = n.buffer if isinstance(n, DeclBuffer) else n.buffer.data
        needed = what in used or n.buffer.data in read
        return n if needed and not is_nothing(n.body) else n.body

    def let(n: LetStmt) -> Stmt:
        needed = n.var in read and not is_nothing(n.body)
        return n if needed or not is_pure(n.value) else n.body

    rules: dict[type, Callable[[Any], Stmt]] = {
        For: loop,
        IfThenElse: branch,
        Allocate: holder,
        AllocateConst: holder,
        DeclBuffer: holder,
        LetStmt: let,
        AttrStmt: lambda n: n.body if is_nothing(n.body) else n,
        Evaluate: lambda n: nothing() if is_pure(n.value) else n,
    }
    return func.with_body(bottom_up(func.body, rules))
