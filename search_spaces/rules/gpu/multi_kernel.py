"""The rule for chains of stages on a GPU whose rows no block can hold: a kernel for each.

The variance of each channel of a batch of images: a channel lies in as many pieces as there are
images, and there are fewer channels than multiprocessors.

    total[c]  = sum of X[n, c, y, x]                      a kernel of its own, as for one reduction
    square[c] = sum of (X[n, c, y, x] - total[c] / N)**2  another one

Stages between them that cost little are computed where they are read: the padding before a
pooling, one pass of a blur before the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from whet.compiler.te.lang.tensor import Operation
from whet.compiler.te.schedule import Schedule
from whet.search_spaces.graph.groups import elementwise_behind
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import INJECTIVE, REDUCTION, Group, Node
from whet.search_spaces.rules.gpu.injective import GpuInjective
from whet.search_spaces.rules.gpu.reduction import GpuReduction
from whet.search_spaces.rules.gpu.window import GpuWindow

# Operations and loads of computing an element anew in all its readers, at most: to store it and
# read it again moves 8 bytes, in whose time a multiprocessor does about a hundred.
_AGAIN = 64
_LOAD = 2

_RULES: tuple[Rule, ...] = (GpuWindow(), GpuReduction(), GpuInjective())


class GpuMultiKernel(Rule):
    """Each reduction of a chain alone, what is cheap between them inlined."""

    def applies(self, group: Group) -> bool:
        """A group with members that the rule for rows has left."""
        return group.is_chain

    def schedule(self, s: Schedule, group: Group) -> None:
        """Inline what is cheap, and schedule the other stages one by one."""
        inlined = _inlined(group)
        for op in inlined:
            s[op].compute_inline()
        kept = [n for n in (*group.members, group.anchor) if n.op not in inlined]
        behind = _behind(kept, group)
        for node in kept:
            if node in behind.values():
                continue
            after = group.consumers if node is group.anchor else ()
            if node in behind:
                after = (behind[node],)
            prefix = f"{node.name}."
            alone = Group(node, after, prefix=prefix, cfg=group.cfg, target=group.target)
            next(rule for rule in _RULES if rule.applies(alone)).schedule(s, alone)


def _inlined(group: Group) -> set[Operation]:
    """The members that are computed in all their readers, which together do not do so often."""
    last = group.last
    readers: dict[int, Node] = {n.index: n for n in (*group.members, group.anchor, last)}
    evaluated = {k: n.steps for k, n in readers.items()}
    found: set[Operation] = set()
    for node in sorted(group.members, key=lambda n: -n.index):
        reading = [readers[k] for k in node.readers if k in readers]
        if node.role != INJECTIVE or not node.inlinable or len(reading) != len(node.readers):
            continue
        again = sum(reader.loads[node.op] * evaluated[reader.index] for reader in reading)
        if again * (node.cost + _LOAD * len(node.reads)) <= _AGAIN * node.points:
            found.add(node.op)
            evaluated[node.index] = again
    return found


def _behind(kept: Sequence[Node], group: Group) -> dict[Node, Node]:
    """Reductions before others -> the one stage that reads each, if element by element.

    Of several with one reader, it is the last one's.
    """
    found: dict[Node, Node] = {}
    members = {n.index: n for n in kept if n in group.members and n.role == INJECTIVE}
    for node in reversed(kept):
        reader = members.get(node.readers[0]) if len(node.readers) == 1 else None
        if node.role != REDUCTION or node is group.anchor or reader is None:
            continue
        if reader not in found.values() and elementwise_behind(node, reader):
            found[node] = reader
    return found
