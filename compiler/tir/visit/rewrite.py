"""The one generic rewriter and the one generic visitor of the loop IR.

How a node is taken apart and put together is said once for each class, in two tables. Both the
rewriter and the visitor, and with them every pass, stand on these tables: a new node class is one
more row. A rewriter that changes nothing returns the same object.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import islice
from operator import attrgetter, is_
from typing import Any

from whet.compiler.tir.expr import (
    BINARY,
    And,
    Broadcast,
    BufferLoad,
    BufferView,
    Call,
    Cast,
    FloatImm,
    IntImm,
    Let,
    Not,
    PrimExpr,
    ProducerLoad,
    Ramp,
    Range,
    Reduce,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Var,
)
from whet.compiler.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    seq,
)

Node = Any

# Trees are as deep as the sums that users write, three frames a level. Python's frames live on the
# heap, so that a higher limit costs nothing.
sys.setrecursionlimit(max(sys.getrecursionlimit(), 20_000))


Row = tuple[Callable[[Node], tuple[Node, ...]], Callable[[Node, tuple[Node, ...]], Node]]


def _values_of(*names: str) -> Callable[[Any], tuple[Any, ...]]:
    """From an object to the values of some fields."""
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda n: (get(n),)


def _nodes(*names: str) -> Row:
    """The row of a class whose children are in some fields, a node in each."""
    return _values_of(*names), lambda n, new: changed(n, **dict(zip(names, new)))


def _fields(*names: str) -> Row:
    """The row of a class whose children are in some fields: nodes, tuples of nodes, or None."""

    def parts(n: Node) -> tuple[Node, ...]:
        out: list[Node] = []
        for name in names:
            held = getattr(n, name)
            if type(held) is tuple:
                out += held
            elif held is not None:
                out.append(held)
        return tuple(out)

    def with_parts(n: Node, new: tuple[Node, ...]) -> Node:
        rest, fields = iter(new), {}
        for name in names:
            held = getattr(n, name)
            if type(held) is tuple:
                fields[name] = tuple(islice(rest, len(held)))
            elif held is not None:
                fields[name] = next(rest)
        return changed(n, **fields)

    return parts, with_parts


def _make_load(n: BufferLoad, p: tuple[Node, ...]) -> Node:
    count = len(n.indices)
    return BufferLoad(n.buffer, p[:count], n.dtype, p[count] if n.mask is not None else None)


def _make_store(n: BufferStore, p: tuple[Node, ...]) -> Node:
    count = len(n.indices) + 1
    return BufferStore(n.buffer, p[0], p[1:count], p[count] if n.mask is not None else None)


def _ranges(n: Block) -> list[Range]:
    """The domains of a block's axes, and the regions that it names."""
    regions = (*n.reads, *n.writes, *[m.source for m in n.match_buffers])
    return [*[a.domain for a in n.iter_vars], *[r for x in regions for r in x.region]]


def _block_parts(n: Block) -> tuple[Node, ...]:
    ends = [x for r in _ranges(n) for x in (r.min, r.extent)]
    return (*ends, n.body) if n.init is None else (*ends, n.init, n.body)


def _make_block(n: Block, p: tuple[Node, ...]) -> Node:
    old = _ranges(n)
    new = iter([Range.from_min_extent(p[2 * k], p[2 * k + 1]) for k in range(len(old))])

    def region(x: BufferRegion) -> BufferRegion:
        return BufferRegion(x.buffer, tuple([next(new) for _ in x.region]))

    return changed(
        n,
        iter_vars=tuple([changed(a, dom=next(new)) for a in n.iter_vars]),
        reads=tuple([region(x) for x in n.reads]),
        writes=tuple([region(x) for x in n.writes]),
        match_buffers=tuple([changed(m, source=region(m.source)) for m in n.match_buffers]),
        init=None if n.init is None else p[-2],
        body=p[-1],
    )


#: node class -> (its children, the same node with other children); by hand where there are many
TABLE: dict[type, Row] = {
    **dict.fromkeys((Var, SizeVar, IntImm, FloatImm, StringImm), (lambda n: (), lambda n, p: n)),
    **dict.fromkeys(BINARY, (attrgetter("a", "b"), lambda n, p: type(n)(p[0], p[1], n.dtype))),
    Cast: _nodes("value"),
    Not: _nodes("a"),
    Select: _nodes("condition", "true_value", "false_value"),
    BufferLoad: (lambda n: n.indices if n.mask is None else (*n.indices, n.mask), _make_load),
    ProducerLoad: (attrgetter("indices"), lambda n, p: ProducerLoad(n.producer, p, n.dtype)),
    Ramp: _nodes("base"),
    Broadcast: _nodes("value"),
    Shuffle: _fields("vectors"),
    Let: _nodes("value", "body"),
    BufferView: _fields("shape", "strides", "offset"),
    Call: (attrgetter("args"), lambda n, p: Call(n.dtype, n.op, p)),
    Reduce: _fields("source", "condition", "init"),
    For: (
        lambda n: (n.min, n.extent, n.body),
        lambda n, p: For(n.var, p[0], p[1], n.kind, p[2], n.annotations, n.thread),
    ),
    BufferStore: (
        lambda n: (n.value, *n.indices) if n.mask is None else (n.value, *n.indices, n.mask),
        _make_store,
    ),
    SeqStmt: (attrgetter("seq"), lambda n, p: seq(*p)),
    IfThenElse: (
        lambda n: (
            (n.condition, n.then_case)
            if n.else_case is None
            else (n.condition, n.then_case, n.else_case)
        ),
        lambda n, p: IfThenElse(p[0], p[1], p[2] if len(p) > 2 else None, n.likely),
    ),
    Allocate: (lambda n: (n.body,), lambda n, p: Allocate(n.buffer, p[0])),
    AllocateConst: _nodes("body"),
    DeclBuffer: _nodes("body"),
    LetStmt: _nodes("value", "body"),
    AssertStmt: _fields("condition", "body", "values"),
    While: _nodes("condition", "body"),
    AttrStmt: _nodes("value", "body"),
    Block: (_block_parts, _make_block),
    BlockRealize: _fields("iter_values", "predicate", "block"),
    Evaluate: _nodes("value"),
}
for _kind, (_parts, _with_parts) in TABLE.items():
    _kind.parts, _kind.with_parts = property(_parts), _with_parts  # type: ignore[attr-defined]

