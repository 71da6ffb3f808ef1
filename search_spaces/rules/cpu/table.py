"""The rules in the order in which they are tried."""

from __future__ import annotations

from whet.compiler.target import Target
from whet.search_spaces.rules.cpu.injective import Injective
from whet.search_spaces.rules.cpu.opaque import DefaultLoops
from whet.search_spaces.rules.cpu.reduction import Reduction
from whet.search_spaces.rules.cpu.rows import Rows
from whet.search_spaces.rules.cpu.tiled import Tiled
from whet.search_spaces.rules.rule import Rule

RULES: tuple[Rule, ...] = (Tiled(), Rows(), Reduction(), Injective(), DefaultLoops())
"""The first that applies to a group schedules it; the last applies to all."""


def rules_for(target: Target) -> tuple[Rule, ...]:
    """The rules for a target: a GPU has its own."""
    if target.kind != "cuda":
        return RULES
    from whet.search_spaces.rules.gpu.table import RULES as FOR_GPUS

    return FOR_GPUS
