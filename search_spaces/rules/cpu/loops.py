"""Knobs and loops of the rules for memory-bound operators: sizes of vectors, vectorised loops."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from whet.compiler.te import Stage
from whet.compiler.te.lang.tensor import Operation
from whet.compiler.te.lower.in_place import IN_PLACE
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import IterVar, ProducerLoad, Var
from whet.search_spaces.graph.stages import INJECTIVE, Group, Node, extent_of
from whet.search_spaces.rules.vectors import lanes_of

# Handing a loop to other threads costs microseconds; smaller computations stay on one.
_WORTH_THREADS = 1 << 15
# Results of so many bytes may be, and by default are, stored past the caches: a copy of 16 MiB is
# 1.4 times as fast so, one of 4 MiB 0.76 times (Zen 4, 32 MiB of cache). Where several operands are
# read for an element, all together count: the sum of four of 3 MiB takes 0.8 of the time.
_STREAMABLE, _STREAMED = 1 << 20, 8 << 20
_STREAMED_TOGETHER = 12 << 20


def vector_sizes(extent: int, lanes: int, most: int = 4) -> list[int]:
    """Lanes to take of an axis at once: up to ``most`` registers; at least one candidate.

    Args:
        extent: of the axis.
        lanes: elements in a register.
        most: registers that may be filled at once.
    """
    found = [lanes * n for n in (1, 2, 4, 8) if n <= most and lanes * n <= extent]
    return found or [power_below(extent)]


def power_below(extent: int) -> int:
    """The largest power of two that is at most an extent."""
    return 1 << (extent.bit_length() - 1)


def even_size(extent: int, lanes: int, size: int, most: int) -> int:
    """The lanes, about ``size``, of which an extent has whole blocks with the least left over.

    The last block begins earlier: 513 columns in blocks of 128 are computed 1.25 times, in blocks
    of 176 1.03 times.

    Args:
        extent: of the axis.
        lanes: elements in a register.
        size: lanes of the blocks if all are as good.
        most: registers that may be filled at once.
    """
    registers = size // lanes
    near = range(registers // 2 + 1, min(3 * registers // 2, most, extent // lanes) + 1)

    def work(n: int) -> tuple[int, int]:  # of a block in vectors, and one to begin it
        return -(-extent // (n * lanes)) * (n + 1), abs(n - registers)

    return lanes * min(near, key=work) if near else size


def around(sizes: Sequence[int], middle: int) -> list[int]:
    """A size and its neighbours: what a quick space looks at."""
    at = list(sizes).index(middle)
    return list(sizes[max(at - 1, 0) : at + 2])


def vectorized(
    stage: Stage, axis: IterVar, size: int, unroll: int = 1, tail: str = "guard"
) -> list[IterVar]:
    """Split an axis so that ``unroll`` vectors of ``size`` lanes are computed at once.

    Args:
        stage: the stage.
        axis: a loop of it, which keeps its place.
        size: lanes; 1: no vectors.
        unroll: vectors that are unrolled.
        tail: of the splits; ``"shift"`` for a stage without a reduction.

    Returns:
        The loops, outermost first; the last ones are unrolled and vectorised.
    """
    extent = extent_of(axis) if axis.dom is not None else None
    loops = [axis]
    if unroll > 1 and (extent is None or size * unroll < extent):
        loops[-1:] = stage.split(axis, factor=size * unroll, tail=tail)
    if size > 1 and extent != size:
        loops[-1:] = stage.split(loops[-1], factor=size, tail=tail)
    if unroll > 1 and len(loops) > 2:
        stage.unroll(loops[1])
    if size > 1:
        stage.vectorize(loops[-1])
    return loops


def fused(stage: Stage, axes: Sequence[IterVar]) -> IterVar | None:
    """Adjacent loops as one; None if there are none."""
    if not axes:
        return None
    return axes[0] if len(axes) == 1 else stage.fuse(*axes)


def axes_together(node: Node, fixed: Collection[Operation] = ()) -> tuple[tuple[int, ...], ...]:
    """The places of a node's axes; neighbours that every read goes through as through one, in one.

    Such loops may be fused, and vectors run over the ends of the inner one. What an expression
    itself asks for, as a mask ``j <= i`` does, stays a loop.

    Args:
        node: a stage.
        fixed: of what it reads, what is the same in all loops in question.
    """
    axes = [a.var for a in node.op.axis]
    asked = _asked_for(node)
    reads = [r for r in node.reads if r.tensor.op not in fixed]
    pieces: list[tuple[int, ...]] = [(0,)]
    for k in range(1, len(axes)):
        steps = [(r.stride(axes[k - 1]), r.stride(axes[k])) for r in reads]
        same = all(a is not None and b is not None and a == b * node.extents[k] for a, b in steps)
        if same and not asked & {axes[k - 1], axes[k]}:
            pieces[-1] += (k,)
        else:
            pieces.append((k,))
    return tuple(pieces)


def _asked_for(node: Node) -> set[Var]:
    """The axes of a node that its expression has outside of what it reads."""
    found: set[Var] = set()
    waiting: list[Any] = list(getattr(node.op, "body", ()))
    while waiting:
        n = waiting.pop()
        if isinstance(n, Var):
            found.add(n)
        elif type(n) is not ProducerLoad:
            waiting.extend(n.parts)
    return found & {a.var for a in node.op.axis}


def define_parallel(group: Group) -> bool:
    """Define the knob ``parallel`` where there are threads, and say what was chosen."""
    several = group.target.num_threads > 1
    return several and bool(group.choose("parallel", [False, True], worth_threads(group)))


def define_stream(group: Group, first: bool = True) -> bool:
    """Define the knob ``stream`` for a large result; whether to store it past the caches.

    Args:
        group: whose last stage stores the result.
        first: False where that is no good default, however large the result is.
    """
    node = group.last
    size = node.points * dt.itemsize(node.dtype)
    if not node.is_output or node.op.reduce_axis or size < _STREAMABLE:
        return False
    large = size >= _STREAMED or (not group.members and _is_streamed_together(group, size))
    return bool(group.choose("stream", [False, True], first and large))


def _is_streamed_together(group: Group, size: int) -> bool:
    """True for a result of ``size`` bytes whose operands leave it no place in the caches."""
    points = group.last.points  # of a table no more is read than each of them reads
    read = {r.tensor: min(r.size, points) for r in (group.expanded or group.anchor).reads}
    bytes_read = sum(n * dt.itemsize(t.dtype) for t, n in read.items())
    return bytes_read >= 2 * size and bytes_read + size >= _STREAMED_TOGETHER


def is_in_place(group: Group, node: Node) -> bool:
    """True where a member's rows are computed in the result's memory, if that is not streamed.

    The lowering does so with those that the first cache does not hold; a row that was written past
    the caches would have to come back.

    Args:
        group: a chain of rows.
        node: a member of it.
    """
    last = group.last
    row = prod(n for k, n in enumerate(last.extents) if k not in group.rows)
    if row * dt.itemsize(last.dtype) <= IN_PLACE or group.blocks or node.role != INJECTIVE:
        return False
    return (node.extents, node.dtype) == (last.extents, last.dtype) and node.op in last.loads


def pin(group: Group, when: tuple[str, Any], first: Mapping[str, Any]) -> None:
    """Leave one choice to knobs that have no effect under another knob's choice.

    Args:
        group: whose knobs they are.
        when: a knob, and its choice under which the others have none.
        first: each other knob's choice then.
    """
    for other, only in first.items():
        group.cfg.multi_filter(_Pinned(group.knob(when[0]), when[1], group.knob(other), only))


@dataclass(frozen=True)
class _Pinned:
    """A constraint: a knob has one choice under another one's choice."""

    name: str
    value: Any
    other: str
    only: Any

    def __call__(self, view: Any) -> bool:
        return view[self.name].val != self.value or view[self.other].val == self.only

    def __repr__(self) -> str:
        return f"{self.other} has no effect with {self.name}={self.value}"


def worth_threads(group: Group) -> bool:
    """True if a group computes enough to share it between threads."""
    nodes = (*group.members, group.anchor, *group.consumers)
    return sum(n.steps * (1 + n.cost) for n in nodes) >= _WORTH_THREADS


def cycles_of_chain(group: Group) -> float:
    """The operations of all stages of a chain in vectors."""
    nodes = (*group.members, group.anchor, *group.consumers)
    lanes = lanes_of(group.target, group.last.dtype)
    return sum(node.steps * (1 + node.cost) for node in nodes) / lanes


def contiguous(node: Node) -> bool:
    """True if every read goes through its tensor as the node goes through its own elements."""
    own = [a.var for a in node.op.axis]
    if len(own) > 1 and _asked_for(node):
        return False
    for access in node.reads:
        if access.is_affine and not access.variables:
            continue  # one element for all
        extents = tuple(int(d) for d in access.tensor.shape)
        same = len(access.indices) == len(own) and extents == node.extents
        if not same or any(i is None or i.variable is not v for i, v in zip(access.indices, own)):
            return False
    return True
