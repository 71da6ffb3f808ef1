"""The variables of thread axes, which a pass of a user's own may write: their loops' variables.

Before::

    for i in thread_binding(32, "threadIdx.x"):
        B[i] = A[threadIdx.x]

After::

    for i in thread_binding(32, "threadIdx.x"):
        B[i] = A[i]

An axis of :func:`whet.te.thread_axis` is known by its tag, which is its variable's name unless
another one was given.
"""

from __future__ import annotations

from whet.compiler.passes.threads.guards import HARDWARE, is_thread_loop
from whet.compiler.tir.expr import PrimExpr, Var, is_int
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import For, LetStmt, Stmt
from whet.compiler.tir.visit.rewrite import Rewriter, variables


def resolve_thread_axes(func: PrimFunc) -> PrimFunc:
    """The function in which no thread axis' variable stands inside a loop bound to its tag."""
    if not any(v.name in HARDWARE and v not in func.params for v in variables(func.body)):
        return func
    body = _Resolver(func)(func.body)
    return func if body is func.body else func.with_body(body)


class _Resolver(Rewriter):
    def __init__(self, func: PrimFunc) -> None:
        self.steps: dict[str, PrimExpr] = {}  # tag -> the step of the innermost loop around
        self.known: set[Var] = {p for p in func.params if isinstance(p, Var)}
        super().__init__({For: self._loop, Var: self._var, LetStmt: self._let})

    def _var(self, v: Var) -> PrimExpr:
        step = None if v in self.known else self.steps.get(v.name)
        return v if step is None else ops.cast(v.dtype, step)

    def _let(self, n: LetStmt) -> Stmt:
        self.known.add(n.var)
        return self.children(n)

    def _loop(self, n: For) -> Stmt:
        self.known.add(n.var)
        if not is_thread_loop(n):
            return self.children(n)
        before = self.steps.get(n.thread)
        first = is_int(n.min, 0)
        self.steps[n.thread] = n.var if first else n.var - n.min
        out = self.children(n)
        del self.steps[n.thread]
        if before is not None:
            self.steps[n.thread] = before
        return out
