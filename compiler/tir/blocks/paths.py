"""Where blocks stand: each with the loops around it."""

from __future__ import annotations

from whet.compiler.tir.stmt import Block, BlockRealize, For, Stmt
from whet.compiler.tir.visit.rewrite import statements_of


def block_paths(body: Stmt) -> dict[str, tuple[Block, list[For]]]:
    """Block's name -> the block and the loops around it, outermost first."""
    out: dict[str, tuple[Block, list[For]]] = {}
    waiting: list[tuple[Stmt, list[For]]] = [(body, [])]
    while waiting:
        n, around = waiting.pop()
        if isinstance(n, For):
            around = [*around, n]
        elif isinstance(n, BlockRealize):
            out.setdefault(n.block.name_hint, (n.block, around))
        waiting += [(s, around) for s in reversed(statements_of(n))]
    return out
