"""The rules in the order in which they are tried."""

from __future__ import annotations

from whet.search_spaces.derived.injective import Injective
from whet.search_spaces.derived.opaque import DefaultLoops
from whet.search_spaces.derived.reduction import Reduction
from whet.search_spaces.derived.rows import Rows
from whet.search_spaces.derived.rules import Rule
from whet.search_spaces.derived.tiled import Tiled

RULES: tuple[Rule, ...] = (Tiled(), Rows(), Reduction(), Injective(), DefaultLoops())
"""The first that applies to a group schedules it; the last applies to all."""
