"""Stages that are scheduled together: an anchor, what is fused behind it, the rows before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from whet.compiler.arith import Affine
from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.tir.expr import IterVar, Var
from whet.search_spaces.graph.access import Access, bounded, composed, places, quotient, read_at
from whet.search_spaces.graph.stages import (
    INJECTIVE,
    INLINE,
    OPAQUE,
    REDUCTION,
    TILED,
    Group,
    Node,
    is_ahead,
)


@dataclass
class _Draft:
    """A group while it is put together.

    ``rows``: the axes of its last stage that all members have so far. ``maps``: for a member, and
    the last stage, which axis of the last stage each of its own data axes is, or None.
    ``blocks``: how many steps of such an axis are one of theirs, where it is not one.
    """

    anchor: int
    last: int
    consumers: tuple[int, ...]
    rows: set[int]
    maps: dict[int, tuple[int | None, ...]]
    blocks: dict[int, int] = field(default_factory=dict)
    in_blocks: bool = False
    staged: list[int] = field(default_factory=list)
    members: list[int] = field(default_factory=list)


def grouped(
    nodes: Sequence[Node], in_blocks: bool = False
) -> tuple[tuple[Node, ...], tuple[Group, ...]]:
    """The nodes, some of which are materialised now, and their groups, producers first.

    Args:
        nodes: those of a graph, with roles.
        in_blocks: whether a row may be several steps of an axis of the last stage.
    """
    behind = _consumers(nodes)
    stored = {chain[-1] for chain in behind.values()}
    nodes = tuple(
        replace(n, role=INJECTIVE) if n.role == INLINE and n.index in stored else n for n in nodes
    )
    reads = _reads_of_stored(nodes)
    products = {behind.get(n.index, (n.index,))[-1] for n in nodes if n.role == TILED}
    prepares = _preparing(nodes, reads, products)
    anchor_of = {k: anchor for anchor, chain in behind.items() for k in chain}
    drafts: list[_Draft] = []
    home: dict[int, _Draft] = {}
    for node in reversed(nodes):
        if node.role == INLINE or node.index in home:
            continue
        anchor = nodes[anchor_of.get(node.index, node.index)]
        found = None if anchor.role == TILED else _joined(node, nodes, reads, prepares, home)
        if found is None:
            chain = behind.get(anchor.index, ())
            if chain and chain[-1] in home:  # it joined other rows, which its anchor cannot
                chain = ()
            found = _new_draft(node, anchor, chain)
            found.in_blocks = in_blocks and anchor.role == INJECTIVE
            drafts.append(found)
            home[anchor.index] = found
        home[node.index] = found
    ordered = sorted(drafts, key=lambda d: d.last)
    return nodes, tuple(_group(d, nodes, len(ordered) > 1) for d in ordered)


def _new_draft(last: Node, anchor: Node, chain: tuple[int, ...]) -> _Draft:
    axes = tuple(range(len(last.extents)))
    maps: dict[int, tuple[int | None, ...]] = {last.index: axes, anchor.index: axes}
    return _Draft(anchor.index, last.index, chain, set(axes), maps)


def _group(draft: _Draft, nodes: Sequence[Node], several: bool) -> Group:
    def of(places: Sequence[int]) -> tuple[Node, ...]:
        return tuple(nodes[k] for k in sorted(places))

    anchor = nodes[draft.anchor]
    return Group(
        anchor,
        tuple(nodes[k] for k in draft.consumers),
        of(draft.staged),
        of(draft.members),
        tuple(sorted(draft.rows)) if draft.members else (),
        draft.maps,
        {q: many for q, many in draft.blocks.items() if q in draft.rows and many > 1},
        f"{anchor.name}." if several else "",
        _expanded(anchor, nodes) if anchor.role == INJECTIVE and not draft.members else anchor,
    )


def _expanded(node: Node, nodes: Sequence[Node]) -> Node:
    """A stage with what inlined stages compute in the place of their reads.

    A reshape stays a read: the order of its elements is that of the tensor behind it.
    """
    inlined = {n.op: n.op for n in nodes if n.role == INLINE and not _reshapes(n)}
    if inlined.keys().isdisjoint(access.tensor.op for access in node.reads):
        return node
    # a process that only finds a config waits for each module
    from whet.compiler.te.bounds.inlining import Inlining

    assert isinstance(node.op, ComputeOp)
    expanded = Inlining(inlined.get).expanded
    return replace(node, op=replace(node.op, body=tuple(map(expanded, node.op.body))))


def _reshapes(node: Node) -> bool:
    """True for a stage that reads at quotients or remainders of its axes, which cancel."""
    if not isinstance(node.op, ComputeOp) or all(access.is_affine for access in node.reads):
        return False
    found = places(node.op.body, bounded(node.op.axis))
    return all(isinstance(atom, Var) for place in found for atom in place.atoms)


def _consumers(nodes: Sequence[Node]) -> dict[int, tuple[int, ...]]:
    """Reduction's place -> the elementwise stages behind it, the last of which is stored."""
    taken: set[int] = set()
    found: dict[int, tuple[int, ...]] = {}
    for node in reversed(nodes):
        if node.role not in (TILED, REDUCTION) or len(node.op.axis) == 0:
            continue
        chain: list[int] = []
        at = node
        while not at.is_output and at.readers:
            behind = _until_all_meet(at, nodes)
            if not behind or not taken.isdisjoint(behind):
                break
            chain.extend(behind)
            at = nodes[behind[-1]]
            if at.role != INLINE:
                break
        if chain:
            taken.update(chain)
            found[node.index] = tuple(chain)
    return found


