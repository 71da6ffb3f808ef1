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
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.analysis.effects import is_pure
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.visit.rewrite import nodes_of


def remove_no_op(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function without statements that have no effect."""
    used: set[e.Var | Buffer] = set()  # buffers and memory, read, written or handed over
    read: set[e.Var] = set()

    for n in nodes_of(func.body, e.BufferLoad, s.BufferStore, e.BufferView, e.Var):
        if isinstance(n, e.Var):
            read.add(n)
        else:
            used |= {n.buffer, n.buffer.data}

    def loop(n: s.For) -> s.Stmt:
        none = isinstance(n.extent, e.IntImm) and n.extent.value <= 0
        return s.nothing() if none or s.is_nothing(n.body) else n

    def branch(n: s.IfThenElse) -> s.Stmt:
        empty = n.else_case is None or s.is_nothing(n.else_case)
        return s.nothing() if empty and s.is_nothing(n.then_case) else n

    def holder(n: s.Allocate | s.AllocateConst | s.DeclBuffer) -> s.Stmt:
        what = n.buffer if isinstance(n, s.DeclBuffer) else n.buffer.data
        needed = what in used or n.buffer.data in read
        return n if needed and not s.is_nothing(n.body) else n.body

    def let(n: s.LetStmt) -> s.Stmt:
        needed = n.var in read and not s.is_nothing(n.body)
        return n if needed or not is_pure(n.value) else n.body

    rules: dict[type, Callable[[Any], s.Stmt]] = {
        s.For: loop,
        s.IfThenElse: branch,
        s.Allocate: holder,
        s.AllocateConst: holder,
        s.DeclBuffer: holder,
        s.LetStmt: let,
        s.AttrStmt: lambda n: n.body if s.is_nothing(n.body) else n,
        s.Evaluate: lambda n: s.nothing() if is_pure(n.value) else n,
    }
    return func.with_body(bottom_up(func.body, rules))
