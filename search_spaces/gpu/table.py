"""The rules for GPUs in the order in which they are tried."""

from __future__ import annotations

from whet.search_spaces.derived.rules import Rule
from whet.search_spaces.gpu.apart import GpuApart
from whet.search_spaces.gpu.columns import GpuColumns
from whet.search_spaces.gpu.injective import GpuInjective
from whet.search_spaces.gpu.reduction import GpuReduction
from whet.search_spaces.gpu.rows import GpuRows
from whet.search_spaces.gpu.scan import GpuScan
from whet.search_spaces.gpu.spread import GpuSpread
from whet.search_spaces.gpu.tiled import GpuTiled
from whet.search_spaces.gpu.window import GpuWindow

RULES: tuple[Rule, ...] = (
    GpuTiled(),
    GpuWindow(),
    GpuRows(),
    GpuColumns(),
    GpuApart(),
    GpuReduction(),
    GpuInjective(),
    GpuScan(),
    GpuSpread(),
)
"""The first that applies to a group schedules it; the last applies to all."""