def _until_all_meet(at: Node, nodes: Sequence[Node]) -> tuple[int, ...]:
    """The elementwise stages behind one up to that through which all of it passes; () for none.

    ``x * sigmoid(x)`` reads x twice: sigmoid and the product are behind x.
    """
    inside, waiting = [at], set(at.readers)
    while waiting:
        reader = nodes[min(waiting)]
        waiting.remove(reader.index)
        own = [n for n in inside if reader.index in n.readers]
        if not all(elementwise_behind(n, reader) for n in own):
            return ()
        inside.append(reader)
        if not waiting:
            return tuple(n.index for n in inside[1:])
        if reader.role != INLINE or reader.is_output:
            return ()
        waiting.update(reader.readers)
    return ()


def elementwise_behind(producer: Node, reader: Node) -> bool:
    """True if a reader reads a producer at its own element only, and has its extents.

    The own element of an axis with one step is at 0, too: a bias of one image is broadcast.
    """
    if reader.role not in (INLINE, INJECTIVE) or producer.op.num_outputs > 1:
        return False
    if reader.extents != producer.extents or reader.op.num_outputs > 1:
        return False

    def is_own(index: Affine | None, axis: IterVar, extent: int) -> bool:
        if index is None:
            return False
        return index.variable is axis.var or (extent == 1 and index == Affine.constant(0))

    return all(
        all(map(is_own, access.indices, reader.op.axis, reader.extents))
        for access in reader.reads
        if access.tensor.op is producer.op
    )


def _reads_of_stored(nodes: Sequence[Node]) -> list[tuple[Access, ...]]:
    """Each node's reads with inlined producers looked through."""
    place = {node.op: node.index for node in nodes}
    found: list[tuple[Access, ...]] = []
    for node in nodes:
        out: dict[tuple, Access] = {}
        for access in node.reads:
            k = place.get(access.tensor.op)
            if k is None or nodes[k].role != INLINE:
                out.setdefault((access.tensor, access.indices), access)
                continue
            values = {a.var: i for a, i in zip(nodes[k].op.axis, access.indices)}
            for inner in found[k]:
                indices = tuple(composed(i, values) for i in inner.indices)
                out.setdefault((inner.tensor, indices), Access(inner.tensor, indices))
        found.append(tuple(out.values()))
    return found


