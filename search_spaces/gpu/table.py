"""The rules for GPUs in the order in which they are tried."""

from __future__ import annotations

from whet.search_spaces.derived.rules import Rule
from whet.search_spaces.gpu.injective import GpuInjective
from whet.search_spaces.gpu.reduction import GpuReduction
from whet.search_spaces.gpu.rows import GpuRows
from whet.search_spaces.gpu.scan import GpuScan
from whet.search_spaces.gpu.spread import GpuSpread
from whet.search_spaces.gpu.tiled import GpuTiled

RULES: tuple[Rule, ...] = (
    GpuTiled(),
    GpuRows(),
    GpuReduction(),
    GpuInjective(),
    GpuScan(),
    GpuSpread(),
)
"""The first that applies to a group schedules it; the last applies to all."""
