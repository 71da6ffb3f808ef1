"""Visiting and rewriting trees of loop IR, with the names of TVM's ``tir.stmt_functor``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import IterVar, PrimExpr, Var
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import Stmt
from whet.compiler.tir.visit import rewrite
from whet.compiler.tir.visit.buffers import replace_buffers, scalars_of, with_sizes
from whet.compiler.tir.visit.expect import FUNCTION, NODES, STATEMENTS, expect, expect_function
from whet.compiler.tir.visit.renew import renewed
from whet.compiler.tir.visit.rewrite import TABLE, Rewriter

__all__ = ["ir_transform", "post_order_visit", "pre_order_visit", "renew_defs", "substitute"]


def __dir__() -> list[str]:
    return __all__


def post_order_visit(node: Any, fvisit: Callable[[Any], Any]) -> None:
    """Call ``fvisit`` on every node of a tree, children first, and once on what occurs twice.

    Raises:
        ArgumentError: ``node`` is no statement or expression, or ``fvisit`` cannot be called.
    """
    expect(node, NODES, "post_order_visit(node)")
    expect_function(fvisit, "post_order_visit(fvisit)")
    rewrite.post_order_visit(node, fvisit)


def substitute(node: Any, vmap: Mapping[Any, Any]) -> Any:
    """The tree with variables replaced by values.

    Args:
        node: a statement or an expression.
        vmap: a variable (or the axis that it belongs to) -> an expression or a number.

    Raises:
        ArgumentError: for anything else.
    """
    expect(node, NODES, "substitute(node)")
    expect(vmap, (Mapping,), "substitute(vmap)")
    values = {}
    for v, value in vmap.items():
        expect(v, (Var, IterVar), "substitute(vmap), a key")
        var = v.var if isinstance(v, IterVar) else v
        number = ops.is_number(value)
        values[var] = ops.const(value, var.dtype) if number else ops.convert(value)
    return rewrite.substitute(node, values)


def pre_order_visit(node: Any, fvisit: Callable[[Any], bool | None]) -> None:
    """Call ``fvisit`` on every node of a tree, parents first; below a False it does not go.

    Raises:
        ArgumentError: ``node`` is no statement or expression, or ``fvisit`` cannot be called.
    """
    expect(node, NODES, "pre_order_visit(node)")
    expect_function(fvisit, "pre_order_visit(fvisit)")
    _down(node, fvisit)


def _down(node: Any, fvisit: Callable[[Any], bool | None]) -> None:
    if fvisit(node) is False:
        return
    for part in node.parts:
        _down(part, fvisit)


def ir_transform(
    stmt: Stmt,
    preorder: Callable[[Any], Any] | None,
    postorder: Callable[[Any], Any] | None,
    only_enable: Sequence[str] | None = None,
) -> Stmt:
    """A tree with nodes replaced.

    Args:
        stmt: the tree.
        preorder: called with a node before its children; what it returns, unless None, stands in
            the node's place as it is.
        postorder: called with a node whose children are done; None leaves it.
        only_enable: names of classes, e.g. ``["tir.BufferStore"]``; the functions see no others.

    Raises:
        ArgumentError: ``stmt`` is no statement, a function cannot be called, or a name of
            ``only_enable`` is no class of nodes.
    """
    expect(stmt, STATEMENTS, "ir_transform(stmt)")
    for name, function in (("preorder", preorder), ("postorder", postorder)):
        if function is not None:
            expect_function(function, f"ir_transform({name})")
    enabled = _classes(only_enable)

    def rule(n: Any) -> Any:
        if preorder is not None:
            new = preorder(n)
            if new is not None:
                return new
        n = rewriter.children(n)
        if postorder is not None:
            new = postorder(n)
            if new is not None:
                return new
        return n

    rewriter = Rewriter(dict.fromkeys(enabled, rule))
    return rewriter(stmt)


def _classes(names: Sequence[str] | None) -> list[type]:
    if names is None:
        return list(TABLE)
    expect(names, (str, list, tuple, set, frozenset), "ir_transform(only_enable)")
    known = {kind.__name__: kind for kind in TABLE}
    found = []
    for name in [names] if isinstance(names, str) else names:
        short = str(name).rsplit(".", 1)[-1]
        if short not in known:
            raise ArgumentError(
                f"ir_transform(only_enable=[{name!r}])",
                "there is no such class of nodes",
                f"classes: {', '.join(sorted(known))}",
            )
        found.append(known[short])
    return found


def renew_defs(func: PrimFunc) -> PrimFunc:
    """The same function with new variables and buffers, so that two copies share none.

    Raises:
        ArgumentError: for anything but a PrimFunc.
    """
    expect(func, FUNCTION, "renew_defs(func)")
    values: dict[Var, PrimExpr] = {}
    for v in (*scalars_of(func), *func.attrs.get("symbols", ())):
        values[v] = type(v)(v.name, v.dtype)
    buffers: dict[Buffer, Buffer] = {}
    for p in func.params:
        if isinstance(p, Buffer):
            buffers[p] = replace(with_sizes(p, values), data=Var(p.data.name, "handle"))
    body = replace_buffers(rewrite.substitute(renewed(func.body), values), buffers)
    params: list[Any] = [buffers[p] if isinstance(p, Buffer) else values[p] for p in func.params]
    attrs = dict(func.attrs)
    if "symbols" in attrs:
        attrs["symbols"] = tuple(values.get(v, v) for v in attrs["symbols"])
    return PrimFunc(tuple(params), body, func.ret_type, None, attrs)
