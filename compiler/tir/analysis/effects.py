"""Purity of expressions: those that compute a value and do nothing besides."""

from __future__ import annotations

from typing import Any

from whet.compiler.tir.expr import Call
from whet.compiler.tir.ops.intrinsics import IMPURE
from whet.compiler.tir.visit.rewrite import LEAVES

#: calls that may do more than compute a value
EFFECTS = frozenset(
    {
        "call_packed",
        "call_extern",
        "call_pure_extern_with_buffers",
        "launch_kernel",
        "tvm_access_ptr",
        "address_of",
        "tvm_storage_sync",
        "prefetch",
    }
)


def is_pure(node: Any) -> bool:
    """True if an expression has no effect but its value (reading memory is none)."""
    stack = [node]
    while stack:
        n = stack.pop()
        if type(n) is Call and (
            n.op in EFFECTS or n.op in IMPURE or n.op.startswith(("tvm_", "call_"))
        ):
            return False
        for p in n.parts:
            if type(p) not in LEAVES:
                stack.append(p)
    return True
