"""The structures that a template has shown so far: a tree of guards, with programs at its ends."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from whet.autotune.features.loops.program import Program
from whet.autotune.features.loops.trace import Run
from whet.compiler.tir.tracing.traced import ARITHMETIC, QUESTIONS, Guard

KEPT = 4096
"""Ends kept; the one not asked for the longest is dropped."""

Entry = tuple[Program | None, list[Any]]
"""A program (None: the template raises), and the values at the places of its tape."""


@dataclass(slots=True, eq=False)
class Segment:
    """Instructions up to a question, and where each answer leads; at an end, what it stands for."""

    above: Segment | None = None
    answer: Hashable = None
    steps: list[tuple[Callable[[Any, Any], Any] | None, Any, int]] = field(default_factory=list)
    event: tuple[str, int, int] | None = None
    ask: Callable[[Any, Any], Any] | None = None
    answers: dict[Any, Segment] = field(default_factory=dict)
    program: Program | None = None

    def fill(self, events: Sequence[Any]) -> None:
        """Take the instructions up to the next question."""
        for event in events:
            code, a, b = event[:3]
            if isinstance(event, Guard):
                self.event, self.ask = (code, a, b), QUESTIONS[code]
                return
            self.steps.append((None, a, 0) if code == "const" else (ARITHMETIC[code], a, b))


class Structures:
    """Finds the program of a config and the sizes in it.

    Configs of one *key* (the shapes of their choices) have their ints in the same places.

    Attributes:
        made: how many runs of the template were taken in.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._root = Segment()  # its answers are keys
        self._ends: OrderedDict[Segment, None] = OrderedDict()
        self._kept = kept
        self.made = 0
        self._apart: OrderedDict[tuple[Hashable, tuple[int, ...]], Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ends)

    def find(self, key: Hashable, ints: Sequence[int]) -> Entry | None:
        """The program of a config, and its sizes; None where it is not known yet."""
        if self._apart:
            apart = self._apart.get((key, tuple(ints)))
            if apart is not None:
                return apart
        segment = self._root.answers.get(key)
        values = list(ints)
        while segment is not None:
            for code, a, b in segment.steps:
                values.append(a if code is None else code(values[a], values[b]))
            if segment.ask is None:
                self._ends.move_to_end(segment)
                return segment.program, values
            _, a, b = segment.event  # type: ignore[misc]
            segment = segment.answers.get(segment.ask(values[a], values[b]))
        return None

    def add(self, key: Hashable, ints: Sequence[int], run: Run) -> bool:
        """Take in a run of a template under a config that :meth:`find` did not know.

        Returns:
            Whether it was taken in: False where the template asks something else than it did before
            on the same way, as one does that keeps what it computed from traced sizes. A run with
            plain sizes, which stands for one config only, always is.
        """
        if run.values is not None:
            self._apart[key, tuple(ints)] = run.program, run.values
            self.made += 1
            if len(self._apart) > self._kept:
                self._apart.popitem(last=False)
            return True
        segment = self._following(self._root, key, run.events)
        place = len(segment.steps)
        while segment.event is not None:
            guard = run.events[place] if place < len(run.events) else (None, 0, 0, 0)
            if tuple(guard[:3]) != segment.event:
                return False
            segment = self._following(segment, guard[3], run.events[place + 1 :])
            place += 1 + len(segment.steps)
        segment.program = run.program
        self._ends[segment] = None
        self.made += 1
        while len(self._ends) > self._kept:
            self._drop()
        return True

    def _following(self, segment: Segment, answer: Hashable, events: Sequence[Any]) -> Segment:
        """The segment behind an answer, made of the events if it is new."""
        child = segment.answers.get(answer)
        if child is None:
            child = segment.answers[answer] = Segment(segment, answer)
            child.fill(events)
        return child

    def _drop(self) -> None:
        """Forget the end that was not asked for the longest, and what led to nothing else."""
        segment: Segment = self._ends.popitem(last=False)[0]
        while segment.above is not None and not segment.answers:
            del segment.above.answers[segment.answer]
            segment = segment.above