def _stored_readers(node: Node, nodes: Sequence[Node]) -> list[int]:
    """The stored stages that read a stage, themselves or through inlined ones."""
    seen: set[int] = set()
    out: list[int] = []
    waiting = list(node.readers)
    while waiting:
        k = waiting.pop()
        if k in seen:
            continue
        seen.add(k)
        if nodes[k].role == INLINE:
            waiting.extend(nodes[k].readers)
        else:
            out.append(k)
    return out


def _joined(
    node: Node,
    nodes: Sequence[Node],
    reads: list[tuple[Access, ...]],
    prepares: list[bool],
    home: dict[int, _Draft],
) -> _Draft | None:
    """The group whose rows or staged producers a stage becomes a part of, if there is one."""
    readers = _stored_readers(node, nodes)
    homes = {id(home.get(k)): home.get(k) for k in readers}
    draft = homes.popitem()[1] if len(homes) == 1 else None
    if draft is None or node.is_output or node.role == OPAQUE:
        return None
    role = nodes[draft.anchor].role
    if is_ahead(node.op):
        draft.staged.append(node.index)
        return draft
    if role == TILED:
        if node.role != INJECTIVE or not prepares[node.index]:
            return None
        draft.staged.append(node.index)
        return draft
    if role not in (INJECTIVE, REDUCTION) or node.role == TILED:
        return None
    places = _map(node, readers, reads, draft, nodes)
    own = tuple(None if p is None else p[0] for p in places)
    rows = draft.rows & {q for q in own if q is not None}
    if not rows or (draft.members and not all(rows <= set(m) for m in draft.maps.values())):
        return None
    draft.rows = rows
    draft.maps[node.index] = own
    draft.blocks |= dict(p for p in places if p is not None)
    draft.members.append(node.index)
    return draft


def _preparing(
    nodes: Sequence[Node], reads: list[tuple[Access, ...]], products: set[int]
) -> list[bool]:
    """For each stage whether it only prepares an operand: of inputs, or of what products store.

    Args:
        nodes, reads: the stages and what they read.
        products: the stages that store what is made of a product, element by element.
    """
    place = {n.op: n for n in nodes}
    found: list[bool] = []
    for node in nodes:
        before = [place[a.tensor.op] for a in reads[node.index] if a.tensor.op in place]
        found.append(
            all(b.index in products or (b.role == INJECTIVE and found[b.index]) for b in before)
        )
    return found


def _map(
    node: Node,
    readers: Sequence[int],
    reads: list[tuple[Access, ...]],
    draft: _Draft,
    nodes: Sequence[Node],
) -> tuple[tuple[int, int] | None, ...]:
    """For each axis of a stage the axis of the group's last stage that all its readers see.

    With it the steps of the latter that are one of its own.
    """
    places: list[set[tuple[int, int] | None]] = [set() for _ in node.extents]
    last = nodes[draft.last]
    for k in readers:
        axis_of = dict(zip((a.var for a in nodes[k].op.axis), draft.maps.get(k, ())))
        for steps in _steps_of(node, k, reads, draft, nodes):
            for own, extent, (variable, many) in zip(places, node.extents, steps):
                place = axis_of.get(variable) if variable is not None else None
                if place is not None and k != draft.last:
                    many *= draft.blocks.get(place, 1)
                same = place is not None and last.extents[place] == extent * many
                same = same and draft.blocks.get(place or 0, many) == many
                own.add((place or 0, many) if same else None)
    return tuple(s.pop() if len(s) == 1 else None for s in places)


def _steps_of(
    node: Node,
    reader: int,
    reads: list[tuple[Access, ...]],
    draft: _Draft,
    nodes: Sequence[Node],
) -> list[list[tuple[Var | None, int]]]:
    """For each read of a stage, and each dimension, a variable and its steps that see one index."""
    found = [a for a in reads[reader] if a.tensor.op is node.op]
    if reader == draft.last and draft.in_blocks and not all(a.is_affine for a in found):
        inlined = {n.op for n in nodes if n.role == INLINE}
        return [
            [*map(quotient, indices)] for indices in read_at(nodes[reader].op, inlined, node.op)
        ]
    return [[(None if i is None else i.variable, 1) for i in a.indices] for a in found]
