"""Traffic of one array in a GPU's memory, and the reuse of its data in the L2 cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from whet.measure.device.specs import GpuSpec

L2_SHARE = 0.6
"""The part of the L2 cache in which data is found again."""
BLOCK_TAGS = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
"""In the order in which blocks are started: x runs fastest."""


@dataclass
class Traffic:
    """Traffic of all warps with one global array.

    Attributes:
        size: bytes of the array.
        loaded, stored: bytes between the L1 caches and the L2 cache.
        of_block: bytes that a block loads, by the axes of the grid that they depend on.
    """

    size: float
    loaded: float = 0.0
    stored: float = 0.0
    of_block: dict[frozenset[str], float] = field(default_factory=dict)


@dataclass(frozen=True)
class Grid:
    """The blocks of a launch.

    Attributes:
        extents: of blockIdx, by tag.
        blocks: all of them.
        wave: how many run at a time.
    """

    extents: Mapping[str, int]
    blocks: float
    wave: float

    def parts(self, tags: frozenset[str]) -> tuple[float, float]:
        """The number of different parts of an array that one wave of blocks reads, and all blocks.

        Args:
            tags: the axes of the grid that say which part it is.
        """
        parts, left = 1.0, self.wave
        for tag in BLOCK_TAGS:
            extent = self.extents.get(tag, 1)
            parts *= min(extent, max(left, 1.0)) if tag in tags else 1.0
            left /= max(extent, 1)
        every = prod(self.extents.get(tag, 1) for tag in tags)
        return min(parts, every), every


def memory_bytes(x: Traffic, grid: Grid, spec: GpuSpec) -> float:
    """Bytes from and to the memory: loads of blocks that run together are fetched once.

    Args:
        x: of an array.
        grid: the blocks that ask for it.
        spec: the GPU.
    """
    held = min(x.size, x.loaded)
    stored = min(x.size, x.stored)
    if x.size <= spec.l2_bytes * L2_SHARE:
        return held + stored
    of_wave = 0.0
    for tags, nbytes in x.of_block.items():
        together, every = grid.parts(tags)
        # what a block reads again, it reads from a cache
        of_wave += min(nbytes * together, x.size * together / every)
    again = of_wave * grid.blocks / grid.wave
    return min(max(again, held), x.loaded) + stored
