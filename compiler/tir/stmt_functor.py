"""Visiting and rewriting trees of loop IR, with the names of TVM's ``tir.stmt_functor``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.renew import renewed
from whet.compiler.tir.rewrite import (
    TABLE,
    Rewriter,
    post_order_visit,
    replace_buffers,
    substitute,
    variables,
)

__all__ = ["ir_transform", "post_order_visit", "pre_order_visit", "renew_defs", "substitute"]


def pre_order_visit(node: Any, fvisit: Callable[[Any], bool | None]) -> None:
    """Call ``fvisit`` on every node of a tree, parents first; below a False it does not go."""
    if fvisit(node) is False:
        return
    for part in TABLE[type(node)][0](node):
        pre_order_visit(part, fvisit)


def ir_transform(
    stmt: s.Stmt,
    preorder: Callable[[Any], Any] | None,
    postorder: Callable[[Any], Any] | None,
    only_enable: Sequence[str] | None = None,
) -> s.Stmt:
    """A tree with nodes replaced.

    Args:
        stmt: the tree.
        preorder: called with a node before its children; what it returns, unless None, stands in
            the node's place as it is.
        postorder: called with a node whose children are done; None leaves it.
        only_enable: names of classes, e.g. ``["tir.BufferStore"]``; the functions see no others.

    Raises:
        ArgumentError: a name of ``only_enable`` is no class of nodes.
    """
    enabled = _classes(only_enable)

    def rule(n: Any) -> Any:
        if preorder is not None:
            new = preorder(n)
            if new is not None:
                return new
        n = rewrite.children(n)
        if postorder is not None:
            new = postorder(n)
            if new is not None:
                return new
        return n

    rewrite = Rewriter(dict.fromkeys(enabled, rule))
    return rewrite(stmt)


def _classes(names: Sequence[str] | None) -> list[type]:
    if names is None:
        return list(TABLE)
    known = {kind.__name__: kind for kind in TABLE}
    found = []
    for name in names:
        short = name.rsplit(".", 1)[-1]
        if short not in known:
            raise ArgumentError(
                f"ir_transform(only_enable=[{name!r}])",
                "there is no such class of nodes",
                f"classes: {', '.join(sorted(known))}",
            )
        found.append(known[short])
    return found


def renew_defs(func: PrimFunc) -> PrimFunc:
    """The same function with new variables and buffers, so that two copies share none."""
    values: dict[e.Var, e.PrimExpr] = {}
    for v in _given(func):
        values[v] = type(v)(v.name, v.dtype)
    buffers: dict[Buffer, Buffer] = {}
    for p in func.params:
        if isinstance(p, Buffer):
            shape = tuple(substitute(d, values) for d in p.shape)
            strides = tuple(substitute(d, values) for d in p.strides)
            buffers[p] = replace(p, shape=shape, strides=strides, data=e.Var(p.data.name, "handle"))
    body = replace_buffers(substitute(renewed(func.body), values), buffers)
    params: list[Any] = [buffers[p] if isinstance(p, Buffer) else values[p] for p in func.params]
    attrs = dict(func.attrs)
    if "symbols" in attrs:
        attrs["symbols"] = tuple(values.get(v, v) for v in attrs["symbols"])
    return PrimFunc(tuple(params), body, func.ret_type, None, attrs)


def _given(func: PrimFunc) -> list[e.Var]:
    """The scalar parameters and the sizes of the arrays."""
    found: dict[e.Var, None] = {}
    for p in func.params:
        if isinstance(p, e.Var):
            found[p] = None
        else:
            found.update(dict.fromkeys(v for d in (*p.shape, *p.strides) for v in variables(d)))
    found.update(dict.fromkeys(func.attrs.get("symbols", ())))
    return list(found)
