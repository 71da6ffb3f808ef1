"""From a graph to a model: groups, kernels, the memory plan, the function that runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whet.autotune.models.cache import ModelCache
from whet.autotune.models.constants import Constants, Stored
from whet.autotune.models.kernels import GroupTask, Kernel, built, group_tasks
from whet.autotune.tasks.task import Task
from whet.compiler import driver
from whet.compiler.graph.executor import ARENA, Place, Step, model_function
from whet.compiler.graph.fusion import views
from whet.compiler.graph.image import linked
from whet.compiler.graph.ir import Graph, Value
from whet.compiler.graph.memory import Arena, planned
from whet.compiler.graph.model import Call, Model
from whet.compiler.target import Target

NAME = "model"


def compiled(
    graph: Graph, target: Target, cache: ModelCache | None = None, owned: bool = False
) -> Model:
    """A model that runs here.

    Args:
        graph: after its passes.
        target: canonical.
        cache: where its kernels may be already, and are kept.
        owned: nobody else has the graph: its constants go as soon as they are packed.
    """
    plan = _Plan(graph, group_tasks(graph, target), views(graph), target, cache)
    return plan.model(owned)


def model_tasks(graph: Graph, target: Target) -> list[tuple[Task, int]]:
    """The tasks of a model, and how often a call of it runs each; the most arithmetic first.

    Args:
        graph: after its passes.
        target: canonical.
    """
    counts: dict[str, int] = {}
    tasks: dict[str, Task] = {}
    for g in group_tasks(graph, target):
        tasks.setdefault(g.task.key, g.task)
        counts[g.task.key] = counts.get(g.task.key, 0) + 1
    found = [(task, counts[key]) for key, task in tasks.items()]
    return sorted(found, key=lambda one: -one[0].flop * one[1])


class _Plan:
    """The places of all values, and the calls."""

    def __init__(
        self,
        graph: Graph,
        given: Sequence[GroupTask],
        seen: Mapping[Value, Value],
        target: Target,
        cache: ModelCache | None,
    ) -> None:
        self.graph, self.views, self.target = graph, seen, target
        self.tasks = list(given)
        kernels: dict[str, Kernel] = {}
        for g in given:
            if g.task.key not in kernels:
                kernels[g.task.key] = built(g.task, cache)
        self.kernels = kernels
        self.constants = Constants(graph)
        self.named = {v: Place(v.name) for v in (*graph.inputs, *graph.outputs)}
        # what is reshaped to an output is computed there
        self.named |= {seen[v]: Place(v.name) for v in graph.outputs if v in seen}
        self.arena = self._arena()

    def root(self, v: Value) -> Value:
        """The value whose memory another one is."""
        return self.views.get(v, v)

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
        r = self.root(v)
        return self.named[r] if r in self.named else Place(ARENA, self.arena.offsets[r])

    def model(self, owned: bool) -> Model:
        """The model; of an owned graph nothing can be asked any more."""
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
        steps = [Step(c.kernel, c.places) for c in calls]
        inputs, outputs = self.graph.inputs, self.graph.outputs
        size = self.constants.size
        func = model_function(NAME, inputs, outputs, size, self.arena.size, steps)
        with self.target:
            artifact = driver.compile_module(driver.lower(func, name=NAME), self.target)
        modules = {k.symbol: k.module for k in self.kernels.values()}
        function = linked(artifact, modules)
        if owned and isinstance(self.graph.constants, dict):
            self.graph.constants.clear()
        memory = self.constants.memory()
        return Model(inputs, outputs, function, modules, memory, self.arena, calls)

    def _argument(self, v: Value) -> Value | Stored:
        """A value as an argument of a task: a constant by what it is."""
        r = self.root(v)
        return Stored(r, v.shape, v.dtype) if r in self.graph.constants else v
