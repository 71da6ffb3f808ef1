"""Batches in slices: how many images parts of a model compute at a time.

A batch of large images leaves the caches between two kernels; a slice of it stays there, where its
weights are read again. Each group of nodes costs its arithmetic and the bytes that the caches or
memory deliver, by the number of images; what goes from a run of slices to another one goes through
memory. Dynamic programming over the groups finds the cheapest sizes of all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod

from whet.autotune.models.layouts import laid_out
from whet.compiler.graph.fusion import Fused, fused
from whet.compiler.graph.ir import Graph, Node, Value
from whet.compiler.graph.memory import ALIGNMENT
from whet.compiler.graph.passes.heads import split_heads
from whet.compiler.graph.passes.slices import batch_of, batched, with_slices
from whet.compiler.graph.views import views
from whet.compiler.target import Target
from whet.search_spaces.rules.cpu.conv.estimate.costs import costs_of
from whet.search_spaces.rules.vectors import lanes_of, operation_bits

_MOST_SLICES = 16  # of a batch: each is calls of its own
_FRESH = ((2.5e5, 50.0), (1e6, 20.0), (4e6, 14.0), (8e6, 6.0), (3.2e7, 3.0))
"""Bytes a cycle of what kernels hand on, by the bytes that one of them reads and writes: where
these fill a cache, a result has left it before its first byte is read. Of a MobileNet-v2."""
_CHANGE = 1e5  # cycles that a change of sizes must be worth: it is more kernels to build
_CALL = 300.0  # cycles of a kernel's call
_COPIED = 4.0  # times the bytes of what is copied, both ways and into memory
_GAIN = 0.97  # what slices must cost of the whole, as estimates are rough


def arranged(graph: Graph, target: Target) -> Graph:
    """The graph in the form in which it runs: heads apart, its images' layouts, slices of batches.

    Args:
        graph: after its passes.
        target: canonical; for GPUs nothing changes.
    """
    if target.kind not in ("llvm", "c"):
        return graph
    return in_slices(laid_out(split_heads(graph), target), target)


def in_slices(graph: Graph, target: Target) -> Graph:
    """The graph with parts of it in slices of the batch, where that costs less.

    Args:
        graph: in the layouts in which it runs.
        target: canonical; for GPUs nothing changes.
    """
    many = batch_of(graph)
    if target.kind not in ("llvm", "c") or many < 2:
        return graph
    sizes = [many // n for n in range(min(many, _MOST_SLICES), 0, -1) if many % n == 0]
    groups = fused(graph)
    work = _Work(graph, groups, target)
    chosen = _cheapest(work, sizes)
    least = work.total(chosen)
    if least > _GAIN * work.total([many] * len(groups)):
        return graph
    runs: list[tuple[list[Node], int]] = []
    for group, size in zip(groups, chosen):
        if not runs or runs[-1][1] != size:
            runs.append(([], size))
        runs[-1][0].extend(group.nodes)
    return with_slices(graph, runs)


class _Work:
    """The cycles of a model's groups by the size of their slices.

    Args:
        graph, target: of the model.
        groups: in the order in which they run.
    """

    def __init__(self, graph: Graph, groups: Sequence[Fused], target: Target) -> None:
        self.groups, self._target, self.batch = groups, target, batch_of(graph)
        self._costs = costs_of(target)
        self._values, self._free = batched(graph)
        self._views = views(graph).nodes
        last = {v: k for k, group in enumerate(groups) for v in group.inputs}
        last |= dict.fromkeys(graph.outputs, len(groups))
        first = dict.fromkeys(graph.inputs, -1)
        first |= {v: k for k, group in enumerate(groups) for v in group.outputs}
        self._live: list[list[Value]] = [[] for _ in groups]
        for v in self._values.intersection(first, last):
            for k in range(first[v] + 1, min(last[v] + 1, len(groups))):
                self._live[k].append(v)

    def total(self, sizes: Sequence[int]) -> float:
        """The cycles of all groups, each with slices of its size."""
        before = (self.batch, *sizes)
        return sum(self.cycles(k, b) + self.border(k, before[k], b) for k, b in enumerate(sizes))

    def cycles(self, k: int, size: int) -> float:
        """The cycles of a group in slices of so many places; infinite where it cannot be sliced."""
        group = self.groups[k]
        if group.nodes[0] in self._views and self._free.keys() >= set(group.nodes):
            return 0.0
        many = self.batch // size
        if not self._free.keys() >= set(group.nodes):
            if any(v in self._values for n in group.nodes for v in n.reads):
                return 0.0 if many == 1 else math.inf
            return 0.0
        given = (*group.inputs, *group.outputs)
        own = sum(v.bytes for v in given if v in self._values) / many
        others = sum(v.bytes for v in given if v not in self._values)
        moved = own / _fresh(own) + others / self._costs.caches.rate(own + others)
        threads = self._target.num_threads
        work = self._arithmetic(group) / many / threads
        fork = self._costs.fork if threads > 1 else 0.0
        longer, shorter = max(work, moved), min(work, moved)
        return many * (longer + self._costs.hidden * shorter + _CALL + fork)

    def _arithmetic(self, group: Fused) -> float:
        """The cycles of a group's multiply-adds and other operations on one core."""
        lanes = lanes_of(self._target, group.outputs[0].dtype)
        slow = operation_bits(self._target) < 8 * self._target.vector_bytes
        wide = self._costs.wide if slow else 0.5
        return sum(map(_operations, group.nodes)) / lanes * wide

    def border(self, k: int, before: int, size: int) -> float:
        """The cycles that a change of sizes in front of a group costs: what lives is in memory."""
        if before == size:
            return 0.0
        share, cycles = min(before, size) / self.batch, _CHANGE
        for v in self._live[k]:
            cycles += v.bytes / _fresh(v.bytes) - v.bytes / _fresh(v.bytes * share)
            if int(v.bytes * share) % ALIGNMENT:
                cycles += (
                    _COPIED * v.bytes / self._costs.caches.rate(v.bytes)
                )  # no view: it is copied
        return cycles


def _fresh(held: float) -> float:
    """Bytes a cycle of what kernels hand on, where they read and write so many."""
    (low, speed), *rest = _FRESH
    for high, slower in rest:
        if held < high:
            share = max(0.0, math.log(held / low) / math.log(high / low)) if held else 0.0
            return speed * (slower / speed) ** share
        low, speed = high, slower
    return speed


def _operations(node: Node) -> float:
    """Multiply-adds of a contraction; elements of anything else."""
    if node.operator == "conv":
        weight = node.inputs[1]
        assert weight is not None
        channels = weight.shape[-1 if node.attrs.get("channels_last") else 0]
        return node.output.size * prod(weight.shape) / max(channels, 1)
    if node.operator in ("matmul", "gemm"):
        x = node.inputs[0]
        assert x is not None
        depth = x.shape[-2 if node.attrs.get("transpose_a") and len(x.shape) > 1 else -1]
        return float(node.output.size * depth)
    return float(node.output.size)


def _cheapest(work: _Work, sizes: Sequence[int]) -> list[int]:
    """The sizes of slices, one a group, whose cycles are fewest."""
    best: dict[int, tuple[float, tuple[int, ...]]] = {b: (math.inf, ()) for b in sizes}
    best[work.batch] = (0.0, ())
    for k in range(len(work.groups)):
        own = {b: work.cycles(k, b) for b in sizes}
        best = {
            b: min(
                (total + work.border(k, a, b) + own[b], (*taken, b))
                for a, (total, taken) in best.items()
            )
            for b in sizes
        }
    return list(min(best.values())[1])
