"""The rules in the order in which they are tried, and the one for what no other takes."""

from __future__ import annotations

from whet.compiler.te.schedule import Schedule
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import Group


class DefaultLoops(Rule):
    """Leaves every stage as ``te.create_schedule`` made it."""

    def applies(self, group: Group) -> bool:
        """Any group."""
        return True

    def schedule(self, s: Schedule, group: Group) -> None:
        """Nothing."""


_ROOM = "whet.search_spaces.rules.cpu"
RULES: tuple[str, ...] = (
    f"{_ROOM}.gemm.matvec:MatVec",
    f"{_ROOM}.gemm.rule:Gemm",
    f"{_ROOM}.gemm.matvec:Skinny",
    f"{_ROOM}.conv.rule:Convolution",
    f"{_ROOM}.conv.depthwise:Depthwise",
    f"{_ROOM}.tiling.tiled:Tiled",
    f"{_ROOM}.windows:Windows",
    f"{_ROOM}.rows:Rows",
    f"{_ROOM}.stages:Stages",
    f"{_ROOM}.reduction:Reduction",
    f"{_ROOM}.injective:Injective",
    f"{_ROOM}.table:DefaultLoops",
)
"""Homes of rules: the first that applies to a group schedules it; the last applies to all."""

RIVALS: tuple[str, ...] = (
    f"{_ROOM}.gemm.matvec:Skinny",
    f"{_ROOM}.tiling.tiled:Tiled",
    f"{_ROOM}.stages:Stages",
    f"{_ROOM}.reduction:Reduction",
)
"""Those that compete with rules before them; no others are asked."""
