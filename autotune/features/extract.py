"""Loop features of a task's configs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.autotune.features.batch import Batch
from whet.autotune.features.columns import columns
from whet.autotune.features.loops.program import Program
from whet.autotune.features.loops.structures import Structures
from whet.autotune.features.loops.trace import run, run_plain, shape_of
from whet.autotune.features.rows import Rows, nothing

if TYPE_CHECKING:
    from whet.autotune.tasks.task import Task


class LoopFeatures(Rows):
    """The features of the loop nests of a task's configs.

    The template is run once for each *structure* that its configs have; the sizes in it are traced.

    Args:
        task: whose configs.
        watched: makes a context around each run of the template, from the point that it is for;
            None: nobody watches.
    """

    def __init__(
        self,
        task: Task,
        watched: Callable[[list[int]], AbstractContextManager[None]] | None = None,
    ) -> None:
        self.task = task
        self._watched = watched or (lambda point: nullcontext())
        self.space = task.config_space
        self.structures = Structures()
        self._positions = [_Positions(knob.choices) for knob in self.space.knobs.values()]
        super().__init__(len(self._positions))

    def structures_of(self, points: np.ndarray) -> int:
        """The number of structures of points: their features cost a run of the template each."""
        return len({id(self._found(point)[0]) for point in points.tolist()})

    def _compute(self, points: np.ndarray) -> np.ndarray:
        groups: dict[Program, list[tuple[int, list[Any]]]] = {}
        for i, point in enumerate(points.tolist()):
            program, values = self._found(point)
            if program is not None:
                groups.setdefault(program, []).append((i, values))
        out = nothing(len(points))
        for program in [program for program in groups if not program.statements]:
            del groups[program]  # extern calls alone: no loop can be read, and the row says so
        if groups:
            stacked = [(p, np.array([v for _, v in m], np.int64)) for p, m in groups.items()]
            order = [i for members in groups.values() for i, _ in members]
            out[order] = columns(Batch(stacked), self.task.target)
        return out

    def _found(self, point: list[int]) -> tuple[Program | None, list[Any]]:
        key = tuple([k.shapes[p] for k, p in zip(self._positions, point)])
        ints: list[int] = []
        for k, p in zip(self._positions, point):
            ints += k.ints[p]
        entry = self.structures.find(key, ints)
        if entry is None:
            ranges = {
                n: k.ranges[k.shapes[p]]
                for n, k, p in zip(self.space.knobs, self._positions, point)
            }
            config = self.space.decode(point)
            with self._watched(point):
                if not self.structures.add(key, ints, run(self.task, config, ranges)):
                    self.structures.add(key, ints, run_plain(self.task, config))
            entry = self.structures.find(key, ints)
            assert entry is not None
        return entry


class _Positions:
    """A knob's choices taken apart.

    Attributes:
        shapes: for each position the number of the choice's shape.
        ints: for each position the choice's ints.
        ranges: for each shape, the least and the greatest value of each int.
    """

    def __init__(self, choices: tuple[Any, ...]) -> None:
        parts = [shape_of(choice) for choice in choices]
        numbers: dict[Any, int] = {}
        self.shapes = [numbers.setdefault(shape, len(numbers)) for shape, _ in parts]
        self.ints = [ints for _, ints in parts]
        self.ranges: list[list[tuple[int, int]]] = []
        for number in range(len(numbers)):
            rows = [ints for s, ints in zip(self.shapes, self.ints) if s == number]
            self.ranges.append([(min(c), max(c)) for c in zip(*rows)])
