"""Purity of expressions: those that compute a value and do nothing besides."""

from __future__ import annotations

from typing import Any

from whet.compiler.tir.expr import Call, IntImm
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
        "return_code",
    }
)


def may_write(n: Call) -> bool:
    """True if a call takes an address through which a function may write."""
    mask = n.args[-1] if n.args else None
    only_read = isinstance(mask, IntImm) and not mask.value & 2
    return n.op == "address_of" or (n.op == "tvm_access_ptr" and not only_read)


def is_pure(node: Any) -> bool:
    """True if an expression has no effect but its value (reading memory is none)."""
    stack = [node]
    while stack:
        n = stack.pop()
        if (
            type(n) is Call
            and n.op != "call_llvm_pure_intrin"
            and (n.op in EFFECTS or n.op in IMPURE or n.op.startswith(("tvm_", "call_")))
        ):
            return False
        for p in n.parts:
            if type(p) not in LEAVES:
                stack.append(p)
    return True
