"""Rewriting statements from the inside out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from whet.compiler.tir.stmt import BufferStore, Stmt
from whet.compiler.tir.visit.rewrite import Node, Rewriter, keep


def bottom_up(body: Stmt, rules: Mapping[type, Callable[[Any], Node]]) -> Stmt:
    """The statement with rules applied to nodes whose children are rewritten; stores stay.

    Args:
        body: the statement.
        rules: class of a statement -> from a node of it to the node in its place.
    """

    def after_children(rule: Callable[[Any], Node]) -> Callable[[Node], Node]:
        return lambda n: rule(rewrite.children(n))

    own = {kind: after_children(rule) for kind, rule in rules.items()}
    rewrite = Rewriter({BufferStore: keep, **own})
    return rewrite(body)
