"""From a graph with symbols to a model: kernels for blocks of rows, and kernels that take sizes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from whet.autotune.models.cache import ModelCache
from whet.autotune.models.compiled import NAME
from whet.autotune.models.constants import SharedConstants, Stored
from whet.autotune.models.kernels import Kernel, built, packed_of, structure_of, task_of
from whet.autotune.models.layouts import channels_last_of
from whet.autotune.models.open_kernels import open_kernel, symbols_in
from whet.autotune.models.steps import Steps
from whet.compiler import driver
from whet.compiler.abi.extent import Extent, Operation, Symbol
from whet.compiler.errors import ArgumentError
from whet.compiler.graph.executor import ARENA, Place
from whet.compiler.graph.fusion import Fused, fused, views
from whet.compiler.graph.image import linked
from whet.compiler.graph.ir import Graph, Value
from whet.compiler.graph.memory import Arena, planned
from whet.compiler.graph.passes import optimized
from whet.compiler.graph.passes.channels_last import with_channels_last
from whet.compiler.graph.symbolic.executor import Block, RowStep, SizedStep, symbolic_function
from whet.compiler.graph.symbolic.family import SymbolicGraph, generalised
from whet.compiler.graph.symbolic.model import SymbolicCall, SymbolicModel
from whet.compiler.graph.symbolic.rows import rows_of, sized
from whet.compiler.graph.symbolic.sizes import Dynamic, Sizes, looked_at, most_each, most_elements
from whet.compiler.runtime.module import Module
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt

_BLOCKS = (1, 4, 16, 64)
_MOST_MORE = 1.25  # of the arena's bytes, where its used part is to be as long as sizes are
_LEAST_BYTES = 1 << 16  # of a block's rows: its call is short of nothing


def symbolic_model(
    at: Callable[[Sizes], Graph],
    ranges: Mapping[str, Dynamic],
    target: Target,
    cache: ModelCache | None = None,
    steps: Steps | None = None,
) -> SymbolicModel:
    """A model that runs here, for any sizes of some ranges.

    Args:
        at: gives the graph as the model's file has it for sizes of the symbols.
        ranges: symbol -> its range.
        target: canonical, of a CPU.
        cache: where kernels may be already, and are kept.
        steps: where kernels are told of.

    Raises:
        ArgumentError: the model is not the same for all sizes, or an operator needs numbers.
    """
    chosen: list[int] | None = None

    def laid(graph: Graph) -> Graph:
        """The graph after its passes, in the layouts that the greatest sizes have."""
        nonlocal chosen
        graph = optimized(graph)
        if chosen is None:
            last = set(channels_last_of(graph, target))
            chosen = [k for k, n in enumerate(graph.nodes) if n in last]
        nodes = [graph.nodes[k] for k in chosen if k < len(graph.nodes)]
        return with_channels_last(graph, nodes) if nodes else graph

    return _Plan(generalised(at, laid, ranges), target, cache, steps or Steps()).model()


class _Plan:
    """The kernels of a graph with symbols, the places of all values, and the steps."""

    def __init__(
        self, sizes: SymbolicGraph, target: Target, cache: ModelCache | None, steps: Steps
    ) -> None:
        self.sizes, self.target, self.cache, self.told = sizes, target, cache, steps
        self.graph = graph = sizes.graph
        self.points = looked_at(sizes.ranges)
        self.views = views(graph)
        self.groups = [g for g in fused(graph) if g.nodes[0].output not in self.views]
        self.constants = SharedConstants([graph])
        self.named = {v: Place(v.name) for v in (*graph.inputs, *graph.outputs)}
        self.named |= {self.views[v]: Place(v.name) for v in graph.outputs if v in self.views}
        self.kernels: dict[str, Module] = {}
        self._built: dict[Any, Kernel] = {}
        self._check_inputs()
        self.arena = self._arena()
        self.calls: list[SymbolicCall] = []
        self.steps = [self._step(g) for g in self.groups]

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
            self.constants.memory(), self.arena, self.calls,
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
        """The places of what lives between kernels, at the most bytes that each may have."""
        first: dict[Value, int] = {}
        last: dict[Value, int] = {}
        for k, g in enumerate(self.groups):
            for v in (*g.inputs, *g.outputs):
                r = self.views.get(v, v)
                if r not in self.named and r not in self.graph.constants:
                    first.setdefault(r, k)
                    last[r] = k
        whole = planned([(v, self._bytes(v), first[v], last[v]) for v in first])
        ranges = self.sizes.ranges
        each = [
            (v, most_each(self.sizes.shapes[v], dt.itemsize(v.dtype), ranges), first[v], last[v])
            for v in first
        ]
        parts, many = planned(each), prod(r.high for r in ranges.values())
        self.scaled = parts.size * many <= _MOST_MORE * whole.size
        return Arena(parts.offsets, parts.size * many, whole.least) if self.scaled else whole

    def _bytes(self, v: Value) -> int:
        return most_elements(self.sizes.shapes[v], self.sizes.ranges) * dt.itemsize(v.dtype)

    # --- steps -----------------------------------------------------------------------------------

    def _step(self, group: Fused) -> SizedStep | RowStep:
        """The calls of a group's kernels."""
        self.told.at(f"group {len(self.calls) + 1}/{len(self.groups)}")
        values = (*group.inputs, *(v for n in group.nodes for v in n.outputs))
        if self.sizes.is_fixed(values, group.nodes):
            kernel = self._fixed(group, {})
            self._call(group, (kernel,), "a kernel of fixed sizes")
            return SizedStep(kernel.symbol, self._places(group, kernel))
        rows = rows_of(self.sizes, group)
        if rows is not None:
            return self._by_rows(group, rows)
        symbols = symbols_in(self.sizes, group)
        kernel = self._open(group)
        self._call(group, (kernel,), f"a kernel for any {', '.join(symbols)}: it has no rows")
        return SizedStep(kernel.symbol, self._places(group, kernel), tuple(map(Symbol, symbols)))

    def _by_rows(self, group: Fused, rows: Sequence[Extent]) -> RowStep:
        """Kernels for blocks of rows."""
        strides = []
        for v in (*group.inputs, *group.outputs):
            fixed = prod(d for d in self.sizes.shapes[v] if isinstance(d, int))
            has_rows = any(d in self.sizes.shapes[v] for d in rows)
            strides.append(fixed * dt.itemsize(v.dtype) if has_rows else 0)
        blocks, kernels = [], []
        for many in self._block_sizes(group, strides, rows):
            kernel = self._fixed(group, {**dict.fromkeys(rows, 1), rows[-1]: many})
            places = self._places(group, kernel)
            each = kernel.arranged(strides)  # type: ignore[list-item]
            steps = tuple(x if isinstance(x, int) else 0 for x in each)
            blocks.append(Block(many, kernel.symbol, places, steps))
            kernels.append(kernel)
        sizes = ", ".join(str(b.rows) for b in blocks)
        self._call(group, kernels, f"blocks of {sizes} rows" if sizes != "1" else "row by row")
        total = rows[0]
        for d in rows[1:]:
            total = Operation("*", total, d)
        return RowStep(total, tuple(blocks))

    def _block_sizes(
        self, group: Fused, strides: Sequence[int], rows: Sequence[Extent]
    ) -> list[int]:
        """Numbers of rows of blocks, the largest first: rows weigh as much as the weights do."""
        most = most_elements(rows, self.sizes.ranges)
        weights = sum(v.bytes for v in group.inputs if v in self.graph.constants)
        wanted = max(weights, _LEAST_BYTES)
        found = [1]
        for many in _BLOCKS[1:]:
            if many <= most and found[-1] * sum(strides) < wanted:
                found.append(many)
        return found[::-1]

    def _fixed(self, group: Fused, known: Mapping[Extent, int]) -> Kernel:
        """The kernel of a group with numbers in the place of its extents."""
        own, values = sized(self.sizes, group, known)
        packed = {values[v] for v in packed_of(self.graph, group) if self.sizes.is_fixed([v])}
        key = structure_of(own, packed)
        if key not in self._built:
            kernel = built(task_of(own, packed, self.target), self.cache)
            self._built[key] = kernel
            self.kernels[kernel.symbol] = kernel.module
        return self._built[key]

    def _open(self, group: Fused) -> Kernel:
        own, _ = sized(self.sizes, group, {})
        key = structure_of(own, ())
        if key not in self._built:
            text = f"{key} {self.target.key}"
            symbol = f"whet_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
            module = open_kernel(self.sizes, group, self.points, self.target, symbol)
            self._built[key] = Kernel(symbol, module, None)
            self.kernels[symbol] = module
        return self._built[key]

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

    def _call(self, group: Fused, kernels: Collection[Kernel], how: str) -> None:
        self.calls.append(
            SymbolicCall(
                group.name,
                tuple(k.symbol for k in kernels),
                tuple(n.origin for n in group.nodes if n.origin),
                tuple(v.name for v in group.outputs),
                how,
                tuple(k.tuned_by for k in kernels if k.tuned_by is not None),
            )
        )

