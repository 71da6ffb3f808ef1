"""The rules for GPUs in the order in which they are tried, and the one for what no other takes."""

from __future__ import annotations

from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.te.schedule import Schedule
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import Group
from whet.search_spaces.rules.gpu.hardware.threads import bind_fused


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


_ROOM = "whet.search_spaces.rules.gpu"
RULES: tuple[str, ...] = (
    f"{_ROOM}.conv.rule:GpuConvolution",
    f"{_ROOM}.contraction.tiled:GpuTiled",
    f"{_ROOM}.window:GpuWindow",
    f"{_ROOM}.rows:GpuRows",
    f"{_ROOM}.columns:GpuColumns",
    f"{_ROOM}.multi_kernel:GpuMultiKernel",
    f"{_ROOM}.reduction:GpuReduction",
    f"{_ROOM}.injective:GpuInjective",
    f"{_ROOM}.scan:GpuScan",
    f"{_ROOM}.table:GpuElementwiseFallback",
)
"""Homes of rules: the first that applies to a group schedules it; the last applies to all."""
