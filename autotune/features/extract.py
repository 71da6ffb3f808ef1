"""Loop features of a task's configs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.autotune.features.batch import Batch
from whet.autotune.features.columns import columns
from whet.autotune.features.program import Program
from whet.autotune.features.rows import Rows, nothing
from whet.autotune.features.structures import Structures
from whet.autotune.features.trace import run, run_plain, shape_of

if TYPE_CHECKING:
    from whet.autotune.tasks.task import Task


class LoopFeatures:
    """The features of the loop nests of a task's configs.

    The template is run once for each *structure* that its configs have; the sizes in it are traced.
    Rows are kept, so that asking again costs little.

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
        self._knobs = [_Positions(knob.choices) for knob in self.space.knobs.values()]
        self._rows = Rows(len(self._knobs), self._computed)

    def of_points(self, points: np.ndarray) -> np.ndarray:
        """The features of points.

        Args:
            points: int64 of shape (n, knobs): a position for each knob.

        Returns:
            float32 of shape (n, len(NAMES)); a row of NaN where the template raises, or makes a
            schedule that cannot be lowered.
        """
        return self._rows.of(points)

    def structures_of(self, points: np.ndarray) -> int:
        """How many structures points have: their features cost a run of the template each."""
        return len({id(self._found(point)[0]) for point in points.tolist()})

    def _computed(self, table: np.ndarray) -> np.ndarray:
        groups: dict[Program, list[tuple[int, list[Any]]]] = {}
        for i, point in enumerate(table.tolist()):
            program, values = self._found(point)
            if program is not None:
                groups.setdefault(program, []).append((i, values))
        out = nothing(len(table))
        if groups:
            stacked = [(p, np.array([v for _, v in m], np.int64)) for p, m in groups.items()]
            order = [i for members in groups.values() for i, _ in members]
            out[order] = columns(Batch(stacked), self.task.target)
        return out

    def _found(self, point: list[int]) -> tuple[Program | None, list[Any]]:
        key = tuple([k.shapes[p] for k, p in zip(self._knobs, point)])
        ints: list[int] = []
        for k, p in zip(self._knobs, point):
            ints += k.ints[p]
        found = self.structures.find(key, ints)
        if found is None:
            ranges = {
                n: k.ranges[k.shapes[p]] for n, k, p in zip(self.space.knobs, self._knobs, point)
            }
            config = self.space.decode(point)
            with self._watched(point):
                if not self.structures.add(key, ints, run(self.task, config, ranges)):
                    self.structures.add_apart(key, ints, run_plain(self.task, config))
            found = self.structures.find(key, ints)
            assert found is not None
        return found


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
