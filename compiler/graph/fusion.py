"""Fusion: the nodes of a graph in groups, each of which becomes one kernel.

After Relay's (T. Chen et al., TVM): post-dominators, and a union-find over the kinds of nodes. A
node joins the one through which everything that it makes passes, where the kinds on all paths to
there allow it. What a group makes and others read is its last node's output, nothing else.

Views are no kernels: :mod:`whet.compiler.graph.views`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from whet.compiler.graph.ir import Graph, Node, Value
from whet.compiler.graph.kinds import Kind, kind_of, stores_all
from whet.compiler.graph.views import Views, views

_MOST_NODES = 64  # of a group: what is compiled in one piece


@dataclass(frozen=True, eq=False)
class Fused:
    """Nodes that one kernel computes.

    Attributes:
        nodes: producers first.
        inputs: what they read of others, in the order of their first use; constants, too.
        outputs: what others read of them.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]

    @cached_property
    def name(self) -> str:
        """Its operators, for people."""
        return "_".join(n.operator for n in self.nodes)


def fused(graph: Graph, seen: Views | None = None) -> tuple[Fused, ...]:
    """The groups of a graph, in an order in which they can run; views are groups of their own.

    Args:
        graph: whose.
        seen: its views; None: all that it has.
    """
    return _Fusion(graph, views(graph) if seen is None else seen).groups()


class _Fusion:
    def __init__(self, graph: Graph, views: Views) -> None:
        self.graph = graph
        self.nodes = graph.nodes
        self.place = {n: k for k, n in enumerate(self.nodes)}
        seen = views.nodes
        self.kinds = [Kind.OPAQUE if n in seen else kind_of(n) for n in self.nodes]
        outputs = set(graph.outputs)
        self.readers = [
            None
            if not outputs.isdisjoint(n.outputs)
            else sorted({self.place[r] for v in n.outputs for r in graph.readers.get(v, ())})
            for n in self.nodes
        ]
        self.depth = [0] * len(self.nodes)
        self.parent: list[int | None] = [None] * len(self.nodes)
        self._post_dominate()
        self.leader = list(range(len(self.nodes)))
        self.members = [[k] for k in self.leader]  # of the groups that these nodes lead
        made = graph.producers
        self.sources = [{self.place[made[v]] for v in n.reads if v in made} for n in self.nodes]
        self.group_kind = list(self.kinds)

    def _post_dominate(self) -> None:
        """For each node the next one that everything it makes passes through."""
        for k in range(len(self.nodes) - 1, -1, -1):
            readers = self.readers[k]
            if not readers:
                continue
            common: int | None = readers[0]
            for other in readers[1:]:
                common = self._common(common, other)
            self.parent[k] = common
            self.depth[k] = 0 if common is None else self.depth[common] + 1

    def _common(self, a: int | None, b: int | None) -> int | None:
        while a != b:
            if a is None or b is None:
                return None
            if a < b:
                a = self.parent[a]
            else:
                b = self.parent[b]
        return a

    def groups(self) -> tuple[Fused, ...]:
        for phase in (0, 1):
            for k in range(len(self.nodes)):
                self._join(k, phase)
        members: dict[int, list[int]] = {}
        for k in range(len(self.nodes)):
            members.setdefault(self._find(k), []).append(k)
        made = [self._fused([self.nodes[k] for k in many]) for many in members.values()]
        return tuple(sorted(made, key=lambda g: self.place[g.nodes[-1]]))

    def _join(self, k: int, phase: int) -> None:
        """Fuse a node's group with the one that dominates it, if it may be."""
        to, kind = self.parent[k], self.group_kind[self._find(k)]
        if to is None or kind == Kind.OPAQUE or self._find(to) == self._find(k):
            return
        there = self.group_kind[self._find(to)]
        if kind in (Kind.CONTRACTION, Kind.REDUCTION):
            # an epilogue: the same elements, one after the other
            same = self.nodes[to].output.shape == self.nodes[k].output.shape
            if phase == 0 and same and there <= Kind.BROADCAST:
                self._try(k, to, Kind.BROADCAST)
        elif kind <= Kind.BROADCAST:
            if phase == 0 and there <= Kind.REDUCTION:
                self._try(k, to, Kind.INJECTIVE)
        elif phase == 1 and there <= Kind.INJECTIVE:
            self._try(k, to, Kind.INJECTIVE)

    def _try(self, k: int, to: int, most: Kind) -> None:
        """Fuse all that lies between a node and the one that dominates it."""
        between, waiting = {k}, [k]
        while waiting:
            for r in self.readers[waiting.pop()] or ():
                if r == to or r in between:
                    continue
                if self.kinds[r] > most or self.group_kind[self._find(r)] > most:
                    return
                between.add(r)
                waiting.append(r)
        leaders = {self._find(x) for x in between} | {self._find(to)}
        if sum(len(self.members[x]) for x in leaders) > _MOST_NODES:
            return
        heavy = [x for x in leaders if self.group_kind[x] >= Kind.REDUCTION]
        if len(heavy) > 1 or self._cycles(leaders):
            return
        target = self._find(to)
        for x in leaders - {target}:
            self.leader[x] = target
            self.members[target] += self.members[x]
            self.group_kind[target] = max(self.group_kind[target], self.group_kind[x])

    def _cycles(self, leaders: set[int]) -> bool:
        """True if the groups together would wait for another one that waits for them."""
        own = {k for x in leaders for k in self.members[x]}
        reached: set[int] = set()  # outside, and waiting for one of them
        for k in range(min(own), max(own) + 1):
            if k in own:
                if not reached.isdisjoint(self.sources[k]):
                    return True
            elif not own.isdisjoint(self.sources[k]) or not reached.isdisjoint(self.sources[k]):
                reached.add(k)
        return False

    def _find(self, k: int) -> int:
        while self.leader[k] != k:
            self.leader[k] = self.leader[self.leader[k]]
            k = self.leader[k]
        return k

    def _fused(self, group: Sequence[Node]) -> Fused:
        inside = {v for n in group for v in n.outputs}
        inputs = dict.fromkeys(v for n in group for v in n.reads if v not in inside)
        own, wanted = set(group), set(self.graph.outputs)
        outputs = [
            v
            for n in group
            for v in n.outputs
            if v in wanted or not own.issuperset(self.graph.readers.get(v, ()))
        ]
        if len(outputs) < len(group[0].outputs) and stores_all(group[0]):
            outputs = list(group[0].outputs)
        return Fused(tuple(group), tuple(inputs), tuple(outputs))
