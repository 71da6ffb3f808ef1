"""Uses of buffers that are no accesses to elements."""

from __future__ import annotations

from typing import TypeGuard

from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferView, Call
from whet.compiler.tir.stmt import AttrStmt, DeclBuffer, Evaluate, For, Stmt


def is_address(n: object) -> TypeGuard[Call]:
    """True for a call that takes the address of an element."""
    return isinstance(n, Call) and n.op in ("address_of", "tvm_access_ptr")


def is_prefetch(n: Stmt) -> bool:
    """True for a prefetch, and for loops of nothing else."""
    while isinstance(n, For):
        n = n.body
    return isinstance(n, Evaluate) and isinstance(n.value, Call) and n.value.op == "prefetch"


def handed_on(n: object) -> Buffer | None:
    """The buffer whose memory a node takes the address of, views or is about; else None."""
    if not isinstance(n, (BufferView, DeclBuffer, AttrStmt, Call)):  # most nodes, at once
        return None
    if isinstance(n, (BufferView, DeclBuffer)):
        return n.buffer
    if isinstance(n, AttrStmt) and isinstance(n.node, Buffer):
        return n.node
    return getattr(n.args[0], "buffer", None) if is_address(n) else None
