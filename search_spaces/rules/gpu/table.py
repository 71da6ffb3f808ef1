"""The rules for GPUs in the order in which they are tried."""

from __future__ import annotations

from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.rules.gpu.columns import GpuColumns
from whet.search_spaces.rules.gpu.contraction.tiled import GpuTiled
from whet.search_spaces.rules.gpu.elementwise_fallback import GpuElementwiseFallback
from whet.search_spaces.rules.gpu.injective import GpuInjective
from whet.search_spaces.rules.gpu.multi_kernel import GpuMultiKernel
from whet.search_spaces.rules.gpu.reduction import GpuReduction
from whet.search_spaces.rules.gpu.rows import GpuRows
from whet.search_spaces.rules.gpu.scan import GpuScan
from whet.search_spaces.rules.gpu.window import GpuWindow

RULES: tuple[Rule, ...] = (
    GpuTiled(),
    GpuWindow(),
    GpuRows(),
    GpuColumns(),
    GpuMultiKernel(),
    GpuReduction(),
    GpuInjective(),
    GpuScan(),
    GpuElementwiseFallback(),
)
"""The first that applies to a group schedules it; the last applies to all."""
