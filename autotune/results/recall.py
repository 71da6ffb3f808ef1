"""The beginning of a search as its log has it: what it proposed, and when it was told of what."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import TYPE_CHECKING

import numpy as np

from whet.autotune.samplers.contract.history import Past

if TYPE_CHECKING:
    from whet.autotune.results.recorded_columns import RecordedColumns


@dataclass(frozen=True)
class Recalled:
    """The trials of a search up to the first gap in their numbers.

    Attributes:
        past: these trials.
        rows: how many they are.
        waiting: by number the costs of those of them that no later one was told of: they are told
            when a search that goes on would have been.
    """

    past: Past
    rows: int
    waiting: dict[int, float]


def recall(placed: RecordedColumns, window: int, others: Collection[int] = ()) -> Recalled:
    """The past of a search, from the trials of its task.

    Args:
        placed: the trials.
        window: trials that may be in flight: where the log does not say what was told, a trial's
            proposer was told of those up to as many before it. What another search was told, some
            of whose trials are placed among these, says nothing here.
        others: runs of searches that ran beside this one.
    """
    rows = _until_gap(placed.numbers)
    known, observed_at = order_of(placed, rows, window)
    numbers = np.arange(rows, dtype=np.int32)
    past = Past(
        placed.points[:rows],
        numbers,
        numbers,
        observed_at,
        known,
        placed.costs[:rows][known],
        np.flatnonzero(np.isin(placed.runs[:rows], list(others))).astype(np.int32),
    )
    waits = np.ones(rows, dtype=bool)
    waits[known] = False
    left = np.flatnonzero(waits)
    return Recalled(past, rows, dict(zip(left.tolist(), placed.costs[left].tolist())))


_Order = tuple[np.ndarray, np.ndarray]
"""The numbers of the trials in the order of telling, and for each trial how many were told when it
was proposed; both int32."""


def order_of(placed: RecordedColumns, rows: int, window: int, at_once: bool = True) -> _Order:
    """The order in which the first trials were told.

    Args:
        placed: the trials.
        rows: how many of them.
        window: as of :func:`recall`.
        at_once: look at the beginning, as far as it is as usual, as a whole.
    """
    begun = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
    if at_once:
        begun = _by_window(placed, rows, window) or _by_log(placed, rows) or begun
    own = placed.logged[:rows] == placed.numbers[:rows]
    own[:1] = True  # the default config, whatever its number was
    names = Names(placed)
    runs, told, observed_at = placed.runs[:rows].tolist(), begun[0].tolist(), begun[1].tolist()
    first = len(observed_at)
    waiting = dict.fromkeys(np.setdiff1d(np.arange(first), begun[0]).tolist())
    for number in range(first, rows):
        run, text, mine = runs[number], placed.told[number], bool(own[number])
        news = names.places(run, text) if text is not None and mine else []
        if next(iter(waiting), number) <= number - window:  # those that wait stand in order
            overdue = _until(waiting, number - window)
            if text is None:
                news = list(overdue)
            elif mine:
                # It says nothing of trials that were there when its run began.
                news = [n for n in overdue if runs[n] != run] + news
        for one in news:
            if one in waiting:
                told.append(one)
                del waiting[one]
        observed_at.append(len(told))
        waiting[number] = None
    return np.array(told, dtype=np.int32), np.array(observed_at, dtype=np.int32)


def _by_window(placed: RecordedColumns, rows: int, window: int) -> _Order | None:
    """The order of the first trials, of which the log does not say what was told; None: it says."""
    count = next((n for n, text in enumerate(placed.told[:rows]) if text is not None), rows)
    if not count:
        return None
    told = np.arange(max(0, count - window), dtype=np.int32)
    return told, np.maximum(np.arange(1 - window, count + 1 - window, dtype=np.int32), 0)


def _by_log(placed: RecordedColumns, rows: int) -> _Order | None:
    """The order of the first trials, of one run, as the log says it; None: it is not as usual."""
    usual = (placed.runs[:rows] == placed.runs[:1]) & (
        placed.logged[:rows] == placed.numbers[:rows]
    )
    count = rows if usual.all() else int(np.argmin(usual))
    texts = placed.told[:count]
    if None in texts or not texts:
        return None
    try:
        news = json.loads(f"[{','.join(filter(None, texts))}]")
    except (ValueError, RecursionError):
        return None
    if len(news) != count or set(map(type, news)) != {list}:
        return None
    told = [*chain.from_iterable(news)]
    if not set(map(type, told)) <= {int} or not all(0 <= one < count for one in told):
        return None
    order, counts = np.array(told, dtype=np.int32), np.array([*map(len, news)])
    if (order >= np.repeat(np.arange(count), counts)).any() or len(set(told)) < len(told):
        return None
    return order, np.cumsum(counts).astype(np.int32)


def _until(waiting: Iterable[int], last: int) -> Iterator[int]:
    """The first of some rising numbers, up to one."""
    return takewhile(lambda number: number <= last, waiting)


def _until_gap(numbers: np.ndarray) -> int:
    """How many numbers there are from 0 on without a gap."""
    gaps = np.flatnonzero(numbers != np.arange(len(numbers)))
    return int(gaps[0]) if len(gaps) else len(numbers)


class Names:
    """The places of trials by the names that the log has for them.

    Args:
        placed: the trials.
    """

    def __init__(self, placed: RecordedColumns) -> None:
        self._ids = placed.ids
        self._numbers = placed.numbers
        self._by_id = np.argsort(placed.ids)
        moved = np.flatnonzero(placed.logged != placed.numbers)
        columns = (placed.runs, placed.logged, placed.numbers)
        self._moved = {
            (run, logged): number
            for run, logged, number in zip(*(column[moved].tolist() for column in columns))
        }

    def places(self, run: int, text: str) -> list[int]:
        """The places of the trials of which a proposer was told.

        Args:
            run: its own.
            text: JSON: numbers of its run, or of one before it; ``"t<id>"`` for others' trials.
        """
        if text == "[]":
            return []
        if text[1:-1].isdecimal():  # as a rule
            number = int(text[1:-1])
            return [self._moved.get((run, number), number)] if self._moved else [number]
        try:
            told = json.loads(text)
        except (ValueError, RecursionError):
            return []
        named = (self._place(run, name) for name in told if type(name) in (int, str))
        return [number for number in named if number is not None]

    def _place(self, run: int, name: int | str) -> int | None:
        if isinstance(name, int):
            return self._moved.get((run, name), name)
        if not name[1:].isdecimal() or len(name) > 20:
            return None
        at = int(np.searchsorted(self._ids, int(name[1:]), sorter=self._by_id))
        if at == len(self._ids) or self._ids[self._by_id[at]] != int(name[1:]):
            return None
        return int(self._numbers[self._by_id[at]])
