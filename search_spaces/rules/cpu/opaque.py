"""The rule for what no other rule takes: default loops, no knobs."""

from __future__ import annotations

from whet.compiler.te.schedule import Schedule
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import Group


class DefaultLoops(Rule):
    """Leaves every stage as ``te.create_schedule`` made it."""

    name = "default loops"

    def applies(self, group: Group) -> bool:
        """Any group."""
        return True

    def schedule(self, s: Schedule, group: Group) -> None:
        """Nothing."""
