"""The entries of a search: each task on each kind of device, with a goal of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whet.autotune.search.goal import Goal
from whet.compiler.errors import ArgumentError, LogError
from whet.search_spaces.values.counted import counted

if TYPE_CHECKING:
    from whet.autotune.arguments import TuneArguments
    from whet.autotune.tasks.task import Task
    from whet.db import TuningLog
    from whet.measure.device.selection import Selection
    from whet.measure.values import MeasureResult


@dataclass
class Entry:
    """A task on one kind of device.

    Attributes:
        task: for the target of that kind.
        place: the kind.
        goal: its search; None where it could not even be begun.
        error: why not.
        asked: the identities of the tasks of the call that it is for.
    """

    task: Task
    place: Selection
    goal: Goal | None = None
    error: Exception | None = None
    asked: tuple[tuple[str, str], ...] = ()


def entries_of(
    arguments: TuneArguments, places: Sequence[Selection], log: TuningLog
) -> list[Entry]:
    """The entries of a call, task by task: each on all kinds, in the order given.

    Tasks that are equal where they are measured are one entry.

    Raises:
        ArgumentError: there are fewer trials than entries.
        Exception: the only entry cannot be begun.
    """
    found: dict[tuple[tuple[str, str], str], Entry] = {}
    weights: dict[tuple[tuple[str, str], str], float] = {}
    for asked, (task, weight) in arguments.shares.items():
        for place in places:
            there = task.on(place.target_of)
            key = arguments.identity(there), place.kind
            entry = found.setdefault(key, Entry(there, place))
            entry.asked += (asked,)
            weights[key] = weights.get(key, 0.0) + weight
    if arguments.trials < len(found):
        raise ArgumentError(
            f"tune({arguments.name}, trials={arguments.trials}, device={arguments.device!r})",
            f"{counted(arguments.trials, 'trial')} cannot be shared by "
            f"{counted(len(found), 'search', 'searches')}: each task has one on each kind",
            f"give at least {len(found)}: the first trial of each is its default config",
        )
    for key, entry in found.items():
        try:
            kind, device = entry.place.kind, entry.place.identity
            entry.goal = Goal(entry.task, weights[key], log, device, kind)
        except LogError:
            raise
        except Exception as error:
            if len(found) == 1:
                raise
            entry.error = error
    return list(found.values())


def known_results(
    entries: Sequence[Entry], log: TuningLog
) -> Callable[[str, str], MeasureResult | None]:
    """The earlier result of a program, by its hash and kind of device, as a pool asks for it."""
    devices = {entry.place.kind: entry.place.identity for entry in entries}

    def known(program: str, kind: str) -> MeasureResult | None:
        return log.known_program(program, devices[kind])

    return known
