"""The rules in the order in which they are tried."""

from __future__ import annotations

from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.rules.cpu.injective import Injective
from whet.search_spaces.rules.cpu.opaque import DefaultLoops
from whet.search_spaces.rules.cpu.reduction import Reduction
from whet.search_spaces.rules.cpu.rows import Rows
from whet.search_spaces.rules.cpu.tiling.tiled import Tiled

RULES: tuple[Rule, ...] = (Tiled(), Rows(), Reduction(), Injective(), DefaultLoops())
"""The first that applies to a group schedules it; the last applies to all."""
