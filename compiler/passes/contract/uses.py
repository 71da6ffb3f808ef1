"""Uses of buffers that are no accesses to elements."""

from __future__ import annotations

from typing import TypeGuard

from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import Buffer


def is_address(n: object) -> TypeGuard[e.Call]:
    """True for a call that takes the address of an element."""
    return isinstance(n, e.Call) and n.op in ("address_of", "tvm_access_ptr")


def handed_on(n: object) -> Buffer | None:
    """The buffer whose memory a node takes the address of, views or is about; else None."""
    if isinstance(n, (e.BufferView, s.DeclBuffer)):
        return n.buffer
    if isinstance(n, s.AttrStmt) and isinstance(n.node, Buffer):
        return n.node
    return getattr(n.args[0], "buffer", None) if is_address(n) else None
