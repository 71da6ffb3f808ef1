"""The rules in the order in which they are tried, and the one for what no other takes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from whet.compiler.homes import imported
from whet.compiler.te.schedule import Schedule
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import TILED, Group


class DefaultLoops(Rule):
    """Leaves every stage as ``te.create_schedule`` made it."""

    def applies(self, group: Group) -> bool:
        """Any group."""
        return True

    def schedule(self, s: Schedule, group: Group) -> None:
        """Nothing."""


_ROOM = "whet.search_spaces.rules.cpu"
RULES: tuple[str, ...] = (
    f"{_ROOM}.instructions.rule:Tensorize",
    f"{_ROOM}.gemm.matvec:MatVec",
    f"{_ROOM}.gemm.rule:Gemm",
    f"{_ROOM}.gemm.matvec:Skinny",
    f"{_ROOM}.conv.rule:Convolution",
    f"{_ROOM}.conv.depthwise:Depthwise",
    f"{_ROOM}.tiling.tiled:Tiled",
    f"{_ROOM}.windows:Windows",
    f"{_ROOM}.rows.rule:Rows",
    f"{_ROOM}.stages:Stages",
    f"{_ROOM}.reduction:Reduction",
    f"{_ROOM}.injective:Injective",
    f"{_ROOM}.table:DefaultLoops",
)
"""Homes of rules: the first that applies to a group schedules it; the last applies to all."""


def _of_instructions(group: Group) -> bool:
    known = group.instructions or group.anchor.op.output_dtype(0) == "int32"
    return group.role == TILED and bool(known)


def by_instruction(group: Group) -> bool:
    """True if a declared instruction has a rule for a group."""
    return (
        _of_instructions(group)
        and imported(f"{_ROOM}.instructions.rule:used_by")(group) is not None
    )


ONLY_FOR: dict[str, Callable[[Group], bool]] = {
    f"{_ROOM}.instructions.rule:Tensorize": _of_instructions,
}
"""Rules that are loaded, and asked, only where something holds of a group."""


def _of_few_steps(group: Group) -> bool:
    return prod(group.anchor.reduce_extents) <= 4


def _of_few_reads(group: Group) -> bool:
    """No operand is read more than four times; or windows may slide over it."""
    node = group.anchor
    plain = len(node.extents) <= 2 and len(node.reduce_extents) <= 1
    return not plain or node.few_reads(4)


RIVALS: dict[str, Callable[[Group], bool]] = {
    f"{_ROOM}.gemm.matvec:Skinny": lambda group: True,
    f"{_ROOM}.tiling.tiled:Tiled": _of_few_steps,
    f"{_ROOM}.stages:Stages": lambda group: group.is_chain,
    f"{_ROOM}.reduction:Reduction": _of_few_reads,
}
"""Those that compete with rules before them, and what holds of a group that they may compete for.

No others are asked; nor are these loaded where that does not hold.
"""
