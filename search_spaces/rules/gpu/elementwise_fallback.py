"""The fallback rule for GPUs: an element of the result for each thread."""

from __future__ import annotations

from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.te.schedule import Schedule
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import Group
from whet.search_spaces.rules.gpu.hardware.threads import bind_fused


class GpuElementwiseFallback(Rule):
    """All loops of a stage are fused, and their steps shared among threads."""

    name = "gpu elementwise fallback"

    def applies(self, group: Group) -> bool:
        """Any group."""
        return True

    def schedule(self, s: Schedule, group: Group) -> None:
        """Bind each stage; an extern statement says itself what its threads do."""
        for node in (*group.staged, group.anchor, *group.consumers[-1:]):
            if isinstance(node.op, ComputeOp):
                bind_fused(s[node.tensor])
