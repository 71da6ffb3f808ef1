"""From a graph to a model: groups, kernels, the memory plan, the function that runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from whet.autotune.models.cache import ModelCache
from whet.autotune.models.constants import Constants, SharedConstants, Stored
from whet.autotune.models.kernels import GroupTask, Kernel, built, group_tasks
from whet.autotune.models.slices import arranged
from whet.autotune.models.steps import Steps
from whet.autotune.tasks.task import Task
from whet.compiler import driver
from whet.compiler.graph.executor import ARENA, Place, Step, model_function
from whet.compiler.graph.image import linked
from whet.compiler.graph.ir import Graph, Value
from whet.compiler.graph.memory import Arena, planned
from whet.compiler.graph.model import Call, Model
from whet.compiler.graph.views import Views, views
from whet.compiler.runtime.module import Module
from whet.compiler.target import Target

NAME = "model"


def compiled(
    graph: Graph,
    target: Target,
    cache: ModelCache | None = None,
    owned: bool = False,
) -> Model:
    """A model that runs here.

    Args:
        graph: after its passes.
        target: canonical.
        cache: where its kernels may be already, and are kept.
        owned: nobody else has the graph: its constants go as soon as they are packed.
    """
    return compiled_all([graph], target, cache, owned)[0]


def compiled_all(
    graphs: Sequence[Graph],
    target: Target,
    cache: ModelCache | None = None,
    owned: bool = False,
    steps: Steps | None = None,
) -> list[Model]:
    """Models that share kernels, and constants that are the same bytes.

    Args:
        graphs, target, cache, owned: as of :func:`compiled`.
        steps: where kernels are told of.
    """
    laid = [arranged(graph, target) for graph in graphs]
    constants = Constants(laid) if len(laid) == 1 else SharedConstants(laid)
    plans = plans_of(laid, target, constants, cache, steps)
    for graph in (*graphs, *laid) if owned else ():
        if isinstance(graph.constants, dict):
            graph.constants.clear()
    size, memory = constants.size, constants.memory()
    names = [NAME] if len(plans) == 1 else [f"{NAME}_{k}" for k in range(len(plans))]
    return [plan.model(size, memory, name) for plan, name in zip(plans, names)]


def plans_of(
    graphs: Sequence[Graph],
    target: Target,
    constants: Constants,
    cache: ModelCache | None = None,
    steps: Steps | None = None,
) -> list[Plan]:
    """The plans of some graphs, all of whose constants have their places."""
    each = [group_tasks(graph, target) for graph in graphs]
    tasks = {g.task.key: g.task for own in each for g in own}
    kernels: dict[str, Kernel] = {}
    for number, (key, task) in enumerate(tasks.items(), 1):
        if steps is not None:
            steps.at(f"kernel {number}/{len(tasks)}")
        kernels[key] = built(task, cache)
    return [
        Plan(graph, own, views(graph), target, kernels, constants)
        for graph, own in zip(graphs, each)
    ]


def model_tasks(graphs: Sequence[Graph], target: Target) -> list[tuple[Task, int]]:
    """The tasks of models, and how often a call of each runs them; the most arithmetic first.

    Args:
        graphs: after their passes.
        target: canonical.
    """
    counts: dict[str, int] = {}
    tasks: dict[str, Task] = {}
    for g in (g for graph in graphs for g in group_tasks(arranged(graph, target), target)):
        tasks.setdefault(g.task.key, g.task)
        counts[g.task.key] = counts.get(g.task.key, 0) + 1
    found = [(task, counts[key]) for key, task in tasks.items()]
    return sorted(found, key=lambda one: -one[0].flop * one[1])


class Plan:
    """The places of all values, and the calls.

    Attributes:
        calls: in order.
        arena: what lives between them.
    """

    def __init__(
        self,
        graph: Graph,
        given: Sequence[GroupTask],
        seen: Views,
        target: Target,
        kernels: Mapping[str, Kernel],
        constants: Constants,
    ) -> None:
        self.graph, self.views, self.target = graph, seen, target
        self.tasks = list(given)
        self.kernels = {g.task.key: kernels[g.task.key] for g in given}
        self.constants = constants
        self.named = {v: Place(v.name) for v in (*graph.inputs, *graph.outputs)}
        # what is reshaped to an output is computed there
        self.named |= {seen[v].base: Place(v.name) for v in graph.outputs}
        self.arena = self._arena()
        self.calls = self._calls()

    def root(self, v: Value) -> Value:
        """The value whose memory another one is, or is part of."""
        return self.views[v].base

    def _arena(self) -> Arena[Value]:
        first: dict[Value, int] = {}
        last: dict[Value, int] = {}
        for k, g in enumerate(self.tasks):
            for v in g.args:
                r = self.root(v)
                if r in self.named or r in self.graph.constants:
                    continue
                first.setdefault(r, k)
                last[r] = k
        return planned([(v, v.bytes, first[v], last[v]) for v in first])

    def place(self, v: Value) -> Place:
        """Where a value is that is no constant."""
        view = self.views[v]
        at = self.named.get(view.base) or Place(ARENA, self.arena.offsets[view.base])
        return replace(at, offset=at.offset + view.offset)

    @property
    def modules(self) -> dict[str, Module]:
        """Symbol -> the kernel's module."""
        return {k.symbol: k.module for k in self.kernels.values()}

    def _calls(self) -> list[Call]:
        calls = []
        for g in self.tasks:
            kernel = self.kernels[g.task.key]
            places = tuple(
                self.constants.place(x) if isinstance(x, Stored) else self.place(x)
                for x in kernel.arranged([self._argument(v) for v in g.args])
            )
            origins = tuple(n.origin for n in g.group.nodes if n.origin)
            moved = sum(v.bytes for v in g.args)
            calls.append(
                Call(
                    g.group.name, kernel.symbol, origins, places,
                    tuple(v.name for v in g.group.outputs), g.task.flop, moved,
                    kernel.tuned_by,
                )
            )  # fmt: skip
        return calls

    def model(self, size: int, memory: np.ndarray, name: str) -> Model:
        """The model.

        Args:
            size: bytes of the constants.
            memory: the constants.
            name: the symbol of the function that runs it.
        """
        steps = [Step(c.kernel, c.places) for c in self.calls]
        inputs, outputs = self.graph.inputs, self.graph.outputs
        func = model_function(name, inputs, outputs, size, self.arena.size, steps)
        with self.target:
            artifact = driver.compile_module(driver.lower(func, name=name), self.target)
        function = linked(artifact, self.modules)
        return Model(inputs, outputs, function, self.modules, memory, self.arena, self.calls)

    def _argument(self, v: Value) -> Value | Stored:
        """A value as an argument of a task: a constant by what it is."""
        r = self.root(v)
        return Stored(r, v.shape, v.dtype) if r in self.graph.constants else v
