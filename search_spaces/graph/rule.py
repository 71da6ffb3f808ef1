"""The protocol of rules: the groups that one can schedule, its knobs, its schedules."""

from __future__ import annotations

from typing import Protocol

from whet.compiler.te.lang.tensor import Tensor
from whet.compiler.te.schedule import Schedule
from whet.search_spaces.graph.stages import Group


class Rule(Protocol):
    """A way to schedule a group of stages.

    Rules are tried in the order of the table of their target, for CPUs
    :data:`whet.search_spaces.rules.cpu.table.RULES`; the first one that applies to a group
    schedules it. A new rule is a file, its home in the table, and a test. Rules hold no state.
    For each group, once per config:

    1. ``rewrite``, producers before consumers, while there is no schedule yet;
    2. stages of role ``"inline"``, and those consumers of a group that are not its last, are
       inlined;
    3. ``schedule``, producers before consumers.

    In both steps a rule defines its knobs and reads them: ``group.choose("tile", sizes, first)``. A
    knob must be defined whatever the config is: only what is done with it depends on the config.
    What a rule does not touch has default loops.
    """

    def applies(self, group: Group) -> bool:
        """True if the rule can schedule the group; structure and target, no config is known."""
        ...

    def rewrite(self, group: Group) -> Tensor | None:
        """Compute the anchor in another way, e.g. from a packed operand.

        Args:
            group: its anchor's op reads the tensors as they are by now (producers may have been
                rewritten). ``group.note`` leaves what ``schedule`` must know, e.g. the packed
                tensor.

        Returns:
            The tensor that takes the anchor's place: same shape, same dtype. ``schedule`` finds its
            operation as ``group.anchor.op``. None, the default: the anchor stays as it is.
        """
        return None

    def schedule(self, s: Schedule, group: Group) -> None:
        """Schedule all stages of the group but those that are inlined."""
        ...
