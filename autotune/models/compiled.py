"""From a graph to a model: groups, kernels, the memory plan, the function that runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from whet.autotune.models.kernels import GroupTask, Kernel, built, group_tasks
from whet.autotune.tasks.task import Task
from whet.compiler import driver
from whet.compiler.graph.executor import ARENA, CONSTANTS, Place, Step, model_function
from whet.compiler.graph.fusion import views
from whet.compiler.graph.ir import Graph, Value, digest
from whet.compiler.graph.memory import ALIGNMENT, Arena, planned
from whet.compiler.graph.model import Call, Model
from whet.compiler.jit.loader import LoadedCode
from whet.compiler.runtime.arrays.aligned import aligned_empty
from whet.compiler.runtime.arrays.device import Device
from whet.compiler.runtime.module import Module
from whet.compiler.target import Target

NAME = "model"


def compiled(graph: Graph, target: Target, device: Device | None = None) -> Model:
    """A model that runs here.

    Args:
        graph: after its passes.
        target: canonical.
        device: of a target with threads, where it runs; None: the first of its kind.
    """
    if target.kind.row.has_threads:
        from whet.autotune.models.on_device import device_model

        return device_model(graph, target, device)
    return Plan(graph, group_tasks(graph, target), views(graph), target).model()


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


class Plan:
    """The places of all values, and the calls."""

    def __init__(
        self,
        graph: Graph,
        given: Sequence[GroupTask],
        seen: Mapping[Value, Value],
        target: Target,
    ) -> None:
        self.graph, self.views, self.target = graph, seen, target
        self.tasks = list(given)
        kernels: dict[str, Kernel] = {}
        for g in given:
            if g.task.key not in kernels:
                kernels[g.task.key] = built(g.task)
        self.kernels = kernels
        self.constants: list[np.ndarray] = []
        self.size = 0
        self.known: dict[str, Place] = {}
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

    def constant(self, array: np.ndarray) -> Place:
        """Where a constant is, which is added where it is new."""
        key = digest(array)
        if key not in self.known:
            self.known[key] = Place(CONSTANTS, self.size)
            self.constants.append(array)
            self.size += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        return self.known[key]

    def calls(self) -> list[Call]:
        """The calls, in order; the constants that they read are placed."""
        calls = []
        for g in self.tasks:
            kernel = self.kernels[g.task.key]
            given = [self.graph.constants.get(self.root(v), v) for v in g.args]
            given = [
                x.reshape(v.shape) if isinstance(x, np.ndarray) else x
                for x, v in zip(given, g.args)
            ]
            origins = tuple(n.origin for n in g.group.nodes if n.origin)
            moved = sum(v.bytes for v in g.args)
            calls.append(
                Call(
                    g.group.name, kernel.symbol, origins, self.places(kernel, given),
                    tuple(v.name for v in g.group.outputs), g.task.flop, moved,
                    kernel.tuned_by,
                )
            )  # fmt: skip
        return calls

    def places(self, kernel: Kernel, given: Sequence[Value | np.ndarray]) -> tuple[Place, ...]:
        """Where a kernel's arguments are; weights are packed now."""
        return tuple(
            self.constant(x) if isinstance(x, np.ndarray) else self.place(x)
            for x in kernel.arranged(given)
        )

    def model(self) -> Model:
        """The model."""
        calls = self.calls()
        memory = aligned_empty((max(self.size, 1),), np.dtype(np.uint8))
        for place, array in zip(self.known.values(), self.constants):
            flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            memory[place.offset : place.offset + flat.size] = flat
        symbols = {
            name: k.module.address_of(name)
            for k in self.kernels.values()
            for name in [f"{k.symbol}__raw"]
        }
        steps = [Step(c.kernel, c.places) for c in calls]
        inputs, outputs = self.graph.inputs, self.graph.outputs
        func = model_function(NAME, inputs, outputs, self.size, self.arena.size, steps)
        with self.target:
            artifact = driver.compile_module(driver.lower(func, name=NAME), self.target)
        function = Module(artifact, LoadedCode(artifact.object, symbols=symbols))
        modules = {k.symbol: k.module for k in self.kernels.values()}
        return Model(inputs, outputs, function, modules, memory, self.arena, calls)
