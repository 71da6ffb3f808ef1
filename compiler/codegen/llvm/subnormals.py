"""Results below the smallest normal number, in kernels that sum up what decays to nothing.

exp and its like fade out through subnormal numbers, and a processor that meets one of these may
take a hundred cycles: Intel's do, in every multiply-add. Attention whose scores are far apart ran
at a quarter of its speed. Such kernels set the processor's flush-to-zero mode while they run:

    %old = stmxcsr;  ldmxcsr (%old | 0x8000)
    ...
    ldmxcsr %old

All that such a kernel computes may then be zero where exact results are subnormal. All other
kernels keep these, above all those that only apply a function to each element; so do those that
call out, as what they call would run in the mode, too.
"""

from __future__ import annotations

from whet.compiler.codegen.outside import EXTERNS
from whet.compiler.target import Target
from whet.compiler.target.llvm_machine import machine_of
from whet.compiler.target.machine.processors import architecture_of
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import Add, BufferLoad, Call, PrimExpr
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.stmt import BufferStore
from whet.compiler.tir.visit.rewrite import nodes_of

_DECAYING = frozenset({"exp", "exp2", "exp10", "sigmoid"})
_OUTSIDE = frozenset({"call_packed", *EXTERNS, "call_llvm_intrin"})
_FLUSH = 0x8000  # of MXCSR: results that would be subnormal are zero

DECLARATIONS = (
    "declare void @llvm.x86.sse.stmxcsr(ptr)",
    "declare void @llvm.x86.sse.ldmxcsr(ptr)",
)
"""Declarations of the functions that the text of :func:`flushing` calls."""


def flushes(func: PrimFunc, target: Target) -> bool:
    """True for a kernel that runs in flush-to-zero mode: one with exp or its like, and a sum.

    Args:
        func: lowered.
        target: on another architecture than x86-64 nothing changes.
    """
    called = {call.op for call in nodes_of(func.body, Call)}
    if not called & _DECAYING or called & _OUTSIDE:
        return False
    if architecture_of(machine_of(target.canonical()).triple) != "x86_64":
        return False
    return any(_adds_up(store) for store in nodes_of(func.body, BufferStore))


def _adds_up(store: BufferStore) -> bool:
    """True for a store that adds a float to what the same buffer had."""
    return any(
        dt.is_float(n.dtype) and any(_loads(side, store) for side in (n.a, n.b))
        for n in nodes_of(store.value, Add)
    )


def _loads(n: PrimExpr, store: BufferStore) -> bool:
    return isinstance(n, BufferLoad) and n.buffer is store.buffer


def flushing() -> tuple[list[str], str]:
    """The lines that begin the mode, for a function's entry block, and the call that ends it."""
    begin = [
        "  %mxcsr.old = alloca i32",
        "  %mxcsr.new = alloca i32",
        "  call void @llvm.x86.sse.stmxcsr(ptr %mxcsr.old)",
        "  %mxcsr.mode = load i32, ptr %mxcsr.old",
        f"  %mxcsr.flush = or i32 %mxcsr.mode, {_FLUSH}",
        "  store i32 %mxcsr.flush, ptr %mxcsr.new",
        "  call void @llvm.x86.sse.ldmxcsr(ptr %mxcsr.new)",
    ]
    return begin, "call void @llvm.x86.sse.ldmxcsr(ptr %mxcsr.old)"
