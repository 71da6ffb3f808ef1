"""The rule for what no other rule takes: default loops, no knobs."""

from __future__ import annotations

from whet.compiler.target import Target
from whet.compiler.te.lang.tensor import Tensor
from whet.compiler.te.schedule import Schedule
from whet.search_spaces.graph.compute_graph import Group
from whet.search_spaces.space.define import DefineKnobs


class DefaultLoops:
    """Leaves every stage as ``te.create_schedule`` made it."""

    name = "default loops"

    def applies(self, group: Group) -> bool:
        """Any group."""
        return True

    def rewrite(self, group: Group, cfg: DefineKnobs, target: Target) -> Tensor | None:
        """Nothing."""
        return None

    def schedule(self, s: Schedule, group: Group, cfg: DefineKnobs, target: Target) -> None:
        """Nothing."""
