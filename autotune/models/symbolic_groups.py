"""The groups of a graph with symbols, and their tasks: of fixed sizes, or of blocks of rows."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from whet.autotune.models.kernels import packed_of, structure_of, task_of
from whet.autotune.models.layouts import channels_last_of
from whet.autotune.tasks.task import Task
from whet.compiler.abi.extent import Extent, evaluate
from whet.compiler.errors import ArgumentError, WhetError
from whet.compiler.graph.fusion import Fused, fused
from whet.compiler.graph.ir import Graph
from whet.compiler.graph.passes import optimized
from whet.compiler.graph.passes.channels_last import pointwise_as_matmul, with_channels_last
from whet.compiler.graph.passes.conv1d import conv1d_as_conv2d
from whet.compiler.graph.passes.tiles import conv_by_tiles, is_of_tiles, worth_tiles
from whet.compiler.graph.passes.transposed import transposed_as_conv
from whet.compiler.graph.symbolic.family import SymbolicGraph, generalised
from whet.compiler.graph.symbolic.rows import rows_of, sized
from whet.compiler.graph.symbolic.sizes import Dynamic, Sizes, most_elements, widest
from whet.compiler.graph.symbolic.squares import with_squares
from whet.compiler.graph.views import views
from whet.compiler.runtime.gpu.arguments import ALIGNMENT
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.db.apply import UntunedWarning
from whet.search_spaces.values.counted import counted

_BLOCKS = (1, 4, 16, 64)
_LAUNCHED = (4096, 1024, 256, 64, 16, 4, 1)  # blocks of GPUs: the largest that fits is taken
_TILES = (16, 4, 1)  # squares of a block, the most first
_LEAST_BYTES = 1 << 16  # of a block's rows: next to moving them, its call costs nothing
_SHOWN = 3  # kinds of groups that a warning names


@dataclass(frozen=True, eq=False)
class GroupTasks:
    """The tasks that compute a group.

    Attributes:
        group: the group.
        rows: the extents whose product is the number of its rows; (): its sizes are fixed; None: it
            has no rows, and no task.
        tasks: of blocks of so many rows, the largest first; of fixed sizes, one.
        strides: bytes from a row to the next one of its arguments; 0 for those without rows.
    """

    group: Fused
    rows: tuple[Extent, ...] | None
    tasks: Mapping[int, Task]
    strides: tuple[int, ...]


class SymbolicGroups:
    """The groups of a graph with symbols.

    Args:
        at: gives the graph as the model's file has it, for sizes of the symbols.
        ranges: symbol -> its range.
        target: canonical.
        squares: convolutions may run square by square.

    Attributes:
        sizes: the graph after its passes, for all sizes.
        target: as given.
        has_squares: whether convolutions run square by square.
        views: value -> the one whose memory it is.
        groups: in the order in which they run; views are none.

    Raises:
        ArgumentError: the model is not the same for all sizes.
    """

    def __init__(
        self,
        at: Callable[[Sizes], Graph],
        ranges: Mapping[str, Dynamic],
        target: Target,
        squares: bool = True,
    ) -> None:
        self.target = target
        self._last: list[int] | None = None
        self._tiled: set[str] | None = None if squares else set()
        self._open, self._transposed = _open_images(at, ranges)
        self.sizes = with_squares(self._generalised(at, ranges))
        self.has_squares = bool(self._tiled)
        # where a part begins depends on a call's sizes
        seen = views(self.sizes.graph, parts=False)
        self.views = {v: view.base for v, view in seen.places.items()}
        found = fused(self.sizes.graph, seen)
        self.groups = [g for g in found if g.nodes[0] not in seen.nodes]
        self._tasks: dict[Hashable, Task] = {}

    def _generalised(
        self, at: Callable[[Sizes], Graph], ranges: Mapping[str, Dynamic]
    ) -> SymbolicGraph:
        """The graph of all sizes; without squares where their numbers are none that are found."""
        try:
            return generalised(at, self._passed, ranges)
        except ArgumentError:
            if not self._tiled:
                raise
        self._tiled = set()
        return generalised(at, self._passed, ranges)

    def tasks(self, group: Fused) -> GroupTasks:
        """The tasks of a group."""
        made = tuple(v for n in group.nodes for v in n.outputs)
        if self.sizes.is_fixed((*group.inputs, *made), group.nodes):
            return GroupTasks(group, (), {1: self._task(group, {})}, ())
        rows = rows_of(self.sizes, group)
        if rows is None:
            return GroupTasks(group, None, {}, ())
        strides = tuple(
            prod(d for d in shape if isinstance(d, int)) * dt.itemsize(v.dtype)
            if any(d in shape for d in rows)
            else 0
            for v in (*group.inputs, *group.outputs)
            for shape in [self.sizes.shapes[v]]
        )
        if self.target.kind.row.has_threads and any(step % ALIGNMENT for step in strides):
            return GroupTasks(group, None, {}, ())  # a kernel reads from its second row on
        found = {
            many: self._task(group, {**dict.fromkeys(rows, 1), rows[-1]: many})
            for many in self._block_sizes(group, sum(strides), rows)
        }
        return GroupTasks(group, rows, found, strides)

    def _passed(self, graph: Graph) -> Graph:
        """The graph after its passes, in the layouts of the first one that came.

        Convolutions of open images have the channels last: what lies along memory is of a size that
        is known. Those of single pixels are products of matrices then, whose rows are pixels, and
        transposed ones whose windows do not meet are such, too; 3x3 ones run square by square.
        """
        graph = _by_points(optimized(graph), self._transposed)
        convs = [n for n in graph.nodes if n.operator == "conv"]
        sounds = [n for k, n in enumerate(convs) if k in self._open and len(n.output.shape) == 3]
        if sounds:
            graph = conv1d_as_conv2d(graph, {n.output.name for n in sounds})
            convs = [n for n in graph.nodes if n.operator == "conv"]
        if self._last is None:
            opened = {n for k, n in enumerate(convs) if k in self._open}
            last = set(channels_last_of(graph, self.target, opened))
            self._last = [k for k, n in enumerate(graph.nodes) if n in last]
        nodes = [graph.nodes[k] for k in self._last if k < len(graph.nodes)]
        if not nodes:
            return graph
        open_names = {n.output.name for k, n in enumerate(convs) if k in self._open}
        graph = pointwise_as_matmul(with_channels_last(graph, nodes), open_names)
        if self.target.kind.row.has_threads:
            return graph
        if self._tiled is None:  # by the greatest sizes
            names = {f"{name}.nhwc" for name in open_names}
            tiled = (n for n in graph.nodes if n.output.name in names and worth_tiles(graph, n))
            self._tiled = {n.output.name for n in tiled}
        return conv_by_tiles(graph, self._tiled) if self._tiled else graph

    def _block_sizes(self, group: Fused, row_bytes: int, rows: Sequence[Extent]) -> list[int]:
        """Numbers of rows of blocks, the largest first: rows weigh as much as the weights do."""
        most = most_elements(rows, self.sizes.ranges)
        if self.target.kind.row.has_threads:  # a launch costs more than rows that it does not need
            return [many for many in _LAUNCHED if many <= most]
        weights = sum(v.bytes for v in group.inputs if v in self.sizes.graph.constants)
        if any(map(is_of_tiles, group.nodes)):
            return self._blocks_of_tiles(most, rows)
        found = [1]
        for many in _BLOCKS[1:]:
            if many <= most and found[-1] * row_bytes < max(weights, _LEAST_BYTES):
                found.append(many)
        return found[::-1]

    def _blocks_of_tiles(self, most: int, rows: Sequence[Extent]) -> list[int]:
        """Numbers of squares of blocks: of few kinds, as each transforms the weights for itself."""
        low = {n: r.low for n, r in self.sizes.ranges.items()}
        least = prod(evaluate(d, low) for d in rows)  # the last block may reach back over so many
        fewest = max(many for many in _TILES[1:] if many <= least)
        return [many for many in _TILES if fewest <= many <= most]

    def _task(self, group: Fused, known: Mapping[Extent, int]) -> Task:
        """The task of a group with numbers in the place of its extents."""
        own, values = sized(self.sizes, group, known)
        weights = packed_of(self.sizes.graph, group)
        packed = {values[v] for v in weights if self.sizes.is_fixed([v])}
        key = structure_of(own, packed)
        if key not in self._tasks:
            self._tasks[key] = task_of(own, packed, self.target)
        return self._tasks[key]


def symbolic_tasks(
    at: Callable[[Sizes], Graph], ranges: Mapping[str, Dynamic], target: Target
) -> list[tuple[Task, int]]:
    """The tasks of a model with symbols, and how many groups have each.

    An ``UntunedWarning`` counts the groups that have none.

    Args:
        at, ranges, target: as of :class:`SymbolicGroups`.
    """
    groups = SymbolicGroups(at, ranges, target)
    tasks: dict[str, Task] = {}
    counts: dict[str, int] = {}
    each = [groups.tasks(group) for group in groups.groups]
    _report_untuned(each, ranges)
    for one in each:
        for task in one.tasks.values():
            tasks.setdefault(task.key, task)
            counts[task.key] = counts.get(task.key, 0) + 1
    found = [(task, counts[key]) for key, task in tasks.items()]
    return sorted(found, key=lambda one: -one[0].flop * one[1])


def _report_untuned(each: Sequence[GroupTasks], ranges: Mapping[str, Dynamic]) -> None:
    """Warn of groups whose kernels take any size: no trial is of all sizes."""
    untuned = Counter(one.group.name for one in each if one.rows is None)
    if not untuned:
        return
    names, many = ", ".join(ranges), untuned.total()
    shown = ", ".join(name for name, _ in untuned.most_common(_SHOWN))
    keep = "keeps its default config" if many == 1 else "keep their default configs"
    warnings.warn(
        f"{many} of {counted(len(each), 'group')} {keep}, for any {names}: {shown}"
        f"{', ...' if len(untuned) > _SHOWN else ''}; with numbers for {names}, one or several, "
        "all groups are tuned",
        UntunedWarning,
        stacklevel=4,
    )


def _open_images(
    at: Callable[[Sizes], Graph], ranges: Mapping[str, Dynamic]
) -> tuple[set[int], set[int]]:
    """The convolutions of a model, by their numbers, whose images are of open sizes.

    Returns:
        They, with the transposed ones that are convolutions of single pixels; and the numbers of
        these among all transposed ones.
    """
    top = widest(ranges)
    low = {n: r.above_one for n, r in ranges.items()}
    graphs = []
    for point in (top, low):
        try:
            graphs.append(optimized(at(point)))
        except (WhetError, MemoryError):
            return set(), set()  # which is said, with the way out, where all sizes are looked at
    transposed = _differing(graphs, "conv_transpose")
    return _differing([_by_points(g, transposed) for g in graphs], "conv"), transposed


def _differing(graphs: Sequence[Graph], operator: str) -> set[int]:
    """The nodes of an operator, by their numbers, whose images two graphs have in two sizes."""
    found = [[n.reads[0].shape[2:] for n in g.nodes if n.operator == operator] for g in graphs]
    if len(found[0]) != len(found[1]):
        return set()  # another model at its least size, which is said there, too
    return {k for k, (a, b) in enumerate(zip(*found)) if a != b}


def _by_points(graph: Graph, transposed: Collection[int]) -> Graph:
    """The graph in which transposed convolutions of open images are those of single pixels."""
    nodes = [n for n in graph.nodes if n.operator == "conv_transpose"]
    names = {n.output.name for k, n in enumerate(nodes) if k in transposed}
    return transposed_as_conv(graph, names) if names else graph
