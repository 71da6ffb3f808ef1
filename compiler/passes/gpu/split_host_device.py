"""SplitHostDevice: each outermost region of thread-bound loops becomes a kernel.

Before::

    def main(A: float32[48], B: float32[48]):
        for i in thread_binding(6, "blockIdx.x"):
            for j in thread_binding(8, "threadIdx.x"):
                B[i * 8 + j] = A[i * 8 + j] + float32(1.0)

After::

    def main(A: float32[48], B: float32[48]):
        launch_kernel("main_kernel0", A, B, 6, 1, 1, 8, 1, 1)

    def main_kernel0(A: float32[48], B: float32[48]):
        with thread_extent(blockIdx.x, 6), thread_extent(threadIdx.x, 8):
            B[blockIdx.x * 8 + threadIdx.x] = A[blockIdx.x * 8 + threadIdx.x] + float32(1.0)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from whet.compiler.errors import LowerError
from whet.compiler.passes.threads.axes import resolve_thread_axes
from whet.compiler.passes.threads.guards import HARDWARE, is_thread_loop
from whet.compiler.passes.threads.unify import Wrap, unify_threads
from whet.compiler.target import Target
from whet.compiler.tir.analysis.conditions import negated
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, BufferView, Call, Let, PrimExpr, StringImm, Var
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    seq,
)
from whet.compiler.tir.visit.rewrite import (
    Rewriter,
    nodes_of,
    post_order_visit,
    substitute,
)
from whet.compiler.tir.visit.stmt_functor import pre_order_visit


def split_host_device(func: PrimFunc) -> tuple[PrimFunc, list[PrimFunc]]:
    """The host's part of a function, and its kernels in the order of their launch.

    A kernel's params are the buffers that it uses and the scalars; its attribute
    ``thread_extent`` maps tags to extents, ``calling_conv`` is ``"kernel_launch"``. The host calls
    ``launch_kernel(name, buffer addresses.., scalars.., grid x, y, z, block x, y, z)``. Conditions,
    assertions, values and constants that stand around a region go into its kernel: what is left of
    the host are launches, loops around them and the buffers between them.

    Raises:
        LowerError: if something is computed outside all kernels, or a kernel cannot be made.
    """
    splitter = _Splitter(func)
    body = splitter(func.body)
    host = func if body is func.body else func.with_body(body)
    _check_host(host)
    return host, splitter.kernels


class _Splitter(Rewriter):
    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.name = func.name
        self.kernels: list[PrimFunc] = []
        self.views: set[Buffer] = set()  # declared outside kernels
        self.owners: dict[Var, Buffer] = {}
        self.around: list[Wrap] = []  # what the kernels of this place begin with, outermost first
        self.values: dict[Var, PrimExpr] = {}  # of the host's variables, for extents
        for p in func.params:
            if isinstance(p, Buffer):
                self.owners.setdefault(p.data, p)
        super().__init__(
            {
                For: lambda n: self._launch(n) if is_thread_loop(n) else self.children(n),
                DeclBuffer: self._declare,
                Allocate: self._allocate,
                AllocateConst: self._frame,
                IfThenElse: self._if,
                AssertStmt: lambda n: self._unless_it_reads(n, n.condition),
                LetStmt: self._let,
                AttrStmt: self._attribute,
            }
        )

    def _attribute(self, n: AttrStmt) -> Stmt:
        if not n.key.startswith("pragma_") or not has_thread_loop(n):
            return self.children(n)
        return self._frame(n)

    def _declare(self, n: DeclBuffer) -> Stmt:
        self.views.add(n.buffer)
        return self.children(n)

    def _allocate(self, n: Allocate) -> Stmt:
        self.owners.setdefault(n.buffer.data, n.buffer)
        return self.children(n)

    def _unless_it_reads(self, n: AssertStmt | LetStmt, value: PrimExpr) -> Stmt:
        # what the kernel itself may change is refused
        return self.children(n) if _reads_memory(value) else self._frame(n)

    def _let(self, n: LetStmt) -> Stmt:
        if not _reads_memory(n.value):
            self.values[n.var] = substitute(n.value, self.values)
        return self._unless_it_reads(n, n.value)

    def _if(self, n: IfThenElse) -> Stmt:
        if _reads_memory(n.condition) or not has_thread_loop(n):
            return self.children(n)
        then = self._inside(n.then_case, lambda body: IfThenElse(n.condition, body, None, n.likely))
        if n.else_case is None:
            return then
        otherwise = negated(n.condition)
        other = self._inside(n.else_case, lambda body: IfThenElse(otherwise, body))
        return seq(then, other)

    def _frame(self, n: Any) -> Stmt:
        return self._inside(n.body, lambda body: replace(n, body=body))

    def _inside(self, body: Stmt, wrap: Wrap) -> Stmt:
        """The host's part of a statement whose frame its kernels take over."""
        self.around.append(wrap)
        out = self(body)
        self.around.pop()
        return out

    def _launch(self, region: For) -> Stmt:
        body, threads = unify_threads(region, self.around)
        used, scalars = _free(body, set(threads.variables.values()))
        buffers: list[Buffer] = []
        for b in used:
            if b in self.views:
                body = DeclBuffer(b, body)
                b = self.owners[b.data]
            if b not in buffers:
                self._check_shared(b)
                buffers.append(b)
        order = [p for p in self.func.params if isinstance(p, Buffer)]
        buffers.sort(key=lambda b: order.index(b) if b in order else len(order))
        name = f"{self.name}_kernel{len(self.kernels)}"
        attrs = {
            "global_symbol": name,
            "calling_conv": "kernel_launch",
            "thread_extent": dict(threads.extents),
            "lowered": True,
            **({"tir.noalias": False} if self.func.may_overlap else {}),
        }
        self.kernels.append(PrimFunc((*buffers, *scalars), body, attrs=attrs))
        spans = [
            substitute(threads.extents.get(tag, ops.const(1)), self.values) for tag in HARDWARE
        ]
        args = (StringImm(name), *(b.data for b in buffers), *scalars, *spans)
        return Evaluate(Call("int32", "launch_kernel", args))

    def _check_shared(self, b: Buffer) -> None:
        if b.storage_scope != "global":
            raise LowerError(
                f"build {self.name} for a GPU",
                f"{b.name} is {b.storage_scope}, and a kernel uses it that does not make it: such "
                "memory ends with its kernel",
                "attach its stage inside the kernel: s[...].compute_at(s[reader], axis)",
            )


