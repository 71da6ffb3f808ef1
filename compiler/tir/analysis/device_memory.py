"""True if code that the host runs touches the memory of a GPU."""

from __future__ import annotations

from typing import Any

from whet.compiler.tir.expr import BufferLoad, Call
from whet.compiler.tir.function import IRModule, PrimFunc, functions_of
from whet.compiler.tir.stmt import THREAD_BINDING, AttrStmt, BufferStore, For
from whet.compiler.tir.visit.expect import FUNCTIONS, expect


def verify_memory(func: PrimFunc | IRModule, target: Any = None) -> bool:
    """True if buffers are read and written inside thread-bound loops only, on a GPU target.

    On a CPU every function is right. The target is ``target``, else the function's attribute
    ``target``, else the current one.

    Raises:
        ArgumentError: for anything but a PrimFunc or a module.
    """
    expect(func, FUNCTIONS, "verify_memory(func)")
    return not any(host_accesses(f, target) for f in functions_of(func))


def host_accesses(func: PrimFunc, target: Any = None) -> list[str]:
    """The names of the buffers that the host would touch, on a GPU target."""
    from whet.compiler.target import Target

    chosen = target or func.attrs.get("target") or Target.current() or Target("llvm")
    chosen = chosen if isinstance(chosen, Target) else Target(chosen)
    if chosen.device == "cpu":
        return []
    if func.attrs.get("calling_conv") == "kernel_launch":
        return []
    found: dict[str, None] = {}

    def visit(n: Any) -> None:
        if isinstance(n, For) and n.kind == THREAD_BINDING:
            return
        if isinstance(n, AttrStmt) and n.key == "thread_extent":
            return
        if isinstance(n, Call) and n.op == "launch_kernel":
            return
        if isinstance(n, (BufferLoad, BufferStore)):
            found[n.buffer.name] = None
        for p in n.parts:
            visit(p)

    visit(func.body)
    return list(found)
