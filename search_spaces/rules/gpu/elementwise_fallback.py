"""The rule for what no other rule takes on a GPU: an element of the result for each thread."""

from __future__ import annotations

from collections.abc import Sequence

from whet.compiler.target import Target
from whet.compiler.te import Stage
from whet.compiler.te.lang.tensor import ComputeOp, Tensor
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import IterVar
from whet.search_spaces.graph.compute_graph import Group
from whet.search_spaces.rules.gpu.threads import bind
from whet.search_spaces.space.define import DefineKnobs

_THREADS = 256


class GpuSpread:
    """All elements of a stage are numbered through, and the numbers shared among threads."""

    name = "gpu spread"

    def applies(self, group: Group) -> bool:
        """Any group."""
        return True

    def rewrite(self, group: Group, cfg: DefineKnobs, target: Target) -> Tensor | None:
        """Nothing."""
        return None

    def schedule(self, s: Schedule, group: Group, cfg: DefineKnobs, target: Target) -> None:
        """Bind each stage; an extern statement says itself what its threads do."""
        for node in (*group.staged, group.anchor, *group.consumers[-1:]):
            if isinstance(node.op, ComputeOp):
                spread(s[node.tensor], list(s[node.tensor].op.axis))


def spread(stage: Stage, axes: Sequence[IterVar], threads: int = _THREADS) -> IterVar:
    """Number the steps of loops through and share them among threads; returns a thread's loop.

    Args:
        stage: its outermost loops are ``axes``.
        axes: outermost first; without any, one thread runs the stage.
        threads: of a block.
    """
    whole = stage.fuse(*axes)
    if not axes:
        bind(stage, whole, "threadIdx.x")
        return whole
    block, thread = stage.split(whole, factor=threads)
    bind(stage, block, "blockIdx.x")
    bind(stage, thread, "threadIdx.x")
    return thread
