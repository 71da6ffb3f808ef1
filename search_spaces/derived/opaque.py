"""The rule for what no other rule takes: default loops, no knobs."""

from __future__ import annotations

from whet.compiler.target import Target
from whet.compiler.te.schedule import Schedule
from whet.compiler.te.tensor import Tensor
from whet.search_spaces.define import DefineKnobs
from whet.search_spaces.derived.graph import Group


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
