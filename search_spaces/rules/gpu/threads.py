"""Loops over a GPU's blocks and threads, and copies that a block's threads make together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from whet.compiler import te
from whet.compiler.te import Stage
from whet.compiler.tir import IterVar

MOST_BLOCKS = 65535
"""Blocks along y and along z; along x there may be 2**31 - 1."""


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


def bind(stage: Stage, axis: IterVar, tag: str) -> None:
    """Run a loop in blocks or threads."""
    stage.bind(axis, te.thread_axis(tag))


def bind_blocks(stage: Stage, loops: Sequence[tuple[IterVar, int]]) -> IterVar:
    """Run the outermost loops of a stage in blocks: the last one along x.

    Args:
        stage: its outermost loops are ``loops``, in this order.
        loops: at most three, each with its number of steps. Where y or z would have more than a
            GPU takes, they are one loop, along x.

    Returns:
        The innermost loop of blocks.
    """
    axes = [axis for axis, _ in loops]
    if any(count > MOST_BLOCKS for _, count in loops[:-1]):
        axes = [stage.fuse(*axes)]
    for axis, tag in zip(reversed(axes), ("blockIdx.x", "blockIdx.y", "blockIdx.z")):
        bind(stage, axis, tag)
    return axes[-1]


def copy_together(
    stage: Stage, axes: Sequence[IterVar], extents: Sequence[int], block: Block
) -> tuple[IterVar, IterVar]:
    """Share a copy among the threads of a block: neighbours take neighbours.

    Args:
        stage: attached where a block needs it; ``axes`` are its outermost loops.
        axes, extents: the loops that are shared, outermost first, and their steps. Behind them
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
    for axis, tag in zip(bound, ("threadIdx.x", "threadIdx.y", "threadIdx.z")):
        bind(stage, axis, tag)
    return outer, bound[0]
