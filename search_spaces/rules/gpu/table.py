"""The rules for GPUs in the order in which they are tried, and the one for what no other takes."""

from __future__ import annotations

from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.te.schedule import Schedule
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import Group
from whet.search_spaces.rules.gpu.columns import GpuColumns
from whet.search_spaces.rules.gpu.contraction.tiled import GpuTiled
from whet.search_spaces.rules.gpu.hardware.threads import bind_fused
from whet.search_spaces.rules.gpu.injective import GpuInjective
from whet.search_spaces.rules.gpu.multi_kernel import GpuMultiKernel
from whet.search_spaces.rules.gpu.reduction import GpuReduction
from whet.search_spaces.rules.gpu.rows import GpuRows
from whet.search_spaces.rules.gpu.scan import GpuScan
from whet.search_spaces.rules.gpu.window import GpuWindow


class GpuElementwiseFallback(Rule):
    """All loops of a stage are fused, and their steps shared among threads."""

    def applies(self, group: Group) -> bool:
        """Any group."""
        return True

    def schedule(self, s: Schedule, group: Group) -> None:
        """Bind each stage; an extern statement says itself what its threads do."""
        for node in (*group.staged, group.anchor, *group.consumers[-1:]):
            if isinstance(node.op, ComputeOp):
                bind_fused(s[node.tensor])


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
