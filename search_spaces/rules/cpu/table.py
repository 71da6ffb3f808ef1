"""The rules in the order in which they are tried, and the one for what no other takes."""

from __future__ import annotations

from whet.compiler.te.schedule import Schedule
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import Group
from whet.search_spaces.rules.cpu.injective import Injective
from whet.search_spaces.rules.cpu.reduction import Reduction
from whet.search_spaces.rules.cpu.rows import Rows
from whet.search_spaces.rules.cpu.tiling.tiled import Tiled


class DefaultLoops(Rule):
    """Leaves every stage as ``te.create_schedule`` made it."""

    def applies(self, group: Group) -> bool:
        """Any group."""
        return True

    def schedule(self, s: Schedule, group: Group) -> None:
        """Nothing."""


RULES: tuple[Rule, ...] = (Tiled(), Rows(), Reduction(), Injective(), DefaultLoops())
"""The first that applies to a group schedules it; the last applies to all."""
