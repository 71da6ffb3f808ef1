"""The one generic rewriter and the one generic visitor of the loop IR.

How a node is taken apart and put together is said once for each class, in two tables. Both the
rewriter and the visitor, and with them every pass, stand on these tables: a new node class is one
more row. A rewriter that changes nothing returns the same object.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from operator import is_
from typing import Any

from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s

Node = Any

# Trees are as deep as the sums that users write, three frames a level. Python's frames live on the
# heap, so that a higher limit costs nothing.
sys.setrecursionlimit(max(sys.getrecursionlimit(), 20_000))


def _binary_parts(n: e.BinaryOp) -> tuple[Node, ...]:
    return n.a, n.b


def _binary_make(n: e.BinaryOp, parts: tuple[Node, ...]) -> Node:
    return type(n)(parts[0], parts[1], n.dtype)


def _none(n: Node) -> tuple[Node, ...]:
    return ()


def _same(n: Node, parts: tuple[Node, ...]) -> Node:
    return n


def _optional(n: Node | None) -> tuple[Node, ...]:
    return () if n is None else (n,)


def _make_load(n: e.BufferLoad, p: tuple[Node, ...]) -> Node:
    count = len(n.indices)
    return e.BufferLoad(n.buffer, p[:count], n.dtype, p[count] if n.mask is not None else None)


def _make_store(n: s.BufferStore, p: tuple[Node, ...]) -> Node:
    count = len(n.indices)
    return s.BufferStore(
        n.buffer, p[0], p[1 : 1 + count], p[1 + count] if n.mask is not None else None
    )


def _make_reduce(n: e.Reduce, p: tuple[Node, ...]) -> Node:
    k = len(n.source)
    return e.Reduce(
        n.combiner, p[:k], n.axis, p[k], n.value_index, n.dtype, p[k + 1 : k + 1 + len(n.init)]
    )


def _make_if(n: s.IfThenElse, p: tuple[Node, ...]) -> Node:
    return s.IfThenElse(p[0], p[1], p[2] if len(p) > 2 else None, n.likely)


def _make_view(n: e.BufferView, p: tuple[Node, ...]) -> Node:
    k, m = len(n.shape), len(n.strides)
    return e.BufferView(n.buffer, p[:k], p[k : k + m], p[k + m], n.dtype)


Row = tuple[Callable[[Node], tuple[Node, ...]], Callable[[Node, tuple[Node, ...]], Node]]

_BINARY: Row = (_binary_parts, _binary_make)
_LEAF: Row = (_none, _same)

#: node class -> (its children, the same node with other children)
TABLE: dict[type, Row] = {
    e.Var: _LEAF,
    e.SizeVar: _LEAF,
    e.IntImm: _LEAF,
    e.FloatImm: _LEAF,
    e.StringImm: _LEAF,
    e.Cast: (lambda n: (n.value,), lambda n, p: e.Cast(n.dtype, p[0])),
    **dict.fromkeys(e.BINARY, _BINARY),
    e.Not: (lambda n: (n.a,), lambda n, p: e.Not(p[0], n.dtype)),
    e.Select: (
        lambda n: (n.condition, n.true_value, n.false_value),
        lambda n, p: e.Select(p[0], p[1], p[2], n.dtype),
    ),
    e.BufferLoad: (lambda n: (*n.indices, *_optional(n.mask)), _make_load),
    e.ProducerLoad: (
        lambda n: n.indices,
        lambda n, p: e.ProducerLoad(n.producer, p, n.dtype),
    ),
    e.Ramp: (lambda n: (n.base,), lambda n, p: e.Ramp(p[0], n.stride, n.lanes, n.dtype)),
    e.Broadcast: (lambda n: (n.value,), lambda n, p: e.Broadcast(p[0], n.lanes, n.dtype)),
    e.Shuffle: (lambda n: n.vectors, lambda n, p: e.Shuffle(p, n.indices, n.dtype)),
    e.Let: (lambda n: (n.value, n.body), lambda n, p: e.Let(n.var, p[0], p[1], n.dtype)),
    e.BufferView: (lambda n: (*n.shape, *n.strides, n.offset), _make_view),
    e.Call: (lambda n: n.args, lambda n, p: e.Call(n.dtype, n.op, p)),
    e.Reduce: (lambda n: (*n.source, n.condition, *n.init), _make_reduce),
    s.For: (
        lambda n: (n.min, n.extent, n.body),
        lambda n, p: s.For(n.var, p[0], p[1], n.kind, p[2], n.annotations, n.thread),
    ),
    s.BufferStore: (lambda n: (n.value, *n.indices, *_optional(n.mask)), _make_store),
    s.SeqStmt: (lambda n: n.seq, lambda n, p: s.seq(*p)),
    s.IfThenElse: (lambda n: (n.condition, n.then_case, *_optional(n.else_case)), _make_if),
    s.Allocate: (lambda n: (n.body,), lambda n, p: s.Allocate(n.buffer, p[0])),
    s.AllocateConst: (
        lambda n: (n.body,),
        lambda n, p: s.AllocateConst(n.buffer, n.data, p[0]),
    ),
    s.DeclBuffer: (lambda n: (n.body,), lambda n, p: s.DeclBuffer(n.buffer, p[0])),
    s.LetStmt: (lambda n: (n.value, n.body), lambda n, p: s.LetStmt(n.var, p[0], p[1])),
    s.AssertStmt: (
        lambda n: (n.condition, n.body, *n.values),
        lambda n, p: s.AssertStmt(p[0], n.message, p[1], p[2:]),
    ),
    s.While: (lambda n: (n.condition, n.body), lambda n, p: s.While(p[0], p[1])),
    s.AttrStmt: (lambda n: (n.value, n.body), lambda n, p: s.AttrStmt(n.node, n.key, *p)),
    s.Evaluate: (lambda n: (n.value,), lambda n, p: s.Evaluate(p[0])),
}


#: classes without children
LEAVES = frozenset(kind for kind, row in TABLE.items() if row is _LEAF)
_KEEP_LEAVES: dict[type, None] = dict.fromkeys(LEAVES)


def keep(node: Node) -> Node:
    """The rule that leaves a node alone; a pass over statements has it for stores, to be quick."""
    return node


class Rewriter:
    """Rebuilds a tree, bottom up unless a rule decides otherwise.

    ``rules`` maps a node class to ``rule(node) -> node``; a rule that wants its children rewritten
    calls :meth:`children` itself. Classes without a rule are rebuilt when a child changed.

    With ``once`` a node that occurs in several places is rewritten once, and its result occurs in
    all of them: for rules whose answer does not depend on where the node stands.
    """

    def __init__(
        self, rules: Mapping[type, Callable[[Node], Node]] | None = None, once: bool = False
    ) -> None:
        # leaves without a rule have None here, so that one look-up tells what to do with a child
        self.rules: dict[type, Callable[[Node], Node] | None] = {**_KEEP_LEAVES, **(rules or {})}
        # node's id -> the node, which keeps the id its own, and its result
        self.done: dict[int, tuple[Node, Node]] | None = {} if once else None

    def __call__(self, node: Node) -> Node:
        """The rewritten node."""
        if self.done is not None:
            return self._once(node)
        rule = self.rules.get(type(node))
        return self.children(node) if rule is None else rule(node)

    def _once(self, node: Node) -> Node:
        assert self.done is not None
        found = self.done.get(id(node))
        if found is None:
            rule = self.rules.get(type(node))
            found = node, self.children(node) if rule is None else rule(node)
            self.done[id(node)] = found
        return found[1]

    def children(self, node: Node) -> Node:
        """The node with its children rewritten; the same object when none of them changed."""
        parts, make = TABLE[type(node)]
        old = parts(node)
        rules, inner = self.rules, self.children if self.done is None else self._once
        changed = False
        new = []
        for p in old:  # the loop that lowering spends its time in: no call where none is needed
            rule = rules.get(type(p), inner)
            if rule is None:
                new.append(p)
                continue
            q = rule(p) if self.done is None else inner(p)
            if q is not p:
                changed = True
            new.append(q)
        return make(node, tuple(new)) if changed else node


def changed(node: Node, /, **fields: Any) -> Node:
    """The node with other fields; the same object where each field is what it was."""
    for name, new in fields.items():
        old = getattr(node, name)
        if new is not old and not (
            type(new) is tuple and len(new) == len(old) and all(map(is_, new, old))
        ):
            kind = type(node)
            names = kind.__match_args__
            return kind(*[fields[f] if f in fields else getattr(node, f) for f in names])
    return node


def parts_of(node: Node) -> tuple[Node, ...]:
    """The children of a node, in order."""
    return TABLE[type(node)][0](node)


def statements_of(node: Node) -> list[s.Stmt]:
    """The children of a node that are statements."""
    kind = type(node)
    if kind is s.BufferStore or kind is s.Evaluate:
        return []
    return [p for p in TABLE[kind][0](node) if isinstance(p, s.Stmt)]


def nodes_of(node: Node, *kinds: type) -> list[Any]:
    """The nodes of some classes in a tree, children first; what occurs twice is listed once."""
    wanted = _rows_of(kinds)
    if type(node) in LEAVES:
        return [node] if type(node) in wanted else []
    out: list[Any] = []
    seen: set[int] = set()

    def walk(n: Node) -> None:
        for p in TABLE[type(n)][0](n):
            if type(p) in LEAVES:
                if type(p) in wanted:
                    out.append(p)
            elif id(p) not in seen:
                seen.add(id(p))
                walk(p)
        if type(n) in wanted:
            out.append(n)

    walk(node)
    return out


@cache
def _rows_of(kinds: tuple[type, ...]) -> frozenset[type]:
    """The classes of nodes that are among ``kinds`` or derived from one of them."""
    return frozenset(kind for kind in TABLE if issubclass(kind, kinds))


def conjuncts(condition: e.PrimExpr) -> list[e.PrimExpr]:
    """The conditions that a condition is all of."""
    if isinstance(condition, e.And):
        return [*conjuncts(condition.a), *conjuncts(condition.b)]
    return [condition]


def post_order_visit(node: Node, visit: Callable[[Node], None]) -> None:
    """Call ``visit`` on every node of a tree, children first, and once on what occurs twice."""
    seen: set[int] = set()

    def walk(n: Node) -> None:
        for p in TABLE[type(n)][0](n):
            if type(p) in LEAVES:
                visit(p)
            elif id(p) not in seen:
                seen.add(id(p))
                walk(p)
        visit(n)

    walk(node)


def substitute(node: Node, values: Mapping[e.Var, e.PrimExpr]) -> Node:
    """The tree with variables replaced by values."""
    if not values:
        return node
    done: dict[int, Node] = {}  # the tree keeps its nodes, and so their ids, while this runs

    def walk(n: Node) -> Node:
        kind = type(n)
        if kind is e.Var or kind is e.SizeVar:
            return values.get(n, n)
        if kind in LEAVES:
            return n
        found = done.get(id(n))
        if found is None:
            parts, make = TABLE[kind]
            old = parts(n)
            new = [walk(p) for p in old]
            found = n
            for p, q in zip(old, new):
                if p is not q:
                    found = make(n, tuple(new))
                    break
            done[id(n)] = found
        return found

    return walk(node)


def variables(node: Node) -> set[e.Var]:
    """All variables that occur in a tree."""
    found: set[e.Var] = set()
    seen: set[int] = set()
    stack = [node]
    while stack:
        n = stack.pop()
        kind = type(n)
        if kind is e.Var or kind is e.SizeVar:
            found.add(n)
        elif kind not in LEAVES and id(n) not in seen:
            seen.add(id(n))
            stack.extend(TABLE[kind][0](n))
    return found
