"""The calls of a model with symbols at some sizes: what its function does, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from whet.compiler.abi.extent import Shape, evaluate
from whet.compiler.abi.tuned_by import TunedBy
from whet.compiler.graph.executor import ARENA, Place
from whet.compiler.graph.model import Call
from whet.compiler.graph.symbolic.executor import Block, RowStep, SizedStep

Steps = Sequence[SizedStep | RowStep]
"""The steps of a model, one for each of its groups."""

Taken = Callable[[Sequence[Block], int], Iterable[tuple[Block, int]]]
"""A choice of a step's blocks for so many rows: each block that is called, and its first row."""


@dataclass(frozen=True)
class SymbolicCall:
    """A group's calls, as a plan lists them.

    Attributes:
        name: of the operators that it computes.
        kernels: their symbols.
        origins: what its nodes were in the model's file.
        outputs: the names of the values that it makes.
        how: how its sizes are met, in words.
        tuned_by: where the configs come from; empty: no log was asked, or there are no configs.
        is_tunable: false for kernels that take sizes, which have no configs.
        shapes: the extents of the outputs.
    """

    name: str
    kernels: tuple[str, ...]
    origins: tuple[str, ...]
    outputs: tuple[str, ...]
    how: str
    tuned_by: tuple[TunedBy, ...] = ()
    is_tunable: bool = True
    shapes: tuple[Shape, ...] = ()


def calls_at(
    steps: Steps,
    groups: Sequence[SymbolicCall],
    sizes: Mapping[str, int],
    scale: int,
    taken: Taken,
) -> list[list[Call]]:
    """The calls of a run for some sizes, those of each group.

    Args:
        steps, groups: of a model, in order.
        sizes: symbol -> its number.
        scale: by which places in the arena are further behind.
        taken: which blocks of rows are.
    """
    found = []
    for step, group in zip(steps, groups, strict=True):
        if isinstance(step, SizedStep):
            numbers = tuple(evaluate(n, sizes) for n in step.numbers)
            places = tuple(_moved(p, scale, 0) for p in step.places)
            found.append([_call(step.kernel, group, places, step.flop, numbers)])
            continue
        rows = evaluate(step.rows, sizes)
        own = []
        for block, at in taken(step.blocks, rows):
            pairs = zip(block.places, block.strides)
            places = tuple(_moved(p, scale, at * stride) for p, stride in pairs)
            own.append(_call(block.kernel, group, places, block.flop))
        found.append(own)
    return found


def firsts(step: SizedStep | RowStep, scale: int) -> tuple[Place, ...]:
    """The places of a step's whole arrays."""
    places = step.places if isinstance(step, SizedStep) else step.blocks[0].places
    return tuple(_moved(p, scale, 0) for p in places)


def in_turn(blocks: Sequence[Block], rows: int) -> Iterator[tuple[Block, int]]:
    """Blocks and their first rows, as the function of a model takes them: the largest first."""
    done = 0
    for block in blocks[:-1]:
        size = block.rows
        many = (rows - done + size - size // 4 * 3) // size if rows >= size else 0
        for k in range(many):
            yield block, min(done + k * size, rows - size)
        done = min(rows, done + many * size)
    last = blocks[-1]
    for k in range(-(-(rows - done) // last.rows)):
        yield last, min(done + k * last.rows, rows - last.rows)


def launched(blocks: Sequence[Block], rows: int) -> Iterator[tuple[Block, int]]:
    """Blocks and their first rows, as a GPU takes them: all of the largest size that fits.

    The last one reaches back over rows that are done: there are few launches, and none is smaller
    than it has to be.
    """
    block = next(b for b in blocks if b.rows <= rows)
    for k in range(-(-rows // block.rows)):
        yield block, min(k * block.rows, rows - block.rows)


def outermost(blocks: Sequence[Block], rows: int) -> Iterator[tuple[Block, int]]:
    """The first and the last place at which each block may be."""
    for block in blocks:
        if block.rows <= rows:
            yield block, 0
            yield block, rows - block.rows


def _moved(p: Place, scale: int, behind: int) -> Place:
    return replace(p, offset=p.offset * (scale if p.argument == ARENA else 1) + behind)


def _call(
    kernel: str,
    group: SymbolicCall,
    places: tuple[Place, ...],
    flop: int,
    numbers: tuple[int, ...] = (),
) -> Call:
    by = next(iter(group.tuned_by), None)
    return Call(group.name, kernel, group.origins, places, group.outputs, flop, 0, by, numbers)
