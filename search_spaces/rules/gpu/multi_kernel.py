"""The rule for chains of stages on a GPU whose rows no block can hold: a kernel for each.

The variance of each channel of a batch of images: a channel lies in as many pieces as there are
images, and there are fewer channels than multiprocessors.

    total[c]  = sum of X[n, c, y, x]                      a kernel of its own, as for one reduction
    square[c] = sum of (X[n, c, y, x] - total[c] / N)**2  another one

Stages between them that cost little are computed where they are read: the padding before a
pooling, one pass of a blur before the other.
"""

from __future__ import annotations

from whet.compiler.te.schedule import Schedule
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import Group
from whet.search_spaces.rules.gpu.injective import GpuInjective
from whet.search_spaces.rules.gpu.reduction import GpuReduction
from whet.search_spaces.rules.gpu.window import GpuWindow
from whet.search_spaces.rules.producers import apart

# Operations and loads of computing an element anew in all its readers, at most: to store it and
# read it again moves 8 bytes, in whose time a multiprocessor does about a hundred.
_AGAIN = 64

_RULES: tuple[Rule, ...] = (GpuWindow(), GpuReduction(), GpuInjective())


class GpuMultiKernel(Rule):
    """Each reduction of a chain alone, what is cheap between them inlined."""

    def applies(self, group: Group) -> bool:
        """A group with members that the rule for rows has left."""
        return group.is_chain

    def schedule(self, s: Schedule, group: Group) -> None:
        """Inline what is cheap, and schedule the other stages one by one."""
        for node, after in apart(s, group, _AGAIN):
            prefix = f"{node.name}."
            alone = Group(node, after, prefix=prefix, cfg=group.cfg, target=group.target)
            next(rule for rule in _RULES if rule.applies(alone)).schedule(s, alone)
