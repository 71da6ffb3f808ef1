"""From a graph with symbols to a model: kernels for blocks of rows, and kernels that take sizes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Hashable, Mapping
from math import prod

import numpy as np

from whet.autotune.models.cache import ModelCache
from whet.autotune.models.compiled import NAME
from whet.autotune.models.constants import SharedConstants, Stored
from whet.autotune.models.kernels import Kernel, built, packed_of, structure_of, with_code
from whet.autotune.models.on_device import Uploaded
from whet.autotune.models.open_kernels import NeedsNumbers, numbers_of, open_kernel, symbols_in
from whet.autotune.models.steps import Steps
from whet.autotune.models.symbolic_groups import GroupTasks, SymbolicGroups
from whet.autotune.tasks.task import Task
from whet.compiler import driver
from whet.compiler.abi.extent import Operation, Symbol
from whet.compiler.errors import ArgumentError
from whet.compiler.graph.device_constants import DeviceConstants
from whet.compiler.graph.executor import ARENA, Place
from whet.compiler.graph.fusion import Fused
from whet.compiler.graph.image import linked
from whet.compiler.graph.ir import Graph, Value
from whet.compiler.graph.memory import Arena, planned
from whet.compiler.graph.symbolic.calls import SymbolicCall
from whet.compiler.graph.symbolic.executor import Block, RowStep, SizedStep, symbolic_function
from whet.compiler.graph.symbolic.model import SymbolicModel, too_large
from whet.compiler.graph.symbolic.rows import sized
from whet.compiler.graph.symbolic.sizes import (
    Dynamic,
    Sizes,
    looked_at,
    most_each,
    most_elements,
    ones,
)
from whet.compiler.runtime.arrays.device import Device
from whet.compiler.runtime.module import Module
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt

_MOST_MORE = 1.25  # of the arena's bytes, where its used part is to be as long as sizes are


def symbolic_model(
    at: Callable[[Sizes], Graph],
    ranges: Mapping[str, Dynamic],
    target: Target,
    cache: ModelCache | None = None,
    steps: Steps | None = None,
    device: Device | None = None,
) -> SymbolicModel:
    """A model that runs here, for any sizes of some ranges.

    Args:
        at: gives the graph as the model's file has it, for sizes of the symbols.
        ranges: symbol -> its range.
        target: canonical.
        cache: where kernels may be already, and are kept.
        steps: where kernels are told of.
        device: where a GPU's runs; None: the first one.

    Raises:
        ArgumentError: the model is not the same for all sizes, or an operator needs numbers.
    """
    groups, told = SymbolicGroups(at, ranges, target), steps or Steps()
    try:
        plan = _Plan(groups, cache, told)
    except NeedsNumbers:
        if not groups.has_squares:
            raise
        plan = _Plan(SymbolicGroups(at, ranges, target, squares=False), cache, told)
    return plan.device_model(device) if target.kind.row.has_threads else plan.model()


class _Plan:
    """The kernels of a graph with symbols, the places of all values, and the steps."""

    def __init__(self, groups: SymbolicGroups, cache: ModelCache | None, steps: Steps) -> None:
        self.groups, self.sizes, self.target = groups, groups.sizes, groups.target
        self.cache, self.told = cache, steps
        self.graph = graph = self.sizes.graph
        self.views = groups.views
        on_device = self.target.kind.row.has_threads
        self.constants = Uploaded([graph]) if on_device else SharedConstants([graph])
        self.named = {v: Place(v.name) for v in (*graph.inputs, *graph.outputs)}
        self.named |= {self.views[v]: Place(v.name) for v in graph.outputs if v in self.views}
        self.kernels: dict[str, Module] = {}
        self._built: dict[Hashable, Kernel] = {}
        self._check_inputs()
        self.scaled = False
        self.arena = self._arena()
        self._check_memory()
        self.calls: list[SymbolicCall] = []
        self.steps = self._all_steps()

    def model(self) -> SymbolicModel:
        """The model."""
        graph, shapes = self.graph, self.sizes.shapes
        size, ranges = self.constants.size, self.sizes.ranges
        func = symbolic_function(
            NAME, graph.inputs, graph.outputs, shapes, ranges, (size, self.arena.size),
            self.scaled, self.steps,
        )  # fmt: skip
        with self.target:
            artifact = driver.compile_module(driver.lower(func, name=NAME), self.target)
        function = linked(artifact, self.kernels)
        named = {v.name: shapes[v] for v in (*graph.inputs, *graph.outputs)}
        return SymbolicModel(
            ranges, named, graph.inputs, graph.outputs, function, self.kernels,
            self.constants.memory(), self.arena, self.calls, self.steps, self.scaled,
        )  # fmt: skip

    def device_model(self, device: Device | None) -> SymbolicModel:
        """The model, of a GPU."""
        from whet.compiler.graph.symbolic.device_model import SymbolicDeviceModel

        graph, shapes, constants = self.graph, self.sizes.shapes, self.constants
        assert isinstance(constants, Uploaded)
        held = DeviceConstants(constants.size, constants.uploads(), device or Device("cuda"))
        named = {v.name: shapes[v] for v in (*graph.inputs, *graph.outputs)}
        return SymbolicDeviceModel(
            self.sizes.ranges, named, graph.inputs, graph.outputs, self.kernels, held, self.arena,
            self.calls, self.steps, self.scaled,
        )  # fmt: skip

    def _check_inputs(self) -> None:
        """Refuse a symbol that no input's dimension is."""
        there = {d for v in self.graph.inputs for d in self.sizes.shapes[v]}
        for name in self.sizes.ranges:
            if Symbol(name) not in there:
                raise ArgumentError(
                    f"compile(...) with the symbol {name}", "no dimension of an input is this size",
                    "give it a number",
                )  # fmt: skip

    def _arena(self) -> Arena[Value]:
        """The places of what lives between kernels.

        They are enough for the greatest sizes. Where that takes little more, they are so much
        closer together as a call's sizes are smaller: what it uses stays in the caches.
        """
        first: dict[Value, int] = {}
        last: dict[Value, int] = {}
        for k, g in enumerate(self.groups.groups):
            for v in (*g.inputs, *g.outputs):
                r = self.views.get(v, v)
                if r not in self.named and r not in self.graph.constants:
                    first.setdefault(r, k)
                    last[r] = k
        shapes, ranges = self.sizes.shapes, self.sizes.ranges
        most = {v: most_elements(shapes[v], ranges) * dt.itemsize(v.dtype) for v in first}
        each = {v: most_each(shapes[v], dt.itemsize(v.dtype), ranges) for v in first}
        whole = planned([(v, most[v], first[v], last[v]) for v in first])
        parts = planned([(v, each[v], first[v], last[v]) for v in first])
        size = parts.size * prod(r.high for r in ranges.values())
        self.scaled = size <= _MOST_MORE * whole.size
        return Arena(parts.offsets, size, whole.least) if self.scaled else whole

    def _check_memory(self) -> None:
        """Refuse an arena that no memory holds, before kernels are built."""
        try:
            np.empty(self.arena.size, np.uint8)  # memory that nobody touches is not taken
        except (MemoryError, ValueError) as error:  # numpy counts to 2 ** 63
            raise too_large(self.sizes.ranges, self.arena.size) from error

    # --- steps -----------------------------------------------------------------------------------

    def _all_steps(self) -> list[SizedStep | RowStep]:
        """The calls of all groups' kernels.

        Raises:
            NeedsNumbers: some have none; the first one's error has the values of all.
        """
        found, refused = [], []
        for group in self.groups.groups:
            try:
                found.append(self._step(group))
            except NeedsNumbers as error:
                refused.append(error)
        if refused:
            refused[0].values = tuple(v for error in refused for v in error.values)
            raise refused[0]
        return found

    def _step(self, group: Fused) -> SizedStep | RowStep:
        """The calls of a group's kernels."""
        self.told.at(f"group {len(self.calls) + 1}/{len(self.groups.groups)}")
        found = self.groups.tasks(group)
        if found.rows is None:
            symbols = symbols_in(self.sizes, group)
            kernel = self._open(group)
            how = f"a kernel for any {', '.join(symbols)}: it has no rows"
            self._call(group, (kernel,), how, is_tunable=False)
            places = self._places(group, kernel)
            return SizedStep(kernel.symbol, places, numbers_of(self.sizes, group))
        if not found.rows:
            task = found.tasks[1]
            kernel = self._kernel(task)
            self._call(group, (kernel,), "a kernel of fixed sizes")
            return SizedStep(kernel.symbol, self._places(group, kernel), flop=task.flop)
        return self._by_rows(found)

    def _by_rows(self, found: GroupTasks) -> RowStep:
        """Kernels for blocks of rows."""
        assert found.rows
        blocks, kernels = [], []
        for many, task in found.tasks.items():
            kernel = self._kernel(task)
            places = self._places(found.group, kernel)
            behind = kernel.signature.ahead
            order = range(len(found.strides)) if behind is None else behind.places
            packed = () if behind is None else behind.packed
            steps = [0 if k in packed else found.strides[n] for k, n in enumerate(order)]
            blocks.append(Block(many, kernel.symbol, places, tuple(steps), task.flop))
            kernels.append(kernel)
        sizes = ", ".join(str(b.rows) for b in blocks)
        how = f"blocks of {sizes} rows" if len(blocks) > 1 else "row by row"
        self._call(found.group, kernels, how)
        total = found.rows[0]
        for d in found.rows[1:]:
            total = Operation("*", total, d)
        return RowStep(total, tuple(blocks))

    def _kernel(self, task: Task) -> Kernel:
        """The kernel of a task."""
        if task.key not in self._built:
            self._built[task.key] = self._kept(built(task, self.cache))
        return self._built[task.key]

    def _open(self, group: Fused) -> Kernel:
        """A kernel that takes sizes."""
        own, values = sized(self.sizes, group, {})
        key = structure_of(own, [values[v] for v in packed_of(self.graph, group)])
        if key not in self._built:
            within = [(s, self.sizes.ranges[s]) for s in symbols_in(self.sizes, group)]
            text = f"{key} {within} {self.target.key}"
            symbol = f"whet_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
            points = looked_at(self.sizes.ranges) + ones(self.sizes.ranges)
            module = open_kernel(self.sizes, group, points, self.target, symbol)
            self._built[key] = self._kept(Kernel(symbol, with_code(module), None))
        return self._built[key]

    def _kept(self, kernel: Kernel) -> Kernel:
        self.kernels[kernel.symbol] = kernel.module
        return kernel

    def _places(self, group: Fused, kernel: Kernel) -> tuple[Place, ...]:
        """The places of a kernel's arrays."""
        args = [self._argument(v) for v in (*group.inputs, *group.outputs)]
        return tuple(
            self.constants.place(x) if isinstance(x, Stored) else self._place(x)
            for x in kernel.arranged(args)
        )

    def _argument(self, v: Value) -> Value | Stored:
        r = self.views.get(v, v)
        return Stored(r, v.shape, v.dtype) if r in self.graph.constants else v

    def _place(self, v: Value) -> Place:
        r = self.views.get(v, v)
        return self.named[r] if r in self.named else Place(ARENA, self.arena.offsets[r])

    def _call(
        self, group: Fused, kernels: Collection[Kernel], how: str, is_tunable: bool = True
    ) -> None:
        self.calls.append(
            SymbolicCall(
                group.name,
                tuple(k.symbol for k in kernels),
                tuple(n.origin for n in group.nodes if n.origin),
                tuple(v.name for v in group.outputs),
                how,
                tuple(k.tuned_by for k in kernels if k.tuned_by is not None),
                is_tunable,
                tuple(self.sizes.shapes[v] for v in group.outputs),
            )
        )