#: the first column; a call of its functions costs less than a property
PARTS = {kind: row[0] for kind, row in TABLE.items()}


#: classes without children
LEAVES = frozenset((Var, SizeVar, IntImm, FloatImm, StringImm))
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
        rules, inner = self.rules, self.children if self.done is None else self._once
        changed = False
        new = []
        for p in PARTS[type(node)](node):  # lowering's time is spent here: as few calls as can be
            rule = rules.get(type(p), inner)
            if rule is None:
                new.append(p)
                continue
            q = rule(p) if self.done is None else inner(p)
            if q is not p:
                changed = True
            new.append(q)
        return node.with_parts(tuple(new)) if changed else node


def changed(node: Node, /, **fields: Any) -> Node:
    """The node with other fields; the same object where each field is what it was."""
    for name, new in fields.items():
        old = getattr(node, name)
        if new is not old and not (
            type(new) is tuple and len(new) == len(old) and all(map(is_, new, old))
        ):
            kind = type(node)
            values_of, place = _layout(kind)  # type: ignore[arg-type]
            values = [*values_of(node)]
            for field, value in fields.items():
                values[place[field]] = value
            return kind(*values)
    return node


@cache
def _layout(kind: type) -> tuple[Callable[[Any], tuple[Any, ...]], dict[str, int]]:
    """How to read all fields of a class in the order of its arguments, and the place of each."""
    names = kind.__match_args__  # type: ignore[attr-defined]
    return _values_of(*names), {name: place for place, name in enumerate(names)}


def statements_of(node: Node) -> list[Stmt]:
    """The children of a node that are statements."""
    kind = type(node)
    if kind is BufferStore or kind is Evaluate:
        return []
    return [p for p in PARTS[kind](node) if isinstance(p, Stmt)]


def nodes_of(node: Node, *kinds: type) -> list[Any]:
    """The nodes of some classes in a tree, children first; what occurs twice is listed once."""
    wanted = _rows_of(kinds)
    if type(node) in LEAVES:
        return [node] if type(node) in wanted else []
    out: list[Any] = []
    seen: set[int] = set()

    def walk(n: Node) -> None:
        kind = type(n)
        for p in PARTS[kind](n):
            if type(p) in LEAVES:
                if type(p) in wanted:
                    out.append(p)
            elif id(p) not in seen:
                seen.add(id(p))
                walk(p)
        if kind in wanted:
            out.append(n)

    walk(node)
    return out


@cache
def _rows_of(kinds: tuple[type, ...]) -> frozenset[type]:
    """The classes of nodes that are among ``kinds`` or derived from one of them."""
    return frozenset(kind for kind in TABLE if issubclass(kind, kinds))


def conjuncts(condition: PrimExpr) -> list[PrimExpr]:
    """The conditions that a condition is all of."""
    if isinstance(condition, And):
        return [*conjuncts(condition.a), *conjuncts(condition.b)]
    return [condition]


def post_order_visit(node: Node, visit: Callable[[Node], None]) -> None:
    """Call ``visit`` on every node of a tree, children first, and once on what occurs twice."""
    for n in nodes_of(node, object):
        visit(n)


def nodes(roots: Iterable[Any], parts: Callable[[Any], Sequence[Any]] | None = None) -> list[Any]:
    """Every node of some trees once, children first, in the order of their first use.

    Deep trees do not hit Python's recursion limit.

    Args:
        parts: the children of a node; None: those of loop IR.
    """
    out: list[Any] = []
    seen: set[int] = set()
    stack: list[Any] = list(reversed(tuple(roots)))
    while stack:
        n = stack.pop()
        if n is None:  # stands above a node whose children are done
            out.append(stack.pop())
            continue
        if id(n) in seen:
            continue
        seen.add(id(n))
        kind = type(n)
        inside = () if kind in LEAVES else PARTS[kind](n) if parts is None else parts(n)
        if inside:
            stack += (n, None, *reversed(inside))
        else:
            out.append(n)
    return out


def substitute(node: Node, values: Mapping[Var, PrimExpr]) -> Node:
    """The tree with variables replaced by values."""
    if not values:
        return node
    done: dict[int, Node] = {}  # the tree keeps its nodes, and so their ids, while this runs

    def walk(n: Node) -> Node:
        kind = type(n)
        if kind is Var or kind is SizeVar:
            return values.get(n, n)
        if kind in LEAVES:
            return n
        found = done.get(id(n))
        if found is None:
            old = PARTS[kind](n)
            new = tuple([walk(p) for p in old])
            found = done[id(n)] = n if all(map(is_, old, new)) else n.with_parts(new)
        return found

    return walk(node)


def variables(node: Node) -> set[Var]:
    """All variables that occur in a tree."""
    found: set[Var] = set()
    seen: set[int] = set()
    stack = [node]
    while stack:
        n = stack.pop()
        kind = type(n)
        if kind is Var or kind is SizeVar:
            found.add(n)
        elif kind not in LEAVES and id(n) not in seen:
            seen.add(id(n))
            stack.extend(PARTS[kind](n))
    return found
