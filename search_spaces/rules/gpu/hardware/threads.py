"""Loops over a GPU's blocks and threads, cooperative loads, and stages inside a thread."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import prod

from whet.compiler import te
from whet.compiler.te import Schedule, Stage
from whet.compiler.te.lang.tensor import Operation
from whet.compiler.tir import IterVar
from whet.search_spaces.graph.stages import Group

MOST_BLOCKS = 65535
"""Blocks along y and along z; along x there may be 2**31 - 1."""
THREADS = 256
"""Threads of a block where no knob says it."""


@dataclass(frozen=True)
class Block:
    """The threads of a block: ``x`` of them are neighbours, ``y`` rows of these, ``z`` planes.

    Attributes:
        x, y, z: threads along threadIdx.x, threadIdx.y and threadIdx.z.
    """

    x: int
    y: int = 1
    z: int = 1

    @property
    def threads(self) -> int:
        """All threads of the block."""
        return self.x * self.y * self.z


def bind(stage: Stage, **loops: IterVar) -> None:
    """Run loops in blocks or threads: ``block`` along blockIdx.x; ``x``, ``y``, ``z`` of threads.

    Args:
        stage: whose loops they are.
        loops: bound in the order in which they are given.
    """
    for name, axis in loops.items():
        tag = "blockIdx.x" if name == "block" else f"threadIdx.{name}"
        stage.bind(axis, te.thread_axis(tag))


def bind_blocks(stage: Stage, loops: Sequence[tuple[IterVar, int]]) -> IterVar:
    """Run the outermost loops of a stage in blocks: the last one along x.

    Args:
        stage: its outermost loops are ``loops``, in this order.
        loops: at most three, each with its extent. Where y or z would have more than a GPU takes,
            they are one loop, along x.

    Returns:
        The innermost loop of blocks.
    """
    axes = [axis for axis, _ in loops]
    if any(count > MOST_BLOCKS for _, count in loops[:-1]):
        axes = [stage.fuse(*axes)]
    for axis, tag in zip(reversed(axes), ("blockIdx.x", "blockIdx.y", "blockIdx.z")):
        stage.bind(axis, te.thread_axis(tag))
    return axes[-1]


def bind_fused(
    stage: Stage, axes: Sequence[IterVar] | None = None, threads: int = THREADS
) -> IterVar:
    """Fuse loops and share their steps among blocks and threads; the loop of a thread.

    Args:
        stage: its outermost loops are ``axes``.
        axes: outermost first, all data axes by default; without any, one thread runs the stage.
        threads: of a block.
    """
    axes = list(stage.op.axis) if axes is None else axes
    whole = stage.fuse(*axes)
    if not axes:
        bind(stage, x=whole)
        return whole
    block, thread = stage.split(whole, factor=threads)
    bind(stage, block=block, x=thread)
    return thread


def cooperative_load(
    stage: Stage, axes: Sequence[IterVar], extents: Sequence[int], block: Block
) -> tuple[IterVar, IterVar]:
    """Share a copy among the threads of a block: neighbours take neighbours.

    Args:
        stage: attached where a block needs it; ``axes`` are its outermost loops.
        axes, extents: the loops that are shared, outermost first, and their extents. Behind them
            there are only loops of one thread.
        block: the threads.

    Returns:
        The loop of a thread over its parts, and the innermost one that is bound.
    """
    left = min(block.threads, prod(extents))
    outer, inner = stage.split(stage.fuse(*axes), factor=left)
    bound = []
    for size in (block.x, block.y):
        if left <= size:
            break
        inner, axis = stage.split(inner, factor=size)
        bound.append(axis)
        left = -(-left // size)
    bound.append(inner)
    bind(stage, **dict(zip("xyz", bound)))
    return outer, bound[0]


def attach(stage: Stage, parent: Stage, axis: IterVar, scope: str = "local") -> None:
    """Compute a stage in a memory scope, at a loop of the stage that reads it."""
    stage.set_scope(scope)
    stage.compute_at(parent, axis)


def unroll(stage: Stage, axes: Iterable[IterVar]) -> None:
    """Unroll loops, in their order."""
    for axis in axes:
        stage.unroll(axis)


def split_lanes(stage: Stage, axis: IterVar, lanes: int) -> tuple[IterVar, list[IterVar]]:
    """Split a loop into vectors; the loop over them, and that over lanes if there are several."""
    if lanes == 1:
        return axis, []
    outer, lane = stage.split(axis, factor=lanes)
    return outer, [lane]


def vectorize_last(stage: Stage) -> None:
    """Vectorize the innermost data axis of a stage."""
    stage.vectorize(stage.op.axis[-1])


def unroll_elements(stage: Stage, axes: Sequence[IterVar], lanes: int) -> None:
    """Unroll a thread's loops over its own elements; vectorize the last one if it has ``lanes``."""
    unroll(stage, axes[:-1])
    (stage.vectorize if lanes > 1 else stage.unroll)(axes[-1])


def schedule_staged(s: Schedule, group: Group, inlined: Collection[Operation]) -> None:
    """Inline the producers of a group that are in ``inlined``; a kernel for each other one."""
    for node in group.staged:
        if node.op not in s.stage_map:  # a rule has seen through it
            continue
        if node.op in inlined:
            s[node.op].compute_inline()
        else:
            bind_fused(s[node.tensor])
