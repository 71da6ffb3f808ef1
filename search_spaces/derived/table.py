"""The rules in the order in which they are tried."""

from __future__ import annotations

from whet.compiler.target import Target
from whet.search_spaces.derived.injective import Injective
from whet.search_spaces.derived.opaque import DefaultLoops
from whet.search_spaces.derived.reduction import Reduction
from whet.search_spaces.derived.rows import Rows
from whet.search_spaces.derived.rules import Rule
from whet.search_spaces.derived.tiled import Tiled

RULES: tuple[Rule, ...] = (Tiled(), Rows(), Reduction(), Injective(), DefaultLoops())
"""The first that applies to a group schedules it; the last applies to all."""


def rules_for(target: Target) -> tuple[Rule, ...]:
    """The rules for a target: a GPU has its own."""
    if target.kind != "cuda":
        return RULES
    from whet.search_spaces.gpu.table import RULES as FOR_GPUS

    return FOR_GPUS
