"""Groups of stages that go through the same rows: their stages, axes and widths."""

from __future__ import annotations

from math import prod

from whet.search_spaces.graph.stages import REDUCTION, Group, Node


def stages_of(group: Group) -> tuple[Node, ...]:
    """The stages of a group: members, anchor and last one, each once."""
    return tuple({n.index: n for n in (*group.members, group.anchor, group.last)}.values())


def row_count(group: Group) -> int:
    """The number of rows."""
    return prod(group.last.extents[k] for k in group.rows)


def axes_in_last(group: Group, node: Node) -> tuple[int | None, ...]:
    """For each data axis of a stage the place of the axis of the last stage that it is."""
    return group.maps.get(node.index, tuple(range(len(node.extents))))


def wide_axes(group: Group, node: Node) -> list[int]:
    """The axes of a stage that are not rows."""
    return [k for k, q in enumerate(axes_in_last(group, node)) if q not in group.rows]


def rows_in_order(group: Group, node: Node) -> bool:
    """True if a stage has the axes of all rows, in their order."""
    own = axes_in_last(group, node)
    return [q for q in own if q in group.rows] == list(group.rows)


def width(group: Group, node: Node) -> int:
    """Elements of a stage in one row."""
    return prod(node.extents[k] for k in wide_axes(group, node))


def common_length(group: Group) -> int | None:
    """The elements of a row that all reductions and the last stage go through; None: they differ.

    Rows of stages in between may have other lengths: see :func:`width`.
    """
    last = group.last
    lengths = {prod(n.reduce_extents) for n in stages_of(group) if n.role == REDUCTION}
    if last.role != REDUCTION and len(group.rows) < len(last.extents):
        lengths.add(prod(d for k, d in enumerate(last.extents) if k not in group.rows))
    return lengths.pop() if len(lengths) == 1 else None
