"""A group of a model as a task and as a kernel: which config, which weights are packed ahead."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from whet.autotune.models.cache import ModelCache, kernel_key
from whet.autotune.models.constants import Stored
from whet.autotune.tasks.task import Task, create_task
from whet.compiler import driver
from whet.compiler.abi.signature import BufferParam
from whet.compiler.graph.fusion import Fused, fused
from whet.compiler.graph.ir import Graph, Value
from whet.compiler.graph.kinds import Kind, kind_of, tensors_of
from whet.compiler.graph.views import views
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
    seen = views(graph).nodes
    known: dict[Hashable, Task] = {}
    found: list[GroupTask] = []
    for group in fused(graph):
        if group.nodes[0] in seen:
            continue
        packed = packed_of(graph, group)
        key = structure_of(group, packed)
        if key not in known:
            known[key] = task_of(group, packed, target)
        found.append(GroupTask(group, known[key], (*group.inputs, *group.outputs)))
    return found


_REORDERS = ("conv_transpose",)
"""Operators that multiply their weights in another order, and mark those as computed ahead."""


def task_of(group: Fused, packed: Collection[Value], target: Target) -> Task:
    """The task of a group; the weights among ``packed`` are computed ahead."""
    tensors = [placeholder(v.shape, v.dtype, f"p{k}") for k, v in enumerate(group.inputs)]
    reordered = {n: n.inputs[1] for n in group.nodes if n.operator in _REORDERS}
    whole = set(packed).difference(reordered.values())
    given = {v: computed_ahead(t) if v in whole else t for v, t in zip(group.inputs, tensors)}
    nodes = [
        replace(n, attrs={**n.attrs, "ahead": computed_ahead}) if reordered.get(n) in packed else n
        for n in group.nodes
    ]
    made = tensors_of(nodes, given)
    outputs = [made[v] for v in group.outputs]
    return create_task(None, [*tensors, *outputs], target, outputs=outputs)


def structure_of(group: Fused, packed: Collection[Value]) -> Hashable:
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


def packed_of(graph: Graph, group: Fused) -> set[Value]:
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

    def arranged(self, args: Sequence[Value | Stored]) -> list[Value | Stored]:
        """The arguments as the raw kernel takes them; packed arrays for constant weights.

        Args:
            args: of the task, in order.
        """
        ahead = self.signature.ahead
        if ahead is None:
            return list(args)
        weights = tuple(args[k] for k in ahead.weights)
        raw = [args[k] for k in ahead.places if k < len(args)]  # behind them, numbers
        for which, k in enumerate(ahead.packed):
            param = self.signature.params[k]
            assert isinstance(param, BufferParam)
            shape = tuple(int(str(d)) for d in param.shape)
            raw[k] = Stored(weights, shape, param.dtype, self.module, which)
        return raw


def built(task: Task, cache: ModelCache | None = None) -> Kernel:
    """The kernel of a task with the config in force, else the default one.

    Args:
        task: what is built.
        cache: where it may be already, and is kept.
    """
    with task.target:
        resolved = resolved_in_force(task.workload)
        config = resolved.config or task.config_space.default
        symbol = _symbol(task, config)
        key = None if cache is None else kernel_key(task.key, config.key)
        known = cache.kernel(key) if cache is not None and key is not None else None
        if known is not None:
            return Kernel(symbol, Module.from_artifact(known), resolved.tuned_by)
        schedule, args = task.instantiate(config)
        module = with_code(driver.build(schedule, args, task.target, name=symbol))
        if cache is not None and key is not None:
            cache.keep_kernel(key, module.artifact)
    return Kernel(symbol, module, resolved.tuned_by)


def with_code(module: Module) -> Module:
    """The module that holds a kernel's code: of a GPU's the device's part, which launches, too."""
    parts = [m for m in module.imported_modules if m.artifact.plans]
    return parts[0] if len(parts) == 1 and not module.artifact.object else module


def _symbol(task: Task, config: Config) -> str:
    text = f"{task.key} {config.key}"
    return f"whet_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