def has_thread_loop(node: Stmt) -> bool:
    """True where a kernel begins somewhere in a statement."""
    return any(map(is_thread_loop, nodes_of(node, For)))


def _free(body: Stmt, bound: set[Var]) -> tuple[list[Buffer], list[Var]]:
    """The buffers and variables that a kernel gets from outside, in the order of their use."""
    made: set[Buffer] = set()
    bound = set(bound)
    buffers: dict[Buffer, None] = {}
    seen: dict[Var, None] = {}

    def visit(n: object) -> None:
        if isinstance(n, (Allocate, DeclBuffer, AllocateConst)):
            made.add(n.buffer)
            bound.add(n.buffer.data)
        elif isinstance(n, (For, LetStmt, Let)):
            bound.add(n.var)
        elif isinstance(n, (BufferLoad, BufferStore, BufferView)):
            buffers.setdefault(n.buffer)
        elif isinstance(n, Var) and n.dtype != "handle":
            seen.setdefault(n)

    post_order_visit(body, visit)
    return [b for b in buffers if b not in made], [v for v in seen if v not in bound]


def _reads_memory(value: PrimExpr) -> bool:
    return bool(nodes_of(value, BufferLoad))


def _check_host(host: PrimFunc) -> None:
    """Refuse work outside all threads: the host cannot read a device's memory."""

    def visit(n: object) -> None:
        if isinstance(n, (BufferStore, BufferLoad)):
            what = "computed" if isinstance(n, BufferStore) else "read"
            raise LowerError(
                f"build {host.name} for a GPU",
                f"{n.buffer.name} is {what} outside all threads, where its memory cannot be "
                "reached",
                "bind loops of its stage: s[...].bind(axis, te.thread_axis('threadIdx.x')), or "
                "give no schedule and let build bind them",
            )

    pre_order_visit(host.body, visit)


def split_module(mod: IRModule, target: Target) -> IRModule:
    """Every function's host part, and after it its kernels as functions of their own.

    Raises:
        LowerError: if a kernel's name is taken, or as :func:`split_host_device`.
    """
    out: dict[str, PrimFunc] = {}
    for name, func in mod.map(resolve_thread_axes).functions.items():
        if func.attrs.get("calling_conv") == "kernel_launch":
            out[name] = func
            continue
        out[name], kernels = split_host_device(func)
        for k in kernels:
            if k.name in mod.functions:
                raise LowerError(
                    f"build {name}",
                    f"its kernel would be named {k.name!r}, as another function is",
                    "give lower(..., name=...) different names",
                )
            out[k.name] = k
    return IRModule(out)
