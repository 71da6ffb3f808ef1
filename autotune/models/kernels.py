"""A group of a model as a task and as a kernel: which config, which weights are packed ahead."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.autotune.tasks.task import Task, create_task
from whet.compiler import driver
from whet.compiler.graph.fusion import Fused, fused, views
from whet.compiler.graph.ir import Graph, Value
from whet.compiler.graph.kinds import Kind, kind_of, tensors_of
from whet.compiler.runtime.module import Module
from whet.compiler.te import placeholder
from whet.search_spaces.graph.stages import computed_ahead
from whet.search_spaces.template.config_scope import resolved_in_force

if TYPE_CHECKING:
    from whet.compiler.abi.signature import KernelSignature
    from whet.compiler.abi.tuned_by import TunedBy
    from whet.compiler.target import Target
    from whet.search_spaces import Config


@dataclass(frozen=True, eq=False)
class GroupTask:
    """A group of a model and its task.

    Attributes:
        group: the group.
        task: its task; groups of the same structure have equal ones.
        args: the values that the kernel takes: inputs, then outputs.
    """

    group: Fused
    task: Task
    args: tuple[Value, ...]


def group_tasks(graph: Graph, target: Target) -> list[GroupTask]:
    """The tasks of a graph's groups, in the order in which they run; views have none."""
    seen = views(graph)
    known: dict[Hashable, Task] = {}
    found: list[GroupTask] = []
    for group in fused(graph):
        if group.nodes[0].output in seen:
            continue
        packed = _packed(graph, group)
        key = _structure(group, packed)
        if key not in known:
            known[key] = _task(group, packed, target)
        found.append(GroupTask(group, known[key], (*group.inputs, *group.outputs)))
    return found


def _task(group: Fused, packed: Collection[Value], target: Target) -> Task:
    """The task of a group; the weights among ``packed`` are computed ahead."""
    tensors = [placeholder(v.shape, v.dtype, f"p{k}") for k, v in enumerate(group.inputs)]
    given = {v: computed_ahead(t) if v in packed else t for v, t in zip(group.inputs, tensors)}
    made = tensors_of(group.nodes, given)
    outputs = [made[v] for v in group.outputs]
    return create_task(None, [*tensors, *outputs], target, outputs=outputs)


def _structure(group: Fused, packed: Collection[Value]) -> Hashable:
    """The structure of a group, whatever its values are called: equal ones have one task."""
    place = {v: k for k, v in enumerate(group.inputs)}
    for node in group.nodes:
        place.update((v, len(place)) for v in node.outputs)
    inputs = tuple((v.shape, v.dtype, v in packed) for v in group.inputs)
    nodes = tuple(
        (n.operator, tuple(None if v is None else place[v] for v in n.inputs), repr(n.attrs))
        for n in group.nodes
    )
    return inputs, nodes, tuple(place[v] for v in group.outputs)


def _packed(graph: Graph, group: Fused) -> set[Value]:
    """The constants that contractions read: their kernels take them in a layout of their own."""
    found: set[Value] = set()
    for node in group.nodes:
        if kind_of(node) is Kind.CONTRACTION:
            weights = node.inputs[1]
            if weights is not None and weights in graph.constants and len(weights.shape) > 1:
                found.add(weights)
    return found


@dataclass(frozen=True, eq=False)
class Kernel:
    """A built kernel.

    Attributes:
        symbol: its name.
        module: its code.
        tuned_by: where its config comes from; None: no log was asked.
    """

    symbol: str
    module: Module
    tuned_by: TunedBy | None

    @cached_property
    def signature(self) -> KernelSignature:
        """Of the kernel, packed weights in their place."""
        return self.module.artifact.signatures[0]

    def arranged(self, args: Sequence[Any]) -> list[Any]:
        """The arguments as the raw kernel takes them; packed arrays for constant weights.

        Args:
            args: of the task, in order; weights as arrays.
        """
        ahead = self.signature.ahead
        if ahead is None:
            return list(args)
        packed = self.module.pack_weights(*(args[k] for k in ahead.weights))
        many = packed if isinstance(packed, tuple) else (packed,)
        raw = [args[k] for k in ahead.places]
        for k, array in zip(ahead.packed, many):
            raw[k] = np.asarray(array)
        return raw


def built(task: Task) -> Kernel:
    """The kernel of a task with the config in force, else the default one."""
    with task.target:
        resolved = resolved_in_force(task.workload)
        config = resolved.config or task.config_space.default
        symbol = _symbol(task, config)
        schedule, args = task.instantiate(config)
        module = driver.build(schedule, args, task.target, name=symbol)
    return Kernel(symbol, module, resolved.tuned_by)


def _symbol(task: Task, config: Config) -> str:
    text = f"{task.key} {config.key}"
    return f"whet_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
